"""Memory of freed large arrays: kept for the next call, returned to the system without one."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import allocator as freed
from functrace.executor.allocator import FREED, GAPS, LARGE, FreedMemory
from functrace.executor.codegen.numpy_source import generate
from functrace.executor.plan.planner import planned
from tests.oracles import assert_same

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


def in_a_process(code: str, **variables: str) -> list[float]:
    """Run code, which prints numbers, where nothing has been allocated yet."""
    told = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**told, **variables},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [float(word) for word in run.stdout.split()]


SETUP = """
import resource, time
from pathlib import Path
import numpy as np, functrace as ft
from functrace.executor.allocator import FREED

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def chain(x):
    for _ in range(20):
        x = np.cumsum(np.sin(x)) * 1e-6
    return np.sum(x)

x = np.linspace(0.0, 1.0, 1 << 20)
ft.config.keep_freed_memory = True
"""


@pytest.mark.full
@glibc
@pytest.mark.parametrize("transform", ["ft.grad", "ft.jit(ft.grad"])
def test_calls_after_the_first_ones_have_no_page_faults_and_memory_returns(transform: str) -> None:
    before, new, during, after = in_a_process(f"""
        FREED.seconds = 100.0
        f = {transform}(chain){")" * transform.count("(")}
        before = resident()
        for _ in range(3):
            f(x)
        start = faults()
        f(x)
        print(before, faults() - start, resident())
        FREED.give_back()
        print(resident())
    """)
    assert new < 200, "a call on 20 arrays of 8 MB makes 30,000 where nothing is kept"
    assert during - before > 100e6, "it is kept"
    assert after - before < 40e6, "that of copies of arguments is kept for others"


@pytest.mark.full
@glibc
def test_malloc_settings_of_the_environment_are_respected() -> None:
    (kept,) = in_a_process("ft.grad(chain)(x); print(FREED.kept)", MALLOC_TRIM_THRESHOLD_="100000")
    assert kept == 0


@pytest.mark.full
@glibc
def test_nothing_is_kept_by_default() -> None:
    kept, then, after = in_a_process("""
        ft.config.keep_freed_memory = False
        freed = __import__("functrace.executor.allocator", fromlist=["freed"])
        freed.FreedMemory._tell = None  # whoever tells the C library anything, fails
        ft.grad(chain)(x)
        ft.jit(ft.grad(chain))(x)
        print(FREED.kept)
        del freed.FreedMemory._tell
        freed.FreedMemory._tell = lambda self, library: None
        ft.config.keep_freed_memory = True
        ft.grad(chain)(x)
        print(int(FREED.kept > 0))
        ft.config.keep_freed_memory = False
        print(FREED.kept)
    """)
    assert (kept, after) == (0, 0)
    assert then == 1


@glibc
def test_smaller_calls_keep_less() -> None:
    memory = FreedMemory(1.0, is_kept=True)
    memory.used(1 << 30)
    assert memory.kept == 1 << 30
    deadline = time.monotonic() + 600.0
    while memory.kept == 1 << 30 and time.monotonic() < deadline:
        memory.used(1 << 24)
        time.sleep(0.001)
    assert memory.kept <= 1 << 24, (
        "what the large call has left is given back while smaller ones go on"
    )
    while memory.kept and time.monotonic() < deadline:
        time.sleep(0.01)
    assert memory.kept == 0


@glibc
def test_memory_is_kept_as_long_as_a_call_runs() -> None:
    memory = FreedMemory(0.02, is_kept=True)
    seen: list[int] = []

    def work() -> tuple[int, ...]:
        time.sleep(0.3)
        seen.append(memory.kept)
        return (1,)

    assert memory.around(work, 1 << 28)() == (1,)
    assert seen == [1 << 28]

    def fails() -> tuple[int, ...]:
        raise ValueError

    with pytest.raises(ValueError):
        memory.around(fails, 1 << 28)()
    deadline = time.monotonic() + 600.0
    while memory.kept and time.monotonic() < deadline:
        time.sleep(0.01)
    assert memory.kept == 0


def test_small_programs_are_not_noted() -> None:
    def run() -> tuple[int, ...]:
        return ()

    assert FREED.around(run, LARGE - 1) is run
    assert FREED.around(run, LARGE) is not run


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed, "_library", lambda: None)
    memory = FreedMemory(0.01, is_kept=True)
    memory.used(1 << 30)
    assert memory.kept == 0


def test_heap_gaps_are_trimmed_after_the_process_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Library:
        mallinfo2 = None
        trimmed = 0

        def mallopt(self, *_: int) -> None:
            pass

        def malloc_trim(self, _: int) -> None:
            self.trimmed += 1
            state["held"] -= state["free"]
            state["free"] = 0

    library, state = Library(), {"held": 100 * GAPS, "free": GAPS}
    monkeypatch.setattr(freed, "_library", lambda: library)
    monkeypatch.setattr(freed, "_resident", lambda: state["held"])
    monkeypatch.setattr(freed, "_free", lambda _: state["free"])
    memory = FreedMemory(1e6)
    memory.close_gaps()
    assert library.trimmed == 0, "no large program has run"
    monkeypatch.setattr(memory, "_watch", lambda: None)
    memory.used(1 << 30)
    memory.close_gaps()
    assert library.trimmed == 0, "there is no budget"
    memory.has_budget = True
    looked = [
        (100, 1, 1),
        (99.5, 50, 1),
        (100.1, 0.5, 1),
        (101.2, 3, 2),
        (98, 9, 2),
        (110, 0.5, 2),
        (110.5, 20, 2),
        (111, 1, 3),
    ]
    for held, free, times in looked:
        state.update(held=int(held * GAPS), free=int(free * GAPS))
        memory.close_gaps()
        assert library.trimmed == times, (held, free)


def test_large_programs_look_for_gaps() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = np.cumsum(x)
        return x

    for size, looks in ((1 << 23, True), (1 << 10, False)):
        source, _ = generate(
            planned(ft.trace(lambda x: f(x) * x)(ft.ShapeDtype((size,), "float64")))
        )
        assert ("()" in source) is looks


@pytest.mark.bits
def test_values_do_not_depend_on_kept_memory() -> None:
    x = np.linspace(0.0, 1.0, 1 << 18)

    def f(x: Any) -> Any:
        for _ in range(5):
            x = np.sin(x) * 1.01
        return np.sum(x)

    gradient = ft.grad(f)
    first = gradient(x)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(gradient(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    for other in (*found, gradient(x), ft.jit(gradient)(x)):
        assert_same(first, other)
