"""Writers of files: killed, parallel and failing ones, links, permissions, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError
from functrace.saving import files


@pytest.fixture(params=["npz", "safetensors"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each format."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"tree.{request.param}"


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("place", ["replace", "fsync"])
def test_a_writer_killed_before_the_rename_leaves_the_old_file(file: Path, place: str) -> None:
    ft.save(file, {"x": np.zeros(3)})
    killed = start(
        """
        import os, signal, sys
        import numpy as np, functrace as ft
        setattr(os, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ft.save(sys.argv[1], {"x": np.ones(3)})
        """,
        file, place,
    )  # fmt: skip
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    np.testing.assert_array_equal(ft.load(file)["x"], np.zeros(3))
    assert len(list(file.parent.iterdir())) == 2  # the part
    ft.save(file, {"x": np.full(3, 2.0)})  # removes it
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    np.testing.assert_array_equal(ft.load(file)["x"], np.full(3, 2.0))


def test_a_failing_writer_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ft.save(file, 1)

    def fails(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="no space"):
            ft.save(file, 2)
    assert ft.load(file) == 1 and [p.name for p in file.parent.iterdir()] == [file.name]


def test_parallel_writers(file: Path) -> None:
    """Each reader sees a whole file of one of the writers, and no part is left."""
    ft.save(file, {"x": np.full(1000, -1.0)})
    code = """
        import sys
        import numpy as np, functrace as ft
        for _ in range(15):
            ft.save(sys.argv[1], {"x": np.full(1000, float(sys.argv[2]))})
        """
    writers = [start(code, file, k) for k in range(3)]
    found = set()
    while any(writer.poll() is None for writer in writers):
        x = ft.load(file)["x"]
        assert x.shape == (1000,) and np.all(x == x[0])
        found.add(float(x[0]))
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors
    assert found <= {-1.0, 0.0, 1.0, 2.0}
    assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_the_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "real" / "x.npz")
    ft.save(link, 5)
    assert link.is_symlink() and ft.load(tmp_path / "real" / "x.npz") == 5
    mask = os.umask(0o022)
    os.umask(mask)
    assert (tmp_path / "real" / "x.npz").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
def test_permissions_of_the_old_file_are_kept(file: Path) -> None:
    for mode in (0o600, 0o640, 0o400):
        ft.save(file, 1)
        file.chmod(mode)
        ft.save(file, mode)
        assert file.stat().st_mode & 0o777 == mode and ft.load(file) == mode
        file.chmod(0o600)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes in folders")
def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(ArgumentError, match="regular file"):
            ft.save(path, 1)
        assert not path.is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(files.fcntl is None, reason="there are no locks")
def test_a_part_that_another_writer_locks_first(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer takes a part that is not locked yet for an abandoned one, and removes it."""
    lock, held = files._lock, []

    def later(part: Any) -> Any:
        if not held and "+" in part.mode:  # the first part of this writer, before its lock
            held.append(Path(part.name).open("rb"))  # noqa: SIM115
            assert lock(held[0])
        return lock(part)

    monkeypatch.setattr(files, "_lock", later)
    with files.atomic_file(file) as part:
        Path(held[0].name).unlink()
        held[0].close()
        part.write(b"whole")
    assert file.read_bytes() == b"whole" and [*file.parent.iterdir()] == [file]


def test_parallel_threads(file: Path) -> None:
    failures: list[Exception] = []

    def write(k: int) -> None:
        try:
            for _ in range(20):
                ft.save(file, {"x": np.full(50, float(k))})
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(set(ft.load(file)["x"])) == 1
    assert [p.name for p in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of files")
def test_a_full_disk_leaves_the_old_file(file: Path) -> None:
    ft.save(file, {"x": np.zeros(3)})
    failed = start(
        """
        import os, resource, sys
        import numpy as np, functrace as ft
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        for size in (12_000, 12_400, 50_000):
            try:
                ft.save(sys.argv[1], {"x": np.ones(size), "y": np.ones(3000)})
            except OSError as error:
                print(error.errno)
        """,
        file,
    )
    out, errors = failed.communicate()
    assert failed.returncode == 0 and len(out.split()) == 3, errors
    np.testing.assert_array_equal(ft.load(file)["x"], np.zeros(3))
    assert [p.name for p in file.parent.iterdir()] == [file.name]
