"""Convolution of arrays of any rank, and recursive filters along an axis, for signals and images.

Both take stacks: the leading axes, before those of the operation, broadcast.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, is_linear
from functrace.ops.elementwise import neg, plus, result_dtype, sub
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Shape = tuple[int, ...]
Part = Literal["full", "valid"]
_BACK = (None, None, -1)
_IN_LINES = (np.dtype(np.float64), np.dtype(np.complex128))
"""Dtypes for `_one_line`."""


def reversed_axes(x: Value, axes: int) -> Any:
    """Reverse the last ``axes`` axes."""
    return index_static(x, (Ellipsis, *(_BACK,) * axes)) if axes else x


def summed_to(x: Value, shape: Shape) -> Any:
    """Sum along the axes where ``shape`` has size 1 and ``x`` has not; ranks are equal."""
    axes = tuple([k for k, (n, m) in enumerate(zip(shape_of(x), shape, strict=True)) if n != m])
    return reshape(reduce_sum(x, axes), shape) if axes else x


# -- convolution -----------------------------------------------------------------------------------


def _one_line(x: Array, y: Array, part: Part, axis: int) -> Any:
    """Convolve with an array that is long along one axis only, by SciPy's ndimage."""
    import scipy.ndimage

    m, n = y.shape[axis], x.shape[axis]
    if part == "full":
        x = np.pad(x, [(m - 1, m - 1) if k == axis else (0, 0) for k in range(x.ndim)])
        n += 2 * (m - 1)
    # SciPy conjugates the filter, and its center is element m // 2.
    whole = scipy.ndimage.correlate1d(x, np.conj(y.reshape(-1)[::-1]), axis, mode="constant")
    return np.take(whole, range(m // 2, m // 2 + n - m + 1), axis)


def _convolved(x: Array, y: Array, part: Part) -> Any:
    """Convolve two arrays of one rank; for "valid", ``x`` is the larger one along every axis."""
    if y.size == 1:
        return x * y.reshape(())
    if x.size == 1 and part == "full":
        return y * x.reshape(())
    if x.ndim == 1:
        return np.convolve(x, y, part)
    long = [k for k, n in enumerate(y.shape) if n > 1]
    if len(long) == 1 and x.dtype == y.dtype and x.dtype in _IN_LINES:
        return _one_line(x, y, part, long[0])
    import scipy.signal

    return scipy.signal.convolve(x, y, part, method="direct")


def _convolve_eval(x: Array, y: Array, stack: int, part: Part) -> Any:
    dtype = np.result_type(x, y)
    rest = np.broadcast_shapes(x.shape[:stack], y.shape[:stack])
    if not math.prod(rest):
        return np.zeros(_convolve_shape(x.shape, y.shape, stack, part), dtype)
    x, y = (v if v.dtype == dtype else v.astype(dtype) for v in (x, y))
    if all(n == 1 for n in y.shape[:stack]):
        return np.asarray(_convolved(x, y, part), dtype)
    if part == "full" and all(n == 1 for n in x.shape[:stack]):
        return np.asarray(_convolved(y, x, part), dtype)
    x, y = (np.broadcast_to(v, rest + v.shape[stack:]) for v in (x, y))
    out = np.empty(_convolve_shape(x.shape, y.shape, stack, part), dtype)
    for k in np.ndindex(rest):
        out[k] = _convolved(x[k], y[k], part)
    return out


def _convolve_shape(x: Shape, y: Shape, stack: int, part: Part) -> Shape:
    sizes = zip(x[stack:], y[stack:], strict=True)
    rest = np.broadcast_shapes(x[:stack], y[:stack])
    return (*rest, *[n + m - 1 if part == "full" else n - m + 1 for n, m in sizes])


def _convolve_aval(x: ShapeDtype, y: ShapeDtype, stack: int, part: Part) -> ShapeDtype:
    if x.ndim != y.ndim or stack >= x.ndim or not min((*x.shape[stack:], *y.shape[stack:])):
        raise ShapeError(
            f"cannot convolve {x} and {y}", fix="pass arrays of as many axes, none of them empty"
        )
    shape = _convolve_shape(x.shape, y.shape, stack, part)
    if min(shape[stack:]) < 1:
        raise ShapeError(
            f"cannot convolve {x} and {y} where they overlap wholly",
            fix="pass the larger array first",
        )
    return ShapeDtype(shape, result_dtype(x, y))


def _convolve_jvp(
    primals: Values, _outputs: Values, tangents: Tangents, stack: int, part: Part
) -> Any:
    (x, y), (a, b) = primals, tangents
    first = None if a is None else convolve_grids(a, y, stack, part)
    return plus(first, None if b is None else convolve_grids(x, b, stack, part))


def _convolve_transpose(ct: Array, x: Operand, y: Operand, stack: int, part: Part) -> Any:
    place = 0 if is_linear(x) else 1
    wanted, other = (x, y) if place == 0 else (y, x)
    ones = (1,) * stack
    of_wanted, of_other = wanted.shape[:stack] == ones, shape_of(other)[:stack] == ones
    # Where one of them has a stack of size 1, the convolution below sums or keeps its axes like the
    # others.
    if part == "full":
        merges = place == 1 and (of_wanted or of_other)
    else:
        merges = of_other if place == 0 else of_wanted
    if merges:
        stack = 0
    axes = len(wanted.shape) - stack
    turned = reversed_axes(other, axes)
    if part == "full":
        found = convolve_grids(ct, turned, stack, "valid")
    elif place == 0:
        found = convolve_grids(ct, turned, stack, "full")
    else:
        found = reversed_axes(convolve_grids(other, reversed_axes(ct, axes), stack, "valid"), axes)
    found = summed_to(found, wanted.shape)
    return (found, None) if place == 0 else (None, found)


def _convolve_batch(operands: Values, is_batched: Flags, stack: int, part: Part) -> Any:
    left, right = [
        x if flag else reshape(x, (1, *shape_of(x)))
        for x, flag in zip(operands, is_batched, strict=True)
    ]
    return convolve_grids(left, right, stack + 1, part)


def _convolve_flops(
    inputs: tuple[ShapeDtype, ...], outputs: tuple[ShapeDtype, ...], params: Mapping[str, Any]
) -> int:
    """A multiplication and an addition per element of the result and of the filter, or of the two
    operands.
    """
    stack = params["stack"]
    x, y = inputs
    rest = math.prod(outputs[0].shape[:stack])
    sizes = [
        math.prod(v.shape[stack:]) for v in (outputs[0] if params["part"] == "valid" else x, y)
    ]
    return 2 * rest * math.prod(sizes)


convolve_grids_p = Primitive(
    "convolve_grids",
    eval=_convolve_eval,
    aval=_convolve_aval,
    jvp=_convolve_jvp,
    transpose=_convolve_transpose,
    batch=_convolve_batch,
    params=("stack", "part"),
    flops=_convolve_flops,
)


def convolve_grids(x: Value, y: Value, stack: int = 0, part: Part = "full") -> Any:
    """Convolve arrays of one rank, directly.

        x, y: the first ``stack`` axes broadcast, all others are convolved.
        stack: number of stack axes.
        part: "full", or "valid" for full overlap only; ``x`` is then the larger one along each
            axis.

    Cost:
        the product of the sizes of ``y`` and of the result ("valid") or of ``x`` ("full").
    """
    return bind(convolve_grids_p, (x, y), (stack, part))


# -- recursive filters -----------------------------------------------------------------------------


def _recur_eval(a: Array, x: Array) -> Any:
    from scipy.signal import lfilter

    dtype = np.result_type(a, x)
    rest = np.broadcast_shapes(a.shape[:-1], x.shape[:-1])
    a = np.concatenate([np.ones((*a.shape[:-1], 1), dtype), a], -1)
    one, x = np.ones(1, dtype), np.asarray(x, dtype)
    if all(n == 1 for n in a.shape[:-1]) or not x.size:
        return (
            lfilter(one, a.reshape(-1)[: a.shape[-1]], x)
            if x.size
            else np.zeros((*rest, x.shape[-1]), dtype)
        )
    a, x = np.broadcast_to(a, rest + a.shape[-1:]), np.broadcast_to(x, rest + x.shape[-1:])
    out = np.empty(x.shape, dtype)
    for k in np.ndindex(rest):
        out[k] = lfilter(one, a[k], x[k])
    return out


def _recur_aval(a: ShapeDtype, x: ShapeDtype) -> ShapeDtype:
    if a.ndim != x.ndim or not x.ndim or not a.shape[-1]:
        raise ShapeError(f"cannot filter {x} by {a}", fix="pass arrays of as many axes")
    dtype = result_dtype(a, x)
    return ShapeDtype((*np.broadcast_shapes(a.shape[:-1], x.shape[:-1]), x.shape[-1]), dtype)


def _recur_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (a, _), (y,), (da, dx) = primals, outputs, tangents
    if da is None:
        return recur(a, dx)  # type: ignore[arg-type]  # one of them is there
    n = shape_of(y)[-1]
    if n < 2:
        moved = None
    else:
        stack = len(shape_of(y)) - 1
        late = convolve_grids(index_static(y, (Ellipsis, (None, n - 1, None))), da, stack)
        late = index_static(late, (Ellipsis, (None, n - 1, None)))
        moved = pad_front(late, 1)
    if moved is None:
        return None if dx is None else recur(a, dx)
    return recur(a, neg(moved) if dx is None else sub(dx, moved))


def pad_front(x: Value, count: int) -> Any:
    """Put zeros in front of the last axis."""
    shape = shape_of(x)
    whole = (*shape[:-1], shape[-1] + count)
    return bind(
        embed_p, (x,), ((*((None, None, None),) * (len(shape) - 1), (count, None, None)), whole)
    )


def _recur_transpose(ct: Array, a: Operand, x: Operand) -> Any:
    if is_linear(a):
        raise NotDifferentiableError(
            "a recursive filter is not linear in its coefficients",
            fix="differentiate with functrace.vjp instead",
        )
    return None, summed_to(reversed_axes(recur(a, reversed_axes(ct, 1)), 1), x.shape)


recur_p = Primitive(
    "recur",
    eval=_recur_eval,
    aval=_recur_aval,
    jvp=_recur_jvp,
    transpose=_recur_transpose,
    batch=lambda operands, is_batched: recur(
        *[
            x if flag else reshape(x, (1, *shape_of(x)))
            for x, flag in zip(operands, is_batched, strict=True)
        ]
    ),
    flops=lambda inputs, outputs, _: 2 * outputs[0].size * inputs[0].shape[-1],
)


def recur(a: Value, x: Value) -> Any:
    """Filter along the last axis: ``y[n] = x[n] - sum(a[k] y[n - 1 - k])``.

    Args:
        a: at least one coefficient along the last axis; the axes before it broadcast against those
            of ``x``.
        x: array of the same rank.

    Cost:
        the product of the numbers of coefficients and of elements, in SciPy's loop.
    """
    return bind(recur_p, (a, x))
