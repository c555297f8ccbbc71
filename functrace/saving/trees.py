"""`save` and `load`: a pytree in one file, NumPy's npz or safetensors.

Note [The checksum of a file]
    A file has a field of 64 hexadecimal digits: the SHA-256 of the whole file with zeros in that
    field. In an npz file it is the end of the comment of the archive, so the end of the file; in a
    file of safetensors it begins the only entry of the metadata. `numpy.load` and safetensors read the files, too.

Layer: b (base).
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import math
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from functrace.errors import ArgumentError, ParseError, TreeError, UnsupportedFunctionError
from functrace.saving.files import atomic_file, is_extended
from functrace.saving.structures import NOTHING, decode, encode
from functrace.tree import flatten
from functrace.typing import PyTree

_STRUCTURE: Final = "functrace.json"
_FIELD: Final = b"functrace-sha256:"
_KEY: Final = b'"functrace":"'
_ZEROS: Final = b"0" * 64
_EARLIER: Final = "load an earlier file"
_VERSION: Final = 1
_NATIVE: Final = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["bool", "float16", "float32", "float64", "bfloat16"]
)
"""Dtypes that safetensors has; arrays of others are stored as bytes."""


def save(path: str | os.PathLike[str], tree: PyTree) -> None:
    """Save a pytree in one file: all of it, or nothing.

    The file is written under another name, flushed to the disk, and renamed, so a process that is
    killed leaves the old file. A checksum finds damage. Nothing is pickled. Equal pytrees give equal
    files.

    Args:
        path: the file. A name that ends with ``.safetensors`` chooses that format (the extra
            ``safetensors``), any other one NumPy's npz.
        tree: a pytree of arrays, random keys, numbers, strings, bytes and ``None`` in dicts, lists,
            tuples, named tuples, dataclasses and registered classes.

    Raises:
        ArgumentError: if a leaf cannot be saved (an object, a traced value, an array of objects), or
            a key of a dict is not a string, number, bytes, ``None`` or tuple of them.
        TreeError: if the pytree contains itself, or is nested more deeply than Python's stack.
        UnsupportedFunctionError: if safetensors is not installed, for its files.
        OSError: if the file cannot be written; the old file is left.

    Example:
        >>> import numpy as np, functrace as ft, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ft.save(f"{folder}/state.npz", {"w": np.arange(3.0), "step": 7, "rates": (0.1, None)})
        ...     ft.load(f"{folder}/state.npz")
        {'w': array([0., 1., 2.]), 'step': 7, 'rates': (0.1, None)}

    Cost:
        the file is written once, and read once for the checksum.
    """
    _check_path("save", path)
    flatten(tree)  # refuses a pytree that contains itself
    arrays: list[tuple[str, np.ndarray[Any, Any]]] = []
    try:
        code = encode(tree, "", arrays)
        names = _unique_names([place for place, _ in arrays])
        text = json.dumps({"version": _VERSION, "tree": code, "arrays": names})
    except RecursionError:
        raise _too_deep("save: the pytree") from None
    named = dict(zip(names, [array for _, array in arrays], strict=True))
    if os.fsdecode(path).endswith(".safetensors"):
        content, at = _safetensors(named, text)
        with atomic_file(path) as file:
            file.write(content)
            _sign(file, at)
    else:
        with atomic_file(path) as file:
            _write_npz(file, named, text)
            _sign(file, file.seek(0, os.SEEK_END) - len(_ZEROS))


def load(path: str | os.PathLike[str], like: PyTree = None) -> Any:
    """Load a pytree that `save` has written.

    Args:
        path: the file, of either format.
        like: a pytree of the same structure, whose leaves have the same shapes and dtypes (arrays,
            numbers, or `ShapeDtype`). It is needed where the pytree has objects of classes: named
            tuples, such as states of optimizers, dataclasses, registered classes.

    Returns:
        the pytree, with the saved values, equal to the bit, in new arrays.

    Raises:
        ParseError: if the file is damaged, or was not written by `save`.
        ArgumentError: if the structure, a shape or a dtype differs from that of ``like``, or if
            ``like`` is missing where a class is.
        FileNotFoundError: if there is no file.
        TreeError: if the pytree is nested more deeply than Python's stack.
        UnsupportedFunctionError: if safetensors, or ml_dtypes for its dtypes, is not installed.

    Example:
        >>> import numpy as np, functrace as ft, tempfile
        >>> params = {"w": np.ones(2)}
        >>> tx = ft.optim.adam(1e-3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ft.save(f"{folder}/state.npz", (params, tx.init(params)))
        ...     params, state = ft.load(f"{folder}/state.npz", like=(params, tx.init(params)))
        >>> state[0].count
        np.int32(0)

    Cost:
        the file is read twice; memory of the arrays and of twice the file at most, whatever is in it.
    """
    _check_path("load", path)
    place = Path(path)
    with open(place, "rb") as file:
        try:
            is_npz = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
            _verify(file, _field_of_npz(file) if is_npz else _field_of_safetensors(file))
            text, stored = _read_npz(file) if is_npz else _read_safetensors(file)
            described = json.loads(text)
            if described["version"] != _VERSION:
                raise ValueError(f"its version is {described['version']}, not {_VERSION}")
            wanted = NOTHING if like is None else like
            names, turns = described["arrays"], itertools.count()

            def read(number: int) -> np.ndarray[Any, Any]:
                if number != next(turns):  # (or few bytes of a file would fill the memory)
                    raise ValueError("its arrays are not in order, or one is read twice")
                return stored(names[number])

            if len(set(names)) != len(names):
                raise ValueError("two arrays have one name")
            return decode(described["tree"], wanted, "", read)
        except (ArgumentError, UnsupportedFunctionError):
            raise
        except RecursionError:
            raise _too_deep(f"load: the pytree in {place}") from None
        except _DAMAGE as error:
            raise ParseError(f"load: {place} is damaged: {error}", fix=_EARLIER) from error


_DAMAGE = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, OverflowError,
    NotImplementedError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
"""Errors that readers of formats raise for bytes that are none of the format."""


def _check_path(what: str, path: object) -> None:
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"{what}: the path is a {type(path).__name__}",
            fix="pass a string or a pathlib.Path first: functrace.save(path, tree)",
        )


def _too_deep(what: str) -> TreeError:
    return TreeError(
        f"{what} is nested more deeply than Python's stack allows here",
        fix="make it flatter: a list instead of a linked chain; or raise sys.setrecursionlimit",
    )


def _unique_names(places: list[str]) -> list[str]:
    """Return names of arrays that any format and file system takes, close to their places."""
    used = {_STRUCTURE, "__metadata__"}
    numbers: dict[str, int] = {}
    names: list[str] = []
    for place in places:
        words = re.findall(r"[A-Za-z0-9_-]+", place, re.ASCII)
        short = ".".join(words)[:100] or "array"
        name = short
        while name in used:
            numbers[short] = numbers.get(short, 1) + 1
            name = f"{short}~{numbers[short]}"
        used.add(name)
        names.append(name)
    return names


# -- the checksum ----------------------------------------------------------------------------------


def _checksum(file: IO[bytes], at: int) -> bytes:
    """Return the checksum of a file, with zeros in its field."""
    found = hashlib.sha256()
    file.seek(0)
    left = at
    while left:
        block = file.read(min(left, 1 << 20))
        if not block:
            raise ValueError("it ends too early")
        found.update(block)
        left -= len(block)
    file.seek(at + len(_ZEROS))
    found.update(_ZEROS)
    while block := file.read(1 << 20):
        found.update(block)
    return found.hexdigest().encode()


def _sign(file: IO[bytes], at: int) -> None:
    """Write the checksum into its field."""
    found = _checksum(file, at)
    file.seek(at)
    file.write(found)


def _verify(file: IO[bytes], at: int) -> None:
    file.seek(at)
    if file.read(len(_ZEROS)) != _checksum(file, at):
        raise ValueError("its checksum differs")


def _field_of_npz(file: IO[bytes]) -> int:
    size = file.seek(0, os.SEEK_END)
    at = size - len(_ZEROS)
    file.seek(max(at - len(_FIELD), 0))
    if file.read(len(_FIELD)) != _FIELD:
        raise ValueError(
            "it has no checksum at its end (files of numpy.savez are read by numpy.load)"
        )
    return at


def _header_of_safetensors(file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8)
    length = struct.unpack("<Q", start)[0]
    if length > size - 8:
        raise ValueError("it is neither an npz file nor one of safetensors, or ends too early")
    return file.read(length)


def _field_of_safetensors(file: IO[bytes]) -> int:
    at = _header_of_safetensors(file).find(_KEY)
    if at < 0:
        raise ValueError("it has no checksum of functrace.save")
    return 8 + at + len(_KEY)


# -- formats ---------------------------------------------------------------------------------------


def _member(name: str) -> zipfile.ZipInfo:
    """Return the entry of an archive, without the time, so that equal pytrees give equal files."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _write_npz(file: IO[bytes], arrays: dict[str, np.ndarray[Any, Any]], text: str) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            data = _as_bytes(array) if is_extended(array.dtype) else array
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, data, allow_pickle=False)
        archive.writestr(_member(_STRUCTURE), text)
        archive.comment = _FIELD + _ZEROS


