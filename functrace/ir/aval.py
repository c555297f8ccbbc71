"""The abstract value ("aval") of a variable: its shape and dtype.

Avals are interned: equal avals are the same object as long as either is alive. So equality is
identity, hashing is free, and the most frequent test during recording ("same shape and dtype?") is
one pointer comparison.

Layer: 0.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias, final

import numpy as np

from functrace.caches import MemoTable, shared
from functrace.errors import DtypeError, ShapeError
from functrace.ir.symbolic_numbers import SymbolicNumber
from functrace.locks import Lock
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_SHORT_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64", "longdouble": "f80",
    "complex64": "c64", "complex128": "c128", "clongdouble": "c160",
}  # fmt: skip
_NAMES_BY_DTYPE: dict[np.dtype[Any], str] = {}
for _name, _short in _SHORT_NAMES.items():
    _NAMES_BY_DTYPE.setdefault(
        np.dtype(_name), _short
    )  # (longdouble is float64 on Windows and on ARM Macs: f64)
DTYPES = {short: dtype for dtype, short in _NAMES_BY_DTYPE.items()}
"""Every dtype that a program can have, by its short name."""

LARGE = 1 << 10
"""Size in bytes from which a recording frees an evaluated array after the last reference to it is
gone.
"""

_interned: weakref.WeakValueDictionary[tuple[Any, ...], ShapeDtype] = weakref.WeakValueDictionary()
_interning = Lock()

_recent = MemoTable("recent avals", 4096)
"""Recent avals by shape and dtype: a cache in front of the weak dictionary, which takes 0.5 us."""


@shared
@final
class ShapeDtype:
    """Shape and dtype of an array, without its values.

    Args:
        shape: sizes, e.g. ``(3, 4)``; an int is taken as ``(int,)``.
        dtype: anything that ``numpy.dtype`` takes; stored in native byte order.

    Example:
        >>> ShapeDtype((3, 4), "float32")
        f32[3,4]
    """

    __slots__ = ("__weakref__", "dtype", "is_large", "shape")
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_large: bool
    """True if an array with this aval takes `LARGE` bytes or more."""

    def __new__(cls, shape: tuple[int, ...] | int, dtype: DTypeLike = np.float64) -> ShapeDtype:
        """Return the one aval with this shape and dtype."""
        if isinstance(shape, int):
            shape = (shape,)
        dtype = np.dtype(dtype).newbyteorder("=")
        key = (tuple(shape), dtype)
        found = _interned.get(key)
        if found is not None:
            return found
        if dtype.kind not in "biufc" and dtype.name != "bfloat16":
            raise DtypeError(
                f"dtype {dtype} is not numeric",
                fix="pass arrays of bools, integers, floats or complex",
            )
        made = object.__new__(cls)
        object.__setattr__(made, "shape", tuple(map(_size, shape)))
        object.__setattr__(made, "dtype", dtype)
        is_concrete = SymbolicNumber not in map(type, made.shape)
        object.__setattr__(
            made, "is_large", is_concrete and math.prod(made.shape) * dtype.itemsize >= LARGE
        )
        with _interning.now:
            return _interned.setdefault(key, made)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ShapeDtype is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapeDtype, (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of an array with this aval."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


def _size(n: SupportsIndex) -> int:
    if type(n) is SymbolicNumber:
        return n  # type: ignore[return-value]
    n = operator.index(n)
    if n < 0:
        raise ShapeError(f"{n} is not the size of an axis", fix="give sizes from 0")
    return n


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the short name that listings use: ``f64``, ``i32``, ``bool`` …"""
    return _NAMES_BY_DTYPE.get(dtype) or str(dtype)


_of_scalars: dict[type, ShapeDtype] = {
    dtype.type: ShapeDtype((), dtype) for dtype in DTYPES.values()
}
"""Avals of NumPy's scalars, by class."""


