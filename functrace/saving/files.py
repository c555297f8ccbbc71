"""Files that are there as a whole or not at all, and checksums of what is in them.

Note [Atomic files]
    A file is written under another name in the same directory, flushed to the disk, and renamed. A
    process that is killed before that leaves the old file, and a part. The writer holds a lock on its
    part, which the operating system releases when the process ends: so the next writer of the same
    file finds parts without an owner, and removes them, and never those of another writer.

Layer: b (base).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from functrace.errors import ArgumentError

try:
    import fcntl
except ImportError:  # Windows, where open files cannot be removed anyway
    fcntl = None


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when the block ends, unless it raises.

    Args:
        path: the file; of a symbolic link, its target is replaced. The permissions of a file that
            exists are kept.

    Raises:
        ArgumentError: if there is a device, a pipe or a socket, which a rename would replace.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    begin = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."
    _remove_abandoned(target.parent, begin)
    part, file = _new_part(target.parent, begin)
    try:
        with file:
            if mode is not None:
                os.chmod(part, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(part, target)
        if fcntl is None:
            os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if os.name != "nt":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that is there as a whole, or not at all, even if the machine stops."""
    with atomic_file(path) as file:
        file.write(content)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a file; ``None`` if there is none."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # (renaming to a directory fails anyway)
        raise ArgumentError(f"{target} is not a regular file", fix="pass the path of a file")
    return mode & 0o777


def _new_part(folder: Path, begin: str) -> tuple[Path, IO[bytes]]:
    """Create a part that no other process has, and lock it."""
    while True:
        part = folder / f"{begin}{secrets.token_hex(8)}.part"
        file = open(part, "x+b")  # noqa: SIM115  # (closed by the caller)
        if _lock(file) is not False and part.exists():
            return part, file
        # Another writer has locked it first, and removes it.
        file.close()


def _lock(file: IO[bytes]) -> bool | None:
    """Lock a file; return False if another writer has, ``None`` if the file system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_abandoned(folder: Path, begin: str) -> None:
    """Remove the parts that killed processes have left."""
    for part in folder.glob(f"{begin}*.part"):
        with contextlib.suppress(OSError):  # (of another user, or removed meanwhile)
            if fcntl is None:
                part.unlink()
                continue
            with open(part, "rb") as file:
                if _lock(file):
                    part.unlink()


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def npy(data: np.ndarray[Any, Any]) -> bytes:
    """Return an array in NumPy's format; dtypes that NumPy does not have are saved as bytes."""
    if is_extended(data.dtype):
        data = np.ascontiguousarray(data).reshape(*data.shape, 1).view(np.uint8)
    file = io.BytesIO()
    np.lib.format.write_array(file, data, allow_pickle=False)
    return file.getvalue()


def is_extended(dtype: np.dtype[Any]) -> bool:
    """Return True for dtypes of ml_dtypes, such as bfloat16: NumPy does not know them by name."""
    return dtype.isbuiltin == 2 and dtype.type.__module__.partition(".")[0] == "ml_dtypes"
