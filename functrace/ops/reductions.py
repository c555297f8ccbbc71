"""Reductions over axes.

Every reduction is a primitive with parameters ``axes`` (sorted, non-negative) and no ``keepdims``:
the NumPy layer reshapes for ``keepdims=True``.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import LINEAR, ZERO, Flags, Primitive, Rule, Values, absent
from functrace.ir.symbolic_numbers import computed
from functrace.ops import counts
from functrace.ops.elementwise import (
    ELEMENTWISE,
    add,
    conj,
    div,
    equal,
    exp,
    mul,
    real,
    square,
    sub,
    where,
)
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Axes = tuple[int, ...]


def kept_shape(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Shape with the reduced axes kept as size 1."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def dropped_shape(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Shape without the reduced axes."""
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def expand_reduced(y: Value, shape: tuple[int, ...], axes: Axes) -> Any:
    """Restore reduced axes with size 1, so that the result broadcasts against the operand."""
    return reshape(y, kept_shape(shape, axes))


def expand_to(y: Value, shape: tuple[int, ...], axes: Axes) -> Any:
    """Broadcast a reduced result back over the reduced axes."""
    return broadcast_to(y if shape_of(y) == () else expand_reduced(y, shape, axes), shape)


def keeping(reduce: Callable[[Any, Axes], Any], x: Value, axes: Axes) -> Any:
    """Reduce with kept axes of size 1, for derivatives that use the result."""
    shape = shape_of(x)
    others = tuple(k for k in range(len(shape)) if k not in axes)
    apart = reshape(
        permute(x, (*others, *axes)), (*kept_shape(shape, axes), *(shape[k] for k in axes))
    )
    return reduce(apart, tuple(range(len(shape), len(shape) + len(axes))))


def shift_axes(primitive_of: Callable[[], Primitive]) -> Any:
    """Return the batch rule of a reduction: the same one, with axes shifted past the batch axis."""

    def batch(operands: Values, _is_batched: Flags, axes: Axes) -> Any:
        return bind(primitive_of(), operands, (tuple(k + 1 for k in axes),))

    return batch


def _sum_aval(x: ShapeDtype, axes: Axes) -> ShapeDtype:
    dtype = np.add.reduce(np.zeros(0, x.dtype)).dtype
    return ShapeDtype(dropped_shape(x.shape, axes), dtype)


reduce_sum_p = Primitive(
    "reduce_sum",
    eval=lambda x, axes: np.add.reduce(x, axis=axes),
    aval=_sum_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, axes: (expand_to(ct, x.shape, axes),),
    batch=shift_axes(lambda: reduce_sum_p),
    params=("axes",),
    written="np.sum({0}, axis={axes})",
    flops=counts.per_input,
)


def reduce_sum(x: Value, axes: Axes) -> Any:
    """Sum over axes (sorted, non-negative)."""
    return bind(reduce_sum_p, (x,), (axes,)) if axes else x


def count(shape: tuple[int, ...], axes: Axes) -> int:
    """Number of elements that a reduction over ``axes`` combines."""
    return math.prod(shape[k] for k in axes)


# -- product ---------------------------------------------------------------------------------------


def merge_reduced(x: Value, axes: Axes) -> Any:
    """Move the reduced axes to the end and merge them into one."""
    shape = shape_of(x)
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    return reshape(permute(x, (*kept, *axes)), (*dropped_shape(shape, axes), count(shape, axes)))


def _prod_jvp(primals: Values, _outputs: Values, tangents: tuple[Array], axes: Axes) -> Any:
    """Multiply (value, tangent) pairs in a tree: exact with zeros, to all orders."""
    n = count(primals[0].shape, axes)
    if n == 0:
        return None
    x, t = merge_reduced(primals[0], axes), merge_reduced(tangents[0], axes)
    odd: tuple[Any, Any] | None = None
    while n > 1:
        half = n // 2
        if n % 2:
            last = _part(x, n - 1, n), _part(t, n - 1, n)
            odd = last if odd is None else _times(odd, last)
        x, t = _times(
            (_part(x, 0, half), _part(t, 0, half)),
            (_part(x, half, 2 * half), _part(t, half, 2 * half)),
        )
        n = half
    if odd is not None:
        x, t = _times((x, t), odd)
    return reshape(t, shape_of(t)[:-1])


