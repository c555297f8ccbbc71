"""Factorizations of ``numpy.linalg`` on traced values, with NumPy's named tuples.

Layer: 3.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError
from functrace.ir.aval import aval_of
from functrace.numpy.arrays.layout import UNKNOWN
from functrace.numpy.arrays.views import laid_out
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, known
from functrace.numpy.protocol.tables import implements
from functrace.ops import eigen, linalg, sorting
from functrace.ops import elementwise as ew
from functrace.ops import qr as orthogonal
from functrace.ops.cholesky import cholesky as factored
from functrace.ops.contraction import swap_last
from functrace.ops.indexing import index_static
from functrace.ops.shaping import convert, reshape
from functrace.tracing.binding import bind

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray

EigResult = type(np.linalg.eig(np.eye(1)))


EighResult = type(np.linalg.eigh(np.eye(1)))


SVDResult = type(np.linalg.svd(np.eye(1)))


QRResult = type(np.linalg.qr(np.eye(1)))


# -- operands ------------------------------------------------------------------------------


def matrices(name: str, x: Operand, *, square: bool = False) -> Arrayed:
    """Return an operand with at least two axes, converted to a LAPACK dtype as NumPy does."""
    x = arrayed(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices in the last two axes" if square else "at least two axes"
        raise ShapeError(
            f"numpy.linalg.{name} needs {what}, got {aval_of(x)}",
            fix=f"pass an array of shape (..., {'n, n' if square else 'm, n'})",
        )
    return inexact(name, x)


def inexact(name: str, x: Arrayed) -> Arrayed:
    """Return an operand converted to a LAPACK dtype, as NumPy does."""
    kind = x.dtype.kind
    if kind in "biu":
        return convert(x, np.float64)
    if x.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise DtypeError(
            f"numpy.linalg.{name} is not defined for {aval_of(x)}",
            fix="convert with x.astype(np.float64)",
        )
    return x


# -- Cholesky and eigenvalues ----


@implements(np.linalg.cholesky)
def cholesky(a: Operand, /, *, upper: bool = False) -> Any:
    """As ``numpy.linalg.cholesky``; the gradient is with respect to the symmetric part of ``a``."""
    a = matrices("cholesky", a, square=True)
    return laid_out(linalg.adjoint(factored(linalg.adjoint(a)))) if upper else factored(a)


def _uplo(name: str, given: str) -> str:
    uplo = str(given).upper()
    if uplo not in ("L", "U"):
        raise ShapeError(
            f"numpy.linalg.{name}: UPLO must be 'L' or 'U', got {given!r}", fix="pass UPLO='L'"
        )
    return uplo


@implements(np.linalg.eigh)
def eigh(a: Operand, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigh``; the gradient is with respect to the symmetric part of ``a``."""
    return EighResult(
        *bind(linalg.eigh_p, (matrices("eigh", a, square=True),), (_uplo("eigh", UPLO),))
    )


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Operand, UPLO: str = "L") -> Any:
    """As ``numpy.linalg.eigvalsh``; the gradient is with respect to the symmetric part of ``a``."""
    return bind(
        linalg.eigvalsh_p, (matrices("eigvalsh", a, square=True),), (_uplo("eigvalsh", UPLO),)
    )


@implements(np.linalg.eig)
def eig(a: Operand) -> Any:
    """As ``numpy.linalg.eig``; derivatives of vectors keep the norm, and the largest element real.

    Raises:
        ConcretizationError: for abstract real matrices before NumPy 2.5: the dtype depends on
            values.
    """
    a = matrices("eig", a, square=True)
    values, vectors = eigen.eig(a)
    if not _ALWAYS_COMPLEX and _are_real(values, a, "eig"):
        return EigResult(_real_part(values, a), _real_part(vectors, a))
    return EigResult(values, vectors)


@implements(np.linalg.eigvals)
def eigvals(a: Operand) -> Any:
    """As ``numpy.linalg.eigvals``.

    Raises:
        ConcretizationError: for abstract real matrices before NumPy 2.5: the dtype depends on
            values.
    """
    a = matrices("eigvals", a, square=True)
    return eigen.eigvals(a) if _ALWAYS_COMPLEX else real_eigvals(a)


