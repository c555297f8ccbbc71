"""Object code on disk: kept, verified, bounded, and never needed."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import functrace as ft
from functrace.cache import main

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native import llvm, object_cache


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(object_cache, "_warned", [])
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def compiled(text: str) -> bytes:
        found.append(text)
        return llvm.object_code(text)

    monkeypatch.setattr(object_cache.code_of, "__defaults__", (compiled,))
    return found


def run() -> None:
    f = ft.jit(lambda x: np.sum(x * 3.0 + 0.25), backend="native")
    assert f(np.arange(4.0)) == 19.0


def test_code_is_compiled_once(place: Path, compilations: list[str]) -> None:
    run()
    run()
    assert len(compilations) == 1
    (path,) = place.glob("*.o")
    assert path.stat().st_size > 100
    if os.name == "posix":
        assert place.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_compiled_anew(place: Path, compilations: list[str], damage: str) -> None:
    run()
    (path,) = place.glob("*.o")
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0x40
    path.write_bytes(data[: {"cut": len(data) // 2, "flip": len(data), "empty": 0}[damage]])
    run()
    run()
    assert len(compilations) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_the_place_of_a_file_does_not_block(place: Path) -> None:
    run()
    (path,) = place.glob("*.o")
    path.unlink()
    os.mkfifo(path)
    run()
    assert path.is_file()


def test_a_directory_that_cannot_be_written_to_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path / "file" / "cache"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
        run()
    assert len([w for w in found if "not kept on disk" in str(w.message)]) == 1


def test_it_can_be_turned_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(object_cache.VARIABLE, "")
    run()
    assert not place.exists()
    assert object_cache.statistics().directory is None


def test_its_size_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MOST_BYTES", 4000)
    for number in range(8):
        object_cache.code_of(f"text {number}", lambda text: bytes(900) + text.encode())
        assert object_cache.statistics().nbytes <= 4000
    assert object_cache.statistics().files >= 2


def test_processes_and_threads_beside_each_other(place: Path) -> None:
    script = (
        "import numpy as np, functrace as ft\n"
        "f = ft.jit(lambda x: np.sum(x * 3.0 + 0.25), backend='native')\n"
        "assert f(np.arange(4.0)) == 19.0\n"
    )
    command = [sys.executable, "-c", script]
    with ThreadPoolExecutor(3) as pool:
        codes = list(pool.map(lambda _: subprocess.run(command, check=False).returncode, range(3)))
    assert codes == [0, 0, 0]
    assert len(list(place.glob("*.o"))) == 1
    assert not list(place.glob("*.part"))


def test_command_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    assert main([]) == 0
    assert f"{place}: 1 files" in capsys.readouterr().out
    assert main(["--clear"]) == 0
    assert "removed 1 files" in capsys.readouterr().out
    assert not list(place.glob("*"))


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux")
def test_a_compilation_leaves_no_memory_behind(compilations: list[str]) -> None:
    class Heap(ctypes.Structure):
        _fields_ = [(f"n{k}", ctypes.c_size_t) for k in range(10)]

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("the C library does not count its memory")
    library.mallinfo2.restype = Heap

    def used() -> int:
        gc.collect()
        found: int = library.mallinfo2().n7  # (bytes that are allocated)
        return found

    run()
    for _ in range(3):
        llvm.object_code(compilations[0])
    before = used()
    for _ in range(32):
        llvm.object_code(compilations[0])
    assert (used() - before) / 32 < 10_000  # (pass managers take some 100,000)
