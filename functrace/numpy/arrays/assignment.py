"""Casts of assigned values, with the errors of NumPy's assignment.

Every function that takes a fill, initial or assigned value (``x[i] = v``, ``full_like``, ``pad``,
``sum(initial=)`` …) uses it: ``np.full_like(x, 300)`` of an int8 raises for traced ``x`` too.

Layer: 3.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import Operand, stacked
from functrace.ops.shaping import convert, written
from functrace.tracing.tracer import LITERALS, Tracer, as_array


def assigned(value: Operand, dtype: np.dtype[Any]) -> Any:
    """Return a value as an operand of a dtype, cast as NumPy's assignment casts it.

    A Python number that needs no cast is returned unchanged.

    Raises:
        DtypeError: if the value is not numeric, or is complex and the dtype real.
        OverflowError, ValueError, TypeError: raised by NumPy for a number that does not fit.
    """
    value = stacked(value)
    kind = type(value)
    is_complex = kind is complex or (
        isinstance(value, Tracer) and value.is_number and value.dtype.kind == "c"
    )
    if is_complex and dtype.kind not in "bc":
        raise DtypeError(
            f"a complex number does not fit into an array of dtype {dtype}", fix="write value.real"
        )
    if kind in LITERALS:
        if dtype.kind in "fc" or (kind is int and dtype.kind in "iu" and value in _range(dtype)):
            return value
        return written(value, (), dtype)
    if isinstance(value, Tracer):
        return value.assigned(dtype) if value.is_number else convert(value, dtype)  # type: ignore[attr-defined]
    array = numeric(value)
    return array if array.dtype == dtype else written(value, array.shape, dtype)


def numeric(value: Operand) -> np.ndarray[Any, Any]:
    """Return a concrete value as an array of numbers.

    Raises:
        DtypeError: if its dtype is not numeric.
    """
    array = as_array(value)
    if array.dtype.kind not in "biufc":
        raise DtypeError(f"values of dtype {array.dtype} are not numeric", fix="pass numbers")
    return array


def start_of(value: Operand, dtype: np.dtype[Any]) -> Any:
    """Return the initial value of a reduction, in the dtype of its result.

    Raises:
        DtypeError: if it is traced and the cast is unsafe.
    """
    if isinstance(value, Tracer):
        if not np.can_cast(value.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"cannot cast initial={value.aval} to {dtype}",
                fix="pass dtype=, or convert it first",
            )
        return convert(value, dtype)
    if numeric(value).ndim:
        raise ShapeError(
            f"initial must be a number, not of shape {np.shape(value)}",
            fix="add the array afterwards",
        )
    return written(value, (), dtype)


@functools.lru_cache(maxsize=16)
def _range(dtype: np.dtype[Any]) -> range:
    info = np.iinfo(dtype)
    return range(int(info.min), int(info.max) + 1)