def real_eigvals(a: Arrayed) -> Any:
    """Return the eigenvalues of a matrix of floats, as real numbers if all are real."""
    values = eigen.eigvals(a)
    return _real_part(values, a) if _are_real(values, a, "eigvals") else values


_ALWAYS_COMPLEX = np.linalg.eigvals(np.eye(1)).dtype.kind == "c"
"""True if NumPy's results are always complex: since NumPy 2.5."""


def _are_real(values: Arrayed, a: Arrayed, name: str) -> bool:
    if a.dtype.kind == "c":
        return False
    try:
        return not np.any(np.imag(known(values)))
    except ConcretizationError as error:
        raise ConcretizationError(
            f"whether numpy.linalg.{name} of a real matrix is real or complex depends on values, "
            "which are not known here",
            made=error.made,
            fix=f"write np.linalg.{name}(a.astype(complex)), whose result is complex",
        ) from error


def _real_part(x: TracedArray, a: Arrayed) -> Any:
    # NumPy computes in double precision; for float64 operands it returns views of complex results.
    return x.real if a.dtype == np.float64 else ew.positive(convert(ew.real(x), a.dtype))


# -- singular values -------------------------------------------------------------------------------


@implements(np.linalg.svdvals)
def svdvals(x: Operand, /) -> Any:
    """As ``numpy.linalg.svdvals``."""
    return bind(linalg.svdvals_p, (matrices("svdvals", x),))


@implements(np.linalg.svd)
def svd(
    a: Operand, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """As ``numpy.linalg.svd``; vectors are differentiable unless some merely complete a basis."""
    a = matrices("svd", a, square=hermitian)
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    if not compute_uv:
        return bind(linalg.svdvals_p, (a,))
    if not full_matrices or a.shape[-1] == a.shape[-2]:
        return SVDResult(*bind(linalg.svd_p, (a,), (False,)))
    # Vectors that complete a basis have no derivative; the singular values alone do.
    u, _, vh = bind(linalg.svd_p, (a,), (True,))
    return SVDResult(u, bind(linalg.svdvals_p, (a,)), vh)


def _hermitian_svd(a: Arrayed, compute_uv: bool) -> Any:
    last = a.ndim - 2
    if not compute_uv:
        ordered = sorting.sort(ew.absolute(eigvalsh(a)), last)
        return index_static(ordered, (Ellipsis, (None, None, -1)))
    values, vectors = eigh(a)
    signs, sizes = ew.copysign(1.0, values), ew.absolute(values)
    order = index_static(sorting.argsort(sizes, last), (Ellipsis, (None, None, -1)))
    across = reshape(order, (*order.shape[:-1], 1, order.shape[-1]))
    u = sorting.take_along_axis(vectors, across, last + 1, is_permutation=True)
    signs, sizes = [
        sorting.take_along_axis(x, order, last, is_permutation=True) for x in (signs, sizes)
    ]
    turned = ew.mul(u, reshape(convert(signs, a.dtype), across.shape))
    return SVDResult(u, sizes, linalg.adjoint(turned))


# -- QR --------------------------------------------------------------------------------------------


@implements(np.linalg.qr)
def qr(a: Operand, mode: str = "reduced") -> Any:
    """As ``numpy.linalg.qr``, in every mode."""
    if mode in ("f", "full", "e", "economic"):
        advice = (
            " in favor of 'reduced'.\nFor backward compatibility let mode default."
            if mode[0] == "f"
            else "."
        )
        name = "full" if mode[0] == "f" else "economic"
        warnings.warn(
            f"The '{name}' option is deprecated{advice}", DeprecationWarning, stacklevel=4
        )
        mode = "reduced" if mode[0] == "f" else "economic"
    a = matrices("qr", a)
    if mode == "complete" and a.shape[-2] > a.shape[-1]:
        return QRResult(*orthogonal.qr_complete(a))
    if mode in ("raw", "economic"):
        packed, tau = orthogonal.qr_raw(a)
        return (laid_out(swap_last(packed), UNKNOWN), tau) if mode == "raw" else packed
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(
            f"Unrecognized mode '{mode}'", fix="use 'reduced', 'complete', 'r' or 'raw'"
        )
    q, r = orthogonal.qr(a)
    return r if mode == "r" else QRResult(q, r)
