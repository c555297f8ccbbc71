"""``torch.save`` and ``torch.load``: PyTorch's files of tensors, without their code.

`save` writes PyTorch's zip format, which ``torch.load`` of PyTorch reads; `load` reads PyTorch's
files, also those from before 1.6. Neither imports or calls anything that a file names: only
tensors, parameters, containers, numbers, strings, dtypes, sizes and devices are stored.

Layer: 9.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch.files.archive import Archive, write_archive
from functrace.torch.files.building import TABLE, Memory, StorageKind, public
from functrace.torch.files.parts import Part
from functrace.torch.files.reading import Machine, UnpicklingError
from functrace.torch.files.writing import Writer
from functrace.torch.tensors.device import device
from functrace.torch.tensors.memory import TypedStorage, UntypedStorage
from functrace.typing import Array

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

DEFAULT_PROTOCOL = 2
FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
MapLocation: TypeAlias = "Callable[[Any, str], Any] | device | str | dict[str, str] | None"
_MAGIC = 0x1950A86A20F9469CFC6C
_OLD_VERSION = 1001
_TRUSTED: list[Any] = []

_NO_CUDA_FILE = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
    "you are running on a CPU-only machine, please use torch.load with "
    "map_location=torch.device('cpu') to map your storages to the CPU."
)


def save(
    obj: object,
    f: FileLike,
    pickle_module: object = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors, and containers of tensors, numbers and strings, to a file.

    PyTorch reads it with ``torch.load(f)``. Tensors that share memory share it in the file.

    Args:
        obj: the object, such as a ``state_dict``.
        f: a path, or a file that is open for writing bytes.
        pickle_module: ignored: the format has one pickler.
        pickle_protocol: ignored: the format has one protocol.
        _use_new_zipfile_serialization: True; the older format is read, but not written.
        _disable_byteorder_record: ignored.

    Raises:
        UnsupportedFunctionError: for objects of other classes, such as whole modules.
        AttributeError: if ``f`` is neither a path nor a file.

    Example:
        >>> import io
        >>> import functrace.torch as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2), "step": 3}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.]), 'step': 3}
    """
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if not _use_new_zipfile_serialization:
        raise UnsupportedFunctionError(
            "torch.save writes only the zip format",
            fix="leave _use_new_zipfile_serialization out; PyTorch reads it since version 1.6",
        )
    writer = Writer()
    pickled = writer.write(obj)
    if isinstance(f, (str, os.PathLike)):
        path = Path(f)
        write_archive(path, path.stem or "archive", pickled, writer.storages)
        return
    buffer = io.BytesIO()
    write_archive(buffer, "archive", pickled, writer.storages)
    f.write(buffer.getbuffer())


def load(
    f: FileLike,
    map_location: MapLocation = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: object,
) -> Any:
    """Return the object of a file that ``torch.save`` wrote, here or in PyTorch.

    No code of the file runs: objects of unknown classes are refused.

    Args:
        f: a path, or a file that is open for reading bytes.
        map_location: where storages of other devices go: the CPU, also by name; a dict of names; or
            a function of a storage and its location that returns a storage or None.
        pickle_module: ignored.
        weights_only: ignored: files are always read without running code.
        mmap: True to read storages from the file when they are used; ``f`` must be a path. Writes
            do not change the file.
        pickle_load_args: ignored.

    Raises:
        pickle.UnpicklingError: for objects of other classes, and for damaged files.
        RuntimeError: for damaged archives, and for storages of other devices without
            ``map_location``.
        EOFError: for an empty file.

    Example:
        See `save`.
    """
    path = Path(f) if isinstance(f, (str, os.PathLike)) else None
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if path is None and not hasattr(f, "read"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'read' attribute"
        )
    place = _placing(map_location)
    if path is not None:
        with path.open("rb") as file:
            return _load_of(file, path, place, bool(mmap))
    data = f.read()  # type: ignore[union-attr]
    return _load_of(io.BytesIO(data), None, place, False)


def _load_of(
    file: IO[bytes], path: Path | None, place: Callable[[Memory, str], Memory], mmap: bool
) -> Any:
    begin = file.read(4)
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    if not begin:
        raise EOFError("Ran out of input: the file is empty")
    if begin == b"PK\x03\x04":
        return _load_archive(file, length, path if mmap else None, place)
    if mmap:
        raise RuntimeError(
            "mmap can only be used with files saved with "
            "`torch.save(_use_new_zipfile_serialization=True), please torch.save your checkpoint "
            "with this option in order to use mmap."
        )
    return _load_old(file.read(), place)


def _load_archive(
    file: IO[bytes], length: int, path: Path | None, place: Callable[[Memory, str], Memory]
) -> Any:
    archive = Archive(file, length, path)
    try:
        found: dict[str, Memory] = {}

        def storage(reference: Part) -> Memory:
            kind, key, location, count = _parts(reference, 5)
            if not key.isalnum():
                raise UnpicklingError(f"the file has a storage named {key!r}")
            if key not in found:
                element = np.dtype(np.uint8) if _is_bytes(kind) else kind.element().numpy
                array = archive.elements(f"data/{key}", element)
                if count != array.size:
                    raise UnpicklingError(
                        f"storage {key} should have {count} elements, and has {array.size}"
                    )
                found[key] = place(Memory(array, kind), location)
            return found[key]

        made, _ = Machine(TABLE, storage, _trusted()).run(archive.read("data.pkl"))
        for memory in found.values():
            memory.share()
        return _public(made, found)
    finally:
        archive.close()


def _is_bytes(kind: StorageKind) -> bool:
    return kind.name == "UntypedStorage"


