"""Dense matrices: solving, factorizations, functions of matrices, matrix equations; see
`functrace.scipy.linalg`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import Arrayed, arrayed
from functrace.ops import matrix_functions as mf
from functrace.ops import triangular
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import np_linalg
from functrace.scipy.operands import Inexact, Integer, Nested, Numeric, Operand, X
from functrace.tracing.binding import bind
from functrace.typing import Array


def matrices(name: str, x: Operand, *, square: bool = True) -> Any:
    """Return an argument as matrices of floats or complex numbers."""
    made: Any = arrayed(x)
    if made.ndim < 2 or (square and made.shape[-1] != made.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeError(
            f"scipy.linalg.{name} needs {kind}, got shape {made.shape}",
            fix="pass an array of shape (..., n, n)",
        )
    return made if made.dtype.kind in "fc" else made.astype(np.float64)


def together(*arrays: Arrayed) -> list[Any]:
    """Cast arrays to their common dtype."""
    made: list[Any] = list(arrays)
    kind = np.result_type(*[x.dtype for x in made])
    return [x if x.dtype == kind else x.astype(kind) for x in made]


def adjoint(x: Array) -> Any:
    """The conjugate transposes."""
    return np.swapaxes(np.conj(x) if x.dtype.kind == "c" else x, -1, -2)


def right_sides(b: Operand) -> tuple[Any, bool]:
    """Return right-hand sides as columns, and whether there was one vector."""
    made: Any = arrayed(b)
    made = made if made.dtype.kind in "fc" else made.astype(np.float64)
    return (made[:, None], True) if made.ndim == 1 else (made, False)


# -- solving ---------------------------------------------------------------------------------------

_TRANSPOSED: dict[int | str, str] = {0: "N", 1: "T", 2: "C"}


@on_traced(scipy.linalg.solve_triangular)
def solve_triangular(
    a: Numeric[X, "*#b n n"] | Nested,
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve a triangular system, like ``scipy.linalg.solve_triangular``: one triangle of ``a`` is
    read.

    Args:
        a: the matrix, shape (..., n, n).
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        trans: 0 or "N" for ``a x = b``, 1 or "T" for ``a^T x = b``, 2 or "C" for ``a^H x = b``.
        lower: True to read the lower triangle, False for the upper one.
        unit_diagonal: True if the diagonal is all ones; then it is not read.
        overwrite_b, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if trans is none of these, or shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solve_triangular(matrix, x)))(np.array([1.0, 2.0])), 4)
        array([0.25, 0.25])
    """
    matrix = matrices("solve_triangular", a)
    columns, vector = right_sides(b)
    turned = _TRANSPOSED.get(trans, trans)
    if turned not in ("N", "T", "C"):
        raise ShapeError(
            f"solve_triangular: trans={trans!r} is none of 0, 1, 2, 'N', 'T', 'C'",
            fix="leave it out for 'N'",
        )
    if turned != "N":
        matrix, lower = adjoint(matrix) if turned == "C" else np.swapaxes(matrix, -1, -2), not lower
    matrix, columns = together(matrix, columns)
    x = triangular.solve_triangular(matrix, columns, lower=lower, unit=unit_diagonal)
    return x[..., 0] if vector else x


_ASSUMED: dict[str | None, Callable[[Any, bool], Any]] = {
    None: lambda a, lower: a,
    "gen": lambda a, lower: a,
    "banded": lambda a, lower: a,
    "general": lambda a, lower: a,
    "diagonal": lambda a, lower: a * np.eye(a.shape[-1], dtype=a.dtype),
    "tridiagonal": lambda a, lower: np.triu(np.tril(a, 1), -1),
    "upper triangular": lambda a, lower: np.triu(a),
    "lower triangular": lambda a, lower: np.tril(a),
    "sym": lambda a, lower: mirrored(a, lower, lambda x: np.swapaxes(x, -1, -2)),
    "her": lambda a, lower: mirrored(a, lower, adjoint),
    "pos": lambda a, lower: mirrored(a, lower, adjoint),
}
"""Parts of a matrix that are read, by ``assume_a``."""
_ASSUMED.update(
    {
        "symmetric": _ASSUMED["sym"],
        "hermitian": _ASSUMED["her"],
        "positive definite": _ASSUMED["pos"],
    }
)


