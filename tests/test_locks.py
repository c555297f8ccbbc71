"""Neither a fork nor the interpreter's exit hangs, wherever other threads are at that moment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from functrace.caches import BoundedCache, CacheEntry
from functrace.locks import Lock, cached_property
from functrace.threads import ThreadPool, _pool

PACKAGE = Path(__file__).parent.parent / "functrace"

SWEEP = '''
import gc, os, signal, sys, threading
import numpy as np
import functrace as ft

def work(size):
    def f(x):
        return np.sum(np.tanh(x) * x ** 2) + np.prod(x[::2])
    x = np.linspace(0.5, 1.5, size)
    for _ in range(8):
        ft.grad(f)(x)
    ft.jit(ft.vmap(ft.grad(f)))(np.stack([x, x]))
    ft.jit(lambda x: x + 1 if x[0] > 0 else x, guards=True)(x)
    ft.grad(ft.numpy.lift(lambda x: np.sum(np.array([x, x]))))(1.0)

arrived, resume, ended, seen = threading.Event(), threading.Event(), threading.Event(), set()

def stop(frame, event, argument):
    """Stand still in every twentieth function of the library that is called from somewhere else than before."""
    key = frame.f_code, frame.f_back and frame.f_back.f_code
    if key not in seen and any(word in key[0].co_filename for word in ("functrace", "weakref")):
        seen.add(key)
        if len(seen) % 20 == 7:
            arrived.set()
            resume.wait()
            resume.clear()

def other_thread():
    sys.settrace(stop)
    try:
        work(5)
    finally:
        sys.settrace(None)
        ended.set()
        arrived.set()

work(3)  # imports
threading.Thread(target=other_thread, daemon=True).start()
places = failed = 0
while True:
    arrived.wait()
    arrived.clear()
    if ended.is_set():
        break
    places += 1
    child = os.fork()
    if not child:
        signal.alarm(30)
        code = 1
        try:
            work(6)
            code = 0 if gc.isenabled() and np.__class__ is type(sys) else 2
        finally:
            os._exit(code)
    failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    resume.set()
print(places > 20, failed)
'''

AT_EXIT = """
import atexit, os, sys
import numpy as np
import functrace as ft
import functrace.torch as torch
from functrace.threads import THREADS
from functrace.torch.autograd import engine

THREADS.resize(2)
x = np.ones(3_000_000)

def work(grad=ft.grad(lambda x: np.sum(np.tanh(x) * x))):
    gradient = grad(x)
    t = torch.ones(1, requires_grad=True)
    (t * 2).sum().backward()
    os.write(1, f"{sys.is_finalizing()} {gradient[0]:.6f} {t.grad.item()}\\n".encode())

class Owner:
    def __del__(self, work=work):
        work()

engine.LEVELS = 1  # a thread per pass
owner = Owner()
atexit.register(work)
"""


def run(script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        script,
    ]  # Python 3.12 warns of any fork
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_at_any_point_does_not_deadlock_the_child() -> None:
    assert run(SWEEP).split() == ["True", "0"]


def test_large_calls_at_exit_end() -> None:
    assert run(AT_EXIT).splitlines() == ["False 1.181568 2.0", "True 1.181568 2.0"]


def test_lazy_attributes_are_computed_by_threads_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=600)

    class Owner:
        @cached_property
        def value(self) -> object:
            """Documented."""
            meeting.wait()  # both are inside
            return object()

    one, other = Owner(), Owner()
    found: list[object] = []
    for pair in ((one, one), (Owner(), other)):
        threads = [
            threading.Thread(target=lambda owner=owner: found.append(owner.value)) for owner in pair
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found[0] is found[1] is one.value
    assert len(set(map(id, found))) == 3
    assert isinstance(Owner.value, cached_property)
    assert Owner.value.__doc__ == "Documented."


def test_the_library_has_no_other_lazy_attributes() -> None:
    """But for its docstring, and users' own, which it knows of."""
    paths = [
        path
        for path in PACKAGE.rglob("*.py")
        if re.search(r"functools.*\bcached_property", path.read_text())
    ]
    assert {path.relative_to(PACKAGE).as_posix() for path in paths} == {"locks.py", "tree/nodes.py"}


def test_a_destructor_may_use_the_cache_that_evicts_it() -> None:
    cache: BoundedCache[CacheEntry] = BoundedCache("test", 10, 100)

    class Small(CacheEntry):
        def measure(self) -> int:
            return 6

    class Owner(Small):
        def __del__(self) -> None:
            cache.add(object(), Small())

    for k in range(5):
        cache.add(k, Owner())
    for _ in range(5):
        cache.measure()  # lets an Owner go, which adds another
    assert cache.measure() == 6 * len(cache) <= 10


def test_a_lock_is_reentrant_for_its_thread_only() -> None:
    lock = Lock()
    taken: list[bool] = []
    with lock.now, lock.now:
        thread = threading.Thread(target=lambda: taken.append(lock.now.acquire(blocking=False)))
        thread.start()
        thread.join()
    assert taken == [False]


def test_where_no_thread_can_begin_the_callers_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert _pool(2) is None
    spans: list[tuple[int, int]] = []
    ThreadPool(4, block=10).spread(lambda start, stop: spans.append((start, stop)), 100)
    assert spans == [(0, 20), (20, 50), (50, 70), (70, 100)]