def is_differentiable(aval: ShapeDtype) -> bool:
    """Check that values of an aval carry derivatives: floats and complex numbers do.

    Args:
        aval: shape and dtype.

    Returns:
        True for a float or complex dtype.

    Example:
        >>> import functrace as ft
        >>> is_differentiable(ft.ShapeDtype((3,), "float32")), is_differentiable(ft.ShapeDtype((3,), "int32"))
        (True, False)
    """
    return aval.dtype.kind in "fcV"


def aval_of(value: Array | np.generic | Scalar | HasAval) -> ShapeDtype:
    """Return shape and dtype of a value.

    Args:
        value: an array, a NumPy scalar, a Python number or a traced value.

    Returns:
        its `ShapeDtype`.

    Raises:
        DtypeError: if it is not numeric, or is an array subclass with more than values, such as a
            masked array.

    Example:
        >>> import numpy as np
        >>> aval_of(np.ones((3, 4), np.float32)), aval_of(2)
        (f32[3,4], i64[])
    """
    number = _of_scalars.get(type(value))
    if number is not None:
        return number
    if type(value) is np.ndarray or isinstance(value, (np.ndarray, np.generic)):
        if type(value) is not np.ndarray:
            check_plain(value)
        key = (value.shape, value.dtype)
        found = _recent.get(key)
        if found is None:
            found = _recent.keep(key, ShapeDtype(*key))
        return found
    known = getattr(value, "aval", None)
    if known is not None:
        return known
    array = np.asarray(value)
    return ShapeDtype(array.shape, array.dtype)


def check_plain(value: object) -> None:
    """Check that an array is plain: no subclass of ndarray except memory maps.

    Raises:
        DtypeError: with a fix.
    """
    kind = type(value)
    if isinstance(value, np.ndarray) and kind is not np.ndarray:
        refuse_subclass(kind)


def refuse_subclass(kind: type) -> None:
    """Reject a subclass of ndarray whose meaning is more than its values (see `check_plain`).

    Raises:
        DtypeError: with a fix.
    """
    if issubclass(kind, np.memmap):
        return
    name = f"{str(kind.__module__).partition('.')[0]}.{kind.__qualname__}"
    if issubclass(kind, np.ma.MaskedArray):
        raise DtypeError(
            f"a {name} is not a plain array, and its mask would be lost",
            fix="pass values and mask apart, np.ma.getdata(x) and np.ma.getmaskarray(x), and "
            "choose with np.where; or fill "
            "it with x.filled(value); np.asarray(x) drops the mask",
        )
    if issubclass(kind, np.recarray):
        raise DtypeError(
            f"a {name} is not a plain array of numbers",
            fix="pass its fields, such as np.asarray(x['name'])",
        )
    meaning = (
        ", and its * is a matrix product"
        if issubclass(kind, np.matrix)
        else ", and what it adds to one would be lost"
    )
    raise DtypeError(
        f"a {name} is not a plain array{meaning}",
        fix="pass np.asarray(x), whose products are written x @ y",
    )


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape, like ``numpy.broadcast_shapes``; sizes may be symbolic.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    first = shapes[0] if shapes else ()
    if all(shape == first for shape in shapes):
        return tuple(first)
    full = [1] * max(map(len, shapes))
    for shape in shapes:
        for k, n in enumerate(shape, len(full) - len(shape)):
            if full[k] == 1:
                full[k] = n
            elif n != 1 and n != full[k]:
                raise ValueError(
                    f"shape mismatch: {' and '.join(map(str, shapes))} cannot be broadcast to a "
                    "single shape"
                )
    return tuple(full)


class HasAval(Protocol):
    """Objects with an aval: traced values, operands of transpose rules, packed values."""

    @property
    def aval(self) -> ShapeDtype:
        """Shape and dtype."""
        ...


Constant: TypeAlias = Array | np.generic | HasAval
"""Value of a constant; a traced one if the program was recorded inside another recording."""


class Shaped(Protocol):
    """Objects with a shape: arrays, NumPy scalars, avals, traced values, transpose operands."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes by axis."""
        ...


def shape_of(value: Shaped | Scalar | Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of an array, nested list or traced value (without recording anything)."""
    try:
        return value.shape  # type: ignore[union-attr]  # numbers have none, and are rare
    except AttributeError:
        return np.shape(value)
