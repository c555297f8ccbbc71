"""Running sums, products and extremes along one axis.

Note [Derivative of a running product]
    With c = cumprod(x), the tangent obeys c'[k] = x[k] c'[k-1] + c[k-1] x'[k]: a linear recurrence.
    It never divides, so it is exact with zeros in x; and linear recurrences are closed under
    differentiation (the same one with another right-hand side) and transposition (the same one
    backwards), so derivatives of all orders are exact.

Layer: 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    LINEAR,
    Flags,
    Operand,
    Primitive,
    Tangents,
    Values,
    absent,
    is_linear,
)
from functrace.ops import counts
from functrace.ops.elementwise import add, equal, isnan, logical_or, mul, plus, where
from functrace.ops.indexing import embed_p, index_p
from functrace.ops.shaping import broadcast_to
from functrace.ops.sorting import take_along_axis
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_ALL = (None, None, None)


def shift(x: Value, axis: int, *, backwards: bool = False) -> Any:
    """Shift by one along an axis: ``out[k] = x[k - 1]`` (backwards ``x[k + 1]``), and 0."""
    kept, to = (
        ((1, None, None), (None, -1, None)) if backwards else ((None, -1, None), (1, None, None))
    )
    lead = (_ALL,) * axis
    return bind(embed_p, (bind(index_p, (x,), ((*lead, kept),)),), ((*lead, to), shape_of(x)))


def impulse(n: int, ndim: int, axis: int, dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Return one at position 0 of an axis, zero after it, size 1 along the other axes."""
    return (np.arange(n) == 0).astype(dtype).reshape((1,) * axis + (n,) + (1,) * (ndim - axis - 1))


# -- sum -------------------------------------------------------------------------------------------


def _cumsum_eval(x: Array, axis: int, backwards: bool) -> Any:
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if backwards else np.cumsum(x, axis)


cumsum_p = Primitive(
    "cumsum",
    eval=_cumsum_eval,
    aval=lambda x, axis, backwards: ShapeDtype(x.shape, np.add.reduce(np.empty(0, x.dtype)).dtype),
    jvp=LINEAR,
    transpose=lambda ct, x, axis, backwards: (cumsum(ct, axis, backwards=not backwards),),
    batch=lambda operands, _, axis, backwards: cumsum(operands[0], axis + 1, backwards=backwards),
    params=("axis", "backwards"),
    flops=counts.per_input,
)


def cumsum(x: Value, axis: int, *, backwards: bool = False) -> Any:
    """Running sum along an axis, from the end with ``backwards``."""
    return bind(cumsum_p, (x,), (axis, backwards))


# -- linear recurrence -----------------------------------------------------------------------------


def _linear_recurrence_eval(a: Array, b: Array, axis: int, backwards: bool) -> Any:
    a, y = np.array(np.moveaxis(a, axis, -1)), np.array(np.moveaxis(b, axis, -1))
    if backwards:
        a, y = a[..., ::-1], y[..., ::-1]
    # Doubling: after the step of stride d, y has the sums and a the products of the last 2 d terms.
    d, n = 1, y.shape[-1]
    while d < n:
        y[..., d:] += a[..., d:] * y[..., :-d]
        a[..., d:] *= a[..., :-d].copy()
        d *= 2
    if backwards:
        y = y[..., ::-1]
    return np.moveaxis(y, -1, axis)


def _linear_recurrence_jvp(
    primals: Values, outputs: Values, tangents: Tangents, axis: int, backwards: bool
) -> Any:
    (a, _), (a_dot, b_dot) = primals, tangents
    term = None if a_dot is None else mul(a_dot, shift(outputs[0], axis, backwards=backwards))
    return linear_recurrence(a, plus(b_dot, term), axis, backwards=backwards)


def _linear_recurrence_transpose(
    ct: Array, a: Operand, b: Operand, axis: int, backwards: bool
) -> Any:
    assert is_linear(b)
    return None, linear_recurrence(
        shift(a, axis, backwards=not backwards), ct, axis, backwards=not backwards
    )


