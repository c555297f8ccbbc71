"""Residuals in files: one file per array, in a private directory that lives as long as its files.

Note [Directories of dead processes]
    A directory has mode 0700 and is named ``functrace-residuals-<pid>-…``. It has a file ``owner``,
    which the process keeps open, and locked where there are locks (``flock``). A process that was
    killed holds no lock, so that the next process that writes into the same parent directory finds
    its directories and deletes them. (The number of a process alone would not do: it may be in use
    again, or belong to another container.)

Note [Files of residuals]
    A file has the bytes of one array. Its dtype and shape stay in memory: nothing of a file is
    interpreted. Size and CRC-32 (`zlib.crc32`) are verified when it is read: that finds a truncated
    or damaged file, but is no protection against somebody who forges one. A file is deleted when
    the object that stands for it is freed: after its last use, with the pullback that holds it, or
    when Python ends.

Layer: 5.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import shutil
import tempfile
import time
import weakref
import zlib
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from functrace.control.compression import without_repeats
from functrace.control.storages import Storage
from functrace.errors import OffloadError
from functrace.locks import Lock

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from functrace.typing import Array

PREFIX: Final = "functrace-residuals-"
ABANDONED: Final = 3600.0
"""Age in seconds of a directory without an owner that is not being created any more."""
MOST_AT_ONCE: Final = 1 << 30
"""Bytes per system call: Linux writes less than 2 GiB, macOS refuses more."""
_NAMED = re.compile(rf"{PREFIX}\d+-\w+")


@final
@dataclass(frozen=True, slots=True)
class OffloadPolicy(Storage):
    """Policy that keeps residuals in files.

    Args:
        directory: where the private directory is created; by default that of `tempfile`.
    """

    directory: str | None = None

    def __repr__(self) -> str:
        return f"policies.offload({'' if self.directory is None else repr(self.directory)})"

    @property
    def label(self) -> str:  # type: ignore[override]
        """Word for listings."""
        return "offloaded"

    @property
    def in_files(self) -> bool:  # type: ignore[override]
        """True: the values are in files."""
        return True

    def store(self, x: Array) -> Any:
        """Write an array into a file."""
        return StoredArray(np.asarray(x), self.directory)

    def restore(self, held: object) -> Any:
        """Read the array of a file."""
        assert isinstance(held, StoredArray)
        return held.read()


# -- one array -------------------------------------------------------------------------------------


@final
class StoredArray:
    """An array in a file, which is deleted with this object.

    Args:
        x: the array.
        parent: directory for the private directory; ``None`` for that of `tempfile`.

    Raises:
        OffloadError: if the file cannot be written.
    """

    __slots__ = ("__weakref__", "_path", "_rest", "crc", "nbytes")

    def __init__(self, x: np.ndarray[Any, Any], parent: str | None) -> None:
        shown = without_repeats(x)
        is_fortran = shown.flags.f_contiguous and not shown.flags.c_contiguous
        ordered = np.ascontiguousarray(shown.T if is_fortran else shown)
        data = memoryview(cast("Any", ordered.reshape(-1).view(np.uint8)))
        shape = shown.shape[::-1] if is_fortran else shown.shape
        self._rest = shown.dtype, shape, is_fortran, x.shape, parent
        self.nbytes, self.crc = ordered.nbytes, zlib.crc32(data)
        directory, self._path = _new_file(parent, self.nbytes)
        try:
            _write(self._path, data)
        except BaseException as error:
            directory.drop(self._path)
            if isinstance(error, OSError):
                raise _unwritable(error, directory.parent, self.nbytes) from error
            raise
        weakref.finalize(self, directory.drop, self._path)

    def read(self) -> np.ndarray[Any, Any]:
        """Return the array.

        Raises:
            OffloadError: if the file is missing, or has other bytes than were written.
        """
        dtype, shape, is_fortran, full, _ = self._rest
        data = np.empty(self.nbytes, np.uint8)
        view = memoryview(cast("Any", data))
        try:
            with open(self._path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                count = _read_into(file, view) if size == self.nbytes else 0
        except OSError as error:
            raise OffloadError(
                f"the file of an offloaded residual cannot be read: {error}",
                fix="keep the directory of policies.offload(directory=...) until the derivative "
                "has been computed",
            ) from error
        if size != self.nbytes or count != size:
            raise OffloadError(
                f"the file of an offloaded residual has {size:,} bytes, but {self.nbytes:,} were "
                f"written: {self._path}",
                fix="let no other program write into the directory of policies.offload",
            )
        if zlib.crc32(view) != self.crc:
            raise OffloadError(
                "the file of an offloaded residual has changed since it was written (its CRC-32 "
                f"differs): {self._path}",
                fix="let no other program write into the directory of policies.offload; check the "
                "disk",
            )
        made = cast("Any", data.view(dtype)).reshape(shape)
        made = made.T if is_fortran else made
        return np.broadcast_to(made, full) if made.shape != full else made

    def __copy__(self) -> StoredArray:
        return self

    def __deepcopy__(self, memo: object) -> StoredArray:
        return self

    def __reduce__(self) -> Any:
        """Pickle the array; it is written into a new file where it is loaded."""
        return StoredArray, (self.read(), self._rest[-1])


def _read_into(file: FileIO, target: memoryview) -> int:
    """Fill a buffer from a file, as far as there are bytes; return their number."""
    count = 0
    while count < len(target):
        read = file.readinto(target[count:])
        if not read:
            break
        count += read
    return count


def _unwritable(error: OSError, parent: str, nbytes: int) -> OffloadError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        fix = "free some space, or name a larger disk: policies.offload(directory=...)"
    else:
        fix = "name a directory that this process can write: policies.offload(directory=...)"
    made = OffloadError(
        f"a residual of {nbytes:,} bytes cannot be written into {parent}: {error}", fix=fix
    )
    made.errno = error.errno
    return made


# -- directories -----------------------------------------------------------------------------------


@final
class _Directory:
    """The private directory of this process in a parent directory, while it has files."""

    def __init__(self, parent: str) -> None:
        self.pid, self.parent = os.getpid(), parent
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{self.pid}-", dir=parent)
        self.count = 0
        self.files: set[str] = set()
        owner = os.path.join(self.path, "owner")
        try:
            self.owner = os.open(f"{owner}.new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            if fcntl is not None:
                with contextlib.suppress(OSError):  # a file system without locks: see `_is_dead`
                    fcntl.flock(self.owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rename(f"{owner}.new", owner)  # (no process sees it without its lock)
        except BaseException:
            _remove(self.path)
            raise

    def new_file(self) -> str:
        """Return the path of a new file."""
        self.count += 1
        path = f"{self.path}{os.sep}{self.count}"
        self.files.add(path)
        return path

    def drop(self, path: str) -> None:
        """Delete a file, and the directory after its last one."""
        if os.getpid() != self.pid:
            return  # (a child process inherited the object, but the files are its parent's)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with _lock.now:
            self.files.discard(path)
            if not self.files and _open.get(self.parent) is self:
                del _open[self.parent]
                os.close(self.owner)
                _remove(self.path)


_lock = Lock()
"""Guards the directories. (A finalizer may run at any time, in the thread that has the lock, too.)"""
_open: dict[str, _Directory] = {}
"""Directories with files, by parent directory."""
_cleaned: set[str] = set()
"""Parent directories in which this process has looked for directories of dead processes."""


def _forget_parents() -> None:
    """Start with no directories in a child process: its parent's are not its own."""
    _open.clear()
    _cleaned.clear()


