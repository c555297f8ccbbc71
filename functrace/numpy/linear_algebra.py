"""``numpy.linalg`` on traced values: solving, factorizations, norms.

Factorizations are primitives of their own (`functrace.ops.linalg`), everything else is composed. Signatures and results are
NumPy's, named tuples included. ``lstsq``, ``eig`` and ``eigvals`` are not here: shapes or dtypes of their results depend on
values.

Floor: 6.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of
from functrace.numpy.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    Operand,
    arrayed,
    axis_tuple,
    exact_axis,
    flattened,
    known,
    normalize_axes,
)
from functrace.numpy.tables import FUNCTIONS, implements
from functrace.numpy.views import laid_out
from functrace.ops import elementwise as ew
from functrace.ops import linalg
from functrace.ops.contraction import matmul_p
from functrace.ops.indexing import index_static
from functrace.ops.reductions import kept_shape, reduce_sum
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.recording import Tracer, bind

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


EighResult = type(np.linalg.eigh(np.eye(1)))


SVDResult = type(np.linalg.svd(np.eye(1)))


QRResult = type(np.linalg.qr(np.eye(1)))


# -- numpy.linalg: operands ------------------------------------------------------------------------------


def _matrices(name: str, x: Operand, *, square: bool = False) -> Arrayed:
    """Return an operand with at least two axes and a dtype that LAPACK has, as NumPy converts it."""
    x = arrayed(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices in the last two axes" if square else "at least two axes"
        raise ShapeError(
            f"numpy.linalg.{name} needs {what}, got {aval_of(x)}",
            fix=f"pass an array of shape (..., {'n, n' if square else 'm, n'})",
        )
    return _inexact(name, x)


def _inexact(name: str, x: Arrayed) -> Arrayed:
    kind = x.dtype.kind
    if kind in "biu":
        return convert(x, np.float64)
    if x.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise DtypeError(f"numpy.linalg.{name} is not defined for {aval_of(x)}", fix="convert with x.astype(np.float64)")
    return x


@implements(np.linalg.solve)
def solve(a: Operand, b: Operand) -> Any:
    """As ``numpy.linalg.solve``: ``b`` is one vector if it has one axis, else a stack of matrices."""
    a, b = _matrices("solve", a, square=True), _inexact("solve", arrayed(b))
    dtype = np.result_type(a.dtype, b.dtype)
    a, b = convert(a, dtype), convert(b, dtype)
    if b.ndim == 0:
        raise ShapeError("numpy.linalg.solve needs right-hand sides, got a scalar", fix="pass a vector or matrices")
    if b.ndim > 1:
        return linalg.solve(a, b)
    x = linalg.solve(a, reshape(b, (*b.shape, 1)))
    return reshape(x, x.shape[:-1])


@implements(np.linalg.inv)
def inv(a: Operand) -> Any:
    """As ``numpy.linalg.inv``."""
    return linalg.inv(_matrices("inv", a, square=True))


@implements(np.linalg.det)
def det(a: Operand) -> Any:
    """As ``numpy.linalg.det``; the gradient is right for singular matrices, too."""
    return linalg.det(_matrices("det", a, square=True))


@implements(np.linalg.slogdet)
def slogdet(a: Operand) -> Any:
    """As ``numpy.linalg.slogdet``."""
    return SlogdetResult(*bind(linalg.slogdet_p, (_matrices("slogdet", a, square=True),)))


@implements(np.linalg.cholesky)
def cholesky(a: Operand, /, *, upper: bool = False) -> Any:
    """As ``numpy.linalg.cholesky``; the gradient is that of the symmetric part of ``a``."""
    a = _matrices("cholesky", a, square=True)
    return laid_out(linalg.adjoint(linalg.cholesky(linalg.adjoint(a)))) if upper else linalg.cholesky(a)


def _uplo(name: str, given: str) -> str:
    uplo = str(given).upper()
    if uplo not in ("L", "U"):
        raise ShapeError(f"numpy.linalg.{name}: UPLO must be 'L' or 'U', got {given!r}", fix="pass UPLO='L'")
    return uplo


@implements(np.linalg.eigh)
def eigh(a: Operand, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigh``; the gradient is that of the symmetric part of ``a``."""
    return EighResult(*bind(linalg.eigh_p, (_matrices("eigh", a, square=True),), (_uplo("eigh", UPLO),)))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Operand, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigvalsh``; the gradient is that of the symmetric part of ``a``."""
    return bind(linalg.eigvalsh_p, (_matrices("eigvalsh", a, square=True),), (_uplo("eigvalsh", UPLO),))


@implements(np.linalg.svdvals)
def svdvals(x: Operand, /) -> Any:
    """As ``numpy.linalg.svdvals``."""
    return bind(linalg.svdvals_p, (_matrices("svdvals", x),))


@implements(np.linalg.svd)
def svd(a: Operand, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """As ``numpy.linalg.svd``; the vectors have a derivative if there are none that merely complete a basis."""
    a = _matrices("svd", a)
    if hermitian:
        raise UnsupportedFunctionError(
            "numpy.linalg.svd with hermitian=True has no implementation on traced values",
            fix="leave hermitian out, or use np.linalg.eigh",
        )
    if not compute_uv:
        return bind(linalg.svdvals_p, (a,))
    if not full_matrices or a.shape[-1] == a.shape[-2]:
        return SVDResult(*bind(linalg.svd_p, (a,), (False,)))
    # Vectors that complete a basis have no derivative; the values on their own do.
    u, _, vh = bind(linalg.svd_p, (a,), (True,))
    return SVDResult(u, bind(linalg.svdvals_p, (a,)), vh)


@implements(np.linalg.qr)
def qr(a: Operand, mode: str = "reduced") -> Any:
    """As ``numpy.linalg.qr``, in the modes ``reduced`` and ``r``."""
    a = _matrices("qr", a)
    if mode == "complete" and a.shape[-2] <= a.shape[-1]:
        mode = "reduced"
    if mode not in ("reduced", "r"):
        raise UnsupportedFunctionError(
            f"numpy.linalg.qr with mode={mode!r} has no implementation on traced values", fix="use mode='reduced'"
        )
    q, r = bind(linalg.qr_p, (a,))
    return QRResult(q, r) if mode == "reduced" else r


@implements(np.linalg.pinv)
def pinv(
    a: Operand, rcond: float | Arrayed | None = None, hermitian: bool = False, *, rtol: float | Arrayed | None = NOT_GIVEN
) -> Any:
    """As ``numpy.linalg.pinv``; the derivative holds where the rank does not change."""
    a = _matrices("pinv", a)
    if rtol is not NOT_GIVEN:
        if rcond is not None:
            raise ShapeError("numpy.linalg.pinv: rtol and rcond cannot both be set", fix="pass one of them")
        rcond = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    if isinstance(rcond, Tracer) or (rcond is not None and np.ndim(rcond)):
        raise UnsupportedFunctionError(
            "numpy.linalg.pinv of traced values needs one number for rcond", fix="pass a Python float"
        )
    return bind(linalg.pinv_p, (a,), (None if rcond is None else float(rcond), bool(hermitian)))


# -- numpy.linalg: compositions --------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def matrix_power(a: Operand, n: SupportsIndex) -> Any:
    """As ``numpy.linalg.matrix_power``, by repeated squaring."""
    a, n = arrayed(a), operator.index(n)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"matrix_power needs square matrices, got {aval_of(a)}", fix="pass shape (..., n, n)")
    if n == 0:
        return broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else bind(matmul_p, (result, a))
        n >>= 1
        if n:
            a = bind(matmul_p, (a, a))
    return result


@implements(np.linalg.tensorinv)
def tensorinv(a: Operand, ind: int = 2) -> Any:
    """As ``numpy.linalg.tensorinv``: the inverse for ``tensordot`` over ``ind`` axes."""
    a = arrayed(a)
    if ind <= 0:
        raise ShapeError(f"tensorinv needs a positive ind, got {ind}", fix="pass ind=2, or the number of leading axes")
    leading, trailing = a.shape[:ind], a.shape[ind:]
    result = inv(reshape(a, (math.prod(leading), math.prod(trailing))))
    return reshape(result, (*trailing, *leading))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Operand, b: Operand, axes: Sequence[int] | None = None) -> Any:
    """As ``numpy.linalg.tensorsolve``: solve ``tensordot(a, x, x.ndim) = b``."""
    a, b = arrayed(a), arrayed(b)
    if axes is not None:
        last = tuple(k % a.ndim for k in axes)
        a = permute(a, (*(k for k in range(a.ndim) if k not in last), *last))
    shape = a.shape[b.ndim :]
    if a.size != math.prod(shape) ** 2 or b.size != math.prod(shape):
        raise ShapeError(
            f"tensorsolve: {aval_of(a)} is not square for the right-hand side {aval_of(b)}",
            fix="prod(a.shape[b.ndim:]) must equal prod(a.shape[:b.ndim])",
        )
    return reshape(solve(reshape(a, (b.size, math.prod(shape))), flattened(b)), shape)


# -- norms ---------------------------------------------------------------------------------------------


@implements(np.linalg.norm, scalars=True)
def norm(x: Operand, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """As ``numpy.linalg.norm``; the derivative of every norm at 0 is 0."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    if axis is None:
        if ord is None:
            axes = tuple(range(x.ndim))
            return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
        axes = tuple(range(x.ndim))
    else:
        several: Any = exact_axis(axis) if isinstance(axis, tuple) else (axis,)
        axes = axis_tuple(several, x.ndim)
    if len(axes) == 1:
        result = _vector_norm(x, ord, axes[0])
    elif len(axes) == 2:
        result = _matrix_norm(x, ord, *axes)
    else:
        raise ShapeError(
            f"numpy.linalg.norm with ord={ord!r} is defined along one or two axes, not {len(axes)}", fix="pass axis="
        )
    return _keep(result, x.shape, axes, keepdims)


