"""Exact keys, which distinguish values that are ``==``: 1, 1.0 and True, 0.0 and -0.0, also inside
of containers.

A dict finds equal values under one key. For a program that was staged for a static argument that is
too coarse: 1 and True are equal, but ``x * 1`` and ``x * True`` of a bool ``x`` are not. So a key
has the value, with its own ``==``, and the types and exact numbers of its parts.

Layer: b (base).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Any

import numpy as np

from functrace.typing import Array, Scalar

_PLAIN = frozenset({str, bytes, int, bool, type(None)})
"""Types whose values are identical if they are equal."""

_NUMBERS = (float, complex, np.generic)
_SEEN_IN_OBJECTS = (int, tuple, frozenset, *_NUMBERS)


def exact_key(value: object) -> Hashable:
    """Return a key for a hashable value; two keys are equal if the values are, and all their parts
    are identical.

    It covers the parts of tuples, frozensets, ranges and dataclasses; of other objects with an
    equality of their own, the numbers and tuples among their attributes. Objects without one equal
    only themselves.

    Raises:
        TypeError: if the value is not hashable.

    Cost:
        0.2 us for a number or a string, 1 us per field of a dataclass.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is tuple:
        parts: Any = value
        return (kind, *map(exact_key, parts))
    hash(value)
    return _exact(value, ())


def number_key(value: Scalar) -> Any:
    """Return a key for a Python number of a given type: zeros have signs, and nan equals itself."""
    if type(value) is complex or (type(value) is float and (value == 0 or value != value)):
        return struct.pack("dd", value.real, value.imag)
    return value


def static_key(value: object) -> Hashable:
    """Return a key for any value: exact, or its id if it is not hashable. The caller must keep the
    value alive."""
    try:
        return exact_key(value)
    except TypeError:
        return id(value)


def _exact(value: object, outer: tuple[int, ...]) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    untyped: Any = value
    if isinstance(value, np.generic):
        return kind, untyped.dtype.str, exact_bytes(untyped)
    if isinstance(value, float | complex):
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, np.ndarray):
        return kind, untyped.shape, untyped.dtype.str, exact_bytes(untyped)
    if id(value) in outer:
        return (kind,)
    outer = (*outer, id(value))
    parts = [_exact(part, outer) for part in _parts(value)]
    seen = frozenset(parts) if isinstance(value, set | frozenset) else tuple(parts)
    return kind, seen, None if isinstance(value, tuple) or not has_hash(untyped) else untyped


def has_hash(value: object) -> bool:
    """Return True if a value is hashable."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _parts(value: object) -> Iterable[Any]:
    """Return the parts of a value whose own equality may ignore differences."""
    untyped: Any = value
    if isinstance(value, tuple | list | set | frozenset):
        return untyped
    if isinstance(value, dict):
        return [part for item in untyped.items() for part in item]
    if isinstance(value, range | slice):
        return untyped.start, untyped.stop, untyped.step
    if isinstance(value, type | Enum) or type(value).__eq__ is object.__eq__:
        return ()
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value) if field.compare]
    slots = [name for base in type(value).__mro__ for name in _slots(base)]
    found = [getattr(value, name, None) for name in slots] + list(
        getattr(value, "__dict__", {}).values()
    )
    return [part for part in found if isinstance(part, _SEEN_IN_OBJECTS) or _is_value(part)]


def _is_value(part: object) -> bool:
    """Return True for an attribute that has its own equality and is hashable."""
    return type(part).__eq__ is not object.__eq__ and has_hash(part)


def _slots(base: type) -> Iterable[str]:
    slots = vars(base).get("__slots__", ())
    return (
        (slots,)
        if isinstance(slots, str)
        else [name for name in slots if not name.startswith("__")]
    )


def exact_bytes(value: Array | np.generic) -> bytes:
    """Return an array's elements as bytes, with the undefined padding of an 80-bit longdouble as
    zeros."""
    array = np.ascontiguousarray(value)
    if array.dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63:
        return array.tobytes()
    parts = array.reshape(-1).view(np.uint8).reshape(-1, np.dtype(np.longdouble).itemsize).copy()
    parts[:, 10:] = 0
    return parts.tobytes()