def _read_npz(file: IO[bytes]) -> tuple[str, Any]:
    size = file.seek(0, os.SEEK_END)
    archive = zipfile.ZipFile(file)
    members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
        raise ValueError("it has compressed or encrypted members")
    if any(m.header_offset < 0 for m in members) or sum(m.file_size for m in members) > size:
        raise ValueError("its members overlap")

    def stored(name: str) -> np.ndarray[Any, Any]:
        with archive.open(f"{name}.npy") as member:
            shape, dtype = _header_of_npy(member)
            if math.prod(shape) * dtype.itemsize > archive.getinfo(f"{name}.npy").file_size:
                raise ValueError(f"an array of shape {shape} is longer than the file")
            member.seek(0)
            return np.lib.format.read_array(member, allow_pickle=False)

    return archive.read(_STRUCTURE).decode(), stored


def _header_of_npy(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of an array in NumPy's format."""
    version = np.lib.format.read_magic(member)
    formats = np.lib.format
    read: Any = (
        formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
    )
    try:
        shape, _, dtype = read(member)
    except Exception as error:  # of NumPy, ast and tokenize, MemoryError for many brackets, too
        raise ValueError(f"an array has no header of NumPy: {error}") from error
    return shape, dtype


def _as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _check_safetensors(what: str) -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise UnsupportedFunctionError(
            f"{what}: safetensors is not installed",
            fix="pip install functrace-numpy[safetensors]; other names are saved as npz files",
        )


def _safetensors(arrays: dict[str, np.ndarray[Any, Any]], text: str) -> tuple[bytes, int]:
    """Return the content of a file of safetensors, and the place of its checksum."""
    _check_safetensors("save")
    from safetensors import SafetensorError
    from safetensors.numpy import save as serialized

    data = {name: _storable(x) for name, x in arrays.items()}
    try:
        content = serialized(data, {"functrace": _ZEROS.decode() + text})
    except SafetensorError as error:
        raise ArgumentError(
            f"save: safetensors does not store the pytree: {error}",
            fix="save it as an npz file, or long strings and bytes as arrays of uint8",
        ) from error
    return content, content.index(_KEY) + len(_KEY)


def _storable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as safetensors takes it."""
    is_native = x.dtype.name in _NATIVE and x.dtype.isnative
    return np.ascontiguousarray(x).reshape(x.shape) if is_native else _as_bytes(x)


def _read_safetensors(file: IO[bytes]) -> tuple[str, Any]:
    """Return the structure, and a function that returns stored arrays."""
    _check_safetensors("load")
    from safetensors import SafetensorError, deserialize

    text = json.loads(_header_of_safetensors(file))["__metadata__"]["functrace"][len(_ZEROS) :]
    file.seek(0)
    try:
        found = dict(deserialize(file.read()))
    except SafetensorError as error:
        raise ValueError(str(error)) from error

    def stored(name: str) -> np.ndarray[Any, Any]:
        return np.frombuffer(found[name]["data"], np.uint8)

    return text, stored