def _keep(result: Arrayed, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    return reshape(result, kept_shape(shape, axes)) if keepdims else result


def _unknown_order(ord: float | str | None, what: str) -> ShapeError:
    return ShapeError(
        f"numpy.linalg.norm: ord={ord!r} is not defined for {what}",
        fix="vectors take None and any number; matrices None, 'fro', 'nuc', 1, -1, 2, -2, inf, -inf",
    )


def _vector_norm(x: Arrayed, ord: float | str | None, axis: int) -> Any:
    if isinstance(ord, str):
        raise _unknown_order(ord, "vectors")
    if isinstance(ord, Tracer):
        raise UnsupportedFunctionError("numpy.linalg.norm needs a plain ord", fix="write the sum of powers yourself")
    if ord is None or ord == 2:
        return linalg.euclidean_norm(x, (axis,))
    size = ew.absolute(x)
    if ord == np.inf:
        return FUNCTIONS[np.max](size, axis=axis)
    if ord == -np.inf:
        return FUNCTIONS[np.min](size, axis=axis)
    if ord == 0:
        return reduce_sum(convert(ew.not_equal(x, 0), size.dtype), (axis,))
    if ord == 1:
        return reduce_sum(size, (axis,))
    total = reduce_sum(ew.power(size, float(ord)), (axis,))
    # total ** (1 / ord) has an infinite slope at 0; where all elements are 0, so are norm and derivative.
    zero = ew.equal(total, 0)
    if ord < 0:
        return ew.power(total, 1.0 / float(ord))
    return ew.where(zero, 0.0, ew.power(ew.where(zero, 1.0, total), 1.0 / float(ord)))


def _matrix_norm(x: Arrayed, ord: float | str | None, row: int, column: int) -> Any:
    if row == column:
        raise ShapeError("numpy.linalg.norm: the two axes of a matrix norm must differ", fix="pass two axes")
    if ord in (None, "fro", "f"):
        return linalg.euclidean_norm(x, tuple(sorted((row, column))))
    if ord in (2, -2, "nuc"):
        rest = tuple(k for k in range(x.ndim) if k not in (row, column))
        values = svdvals(permute(x, (*rest, row, column)))
        if ord == "nuc":
            return reduce_sum(values, (values.ndim - 1,))
        return (FUNCTIONS[np.max] if ord == 2 else FUNCTIONS[np.min])(values, axis=-1)
    if ord not in (1, -1, np.inf, -np.inf):
        raise _unknown_order(ord, "matrices")
    along, across = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduce_sum(ew.absolute(x), (along,))
    return (FUNCTIONS[np.max] if ord > 0 else FUNCTIONS[np.min])(sums, axis=across - (across > along))


@implements(np.linalg.vector_norm)
def vector_norm(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, ord: float | str | None = 2) -> Any:
    """As ``numpy.linalg.vector_norm``: over any number of axes, as if flattened."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    axes = normalize_axes(axis, x.ndim)
    if ord == 2:
        return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    kept = tuple(x.shape[k] for k in rest)
    flat = reshape(permute(x, (*axes, *rest)), (math.prod(x.shape[k] for k in axes), *kept))
    return _keep(_vector_norm(flat, ord, 0), x.shape, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """As ``numpy.linalg.matrix_norm``: over the last two axes."""
    return norm(x, axis=(-2, -1), keepdims=keepdims, ord=ord)


@implements(np.linalg.cond)
def cond(x: Operand, p: float | str | None = None) -> Any:
    """As ``numpy.linalg.cond``; a singular matrix raises unless ``p`` is ``None``, 2 or -2."""
    x = _matrices("cond", x)
    if x.size == 0:
        raise ShapeError(f"cond is not defined on empty arrays, got {aval_of(x)}", fix="pass matrices with elements")
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, smallest = index_static(values, (Ellipsis, 0)), index_static(values, (Ellipsis, -1))
        return ew.div(smallest, largest) if p == -2 else ew.div(largest, smallest)
    return ew.mul(norm(x, p, (-2, -1)), norm(inv(x), p, (-2, -1)))


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Operand, tol: Operand | None = None, hermitian: bool = False, *, rtol: Operand | None = None) -> Any:
    """As ``numpy.linalg.matrix_rank``: an integer without derivative, so values must be known."""
    tol, rtol = [None if x is None else known(x) for x in (tol, rtol)]
    return np.linalg.matrix_rank(known(A), tol, hermitian, rtol=rtol)
