"""Banded and tridiagonal matrices; see `functrace.scipy.linalg`.

A banded matrix is given by its diagonals, as in SciPy: ``ab[u + i - j, j] = a[i, j]``; a symmetric
one by those of one triangle.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import arrayed
from functrace.ops import banded
from functrace.scipy.dispatch import on_traced
from functrace.scipy.linalg.dense import cholesky, matrices, right_sides, together
from functrace.scipy.operands import Float, Inexact, Nested, Numeric, X
from functrace.typing import Array


@on_traced(scipy.linalg.solve_banded)
def solve_banded(
    l_and_u: tuple[int, int],
    ab: Numeric[X, "*#b d n"] | Nested,
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve a banded system ``a x = b``, like ``scipy.linalg.solve_banded``; derivatives are banded
    solves, too.

    Args:
        l_and_u: number of diagonals below and above the main one.
        ab: the diagonals, shape (..., l + u + 1, n): ab[u + i - j, j] is a[i, j].
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        overwrite_ab, overwrite_b, check_finite: accepted for SciPy's signature; they have no effect
            on traced values.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ab = np.array([[0.0, 1.0], [4.0, 3.0], [1.0, 0.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solve_banded((1, 1), ab, x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    diagonals = matrices("solve_banded", ab, square=False)
    columns, is_vector = right_sides(b)
    diagonals, columns = together(diagonals, columns)
    x = banded.solve_banded(diagonals, columns, *l_and_u)
    return x[..., 0] if is_vector else x


def _both_triangles(ab: Array, lower: bool) -> Any:
    """Return all diagonals of a Hermitian matrix, from those of one triangle."""
    width, n = ab.shape[-2] - 1, ab.shape[-1]
    rows = ab if lower else ab[..., ::-1, :]  # the main diagonal first, and then the k-th at k
    turned: list[Any] = []
    for k in range(1, width + 1):
        row = np.conj(rows[..., k, :]) if ab.dtype.kind == "c" else rows[..., k, :]
        zeros = np.zeros((*row.shape[:-1], min(k, n)), ab.dtype)
        kept = row[..., : max(n - k, 0)] if lower else row[..., k:]
        turned.append(
            np.concatenate([zeros, kept] if lower else [kept, zeros], axis=-1)[..., None, :]
        )
    one = [rows[..., k : k + 1, :] for k in range(1, width + 1)]
    above, below = (turned, one) if lower else (one, turned)
    diagonal = rows[..., :1, :]
    return np.concatenate([*above[::-1], np.real(diagonal) + 0 * diagonal, *below], axis=-2)


def _dense(ab: Array, lower: int, upper: int) -> Any:
    """Return the dense matrix."""
    n: int = ab.shape[-1]
    i, j = np.arange(n)[:, None], np.arange(n)
    row = upper + i - j
    is_inside = (row >= 0) & (row <= lower + upper)
    return np.where(
        is_inside, ab[..., np.clip(row, 0, lower + upper), np.broadcast_to(j, (n, n))], 0
    )


def _bands(a: Array, otherwise: Array, lower: bool) -> Any:
    """Return the diagonals of a triangle, padded with elements of ``otherwise``."""
    n: int = a.shape[-1]
    width: int = otherwise.shape[-2] - 1
    k, j = np.arange(width + 1)[:, None], np.arange(n)
    i = j + k if lower else j + k - width
    return np.where(
        (i >= 0) & (i < n), a[..., np.clip(i, 0, n - 1), np.broadcast_to(j, i.shape)], otherwise
    )


@on_traced(scipy.linalg.solveh_banded)
def solveh_banded(
    ab: Numeric[X, "*#b d n"] | Nested,
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve a symmetric (Hermitian) banded system, like ``scipy.linalg.solveh_banded``: by LU,
    without a check of positive definiteness.

    Args:
        ab: the diagonals of one triangle, shape (..., u + 1, n): row u is the main one, or row 0 if
            lower is True.
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        overwrite_ab, overwrite_b, check_finite: accepted for SciPy's signature; they have no effect
            on traced values.
        lower: True if ab has the lower triangle.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ab = np.array([[0.0, 1.0], [4.0, 3.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solveh_banded(ab, x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    diagonals = matrices("solveh_banded", ab, square=False)
    width = diagonals.shape[-2] - 1
    return solve_banded((width, width), _both_triangles(diagonals, lower), b)


@on_traced(scipy.linalg.cholesky_banded)
def cholesky_banded(
    ab: Numeric[X, "*b d n"] | Nested,
    overwrite_ab: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b d n"]:
    """Factorize a positive definite banded matrix, like ``scipy.linalg.cholesky_banded``, by the
    dense factorization: n**3 flops.

    Args:
        ab: the diagonals of one triangle, shape (..., u + 1, n): row u is the main one, or row 0 if
            lower is True.
        overwrite_ab, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.
        lower: True for the lower triangle, of the argument and of the factor.

    Returns:
        the diagonals of the factor, shape (..., u + 1, n), in the dtype of ab, integers as float64.

    Raises:
        ShapeError: if ab has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: np.sum(linalg.cholesky_banded(x)))(np.array([[0.0, 1.0], [4.0, 3.0]])), 4)
        array([[1.    , 0.3492],
               [0.2063, 0.3015]])
    """
    diagonals = matrices("cholesky_banded", ab, square=False)
    width = diagonals.shape[-2] - 1
    whole = _dense(_both_triangles(diagonals, lower), width, width)
    return _bands(cholesky(whole, lower), diagonals, lower)


@on_traced(scipy.linalg.cho_solve_banded)
def cho_solve_banded(
    cb_and_lower: tuple[Numeric[X, "*#b d n"] | Nested, Any],
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve with the factor of `cholesky_banded`, like ``scipy.linalg.cho_solve_banded``: two
    banded solves.

    Args:
        cb_and_lower: the diagonals of the factor, shape (..., u + 1, n), and True if it is lower
            triangular.
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        overwrite_b, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> ab = np.array([[0.0, 1.0], [4.0, 3.0]])
        >>> solve = lambda x: linalg.cho_solve_banded((linalg.cholesky_banded(ab), False), x)
        >>> np.round(ft.grad(lambda x: np.sum(solve(x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    factor, lower = cb_and_lower
    diagonals = matrices("cho_solve_banded", factor, square=False)
    columns, is_vector = right_sides(b)
    diagonals, columns = together(diagonals, columns)
    width = diagonals.shape[-2] - 1
    conjugate = np.conj(diagonals) if diagonals.dtype.kind == "c" else diagonals
    here = (width, 0) if lower else (0, width)
    turned = banded.transposed_bands(conjugate, *here)
    steps = [(diagonals, here), (turned, here[::-1])]
    for ab, sizes in steps if lower else steps[::-1]:
        columns = banded.solve_banded(ab, columns, *sizes)
    return columns[..., 0] if is_vector else columns


def _chosen(
    name: str,
    values: Array,
    vectors: Array | None,
    select: str,
    select_range: tuple[int, int] | tuple[float, float] | None,
) -> Any:
    if select in ("a", "all"):
        return values if vectors is None else (values, vectors)
    if select not in ("i", "index"):
        raise UnsupportedFunctionError(
            f"scipy.linalg.{name} with select={select!r} has results whose shape depends on values",
            fix="use select='i'",
        )
    if select_range is None:
        raise ShapeError(
            f"{name}: select='i' needs select_range", fix="pass the first and the last position"
        )
    part = slice(int(select_range[0]), int(select_range[1]) + 1)
    return values[..., part] if vectors is None else (values[..., part], vectors[..., :, part])


def _eigen(
    name: str,
    whole: Array,
    eigvals_only: bool,
    select: str,
    select_range: tuple[int, int] | tuple[float, float] | None,
) -> Any:
    if eigvals_only:
        return _chosen(name, np.linalg.eigvalsh(whole), None, select, select_range)
    values, vectors = np.linalg.eigh(whole)
    return _chosen(name, values, vectors, select, select_range)


@on_traced(scipy.linalg.eig_banded)
def eig_banded(
    a_band: Numeric[X, "*b d n"] | Nested,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | tuple[float, float] | None = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric (Hermitian) banded matrix, like
    ``scipy.linalg.eig_banded``, by the dense matrix: n**3 flops.

    Args:
        a_band: the diagonals of one triangle, shape (..., u + 1, n): row u is the main one, or row
            0 if lower is True.
        lower: True if a_band has the lower triangle.
        eigvals_only: True to return only eigenvalues.
        overwrite_a_band, max_ev, check_finite: accepted for SciPy's signature; they have no effect
            on traced values.
        select: "a" for all eigenvalues, "i" for those at select_range.
        select_range: positions of the first and the last eigenvalue, in ascending order; needed for
            "i".

    Returns:
        eigenvalues, shape (..., k), ascending and real; unless eigvals_only is True, a tuple of
        them and the eigenvectors as columns, shape (..., n, k), in the dtype of the argument,
        integers as float64.

    Raises:
        ShapeError: if select="i" has no select_range, or a_band has fewer than two axes.
        UnsupportedFunctionError: if select="v": the number of eigenvalues in an interval depends on
            values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> values, vectors = ft.jit(linalg.eig_banded)(np.array([[0.0, 1.0], [4.0, 3.0]]))
        >>> np.round(values, 4)
        array([2.382, 4.618])
    """
    diagonals = matrices("eig_banded", a_band, square=False)
    width = diagonals.shape[-2] - 1
    whole = _dense(_both_triangles(diagonals, lower), width, width)
    return _eigen("eig_banded", whole, eigvals_only, select, select_range)


