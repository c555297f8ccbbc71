"""The zip archive of a file of tensors: its pickle, and one entry for each storage.

Layer: 9.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, final

import numpy as np

from functrace.torch.files.reading import UnpicklingError
from functrace.typing import Array

ALIGNMENT = 64
"""Storages begin at multiples of this many bytes, so that they can be mapped."""
_DATE = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER = 30


def write_archive(file: Any, prefix: str, pickled: bytes, storages: Sequence[Array]) -> None:
    """Write an archive.

    Args:
        file: a path or a seekable file.
        prefix: the directory of its entries.
        pickled: the pickle.
        storages: the memory, flat.
    """
    small = {
        ".format_version": b"1",
        ".storage_alignment": b"%d" % ALIGNMENT,
        "byteorder": b"little",
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, f"{prefix}/data.pkl", pickled)
        for name, data in small.items():
            _add(archive, f"{prefix}/{name}", data)
        for number, array in enumerate(storages):
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            _add(archive, f"{prefix}/data/{number}", _bytes_of(little))
        _add(archive, f"{prefix}/version", b"3\n")


def _bytes_of(array: Array) -> memoryview:
    """Return the memory of a flat array."""
    memory: Any = array.view(np.uint8)
    return memoryview(memory)


def _add(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add an entry whose data begin at a multiple of `ALIGNMENT`."""
    info = zipfile.ZipInfo(name, _DATE)
    assert archive.fp is not None
    start = archive.fp.tell() + _LOCAL_HEADER + len(name.encode()) + 4
    padding = -start % ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(info, data)


@final
class Archive:
    """An archive that is read.

    Args:
        file: a path or a seekable file.
        length: its size in bytes.
        path: the path, to map storages; None to read them.

    Raises:
        RuntimeError: if it is damaged, or holds TorchScript.
    """

    def __init__(self, file: str | Path | IO[bytes], length: int, path: Path | None) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except (
            zipfile.BadZipFile,
            OSError,
            ValueError,
            struct.error,
            NotImplementedError,
        ) as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: {error}: the file is truncated or "
                "damaged"
            ) from error
        self.path = path
        self._entries = {info.filename: info for info in self._zip.infolist()}
        pickles = [name for name in self._entries if name.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise RuntimeError(
                "PytorchStreamReader failed locating file data.pkl: file not found: this archive was "
                "not written by torch.save"
            )
        self.prefix = pickles[0].removesuffix("/data.pkl")
        if f"{self.prefix}/constants.pkl" in self._entries:
            raise RuntimeError(
                "the file is a TorchScript archive, whose code functrace.torch does not run\n"
                "fix: in PyTorch, save torch.jit.load(f).state_dict()"
            )
        self._check(length)
        order = self.read("byteorder") if self.has("byteorder") else b"little"
        self.is_big = order.strip() == b"big"

    def _check(self, length: int) -> None:
        """Check that entries are no longer than the file: none is compressed, and none overlap.

        Raises:
            UnpicklingError: otherwise.
        """
        total = 0
        for info in self._entries.values():
            if info.compress_type != zipfile.ZIP_STORED:
                raise UnpicklingError(
                    f"the entry {info.filename} of the file is compressed, which torch.save never "
                    "does: it could fill the memory\nfix: pack the archive again without compression"
                )
            total += info.file_size
        if total > length:
            raise UnpicklingError(
                f"the entries of the file claim {total} bytes, and the file has {length}"
            )

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def has(self, name: str) -> bool:
        """Return True if there is an entry."""
        return f"{self.prefix}/{name}" in self._entries

    def _entry(self, name: str) -> zipfile.ZipInfo:
        found = self._entries.get(f"{self.prefix}/{name}")
        if found is None:
            raise UnpicklingError(f"the file has no entry {name}")
        return found

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry."""
        return self.elements(name, np.dtype(np.uint8)).tobytes()

    def elements(self, name: str, kind: np.dtype[Any]) -> Array:
        """Return an entry as a flat array.

        Raises:
            UnpicklingError: if it is no whole number of elements, or damaged.
        """
        info = self._entry(name)
        count, rest = divmod(info.file_size, kind.itemsize)
        if rest:
            raise UnpicklingError(f"the entry {name} is no whole number of elements")
        if self.path is not None and info.file_size and kind.itemsize > 0 and name[:5] == "data/":
            found = self._mapped(info, count, kind)
        else:
            found = np.empty(count, kind)
            self._fill(info, _bytes_of(found))
        is_swapped = self.is_big if hasattr(self, "is_big") else False
        return found.byteswap() if is_swapped and kind.itemsize > 1 else found

    def _fill(self, info: zipfile.ZipInfo, target: memoryview) -> None:
        done = 0
        try:
            with self._zip.open(info) as source:
                while done < len(target):
                    part = source.read(min(len(target) - done, 1 << 20))
                    if not part:
                        raise UnpicklingError(f"the entry {info.filename} is truncated")
                    target[done : done + len(part)] = part
                    done += len(part)
                source.read(1)
        except (
            zipfile.BadZipFile,
            EOFError,
            OSError,
            ValueError,
            RuntimeError,
            struct.error,
        ) as error:
            raise UnpicklingError(f"the entry {info.filename} is damaged: {error}") from error

    def _mapped(self, info: zipfile.ZipInfo, count: int, kind: np.dtype[Any]) -> Array:
        """Return an entry in memory that is read from the file when it is used; writes are not
        stored.
        """
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise UnpicklingError(f"the entry {info.filename} is damaged")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        start = info.header_offset + _LOCAL_HEADER + name_length + extra_length
        if start + info.file_size > self.path.stat().st_size:
            raise UnpicklingError(f"the entry {info.filename} is truncated")
        mapped = np.memmap(self.path, np.uint8, "c", start, (info.file_size,))
        found = np.asarray(mapped)
        if start % kind.alignment:
            found = found.copy()
        return found.view(kind)
