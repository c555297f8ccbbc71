"""Object code on disk, by a hash of what it is made from.

A file is named by the hash of the LLVM IR, the versions of llvmlite and LLVM, and the processor; it
starts with a checksum of the code. It is written under another name and moved, so that processes
that run side by side never read a part of one. A damaged file is compiled anew. If the directory
cannot be written to, a warning says so once, and code is kept in memory only.

Layer: 7.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from functrace.native import llvm

VARIABLE: Final = "FUNCTRACE_CACHE"
"""Environment variable: the directory, or an empty string for no files."""
MOST_BYTES: Final = 256 << 20
"""Size of the cache, above which the files that were used least recently are removed."""
_CHECKSUM: Final = 32

_warned: list[str] = []
"""The notice, once it has been given."""


class Statistics(NamedTuple):
    """Contents of the cache.

    Args:
        directory: where its files are; ``None`` if it is off.
        files: number of files.
        nbytes: their size.
    """

    directory: Path | None
    files: int
    nbytes: int


def directory() -> Path | None:
    """Return the directory of the cache, or ``None`` if there is none."""
    given = os.environ.get(VARIABLE)
    if given == "":
        return None
    if given is not None:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "functrace" / "native"


def code_of(text: str, compile_text: Callable[[str], bytes] = llvm.object_code) -> bytes:
    """Return the object code of a module, from the cache or compiled.

    Args:
        text: the module in LLVM IR.
        compile_text: compiles it.
    """
    try:
        place = directory()
    except (OSError, RuntimeError) as error:  # no home directory
        _notice(error)
        place = None
    if place is None:
        return compile_text(text)
    here = llvm.machine()
    key = "\n".join((here.version, here.cpu, here.features, text))
    path = place / f"{hashlib.sha256(key.encode()).hexdigest()}.o"
    code = _read(path)
    if code is None:
        code = compile_text(text)
        _write(path, code)
    return code


def _read(path: Path) -> bytes | None:
    """Return the code in a file; ``None`` if there is none, or if it is damaged."""
    try:
        if not path.is_file():  # (a pipe would block)
            return None
        data = path.read_bytes()
        if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
            return None
    except OSError:
        return None
    code = data[_CHECKSUM:]
    if hashlib.sha256(code).digest() != data[:_CHECKSUM] or not code:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return code


def _write(path: Path, code: bytes) -> None:
    """Write a file, and remove old ones if there are too many."""
    temporary = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(number, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(temporary, path)
        _prune(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            if temporary:
                os.unlink(temporary)
        _notice(error)


def _notice(error: Exception) -> None:
    if not _warned:
        _warned.append(str(error))
        warnings.warn(
            f"functrace: machine code is not kept on disk: {error} (set {VARIABLE} to a directory, "
            "or to an empty string)",
            RuntimeWarning,
            stacklevel=2,
        )


def _files(place: Path) -> list[tuple[float, int, Path]]:
    """Return time of last use, size and path of each file."""
    found: list[tuple[float, int, Path]] = []
    for path in place.glob("*.o"):
        with contextlib.suppress(OSError):  # (another process may have removed it)
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    return found


def _prune(place: Path) -> None:
    """Remove the files that were used least recently, down to three quarters of the limit."""
    found = sorted(_files(place))
    total = sum(size for _, size, _ in found)
    if total <= MOST_BYTES:
        return
    for _, size, path in found:
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= MOST_BYTES * 3 // 4:
            return


def statistics() -> Statistics:
    """Return the contents of the cache."""
    place = directory()
    found = [] if place is None else _files(place)
    return Statistics(place, len(found), sum(size for _, size, _ in found))


def clear() -> int:
    """Remove all files; returns how many there were."""
    place = directory()
    if place is None or not place.is_dir():
        return 0
    count = 0
    for path in (*place.glob("*.o"), *place.glob("*.part")):
        with contextlib.suppress(OSError):
            path.unlink()
            count += 1
    return count
