"""Elementwise functions that are not ufuncs.

Layer: 3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError, UnsupportedFunctionError
from functrace.numpy.arrays.traced_number import (
    DTYPES,
    TracedNumber,
    alike,
    common_dtype,
    strong,
    weak_kind,
)
from functrace.numpy.arrays.views import is_scalar, need_open, new_array, owned
from functrace.numpy.functions.reductions import all_
from functrace.numpy.protocol.foreign_operands import hand_over_ufunc
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    DtypeLike,
    Operand,
    Out,
    arrayed,
    cast_to,
    known,
    need_traced,
    operand,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, array_method, implements
from functrace.ops import bessel
from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, Value

_CLIP: Any = ew.clip.eval

# -- choices ---------------------------------------------------------------------------------------


@implements(np.where, weak=True)
def where(condition: Operand, x: Operand = NOT_GIVEN, y: Operand = NOT_GIVEN, /) -> Any:
    """As ``numpy.where``; with one argument, as ``numpy.nonzero``."""
    if x is NOT_GIVEN and y is NOT_GIVEN:
        return FUNCTIONS[np.nonzero](arrayed(condition))
    if x is NOT_GIVEN or y is NOT_GIVEN:
        raise ShapeError(
            "where needs both x and y, or neither", fix="pass np.where(condition, x, y)"
        )
    result = ew.where(operand(condition), operand(x), operand(y))
    return new_array(result) if not result.shape else result


@implements(np.select, of_sequence=True, weak=True)
def select(condlist: Iterable[Operand], choicelist: Iterable[Operand], default: Operand = 0) -> Any:
    """As ``numpy.select``: for each element the first choice whose condition holds."""
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(
            f"select needs as many conditions as choices, got {len(conditions)} and {len(choices)}",
            fix="pass pairs",
        )
    operands = alike([*choices, default])
    dtype, result = operands[-1].dtype, operands[-1]
    for choice in choices:  # NumPy checks the casts of choices, but not of the default
        kind = weak_kind(choice)
        if kind is not None and not np.can_cast(DTYPES[kind], dtype, "same_kind"):
            shown = f"of type {kind.__name__}" if isinstance(choice, TracedNumber) else repr(choice)
            raise DtypeError(
                f"select: the choice {shown} cannot be cast to {dtype}", fix=f"write np.{dtype}(…)"
            )
    for condition, choice in zip(reversed(conditions), reversed(operands[:-1]), strict=True):
        condition = operand(condition)
        if getattr(condition, "dtype", np.dtype(bool)).kind != "b":
            raise UnsupportedFunctionError(
                "select: conditions must be boolean arrays", fix="compare, e.g. x != 0"
            )
        result = ew.where(condition, choice, result)
    return owned(convert(result, dtype))


@implements(np.clip, weak=True)
def clip(
    a: Operand,
    a_min: Operand = NOT_GIVEN,
    a_max: Operand = NOT_GIVEN,
    out: Out = None,
    *,
    min: Operand = NOT_GIVEN,
    max: Operand = NOT_GIVEN,
    dtype: DtypeLike = None,
) -> Any:
    """As ``numpy.clip``; on a bound, the derivative equals the array's, as in PyTorch."""
    if (a_min is NOT_GIVEN) is not (a_max is NOT_GIVEN):
        missing = "a_min" if a_min is NOT_GIVEN else "a_max"
        raise DtypeError(
            f"clip() missing 1 required positional argument: '{missing}'",
            fix="pass None for no bound, or min= alone",
        )
    if a_min is not NOT_GIVEN and (min is not NOT_GIVEN or max is not NOT_GIVEN):
        raise ShapeError("clip takes a_min and a_max, or min and max, not both", fix="use one pair")
    low, high = (min, max) if a_min is NOT_GIVEN else (a_min, a_max)
    return _clip(
        a, None if low is NOT_GIVEN else low, None if high is NOT_GIVEN else high, out, dtype=dtype
    )


