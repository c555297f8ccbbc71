"""Residuals in files: written once, read back unchanged, deleted when freed, in every way to end."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control import offloading
from functrace.errors import OffloadError
from functrace.policies import compose, compress, offload
from tests.compositions.functions import V, X
from tests.oracles import assert_same

posix = pytest.mark.skipif(os.name != "posix", reason="signals, limits and locks of POSIX")


def layer(x: Any) -> Any:
    """Its derivative keeps x, sin(x), cos(x) and 1 - tanh^2."""
    return np.tanh(np.sin(x) * x)


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.name.isdigit())


def offloaded(directory: Path, f: Any = layer) -> Any:
    return ft.checkpoint(f, policy=offload(directory))


def test_each_residual_is_one_private_file(tmp_path: Path) -> None:
    y, pullback = ft.vjp(offloaded(tmp_path), X)
    found = files(tmp_path)
    assert len(found) == 4
    values = [np.frombuffer(path.read_bytes()) for path in found]
    expected = [X, np.sin(X), np.cos(X), 1.0 - np.tanh(np.sin(X) * X) ** 2]
    for value in expected:
        assert any(np.array_equal(value, other) for other in values)
    (directory,) = tmp_path.iterdir()
    assert str(os.getpid()) in directory.name
    if os.name == "posix":
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert_same(y, layer(X))
    for _ in range(2):
        assert_same(pullback(V)[0], ft.vjp(layer, X)[1](V)[0])
    assert len(files(tmp_path)) == 4, "the pullback may be called again"
    del pullback
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("jit", [False, True])
def test_files_are_deleted_at_the_last_use(tmp_path: Path, jit: bool) -> None:
    most = 0

    def unpack(x: Any) -> Any:
        nonlocal most
        most = max(most, len(files(tmp_path)))
        return x

    counting = compose(ft.policies.pack(lambda x: x, unpack), offload(tmp_path))

    def chain(x: Any) -> Any:
        for _ in range(10):
            x = ft.checkpoint(np.sin, policy=counting)(x)
        return np.sum(x)

    gradient = ft.jit(ft.grad(chain)) if jit else ft.grad(chain)
    for _ in range(3):
        most = 0
        gradient(X)
        assert most == 10
        assert not any(tmp_path.iterdir())


LAYOUTS = {
    "C": np.arange(24.0).reshape(4, 6),
    "F": np.arange(24.0).reshape(4, 6).T,
    "strided": np.arange(24.0).reshape(4, 6)[::-2, ::3],
    "permuted": np.transpose(np.arange(24.0).reshape(2, 3, 4), (1, 2, 0)),
    "broadcast": np.broadcast_to(np.arange(3.0)[:, None], (3, 1000)),
    "number": np.asarray(2.5),
    "empty": np.zeros((0, 3)),
    "one element": np.ones((1, 1)),
}
DTYPES = ["f8", "f4", "f2", "g", "c16", "i8", "u1", "?", ">f8"]


@pytest.mark.parametrize("x", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_unchanged(tmp_path: Path, x: Any, dtype: str) -> None:
    x = x.astype(dtype) if 0 not in x.strides else np.broadcast_to(x[:, :1].astype(dtype), x.shape)
    held = offload(tmp_path).store(x)
    assert held.nbytes == (x.nbytes if 0 not in x.strides or not x.size else x.nbytes // 1000)
    found = held.read()
    assert found.dtype == x.dtype and found.shape == x.shape
    np.testing.assert_array_equal(found, x)
    again = pickle.loads(pickle.dumps(held))
    np.testing.assert_array_equal(again.read(), x)
    assert copy.copy(held) is copy.deepcopy(held) is held
    del held, again
    assert not any(tmp_path.iterdir())


def test_pullback_can_be_copied_and_pickled(tmp_path: Path) -> None:
    _, pullback = ft.vjp(offloaded(tmp_path), X)
    expected = pullback(V)
    data = pickle.dumps(pullback)
    twin = copy.deepcopy(pullback)
    del pullback
    assert_same(twin(V)[0], expected[0])
    del twin
    assert not any(tmp_path.iterdir())
    restored = pickle.loads(data)
    assert_same(restored(V)[0], expected[0])
    del restored
    assert not any(tmp_path.iterdir())


class OwnError(Exception):
    pass


@pytest.mark.parametrize("jit", [False, True])
def test_exceptions_leave_no_file(tmp_path: Path, jit: bool) -> None:
    def raising(_: Any) -> Any:
        raise OwnError

    wrap = ft.jit if jit else lambda f: f
    fails_at_packing = ft.policies.pack(raising, raising)
    fails_at_reading = ft.policies.pack(lambda x: x, raising)
    for last in (fails_at_packing, fails_at_reading):

        def f(x: Any, last: Any = last) -> Any:
            x = ft.checkpoint(np.sin, policy=last)(x)
            return np.sum(ft.checkpoint(lambda x: np.sin(x) * x, policy=offload(tmp_path))(x))

        for _ in range(3):
            try:
                wrap(ft.grad(f))(X)
            except OwnError:
                pass
            else:
                raise AssertionError
            gc.collect()
            assert not any(tmp_path.iterdir())


# -- damaged files ---------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    os.truncate(path, 8)


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "truncated": (truncate, "has 8 bytes, but 24 were written"),
    "longer": (extend, "has 25 bytes, but 24 were written"),
    "changed": (flip, "CRC-32 differs"),
    "deleted": (os.unlink, "cannot be read"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("policy", [offload, lambda where: compress("float16") & offload(where)])
def test_damaged_files_raise(tmp_path: Path, damage: Any, words: str, policy: Any) -> None:
    x = np.linspace(0.0, 1.0, 3 if policy is offload else 12)
    _, pullback = ft.vjp(ft.checkpoint(layer, policy=policy(tmp_path)), x)
    for path in files(tmp_path):
        damage(path)
    with pytest.raises(OffloadError, match=words) as caught:
        pullback(x)
    assert isinstance(caught.value, OSError) and "fix: " in str(caught.value)
    assert "test_offloading.py" in str(caught.value)
    del pullback, caught
    gc.collect()
    assert not any(tmp_path.iterdir())


# -- full disks ------------------------------------------------------------------------------------

PRELUDE = """
import os, sys
import numpy as np
import functrace as ft
where, = sys.argv[1:]
def chain(x):
    for _ in range(8):
        x = np.sin(x)
    return np.sum(x)
