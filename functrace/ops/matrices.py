"""Helpers for the rules of matrix functions: shapes, parts and products of stacks of matrices.

Note [Degenerate spectra]
    The derivative of an eigenvector or singular vector has the factor 1 / (w_j - w_i), which is
    undefined where two values are equal (up to rounding): the vectors are then an arbitrary basis
    of a space. The factor is NaN there. So functions of values alone have correct derivatives, and
    functions of vectors have NaN, never a wrong number: a function such as ``V f(w) V^H`` does have
    a derivative, with f', but it cannot be computed from the derivatives by ``V`` and by ``w``,
    both of which may be 0. The same holds for vectors of singular values that are 0.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, NoRule, Primitive, Values, absent
from functrace.ops.contraction import einsum, swap_last
from functrace.ops.elementwise import absolute, add, conj, div, less_equal, mul, real, sub, where
from functrace.ops.reductions import reduce_max, reduce_sum
from functrace.ops.shaping import reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

Shape = tuple[int, ...]

# -- parts of primitives' records ------------------------------------------------------------------


def not_linear(name: str) -> NoRule:
    """Return the transpose rule of a nonlinear function."""
    return absent(
        because=f"{name} is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    )


def native_batch(primitive_of: Callable[[], Primitive]) -> Any:
    """Return the batch rule of a primitive on one stack, which gets one more axis."""

    def batch(operands: Values, _is_batched: Flags, *params: object) -> Any:
        (stack,) = operands
        return bind(primitive_of(), (stack,), params)

    return batch


def aligned(operands: Values, is_batched: Flags, cores: Sequence[int]) -> tuple[Any, ...]:
    """Insert axes of size 1 after the batch axis, so that stacks broadcast.

    Args:
        operands: arrays whose last ``cores`` axes are one example's, and whose other axes are
            stacks.
    """
    rank = max(
        len(shape_of(x)) - core - b for x, core, b in zip(operands, cores, is_batched, strict=True)
    )
    made: list[Array] = []
    for x, core, b in zip(operands, cores, is_batched, strict=True):
        shape = shape_of(x)
        missing = rank - (len(shape) - core - b)
        made.append(reshape(x, (shape[0], *(1,) * missing, *shape[1:])) if b and missing else x)
    return tuple(made)


def check_square(name: str, x: ShapeDtype) -> None:
    """Check that matrices are square; raises `ShapeError`."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name} needs square matrices in the last two axes, got {x}",
            fix="pass an array of shape (..., n, n)",
        )


def same_square(name: str) -> Any:
    """Return the aval rule of a function from square matrices to matrices of the same size."""

    def aval(x: ShapeDtype, *_params: object) -> ShapeDtype:
        check_square(name, x)
        return x

    return aval


def right_sides_aval(name: str, a: ShapeDtype, b: ShapeDtype) -> ShapeDtype:
    """Infer the solution of ``a x = b`` for stacks of square matrices and of right-hand sides."""
    check_square(name, a)
    try:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        fits = a.shape[-1] == b.shape[-2]
    except (ValueError, IndexError):
        stack, fits = (), False
    if not fits:
        raise ShapeError(
            f"{name} cannot solve {a} for the right-hand sides {b}",
            fix="pass matrices (..., n, n) and right-hand sides (..., n, k), or one vector of "
            "length n",
        )
    return ShapeDtype((*stack, *b.shape[-2:]), np.result_type(a.dtype, b.dtype))


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers, or a real dtype itself."""
    return cast("Any", np.empty(0, dtype)).real.dtype


# -- parts and products ----------------------------------------------------------------------------


def conjugate(x: Array) -> Any:
    """Complex conjugate."""
    return conj(x) if x.dtype.kind == "c" else x


def real_part(x: Array) -> Any:
    """Real part."""
    return real(x) if x.dtype.kind == "c" else x


def adjoint(x: Array | Tracer) -> Any:
    """Conjugate transpose of the matrices of a stack."""
    return swap_last(conj(x) if x.dtype.kind == "c" else x)


def hermitian_part(x: Array) -> Any:
    """(x + x^H) / 2."""
    return mul(add(x, adjoint(x)), 0.5)


def mask(x: Array, weights: np.ndarray[Any, Any]) -> Any:
    """Multiply matrices by constant weights, in the precision of the matrices."""
    return mul(x, weights.astype(real_dtype(x.dtype)))


def half_lower(n: int) -> np.ndarray[Any, Any]:
    """Weights that keep the lower triangle, and half of the diagonal."""
    return np.tri(n, k=-1) + 0.5 * np.eye(n)


def as_row(x: Array) -> Any:
    """Vectors of a stack as rows, (..., 1, n)."""
    shape = shape_of(x)
    return reshape(x, (*shape[:-1], 1, shape[-1]))


def as_column(x: Array) -> Any:
    """Vectors of a stack as columns, (..., n, 1)."""
    return reshape(x, (*shape_of(x), 1))


def diagonal_of(x: Array) -> Any:
    """Main diagonals of square matrices."""
    stack = "abcdefghijklmnopqrstuvwxyz"[: len(shape_of(x)) - 2]
    return einsum(f"{stack}ZZ->{stack}Z", x)


def trace_of_product(x: Array, y: Array) -> Any:
    """tr(x y) of stacks, without computing the product."""
    product = mul(swap_last(x), y)
    return reduce_sum(product, last_two(product))


def last_two(x: Array) -> tuple[int, int]:
    """The axes of the matrices of a stack."""
    rank = len(shape_of(x))
    return rank - 2, rank - 1


# -- equal values ----------------------------------------------------------------------------------


def _rounding(w: Array, n: int) -> Any:
    """Return the rounding tolerance for equal values of a spectrum, shape (..., 1)."""
    size = reduce_max(absolute(w), (len(shape_of(w)) - 1,))
    return reshape(mul(size, n * float(np.finfo(real_dtype(w.dtype)).eps)), (*shape_of(size), 1))


def gaps_inverse(w: Array) -> Any:
    """1 / (w_j - w_i); NaN where they are equal, 0 on the diagonal. See Note [Degenerate
    spectra].
    """
    n = shape_of(w)[-1]
    gap = sub(as_row(w), as_column(w))
    if not n:
        return gap
    same = less_equal(absolute(gap), as_row(_rounding(w, n)))
    off = where(same, math.nan, div(1.0, where(same, 1.0, gap)))
    return where(np.eye(n, dtype=bool), 0.0, off)


def inverse_or_nan(s: Array, n: int) -> Any:
    """1 / s for singular values of matrices of size ``n``; NaN where they are 0."""
    if not shape_of(s)[-1]:
        return s
    zero = less_equal(s, _rounding(s, n))
    return where(zero, math.nan, div(1.0, where(zero, 1.0, s)))