@atexit.register
def _remove_all() -> None:
    """Delete what an interrupted call has left, when Python ends."""
    for found in list(_open.values()):
        _remove(found.path)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)


def _new_file(parent: str | None, nbytes: int) -> tuple[_Directory, str]:
    """Return a new file's directory and path.

    Raises:
        OffloadError: if the directory cannot be created.
    """
    where = os.path.abspath(tempfile.gettempdir() if parent is None else parent)
    with _lock.now:
        while True:
            found = _open.get(where)
            if found is None:
                try:
                    if where not in _cleaned:
                        remove_dead(where)
                        _cleaned.add(where)
                    found = _open[where] = _Directory(where)
                except OSError as error:
                    raise _unwritable(error, where, nbytes) from error
            path = found.new_file()
            if _open.get(where) is found:
                return found, path
            found.files.discard(path)  # a finalizer has just deleted the directory


def _write(path: str, data: memoryview) -> None:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written : written + MOST_AT_ONCE])
    finally:
        os.close(file)


def remove_dead(parent: str) -> list[str]:
    """Delete the directories of processes that were killed; see Note [Directories of dead
    processes].

    Args:
        parent: the directory that has them.

    Returns:
        the names of the deleted directories.
    """
    removed: list[str] = []
    user = os.geteuid() if hasattr(os, "geteuid") else None
    with os.scandir(parent) as entries:
        found = [entry for entry in entries if _NAMED.fullmatch(entry.name)]
    for entry in found:
        try:
            is_own = entry.is_dir(follow_symlinks=False) and (
                user is None or entry.stat(follow_symlinks=False).st_uid == user
            )
        except FileNotFoundError:  # its process has just deleted it
            continue
        if is_own and _is_dead(entry.path):
            _remove(entry.path)
            removed.append(entry.name)
    return removed


def _is_dead(path: str) -> bool:
    """Return True if no process has the directory."""
    owner = os.path.join(path, "owner")
    try:
        if fcntl is None:
            os.unlink(f"{owner}.new")  # (fails while it is open)
            return True
        file = os.open(owner, os.O_RDWR)
    except FileNotFoundError:  # its process is just creating or deleting it, or was killed then
        try:
            return time.time() - os.stat(path).st_mtime > ABANDONED
        except FileNotFoundError:
            return False
    except OSError:
        return False
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is alive, or nobody knows: there are no locks
        return False
    finally:
        os.close(file)
    return True


def _remove(path: str) -> None:
    """Delete a directory and what is in it; another process may be doing so, too."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
