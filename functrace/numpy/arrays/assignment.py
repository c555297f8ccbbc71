"""Values that are written into an array: cast, or refused, as NumPy's assignment does it.

Whatever takes a value to fill, to start from or to write (``x[i] = v``, ``full_like``, ``pad``, ``sum(initial=)`` …) goes
through here, so that ``np.full_like(x, 300)`` of an int8 raises whether ``x`` is traced or not.

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

    A Python number that needs no cast stays one.

    Raises:
        DtypeError: if it is not numeric, or complex where real numbers are wanted.
        OverflowError, ValueError, TypeError: NumPy's, for a number that does not fit.
    """
    value = stacked(value)
    kind = type(value)
    is_complex = kind is complex or (isinstance(value, Tracer) and value.is_number and value.dtype.kind == "c")
    if is_complex and dtype.kind not in "bc":
        raise DtypeError(f"a complex number does not fit into an array of dtype {dtype}", fix="write value.real")
    if kind in LITERALS:
        if dtype.kind in "fc" or (kind is int and dtype.kind in "iu" and value in _range(dtype)):
            return value
        return written(value, (), dtype)
    if isinstance(value, Tracer):
        return value.assigned(dtype) if value.is_number else convert(value, dtype)  # type: ignore[attr-defined]
    array = numeric(value)
    return array if array.dtype == dtype else written(value, array.shape, dtype)


def numeric(value: Operand) -> np.ndarray[Any, Any]:
    """Return a plain value as an array of numbers.

    Raises:
        DtypeError: if it is not one.
    """
    array = as_array(value)
    if array.dtype.kind not in "biufc":
        raise DtypeError(f"values of dtype {array.dtype} do not go with an array of numbers", fix="pass numbers")
    return array


def start_of(value: Operand, dtype: np.dtype[Any]) -> Any:
    """Return the number that a reduction starts from, in the dtype of its result.

    Raises:
        DtypeError: if it is traced, and would be cut.
    """
    if isinstance(value, Tracer):
        if not np.can_cast(value.dtype, dtype, "same_kind"):
            raise DtypeError(f"initial={value.aval} would be cut to {dtype}", fix="pass dtype=, or convert it first")
        return convert(value, dtype)
    if numeric(value).ndim:
        raise ShapeError(f"initial must be a number, not of shape {np.shape(value)}", fix="add the array afterwards")
    return written(value, (), dtype)


@functools.lru_cache(maxsize=16)
def _range(dtype: np.dtype[Any]) -> range:
    info = np.iinfo(dtype)
    return range(int(info.min), int(info.max) + 1)