def mirrored(a: Array, lower: bool, turn: Callable[[Any], Any]) -> Any:
    """Complete a matrix from one triangle; ``turn`` maps it to the other one."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    diagonal = a * np.eye(a.shape[-1], dtype=mf.real_dtype(a))
    return half + turn(half) + (diagonal + turn(diagonal)) / 2


def _assumed(name: str, a: Operand, assume_a: str | None, lower: bool) -> Any:
    if assume_a not in _ASSUMED:
        raise ShapeError(
            f"scipy.linalg.{name}: {assume_a} is not a recognized matrix structure",
            fix="leave assume_a out",
        )
    return _ASSUMED[assume_a](matrices(name, a), lower)


@on_traced(scipy.linalg.solve)
def solve(
    a: Numeric[X, "*#b n n"] | Nested,
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve ``a x = b``, like ``scipy.linalg.solve``; always by LU.

    Args:
        a: the matrix, shape (..., n, n).
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        lower: True to read the lower triangle of a symmetric or Hermitian matrix, False for the
            upper one.
        overwrite_a, overwrite_b, check_finite: accepted for SciPy's signature; they have no effect
            on traced values.
        assume_a: structure of the matrix, which selects the elements that are read: None or
            "general" all; "symmetric", "hermitian" and "positive definite" one triangle;
            "diagonal", "tridiagonal", "upper triangular", "lower triangular" those parts; "banded"
            all.
        transposed: True to solve ``a^T x = b``, for real matrices.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if assume_a is no structure, or shapes do not fit.
        UnsupportedFunctionError: if transposed is True and the matrix is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.solve(matrix, x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    matrix = _assumed("solve", a, assume_a, lower)
    columns, vector = right_sides(b)
    if transposed:
        if matrix.dtype.kind == "c":
            raise UnsupportedFunctionError(
                "scipy.linalg.solve has no transposed=True for complex matrices",
                fix="pass a.T, or a.conj().T",
            )
        matrix = np.swapaxes(matrix, -1, -2)
    matrix, columns = together(matrix, columns)
    x = np_linalg.solve(matrix, columns)
    return x[..., 0] if vector else x


@on_traced(scipy.linalg.inv)
def inv(
    a: Numeric[X, "*b n n"] | Nested,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Inexact[Array, "*b n n"]:
    """Inverse of a matrix, like ``scipy.linalg.inv``; always by LU.

    Args:
        a: the matrix, shape (..., n, n).
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.
        assume_a: structure of the matrix, which selects the elements that are read: None or
            "general" all; "symmetric", "hermitian" and "positive definite" one triangle;
            "diagonal", "tridiagonal", "upper triangular", "lower triangular" those parts; "banded"
            all.
        lower: True to read the lower triangle of a symmetric or Hermitian matrix, False for the
            upper one.

    Returns:
        the inverse, shape (..., n, n), in the dtype of a, integers as float64.

    Raises:
        ShapeError: if assume_a is no structure, or a is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: np.trace(linalg.inv(x)))(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[-0.0826,  0.0579],
               [ 0.0579, -0.1405]])
    """
    return np_linalg.inv(_assumed("inv", a, assume_a, lower))


@on_traced(scipy.linalg.det)
def det(
    a: Numeric[X, "*b n n"] | Nested, overwrite_a: bool = False, check_finite: bool = True
) -> Inexact[Any, "*b"]:
    """Determinant of a matrix, like ``scipy.linalg.det``.

    Args:
        a: the matrix, shape (..., n, n).
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the determinant, shape (...), in the dtype of a, integers as float64.

    Raises:
        ShapeError: if a is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: linalg.det(x))(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[ 3., -1.],
               [-1.,  4.]])
    """
    return np.linalg.det(matrices("det", a))


# -- factorizations --------------------------------------------------------------------------------


@on_traced(scipy.linalg.cholesky)
def cholesky(
    a: Numeric[X, "*b n n"] | Nested,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n n"]:
    """Cholesky factor, like ``scipy.linalg.cholesky``; its derivative is that of the function of
    the symmetric part.

    Args:
        a: a symmetric (Hermitian) positive definite matrix, shape (..., n, n).
        lower: True for the factor l of ``a = l l^H``, False for u of ``a = u^H u``; the triangle of
            a that is read.
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the factor, shape (..., n, n), zero in the other triangle; in the dtype of a, integers as
        float64.

    Raises:
        ShapeError: if a is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: np.sum(linalg.cholesky(x)))(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[0.2063, 0.1746],
               [0.1746, 0.3015]])
    """
    matrix = matrices("cholesky", a)
    return np_linalg.cholesky(matrix) if lower else adjoint(np_linalg.cholesky(adjoint(matrix)))


@on_traced(scipy.linalg.cho_factor)
def cho_factor(
    a: Numeric[X, "*b n n"] | Nested,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Inexact[Array, "*b n n"], bool]:
    """Cholesky factor for `cho_solve`, like ``scipy.linalg.cho_factor``; the other triangle is 0
    (SciPy leaves arbitrary values there).

    Args:
        a: a symmetric (Hermitian) positive definite matrix, shape (..., n, n).
        lower: True for the factor l of ``a = l l^H``, False for u of ``a = u^H u``; the triangle of
            a that is read.
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the factor, shape (..., n, n), in the dtype of a, integers as float64; and lower.

    Raises:
        ShapeError: if a is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> factor, lower = ft.jit(linalg.cho_factor)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(factor, 4)
        array([[2.    , 0.5   ],
               [0.    , 1.6583]])
    """
    return cholesky(a, lower), lower


@on_traced(scipy.linalg.cho_solve)
def cho_solve(
    c_and_lower: tuple[Numeric[X, "*#b n n"] | Nested, Any],
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve with the result of `cho_factor`, like ``scipy.linalg.cho_solve``: two triangular
    solves.

    Args:
        c_and_lower: the factor, shape (..., n, n), and True if it is lower triangular.
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
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.cho_solve(linalg.cho_factor(matrix), x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    c, lower = c_and_lower
    c = matrices("cho_solve", c)
    first = "N" if lower else "C"
    inner = solve_triangular(c, b, first, lower)
    return solve_triangular(c, inner, "C" if lower else "N", lower)


@on_traced(scipy.linalg.lu_factor)
def lu_factor(
    a: Numeric[X, "*b m n"] | Nested, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Inexact[Array, "*b m n"], Integer[Array, "*b k"]]:
    """LU factors for `lu_solve`, like ``scipy.linalg.lu_factor``: both in one matrix, and LAPACK's
    pivots.

    Args:
        a: the matrix, shape (..., m, n).
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the factors, shape (..., m, n), the lower one without its unit diagonal, in the dtype of a,
        integers as float64; and pivots, integers of shape (..., min(m, n)): row i was exchanged
        with row pivots[i].

    Raises:
        ShapeError: if a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> factors, pivots = ft.jit(linalg.lu_factor)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(factors, 4)
        array([[4.  , 1.  ],
               [0.25, 2.75]])
    """
    factors, pivots, _ = mf.lu(matrices("lu_factor", a, square=False))
    return factors, pivots


@on_traced(scipy.linalg.lu_solve)
def lu_solve(
    lu_and_piv: tuple[Numeric[X, "*#b n n"] | Nested, Integer[X, "*#b n"] | Nested],
    b: Numeric[X, "n"] | Numeric[X, "*#b n k"] | Nested,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Inexact[Array, "*b n"] | Inexact[Array, "*b n k"]:
    """Solve with the result of `lu_factor`, like ``scipy.linalg.lu_solve``: two triangular solves.

    Args:
        lu_and_piv: the factors, shape (..., n, n), and the pivots, integers of shape (..., n).
        b: right-hand sides, shape (n,) for one, (..., n, k) for k columns.
        trans: 0 for ``a x = b``, 1 for ``a^T x = b``, 2 for ``a^H x = b``.
        overwrite_b, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        the solution, shape (n,) for a vector b and (..., n, k) for columns; in the common dtype of
        the arguments, integers as float64.

    Raises:
        ShapeError: if trans is none of these, or shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.grad(lambda x: np.sum(linalg.lu_solve(linalg.lu_factor(matrix), x)))(np.array([1.0, 2.0])), 4)
        array([0.1818, 0.2727])
    """
    factors, pivots = lu_and_piv
    factors = matrices("lu_solve", factors)
    columns, vector = right_sides(b)
    factors, columns = together(factors, columns)
    n = factors.shape[-1]
    order = bind(mf.permutation_p, (arrayed(pivots),), (n,))
    rows = mf.permutation_matrix(order, mf.real_dtype(factors))
    if trans == 0:
        x = solve_triangular(factors, rows @ columns, lower=True, unit_diagonal=True)
        x = solve_triangular(factors, x)
    else:
        x = solve_triangular(factors, columns, trans)
        x = np.swapaxes(rows, -1, -2) @ solve_triangular(factors, x, trans, True, True)
    return x[..., 0] if vector else x


@on_traced(scipy.linalg.lu)
def lu(
    a: Numeric[X, "*b m n"] | Nested,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Numeric[Array, "..."], ...]:
    """LU factors ``a = p l u``, like ``scipy.linalg.lu``; the order of rows has no derivative.

    Args:
        a: the matrix, shape (..., m, n).
        permute_l: True to return ``p l`` and u.
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.
        p_indices: True to return p as row positions: ``a = l[p] u``.

    Returns:
        with k = min(m, n): p, shape (..., m, m), or int32 of shape (..., m); l, shape (..., m, k),
        unit lower triangular; u, shape (..., k, n), upper triangular. The factors have the dtype of
        a, integers as float64. With permute_l, two matrices: ``p l`` and u.

    Raises:
        ShapeError: if a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> p, l, u = ft.jit(linalg.lu)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(u, 4)
        array([[4.  , 1.  ],
               [0.  , 2.75]])
    """
    factors, _, order = mf.lu(matrices("lu", a, square=False))
    lower, upper = mf.lu_parts(factors)
    rows = np.swapaxes(mf.permutation_matrix(order, mf.real_dtype(factors)), -1, -2)
    if permute_l:
        return rows @ lower, upper
    return (np.argsort(order, axis=-1).astype(np.int32) if p_indices else rows), lower, upper


@on_traced(scipy.linalg.eigh)
def eigh(
    a: Numeric[X, "*#b n n"] | Nested,
    b: Numeric[X, "*#b n n"] | Nested | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    driver: str | None = None,
) -> Any:
    """Eigenvalues and eigenvectors of ``a v = w b v`` for symmetric a and positive definite b, like
    ``scipy.linalg.eigh``.

    Args:
        a: a symmetric (Hermitian) matrix, shape (..., n, n), of which one triangle is read.
        b: likewise, positive definite; the identity by default.
        lower: True to read the lower triangle.
        eigvals_only: True to return only eigenvalues.
        overwrite_a, overwrite_b, check_finite, driver: accepted for SciPy's signature; they have no
            effect on traced values.
        type: 1 for ``a v = w b v``, 2 for ``a b v = w v``, 3 for ``b a v = w v``.
        subset_by_index: positions of the first and the last eigenvalue to return, in ascending
            order.
        subset_by_value: must be left out: the number of eigenvalues in an interval depends on
            values.

    Returns:
        eigenvalues, shape (..., k), ascending and real; unless eigvals_only is True, a tuple of
        them and the eigenvectors as columns, shape (..., n, k), in the dtype of the argument,
        integers as float64.

    Raises:
        ShapeError: if type is none of these, or a is not square in its last two axes.
        UnsupportedFunctionError: if subset_by_value is given.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> values, vectors = ft.jit(linalg.eigh)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(values, 4)
        array([2.382, 4.618])
    """
    if subset_by_value is not None:
        raise UnsupportedFunctionError(
            "scipy.linalg.eigh with subset_by_value= has results whose shape depends on values",
            fix="take all eigenvalues, or use subset_by_index=",
        )
    matrix = matrices("eigh", a)
    values: Any
    vectors: Any
    if b is None:
        values, vectors = np.linalg.eigh(matrix, "L" if lower else "U")
    else:
        matrix, weight = together(mirrored(matrix, lower, adjoint), matrices("eigh", b))
        factor = cholesky(weight, True) if lower else adjoint(cholesky(weight, False))
        if type == 1:
            half = triangular.solve_triangular(factor, matrix, lower=True)
            values, vectors = np.linalg.eigh(
                triangular.solve_triangular(factor, adjoint(half), lower=True)
            )
        elif type in (2, 3):
            values, vectors = np.linalg.eigh(adjoint(factor) @ matrix @ factor)
        else:
            raise ShapeError(f"eigh: type={type} is none of 1, 2, 3", fix="leave it out for 1")
        vectors = (
            factor @ vectors
            if type == 3
            else triangular.solve_triangular(adjoint(factor), vectors, lower=False)
        )
    if subset_by_index is not None:
        first, last = subset_by_index
        values, vectors = values[..., first : last + 1], vectors[..., first : last + 1]
    return values if eigvals_only else (values, vectors)


@on_traced(scipy.linalg.svd)
def svd(
    a: Numeric[X, "*b m n"] | Nested,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular value decomposition ``a = u diag(s) vh``, like ``scipy.linalg.svd``.

    Args:
        a: the matrix, shape (..., m, n).
        full_matrices: True for square u and vh, False for min(m, n) columns of u and rows of vh.
        compute_uv: False to return only singular values.
        overwrite_a, check_finite, lapack_driver: accepted for SciPy's signature; they have no
            effect on traced values.

    Returns:
        with k = min(m, n): u, shape (..., m, m) or (..., m, k); s, shape (..., k), descending and
        real; vh, shape (..., n, n) or (..., k, n). u and vh have the dtype of a, integers as
        float64. Only s if compute_uv is False.

    Raises:
        ShapeError: if a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> u, s, vh = ft.jit(linalg.svd)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(s, 4)
        array([4.618, 2.382])
    """
    matrix = matrices("svd", a, square=False)
    return (
        tuple(np.linalg.svd(matrix, full_matrices))
        if compute_uv
        else np.linalg.svd(matrix, compute_uv=False)
    )