def _part(x: Array, start: int, stop: int) -> Any:
    return index_static(x, (Ellipsis, (start, stop, None)))


def _times(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    (x, s), (y, t) = left, right
    return mul(x, y), add(mul(s, y), mul(x, t))


def _reducing_aval(ufunc: np.ufunc) -> Rule:
    def aval(x: ShapeDtype, axes: Axes) -> ShapeDtype:
        return ShapeDtype(dropped_shape(x.shape, axes), ufunc.reduce(np.ones(1, x.dtype)).dtype)

    return aval


_NOT_LINEAR = absent(
    because="this reduction is not linear",
    instead="differentiate with functrace.vjp or functrace.grad",
)

reduce_prod_p = Primitive(
    "reduce_prod",
    eval=lambda x, axes: np.multiply.reduce(x, axis=axes),
    aval=_reducing_aval(np.multiply),
    jvp=_prod_jvp,
    transpose=_NOT_LINEAR,
    batch=shift_axes(lambda: reduce_prod_p),
    params=("axes",),
    written="np.prod({0}, axis={axes})",
    flops=counts.per_input,
)


def reduce_prod(x: Value, axes: Axes) -> Any:
    """Product over axes; its derivatives are exact with zeros."""
    return bind(reduce_prod_p, (x,), (axes,))


# -- extremes --------------------------------------------------------------------------------------


def _extreme_aval(x: ShapeDtype, axes: Axes) -> ShapeDtype:
    if count(x.shape, axes) == 0 and math.prod(dropped_shape(x.shape, axes)):
        raise ShapeError(
            f"the maximum or minimum of no elements ({x}) is not defined", fix="pass initial="
        )
    return ShapeDtype(dropped_shape(x.shape, axes), x.dtype)


def _extreme_jvp(primals: Values, outputs: Values, tangents: tuple[Array], axes: Axes) -> Any:
    """Split the derivative evenly among ties."""
    (x,), (out,), (t,) = primals, outputs, tangents
    is_best = convert(equal(x, expand_reduced(out, x.shape, axes)), x.dtype)
    share = div(is_best, expand_reduced(reduce_sum(is_best, axes), x.shape, axes))
    return reduce_sum(mul(t, share), axes)


reduce_max_p = Primitive(
    "reduce_max",
    eval=lambda x, axes: np.maximum.reduce(x, axis=axes),
    aval=_extreme_aval,
    jvp=_extreme_jvp,
    transpose=_NOT_LINEAR,
    batch=shift_axes(lambda: reduce_max_p),
    params=("axes",),
    written="np.max({0}, axis={axes})",
    flops=counts.per_input,
)
reduce_min_p = Primitive(
    "reduce_min",
    eval=lambda x, axes: np.minimum.reduce(x, axis=axes),
    aval=_extreme_aval,
    jvp=_extreme_jvp,
    transpose=_NOT_LINEAR,
    batch=shift_axes(lambda: reduce_min_p),
    params=("axes",),
    written="np.min({0}, axis={axes})",
    flops=counts.per_input,
)
EXTREMES = frozenset({reduce_max_p, reduce_min_p})


def reduce_max(x: Value, axes: Axes) -> Any:
    """Maximum over axes; NaN propagates."""
    return bind(reduce_max_p, (x,), (axes,))


def reduce_min(x: Value, axes: Axes) -> Any:
    """Minimum over axes; NaN propagates."""
    return bind(reduce_min_p, (x,), (axes,))


# -- truth and positions ---------------------------------------------------------------------------

_PIECEWISE = absent(
    because="the result is a truth value or a position, without derivative", instead="leave it out"
)


def _bool_aval(x: ShapeDtype, axes: Axes) -> ShapeDtype:
    return ShapeDtype(dropped_shape(x.shape, axes), np.bool_)


reduce_any_p = Primitive(
    "reduce_any",
    eval=lambda x, axes: np.logical_or.reduce(x, axis=axes),
    aval=_bool_aval,
    jvp=ZERO,
    transpose=_PIECEWISE,
    batch=shift_axes(lambda: reduce_any_p),
    params=("axes",),
    written="np.any({0}, axis={axes})",
    flops=counts.per_input,
)
reduce_all_p = Primitive(
    "reduce_all",
    eval=lambda x, axes: np.logical_and.reduce(x, axis=axes),
    aval=_bool_aval,
    jvp=ZERO,
    transpose=_PIECEWISE,
    batch=shift_axes(lambda: reduce_all_p),
    params=("axes",),
    written="np.all({0}, axis={axes})",
    flops=counts.per_input,
)


def reduce_any(x: Value, axes: Axes) -> Any:
    """Return True where any element over the axes is true."""
    return bind(reduce_any_p, (x,), (axes,))


def reduce_all(x: Value, axes: Axes) -> Any:
    """Return True where all elements over the axes are true."""
    return bind(reduce_all_p, (x,), (axes,))


def _argument_aval(x: ShapeDtype, axis: int) -> ShapeDtype:
    if x.shape[axis] == 0:
        raise ShapeError(
            f"the position of the best of no elements ({x}) is not defined", fix="give it elements"
        )
    return ShapeDtype(dropped_shape(x.shape, (axis,)), np.intp)


argmax_p = Primitive(
    "argmax",
    eval=lambda x, axis: np.argmax(x, axis),
    aval=_argument_aval,
    jvp=ZERO,
    transpose=_PIECEWISE,
    batch=lambda operands, _, axis: argmax(operands[0], axis + 1),
    params=("axis",),
    written="np.argmax({0}, {axis})",
    flops=counts.per_input,
)
argmin_p = Primitive(
    "argmin",
    eval=lambda x, axis: np.argmin(x, axis),
    aval=_argument_aval,
    jvp=ZERO,
    transpose=_PIECEWISE,
    batch=lambda operands, _, axis: argmin(operands[0], axis + 1),
    params=("axis",),
    written="np.argmin({0}, {axis})",
    flops=counts.per_input,
)


def argmax(x: Value, axis: int) -> Any:
    """Position of the (first) maximum along an axis."""
    return bind(argmax_p, (x,), (axis,))


def argmin(x: Value, axis: int) -> Any:
    """Position of the (first) minimum along an axis."""
    return bind(argmin_p, (x,), (axis,))


# -- softmax and its logarithm ---------------------------------------------------------------------


def _softmax_eval(x: Array, axis: int) -> Any:
    return softmax_below(x, np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf), axis)