@on_traced(scipy.linalg.eigvals_banded)
def eigvals_banded(
    a_band: Numeric[X, "*b d n"] | Nested,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | tuple[float, float] | None = None,
    check_finite: bool = True,
) -> Float[Array, "*b k"]:
    """Eigenvalues of a symmetric (Hermitian) banded matrix, like ``scipy.linalg.eigvals_banded``,
    by the dense matrix: n**3 flops.

    Args:
        a_band: the diagonals of one triangle, shape (..., u + 1, n): row u is the main one, or row
            0 if lower is True.
        lower: True if a_band has the lower triangle.
        overwrite_a_band, check_finite: accepted for SciPy's signature; they have no effect on
            traced values.
        select: "a" for all eigenvalues, "i" for those at select_range.
        select_range: positions of the first and the last eigenvalue, in ascending order; needed for
            "i".

    Returns:
        eigenvalues, shape (..., k), ascending and real.

    Raises:
        ShapeError: if select="i" has no select_range, or a_band has fewer than two axes.
        UnsupportedFunctionError: if select="v": the number of eigenvalues in an interval depends on
            values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(linalg.eigvals_banded)(np.array([[0.0, 1.0], [4.0, 3.0]])), 4)
        array([2.382, 4.618])
    """
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)


@on_traced(scipy.linalg.eigh_tridiagonal)
def eigh_tridiagonal(
    d: Numeric[X, "n"] | Nested,
    e: Numeric[X, "m"] | Nested,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | tuple[float, float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix, like
    ``scipy.linalg.eigh_tridiagonal``, by the dense matrix: n**3 flops.

    Args:
        d: the diagonal, shape (n,).
        e: the off-diagonal, shape (n - 1,).
        eigvals_only: True to return only eigenvalues.
        select: "a" for all eigenvalues, "i" for those at select_range.
        select_range: positions of the first and the last eigenvalue, in ascending order; needed for
            "i".
        check_finite, tol, lapack_driver: accepted for SciPy's signature; they have no effect on
            traced values.

    Returns:
        eigenvalues, shape (k,), ascending and real; unless eigvals_only is True, a tuple of them
        and the eigenvectors as columns, shape (n, k), in the dtype of the argument, integers as
        float64.

    Raises:
        ShapeError: if select="i" has no select_range, or shapes are not (n,) and (n - 1,).
        UnsupportedFunctionError: if select="v": the number of eigenvalues in an interval depends on
            values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> values, vectors = ft.jit(linalg.eigh_tridiagonal)(np.array([4.0, 3.0]), np.array([1.0]))
        >>> np.round(values, 4)
        array([2.382, 4.618])
    """
    diagonal, beside = together(arrayed(d), arrayed(e))
    n = diagonal.shape[-1]
    if diagonal.ndim != 1 or beside.shape != (n - 1,):
        raise ShapeError(
            f"eigh_tridiagonal of shapes {diagonal.shape} and {beside.shape}",
            fix="pass shapes (n,) and (n - 1,)",
        )
    whole = np.diag(diagonal) + np.diag(beside, -1) + np.diag(beside, 1)
    return _eigen("eigh_tridiagonal", whole, eigvals_only, select, select_range)


@on_traced(scipy.linalg.eigvalsh_tridiagonal)
def eigvalsh_tridiagonal(
    d: Numeric[X, "n"] | Nested,
    e: Numeric[X, "m"] | Nested,
    select: str = "a",
    select_range: tuple[int, int] | tuple[float, float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Float[Array, "k"]:
    """Eigenvalues of a real symmetric tridiagonal matrix, like
    ``scipy.linalg.eigvalsh_tridiagonal``, by the dense matrix: n**3 flops.

    Args:
        d: the diagonal, shape (n,).
        e: the off-diagonal, shape (n - 1,).
        select: "a" for all eigenvalues, "i" for those at select_range.
        select_range: positions of the first and the last eigenvalue, in ascending order; needed for
            "i".
        check_finite, tol, lapack_driver: accepted for SciPy's signature; they have no effect on
            traced values.

    Returns:
        eigenvalues, shape (k,), ascending and real.

    Raises:
        ShapeError: if select="i" has no select_range, or shapes are not (n,) and (n - 1,).
        UnsupportedFunctionError: if select="v": the number of eigenvalues in an interval depends on
            values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(linalg.eigvalsh_tridiagonal)(np.array([4.0, 3.0]), np.array([1.0])), 4)
        array([2.382, 4.618])
    """
    return eigh_tridiagonal(d, e, True, select, select_range)


__all__ = [
    "cho_solve_banded", "cholesky_banded", "eig_banded", "eigh_tridiagonal", "eigvals_banded",
    "eigvalsh_tridiagonal",
    "solve_banded", "solveh_banded",
]  # fmt: skip