offloaded = ft.checkpoint(chain, policy=ft.policies.offload(where))
x = np.linspace(0.0, 1.0, 100_000)
"""


def run(script: str, directory: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), str(directory)],
        capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


FULL = """
    {limit}
    for _ in range(2):
        try:
            ft.grad(offloaded)(x)
        except OSError as error:
            assert isinstance(error, ft.errors.OffloadError)
            assert error.errno is not None
            print(error)
        else:
            sys.exit("no error")
        assert not os.listdir(where), os.listdir(where)
    small = x[:100]
    assert np.array_equal(ft.grad(offloaded)(small), ft.grad(chain)(small))
    assert np.array_equal(ft.grad(chain)(x), ft.grad(chain)(x))
"""


@posix
def test_file_size_limit_raises_and_leaves_nothing(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))"
    done = run(FULL.format(limit=limit), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a residual of 800,000 bytes cannot be written" in done.stdout
    assert "fix: free some space, or name a larger disk" in done.stdout


@posix
@pytest.mark.full
def test_full_disk_raises_and_leaves_nothing(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting a small disk takes privileges")
    try:
        done = run(FULL.format(limit=""), tmp_path)
        assert done.returncode == 0, done.stderr
        assert "No space left on device" in done.stdout
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_directory_that_is_gone_raises(tmp_path: Path) -> None:
    where = tmp_path / "gone"
    where.mkdir()
    f = offloaded(where)
    where.rmdir()
    with pytest.raises(
        OffloadError, match="a residual of 24 bytes cannot be written into"
    ) as caught:
        ft.grad(lambda x: np.sum(f(x)))(X)
    assert "directory" in str(caught.value.fix)
    where.mkdir()
    assert_same(ft.grad(lambda x: np.sum(f(x)))(X), ft.grad(lambda x: np.sum(layer(x)))(X))


# -- processes -------------------------------------------------------------------------------------


def test_end_of_python_leaves_no_file(tmp_path: Path) -> None:
    for end in ("", "sys.exit(3)", "raise KeyError"):
        done = run(
            f"_, pullback = ft.vjp(offloaded, x); assert os.listdir(where); {end or 'pass'}",
            tmp_path,
        )
        assert done.returncode == {"": 0, "sys.exit(3)": 3, "raise KeyError": 1}[end], done.stderr
        assert not any(tmp_path.iterdir())


HANGING = """
import time
reading = ft.policies.pack(lambda x: x, lambda x: print("reading", flush=True) or time.sleep(600))
both = ft.policies.compose(reading, ft.policies.offload(where))
ft.grad(ft.checkpoint(chain, policy=both))(x)
"""


def hanging(directory: Path) -> subprocess.Popen[str]:
    """A process in the middle of a gradient with offloaded residuals."""
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + HANGING, str(directory)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"
    return child


@posix
def test_next_process_deletes_files_of_a_killed_one(tmp_path: Path) -> None:
    killed, alive = hanging(tmp_path), hanging(tmp_path)
    try:
        assert len(list(tmp_path.iterdir())) == 2 and len(files(tmp_path)) > 2
        (tmp_path / "functrace-residuals-other").mkdir()
        (tmp_path / f"{offloading.PREFIX}1-file").write_text("no directory")
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        left = [path for path in tmp_path.iterdir() if f"-{killed.pid}-" in path.name]
        assert len(left) == 1 and files(left[0])
        done = run("assert np.array_equal(ft.grad(offloaded)(x), ft.grad(chain)(x))", tmp_path)
        assert done.returncode == 0, done.stderr
        names = sorted(path.name for path in tmp_path.iterdir())
        assert [name for name in names if f"-{alive.pid}-" in name], "a process is alive"
        assert not [name for name in names if f"-{killed.pid}-" in name]
        assert len(names) == 3, "what others have made stays"
    finally:
        for child in (killed, alive):
            child.kill()
            child.wait(60)
            child.communicate()
    assert len(offloading.remove_dead(str(tmp_path))) == 1


def test_directory_without_owner_is_deleted_once_it_is_old(tmp_path: Path) -> None:
    made = tmp_path / f"{offloading.PREFIX}1-abc"
    made.mkdir()
    assert offloading.remove_dead(str(tmp_path)) == []
    old = time.time() - 2 * offloading.ABANDONED
    os.utime(made, (old, old))
    assert offloading.remove_dead(str(tmp_path)) == [made.name]
    assert not any(tmp_path.iterdir())


@posix
def test_forked_child_neither_deletes_nor_shares_files(tmp_path: Path) -> None:
    script = """
    import gc
    before, pullback = ft.vjp(offloaded, x)
    expected = pullback(1.0)[0]
    count = len(os.listdir(f"{where}/{os.listdir(where)[0]}"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = ft.grad(offloaded)(x)
            same = np.array_equal(pullback(1.0)[0], expected) and np.array_equal(own, expected)
            del pullback
            gc.collect()
            status = 0 if same else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (left,) = os.listdir(where)
    assert len(os.listdir(f"{where}/{left}")) == count > 8
    assert np.array_equal(pullback(1.0)[0], expected)
    del pullback
    assert not os.listdir(where)
    """
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr


def test_threads_share_a_directory(tmp_path: Path) -> None:
    gradient = ft.grad(lambda x: np.sum(offloaded(tmp_path)(x)))
    expected = ft.grad(lambda x: np.sum(layer(x)))(X)
    found: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found.append(gradient(X))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    for value in found:
        assert_same(value, expected)
    assert not any(tmp_path.iterdir())


def test_finalizers_while_a_file_is_created(tmp_path: Path) -> None:
    """A garbage collection may delete the last file, and the directory, at any time."""
    policy = offload(tmp_path)

    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.held = policy.store(X)

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            Cycle()
            assert_same(policy.store(X).read(), X)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert not any(tmp_path.iterdir())
