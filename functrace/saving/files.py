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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where open files cannot be removed anyway
    fcntl = None


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when the block ends, unless it raises.

    Args:
        path: the file; of a symbolic link, its target is replaced.
    """
    target = Path(os.path.realpath(path))
    begin = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}."
    _remove_abandoned(target.parent, begin)
    part, file = _new_part(target.parent, begin)
    try:
        with file:
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


def _new_part(folder: Path, begin: str) -> tuple[Path, IO[bytes]]:
    """Create a part that no other process has, and lock it."""
    while True:
        part = folder / f"{begin}{secrets.token_hex(8)}.part"
        file = open(part, "x+b")  # noqa: SIM115  # (closed by the caller)
        _lock(file)
        if part.exists():  # no other writer has removed it before it was locked
            return part, file
        file.close()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file; return False if another process has."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
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
    if data.dtype.kind == "V":
        data = np.ascontiguousarray(data).reshape(*data.shape, 1).view(np.uint8)
    file = io.BytesIO()
    np.lib.format.write_array(file, data, allow_pickle=False)
    return file.getvalue()


def is_extended(dtype: np.dtype[Any]) -> bool:
    """Return True for dtypes of ml_dtypes, such as bfloat16."""
    return dtype.kind == "V" and not issubclass(dtype.type, np.void)