def _parts(reference: Part, count: int) -> tuple[StorageKind, str, str, int]:
    """Return the kind, name, location and number of elements of a storage.

    Raises:
        UnpicklingError: if the reference is none to a storage.
    """
    if (
        type(reference) is not tuple
        or len(reference) < count
        or reference[0] != "storage"
        or not isinstance(reference[1], StorageKind)
        or not all(type(x) is str for x in reference[2:4])
        or type(reference[4]) is not int
    ):
        raise UnpicklingError("the file refers to something else than a storage")
    return reference[1:5]


def _load_old(data: bytes, place: Callable[[Memory, str], Memory]) -> Any:
    """Read a file from before PyTorch 1.6: several pickles, then the storages."""

    def refused(_reference: Part) -> Memory:
        raise UnpicklingError("the file refers to a storage before its tensors")

    plain = Machine({}, refused)
    magic, at = plain.run(data)
    if magic != _MAGIC:
        raise UnpicklingError("the file was not written by torch.save: its first number is wrong")
    version, at = plain.run(data, at)
    if version != _OLD_VERSION:
        raise UnpicklingError(f"the file has the version {version!r}")
    _, at = plain.run(data, at)
    found: dict[str, Memory] = {}
    left = [len(data)]

    def storage(reference: Part) -> Memory:
        kind, key, location, count = _parts(reference, 6)
        if reference[5] is not None:
            raise UnpicklingError("the file has a storage that is a part of another")
        if key not in found:
            element = kind.element().numpy
            left[0] -= count * element.itemsize
            if count < 0 or left[0] < 0:
                raise UnpicklingError("the storages of the file are longer than the file")
            found[key] = place(Memory(np.empty(count, element), kind), location)
        return found[key]

    made, at = Machine(TABLE, storage, _trusted()).run(data, at)
    keys, at = plain.run(data, at)
    if type(keys) is not list or set(keys) != set(found):
        raise UnpicklingError("the file has other storages than its tensors")
    for key in keys:
        at = _fill(found[key].array, data, at)
        found[key].share()
    return _public(made, found)


def _fill(array: Array, data: bytes, at: int) -> int:
    """Read a storage of an old file; returns the position after it."""
    end = at + 8 + array.nbytes
    if end > len(data):
        raise RuntimeError(
            f"unexpected EOF, expected {end - len(data)} more bytes. The file might be corrupted."
        )
    (count,) = struct.unpack_from("<q", data, at)
    if count != array.size:
        raise UnpicklingError(f"a storage should have {array.size} elements, and has {count}")
    array[...] = np.frombuffer(data, array.dtype.newbyteorder("<"), array.size, at + 8)
    return end


def _public(made: Part, found: dict[str, Memory]) -> Any:
    """Return the object, in which storages are replaced by their public class."""
    if not any(not memory.tensors for memory in found.values()):
        return made
    return _replaced(made, {})


def _replaced(value: Part, seen: dict[int, Any]) -> Any:
    if isinstance(value, Memory):
        if id(value) not in seen:
            seen[id(value)] = public(value)
        return seen[id(value)]
    if id(value) in seen:
        return value
    if isinstance(value, dict):
        seen[id(value)] = value
        for key in value:
            value[key] = _replaced(value[key], seen)
    elif isinstance(value, list):
        seen[id(value)] = value
        value[:] = [_replaced(x, seen) for x in value]
    elif type(value) is tuple:
        return tuple([_replaced(x, seen) for x in value])
    return value


# -- devices ---------------------------------------------------------------------------------------


def _placing(map_location: MapLocation) -> Callable[[Memory, str], Memory]:
    """Return the function that puts a storage where ``map_location`` tells.

    Raises:
        TypeError: if ``map_location`` is none.
    """

    def here(memory: Memory, location: str) -> Memory:
        kind = location.partition(":")[0]
        if kind == "cpu":
            return memory
        if kind == "cuda":
            raise RuntimeError(_NO_CUDA_FILE)
        raise RuntimeError(
            f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
            f"{location}): functrace.torch has the CPU only\nfix: pass map_location='cpu'"
        )

    if map_location is None:
        return here
    if isinstance(map_location, (str, device)):
        target = str(map_location)
        return lambda memory, _location: here(memory, target)
    if isinstance(map_location, dict):
        return lambda memory, location: here(memory, map_location.get(location, location))
    if not callable(map_location):
        raise TypeError(f"'{type(map_location).__name__}' object is not callable")

    def chosen(memory: Memory, location: str) -> Memory:
        untyped = UntypedStorage(memory.array)
        found = map_location(untyped, location)
        if found is None:
            return here(memory, location)
        if isinstance(found, (UntypedStorage, TypedStorage)):
            same = found.memory is memory.array
            return memory if same else Memory(found.memory.reshape(-1), memory.kind)
        raise TypeError(f"map_location returned {type(found).__name__}, which is no storage")

    return chosen


# -- classes that users declare safe ---------------------------------------------------------------


def _trusted() -> dict[str, Any]:
    return {_name(x): x[0] if isinstance(x, tuple) else x for x in _TRUSTED}


def _name(given: Part) -> str:
    if isinstance(given, tuple):
        return given[1]
    return f"{given.__module__}.{given.__qualname__}"


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Declare classes and functions safe: files may refer to them, and `load` calls them.

    Args:
        safe_globals: the classes and functions, or pairs of them and their name in files.
    """
    _TRUSTED.extend(x for x in safe_globals if x not in _TRUSTED)


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that were declared safe."""
    return list(_TRUSTED)


def clear_safe_globals() -> None:
    """Forget the classes and functions that were declared safe."""
    _TRUSTED.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Declare classes and functions safe in a context.

    Args:
        safe_globals: see `add_safe_globals`.
    """
    before = list(_TRUSTED)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _TRUSTED[:] = before