def softmax_below(x: Array, largest: Array, axis: int) -> Array:
    """Return `softmax` of an array whose maxima along the axis are known."""
    e: Array = np.subtract(x, largest)
    np.exp(e, out=e)
    return np.divide(e, np.add.reduce(e, axis, keepdims=True), out=e)


def _softmax_jvp(_primals: Values, outputs: Values, tangents: tuple[Array], axis: int) -> Any:
    (out,), (t,) = outputs, tangents
    mean = reduce_sum(mul(t, out), (axis,))
    return mul(out, sub(t, expand_reduced(mean, out.shape, (axis,))))


softmax_p = Primitive(
    "softmax",
    eval=_softmax_eval,
    aval=lambda x, axis: x,
    jvp=_softmax_jvp,
    transpose=absent(
        because="softmax is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=lambda operands, _, axis: softmax(operands[0], axis + 1),
    params=("axis",),
)


def softmax(x: Value, axis: int) -> Any:
    """Compute ``exp(x) / sum(exp(x))`` along an axis, without overflow, for floats."""
    return bind(softmax_p, (x,), (axis,))


def _log_softmax_eval(x: Array, axis: int) -> Any:
    shifted: Array = np.subtract(x, np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
    total = np.add.reduce(np.exp(shifted), axis, keepdims=True)
    return np.subtract(shifted, np.log(total, out=total), out=shifted)


def _log_softmax_jvp(_primals: Values, outputs: Values, tangents: tuple[Array], axis: int) -> Any:
    (out,), (t,) = outputs, tangents
    mean = reduce_sum(mul(t, exp(out)), (axis,))
    return sub(t, expand_reduced(mean, out.shape, (axis,)))


log_softmax_p = Primitive(
    "log_softmax",
    eval=_log_softmax_eval,
    aval=lambda x, axis: x,
    jvp=_log_softmax_jvp,
    transpose=absent(
        because="log_softmax is not linear", instead="differentiate with functrace.vjp instead"
    ),
    batch=lambda operands, _, axis: log_softmax(operands[0], axis + 1),
    params=("axis",),
)


def log_softmax(x: Value, axis: int) -> Any:
    """Compute the logarithm of `softmax`, for floats."""
    return bind(log_softmax_p, (x,), (axis,))


# -- derivatives that use the results --------------------------------------------------------------


def _logsumexp_eval(x: Array, axes: Axes) -> Any:
    peak = (
        np.maximum.reduce(x, axis=axes, keepdims=True, initial=-math.inf)
        if x.dtype.kind == "f"
        else _largest(x, axes)
    )
    peak = np.where(np.isfinite(peak), peak, x.dtype.type(0))
    total = np.add.reduce(np.exp(np.subtract(x, peak)), axis=axes)
    return np.add(np.log(total), peak.reshape(np.shape(total)))


def _largest(x: Array, axes: Axes) -> Any:
    return (
        np.maximum.reduce(x, axis=axes, keepdims=True)
        if x.size
        else np.zeros(kept_shape(x.shape, axes), x.dtype)
    )


def _logsumexp_jvp(primals: Values, outputs: Values, tangents: tuple[Array], axes: Axes) -> Any:
    (x,), (out,), (t,) = primals, outputs, tangents
    return reduce_sum(mul(t, exp(sub(x, expand_reduced(out, x.shape, axes)))), axes)


logsumexp_p = Primitive(
    "logsumexp",
    eval=_logsumexp_eval,
    aval=lambda x, axes: ShapeDtype(
        dropped_shape(x.shape, axes), np.exp(np.zeros(0, x.dtype)).dtype
    ),
    jvp=_logsumexp_jvp,
    transpose=_NOT_LINEAR,
    batch=shift_axes(lambda: logsumexp_p),
    params=("axes",),
    flops=counts.twice_per_input,
)


def logsumexp(x: Value, axes: Axes) -> Any:
    """Compute ``log(sum(exp(x)))`` over axes without overflow, for floats; -inf for no elements, or
    all -inf."""
    return bind(logsumexp_p, (x,), (axes,))


def _same_as_result_eval(x: Array, value: Array) -> Any:
    if not np.ndim(value):
        return np.isnan(x) if value != value else np.equal(x, value)
    return np.equal(x, value) | (np.not_equal(x, x) & np.not_equal(value, value))


same_p = Primitive(
    "same",
    eval=_same_as_result_eval,
    aval=lambda x, value: ShapeDtype(np.broadcast_shapes(x.shape, value.shape), np.bool_),
    jvp=ZERO,
    transpose=_PIECEWISE,
    batch=ELEMENTWISE,
)
"""True where elements are equal; nan equals nan."""


def _shared_jvp(
    primals: Values, outputs: Values, tangents: tuple[Array | None, Array | None]
) -> Any:
    (x, _), (out,), (t, _) = primals, outputs, tangents
    if t is None:
        return None
    shape = shape_of(out)
    axes = tuple(range(len(shape), x.ndim))
    if shape:
        out = reshape(out, (*shape, *(1 for _ in axes)))
    is_one = bind(same_p, (x, out))
    return div(reduce_sum(where(is_one, t, 0.0), axes), reduce_sum(convert(is_one, x.dtype), axes))


def _shared_batch(operands: tuple[Any, ...], is_batched: tuple[bool, ...]) -> Any:
    size = next(shape_of(v)[0] for v, b in zip(operands, is_batched, strict=True) if b)
    return bind(
        shared_p,
        tuple(
            [
                v if b else broadcast_to(v, (size, *shape_of(v)))
                for v, b in zip(operands, is_batched, strict=True)
            ]
        ),
    )


shared_p = Primitive(
    "shared",
    eval=lambda x, value: np.array(value)[()],
    aval=lambda x, value: value,
    jvp=_shared_jvp,
    transpose=_NOT_LINEAR,
    batch=_shared_batch,
)


def shared(x: Value, value: Value) -> Any:
    """Return extreme values of ``x``, over its last axes; all elements equal to one share its
    derivative.
    """
    return bind(shared_p, (x, value))


def _freedom(count: int, correction: float) -> float:
    return max(count - correction, 0.0)


def _slope(count: int, correction: float) -> float:
    return 2.0 / (count - correction) if count != correction else math.inf


def _mean(x: Value, axes: Axes) -> Any:
    mean = div(reduce_sum(x, axes), computed(float, count(shape_of(x), axes)))
    return expand_reduced(mean, shape_of(x), axes)


def _variance_eval(x: Array, axes: Axes, correction: float) -> Any:
    size = count(x.shape, axes)
    centred = np.subtract(x, np.divide(np.add.reduce(x, axis=axes, keepdims=True), float(size)))
    squares = (
        np.square(centred) if x.dtype.kind != "c" else np.real(centred * np.conjugate(centred))
    )
    total: Any = np.add.reduce(squares, axis=axes)
    return np.divide(total, total.dtype.type(_freedom(size, correction)))


def _variance_jvp(
    primals: Values, _outputs: Values, tangents: tuple[Array], axes: Axes, correction: float
) -> Any:
    (x,), (t,) = primals, tangents
    if correction == math.inf:
        return reduce_sum(mul(t, where(equal(x, _mean(x, axes)), math.nan, math.inf)), axes)
    slope = computed(_slope, count(x.shape, axes), correction)
    centred = sub(x, _mean(x, axes))
    part = mul(t, conj(centred) if x.dtype.kind == "c" else centred)
    return mul(reduce_sum(real(part) if x.dtype.kind == "c" else part, axes), slope)


variance_p = Primitive(
    "variance",
    eval=_variance_eval,
    aval=lambda x, axes, correction: ShapeDtype(
        dropped_shape(x.shape, axes), x.dtype.type(0).real.dtype
    ),
    jvp=_variance_jvp,
    transpose=_NOT_LINEAR,
    batch=lambda operands, _, axes, correction: variance(
        operands[0], tuple(k + 1 for k in axes), correction
    ),
    params=("axes", "correction"),
    flops=counts.twice_per_input,
)


def variance(x: Value, axes: Axes, correction: float) -> Any:
    """Compute ``sum(abs(x - mean)**2) / max(n - correction, 0)`` over axes, for floats.

    The derivative is ``2 / (n - correction) * (x - mean)``, also if the correction exceeds n; for
    an infinite variance it is infinite, and nan where an element is the mean.
    """
    return bind(variance_p, (x,), (axes, correction))


# -- compositions ----------------------------------------------------------------------------------


def squared_deviation(x: Value, mean: Value) -> Any:
    """Compute ``|x - mean|**2``, real for complex numbers."""
    deviation = sub(x, mean)
    return (
        real(mul(deviation, conj(deviation))) if deviation.dtype.kind == "c" else square(deviation)
    )