@array_method("clip")
def _clip(
    a: Operand,
    min: Operand | None = None,
    max: Operand | None = None,
    out: Out = None,
    *,
    dtype: DtypeLike = None,
) -> Any:
    """As ``numpy.ndarray.clip``."""
    low, high = min, max
    handed = hand_over_ufunc(
        _CLIP, "__call__", (a, low, high), {} if out is None else {"out": (out,)}
    )
    if handed is not NotImplemented:
        return handed
    a = arrayed(strong(a))  # only the bounds are weak
    if low is None and high is None and a.dtype.kind == "b":
        raise DtypeError("clip of bools needs a bound", fix="pass a bound, or leave clip out")
    result = cast_to(a, dtype)
    if a.dtype.kind in "iu":
        # NumPy ignores bounds that are Python ints out of the dtype's range.
        info = np.iinfo(a.dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    # Integers between two numbers: all three determine the dtype.
    if a.dtype.kind in "biu" and low is not None and high is not None and dtype is None:
        result = convert(result, common_dtype((a, operand(low), operand(high))))
    if low is not None and high is not None:
        result = ew.clip(result, operand(low), operand(high))
    elif low is not None:
        result = ew.clip_below(result, operand(low))
    elif high is not None:
        result = ew.clip_above(result, operand(high))
    if result is a:
        result = FUNCTIONS[np.copy](a)
    return stored(result, out, "clip")


# -- rounding --------------------------------------------------------------------------------------


@implements(np.round, np.around, method="round")
def round(a: Operand, decimals: int = 0, out: Out = None) -> Any:
    """As ``numpy.round``: piecewise constant, derivative 0."""
    result = bind(ew.round_p, (arrayed(a),), (operator.index(decimals),))
    return stored(result, out, "round")


@implements(np.fix)
def fix(x: Operand, out: Out = None) -> Any:
    """As ``numpy.fix``: piecewise constant, derivative 0."""
    result = ew.trunc(arrayed(x))
    return stored(result, out, "fix")


# -- special values --------------------------------------------------------------------------------


@implements(np.nan_to_num, weak=True, scalars=True)
def nan_to_num(
    x: Operand,
    copy: bool = True,
    nan: Value = 0.0,
    posinf: Value | None = None,
    neginf: Value | None = None,
) -> Any:
    """As ``numpy.nan_to_num``; replaced elements have derivative 0."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        result = FUNCTIONS[np.copy](x)
    elif x.dtype.kind == "c":
        parts = (_numbers_only(part, nan, posinf, neginf) for part in (ew.real(x), ew.imag(x)))
        result = ew.complex_of(*parts)
    else:
        result = _numbers_only(x, nan, posinf, neginf)
    if copy:
        return result
    target = need_traced(x, "numpy.nan_to_num with copy=False")
    if not target.shape and is_scalar(target):
        return result
    return stored(result, target, "nan_to_num")


def _numbers_only(x: Arrayed, nan: Value, posinf: Value | None, neginf: Value | None) -> Any:
    info = np.finfo(x.dtype)
    for value in (nan, posinf, neginf):
        if value is not None and not np.can_cast(
            getattr(value, "dtype", type(value)), x.dtype, "same_kind"
        ):
            raise DtypeError(
                f"nan_to_num: {value!r} does not fit into {x.dtype}", fix="pass real numbers"
            )
    result = ew.where(ew.isnan(x), nan, x)
    result = ew.where(ew.equal(x, math.inf), info.max if posinf is None else posinf, result)
    result = ew.where(ew.equal(x, -math.inf), info.min if neginf is None else neginf, result)
    return convert(result, x.dtype)


@implements(np.sinc)
def sinc(x: Operand) -> Any:
    """As ``numpy.sinc``; derivatives of every order are exact at 0."""
    return ew.sinc(arrayed(x))


@implements(np.i0)
def i0(x: Operand) -> Any:
    """As ``numpy.i0``; derivatives of every order are exact at 0."""
    x = arrayed(x)
    if x.dtype.kind == "c":
        raise DtypeError("i0 not supported for complex values", fix="take the real part")
    result = bessel.i0(x if x.dtype.kind == "f" else convert(x, np.float64))
    return new_array(result) if not result.shape else result


# -- complex numbers -------------------------------------------------------------------------------


@implements(np.real)
def real(val: Operand) -> Any:
    """As ``numpy.real``."""
    x: Any = arrayed(val)
    return x.real


@implements(np.imag)
def imag(val: Operand) -> Any:
    """As ``numpy.imag``."""
    x: Any = arrayed(val)
    return x.imag


@implements(np.angle)
def angle(z: Operand, deg: bool = False) -> Any:
    """As ``numpy.angle``."""
    result = ew.angle(arrayed(z))
    return ew.mul(result, 180 / math.pi) if deg else result


@implements(np.real_if_close)
def real_if_close(a: Operand, tol: float = 100) -> Any:
    """As ``numpy.real_if_close``.

    Raises:
        ConcretizationError: for abstract complex arrays: the dtype of the result depends on values.
    """
    x: Any = arrayed(a)
    if x.dtype.kind != "c":
        return x
    limit = tol * np.finfo(x.dtype).eps if tol > 1 else tol
    try:
        is_close = bool(np.all(np.absolute(known(x).imag) < limit))
    except ConcretizationError as error:
        raise ConcretizationError(
            "whether numpy.real_if_close is real depends on values, which are not known here",
            made=error.made,
            fix="use np.real(x), or x itself",
        ) from error
    return x.real if is_close else x


@implements(np.isreal)
def isreal(x: Operand) -> Any:
    """As ``numpy.isreal``."""
    return ew.equal(imag(x), 0)


@implements(np.iscomplex)
def iscomplex(x: Operand) -> Any:
    """As ``numpy.iscomplex``."""
    return ew.not_equal(imag(x), 0)


# -- comparisons -----------------------------------------------------------------------------------


@implements(np.isclose, weak=True)
def isclose(
    a: Operand,
    b: Operand,
    rtol: float | Arrayed = 1e-5,
    atol: float | Arrayed = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """As ``numpy.isclose``."""
    x, y = operand(a), operand(b)
    kind = weak_kind(y)
    if kind in (bool, int):  # NumPy converts to float; multiplying keeps the number weak
        y = y * 1.0
    elif kind is None and y.dtype.kind in "biu":
        y = convert(y, np.float64)
    near = ew.less_equal(abs(x - y), atol + rtol * abs(y))  # operators keep Python numbers weak
    result = ew.logical_or(ew.logical_and(near, ew.isfinite(y)), ew.equal(x, y))
    if equal_nan:
        result = ew.logical_or(result, ew.logical_and(ew.isnan(x), ew.isnan(y)))
    return result


@implements(np.allclose, weak=True)
def allclose(
    a: Operand,
    b: Operand,
    rtol: float | Arrayed = 1e-5,
    atol: float | Arrayed = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """As ``numpy.allclose``; the result is traced."""
    return all_(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Operand, a2: Operand, equal_nan: bool = False) -> Any:
    """As ``numpy.array_equal``; the result is traced where the shapes agree."""
    a1, a2 = arrayed(a1), arrayed(a2)
    return all_(_same(a1, a2, equal_nan)) if a1.shape == a2.shape else False


@implements(np.array_equiv)
def array_equiv(a1: Operand, a2: Operand) -> Any:
    """As ``numpy.array_equiv``; the result is traced where the shapes broadcast."""
    a1, a2 = arrayed(a1), arrayed(a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return all_(ew.equal(a1, a2))


def _same(a: Arrayed, b: Arrayed, equal_nan: bool) -> Any:
    same = ew.equal(a, b)
    if equal_nan and a.dtype.kind in "fc" and b.dtype.kind in "fc":
        same = ew.logical_or(same, ew.logical_and(ew.isnan(a), ew.isnan(b)))
    return same


def _real(x: Operand) -> Arrayed:
    x = arrayed(x)
    if x.dtype.kind == "c":
        raise DtypeError(
            f"This operation is not supported for {x.dtype} values because it would be ambiguous.",
            fix="use np.isinf(x), or the same of x.real and x.imag",
        )
    return x


@implements(np.isposinf)
def isposinf(x: Operand, out: Out = None) -> Any:
    """As ``numpy.isposinf``."""
    result = ew.equal(_real(x), math.inf)
    return stored(result, out, "isposinf")


@implements(np.isneginf)
def isneginf(x: Operand, out: Out = None) -> Any:
    """As ``numpy.isneginf``."""
    result = ew.equal(_real(x), -math.inf)
    return stored(result, out, "isneginf")


@implements(np.divmod)
def divmod(x1: Value, x2: Value) -> tuple[Any, Any]:
    """As ``numpy.divmod``."""
    return ew.floor_divide(x1, x2), ew.remainder(x1, x2)


@array_method("conjugate", "conj")
def _conjugate(x: Tracer) -> Any:
    """As ``numpy.ndarray.conjugate``: a real array itself, not a copy as ``numpy.conjugate``."""
    need_open(x)
    return ew.conj(x) if x.dtype.kind == "c" else x