# -- functions of matrices -------------------------------------------------------------------------


_FORMULAS = {
    "expm": "Matrix exponential, the sum of ``A^k / k!``",
    "cosm": "Matrix cosine ``(expm(i A) + expm(-i A)) / 2``",
    "sinm": "Matrix sine ``(expm(i A) - expm(-i A)) / 2i``",
    "tanm": "Matrix tangent ``cosm(A)^-1 sinm(A)``",
    "coshm": "Hyperbolic matrix cosine ``(expm(A) + expm(-A)) / 2``",
    "sinhm": "Hyperbolic matrix sine ``(expm(A) - expm(-A)) / 2``",
    "tanhm": "Hyperbolic matrix tangent ``coshm(A)^-1 sinhm(A)``",
    "logm": "Principal matrix logarithm, whose exponential is ``A``",
    "sqrtm": "Principal matrix square root, whose square is ``A``",
}


def _function(name: str) -> Any:
    def function(A: Numeric[X, "*b n n"] | Nested) -> Inexact[Array, "*b n n"]:
        return mf.matrix_function(matrices(name, A), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{_FORMULAS[name]}, like ``scipy.linalg.{name}``.

    The derivative is a block of the function of a matrix of twice the size.

    Args:
        A: the matrix, shape (..., n, n).

    Returns:
        the function of it, shape (..., n, n), floating or complex.

    Raises:
        ShapeError: if A is not square in its last two axes.

    Example:
        >>> import numpy as np, scipy.linalg, functrace as ft
        >>> from functrace.scipy import linalg
        >>> x = np.array([[0.5, 0.1], [0.2, 0.4]])
        >>> bool(np.allclose(ft.jit(linalg.{name})(x), scipy.linalg.{name}(x)))
        True
    """
    return on_traced(getattr(scipy.linalg, name))(function)


expm = _function("expm")
cosm = _function("cosm")
sinm = _function("sinm")
tanm = _function("tanm")
coshm = _function("coshm")
sinhm = _function("sinhm")
tanhm = _function("tanhm")
logm = _function("logm")
sqrtm = _function("sqrtm")