def _linear_recurrence_batch(
    operands: Values, is_batched: Flags, axis: int, backwards: bool
) -> Any:
    n = next(x.shape[0] for x, b in zip(operands, is_batched, strict=True) if b)
    a, b = (
        x if f else broadcast_to(x, (n, *x.shape))
        for x, f in zip(operands, is_batched, strict=True)
    )
    return linear_recurrence(a, b, axis + 1, backwards=backwards)


linear_recurrence_p = Primitive(
    "linear_recurrence",
    eval=_linear_recurrence_eval,
    aval=lambda a, b, axis, backwards: ShapeDtype(b.shape, np.result_type(a.dtype, b.dtype)),
    jvp=_linear_recurrence_jvp,
    transpose=_linear_recurrence_transpose,
    batch=_linear_recurrence_batch,
    params=("axis", "backwards"),
    flops=counts.twice_per_input,
)


def linear_recurrence(a: Value, b: Value, axis: int, *, backwards: bool = False) -> Any:
    """Solve ``y[k] = a[k] y[k-1] + b[k]`` along an axis (``y[k+1]`` with ``backwards``); equal
    shapes.

    Cost:
        ``log2(n)`` passes over the arrays.
    """
    return bind(linear_recurrence_p, (a, b), (axis, backwards))


# -- product ---------------------------------------------------------------------------------------


def _cumprod_jvp(primals: Values, outputs: Values, tangents: tuple[Array], axis: int) -> Any:
    # See Note [Derivative of a running product].
    (x,), (c,), (t,) = primals, outputs, tangents
    shape = shape_of(x)
    before = add(shift(c, axis), impulse(shape[axis], len(shape), axis, x.dtype))
    return linear_recurrence(x, mul(before, t), axis)


def _cumprod_eval(x: Array, axis: int) -> Any:
    return np.cumprod(x, axis)


cumprod_p = Primitive(
    "cumprod",
    eval=_cumprod_eval,
    aval=lambda x, axis: ShapeDtype(x.shape, np.multiply.reduce(np.empty(0, x.dtype)).dtype),
    jvp=_cumprod_jvp,
    transpose=absent(
        because="cumprod is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    ),
    batch=lambda operands, _, axis: cumprod(operands[0], axis + 1),
    params=("axis",),
    written="np.cumprod({0}, {axis})",
    flops=counts.per_input,
)


def cumprod(x: Value, axis: int) -> Any:
    """Running product along an axis; its derivative is exact with zeros."""
    return bind(cumprod_p, (x,), (axis,))


# -- extremes --------------------------------------------------------------------------------------


def _running_extreme(name: str, ufunc: np.ufunc) -> Primitive:
    def jvp(primals: Values, outputs: Values, tangents: tuple[Array], axis: int) -> Any:
        (x,), (out,), (t,) = primals, outputs, tangents
        shape = shape_of(x)
        places = np.arange(shape[axis]).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        here = where(logical_or(equal(x, out), isnan(x)), places, 0)
        return take_along_axis(t, bind(cummax_p, (here,), (axis,)), axis)

    return Primitive(
        name,
        eval=_accumulate_maximum if ufunc is np.maximum else _accumulate_minimum,
        aval=lambda x, axis: x,
        jvp=jvp,
        transpose=absent(
            because=f"{name} is not linear", instead="differentiate with functrace.vjp instead"
        ),
        batch=lambda operands, _, axis: bind(
            cummax_p if ufunc is np.maximum else cummin_p, operands, (axis + 1,)
        ),
        params=("axis",),
        written=f"np.{ufunc.__name__}.accumulate({{0}}, axis={{axis}})",
        flops=counts.per_input,
    )


def _accumulate_maximum(x: Array, axis: int) -> Any:
    return np.maximum.accumulate(x, axis)


def _accumulate_minimum(x: Array, axis: int) -> Any:
    return np.minimum.accumulate(x, axis)


cummax_p = _running_extreme("cummax", np.maximum)
"""Running maximum; on a tie the later element has the derivative."""
cummin_p = _running_extreme("cummin", np.minimum)
"""Running minimum; on a tie the later element has the derivative."""
