"""DLPack capsules of bfloat16, for which NumPy has none: those of the same bits as int16, with
another type code.

Layer: 9.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_CODES = {"int": 0, "bfloat": 4}
"""DLPack's codes of kinds of elements."""
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Byte of the type code in the memory of a capsule, by the capsule's name."""

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _code(capsule: Any) -> Any:
    name = _name(capsule)
    place = _PLACES.get(name)
    if place is None:
        raise BufferError(f"{name!r} is no DLPack capsule that was not used before")
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + place)


def capsule_of(array: Any, **options: Any) -> Any:
    """Return a capsule of an array of bfloat16."""
    capsule = array.view(np.int16).__dlpack__(**options)
    _code(capsule).value = _CODES["bfloat"]
    return capsule


class _AsIntegers:
    """An exporter whose elements are presented as int16."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def __dlpack_device__(self) -> Any:
        return self._exporter.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._exporter.__dlpack__(**options)
        code = _code(capsule)
        if code.value != _CODES["bfloat"]:
            raise BufferError("the elements are no bfloat16")
        code.value = _CODES["int"]
        return capsule


def array_of(exporter: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array of bfloat16 that shares the memory of another library's.

    Raises:
        BufferError: if its elements are no bfloat16.
    """
    return np.from_dlpack(_AsIntegers(exporter)).view(dtype)
