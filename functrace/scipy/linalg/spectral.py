"""Orthogonal factors, eigenvalues, singular values …; see `functrace.scipy.linalg`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import scipy.linalg

from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.foreign import pure_callback
from functrace.errors import NotDifferentiableError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.protocol.operands import arrayed
from functrace.ops import matrix_functions as mf
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import np_linalg
from functrace.scipy.linalg.dense import adjoint, eigh, matrices, together
from functrace.scipy.operands import Complex, Float, Inexact, Nested, Numeric, Operand, X
from functrace.tracing.binding import bind
from functrace.typing import Array


def _pivots(a: Array) -> Any:
    found: Any = scipy.linalg.qr(a, mode="r", pivoting=True)
    return found[1].astype(np.int32)


@on_traced(scipy.linalg.qr)
def qr(
    a: Numeric[X, "*b m n"] | Nested,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """QR factors ``a = q r``, like ``scipy.linalg.qr``; the order of columns has no derivative.

    Args:
        a: the matrix, shape (..., m, n).
        overwrite_a, lwork, check_finite: accepted for SciPy's signature; they have no effect on
            traced values.
        mode: "full", "economic", or "r" for the triangular factor alone; "raw" is LAPACK's, for
            plain values.
        pivoting: True to order columns by decreasing diagonals of r, and to return the order p:
            ``a[:, p] = q r``.

    Returns:
        with k = m, or min(m, n) if mode is "economic": q, shape (..., m, k), with orthonormal
        columns; r, shape (..., k, n), upper triangular, both in the dtype of a, integers as
        float64; and p, int32 of shape (..., n), if pivoting is True. A tuple without q if mode is
        "r".

    Raises:
        ShapeError: if a has fewer than two axes.
        UnsupportedFunctionError: if mode is "raw", or no mode.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> q, r = ft.jit(linalg.qr)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(np.abs(r), 4)
        array([[4.1231, 1.6977],
               [0.    , 2.6679]])
    """
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes:
        raise UnsupportedFunctionError(
            f"scipy.linalg.qr of traced values has no mode={mode!r}",
            fix="use mode='full', 'economic' or 'r'",
        )
    matrix = matrices("qr", a, square=False)
    order: Any = None
    if pivoting:
        *stack, _, n = matrix.shape
        order = pure_callback(
            _pivots, ShapeDtype((*stack, n), np.dtype(np.int32)), stop_gradient(matrix)
        )
        matrix = np.take_along_axis(matrix, order[..., None, :], axis=-1)
    if mode == "r":
        upper = np.linalg.qr(matrix, "complete").R
        return (upper,) if order is None else (upper, order)
    q, r = np_linalg.qr(matrix, modes[mode])
    return (q, r) if order is None else (q, r, order)


@on_traced(scipy.linalg.svdvals)
def svdvals(
    a: Numeric[X, "*b m n"] | Nested, overwrite_a: bool = False, check_finite: bool = True
) -> Float[Array, "*b k"]:
    """Singular values, like ``scipy.linalg.svdvals``.

    Args:
        a: the matrix, shape (..., m, n).
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        singular values, shape (..., min(m, n)), descending and real.

    Raises:
        ShapeError: if a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: linalg.svdvals(x)[0])(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[0.7236, 0.4472],
               [0.4472, 0.2764]])
    """
    return np.linalg.svd(matrices("svdvals", a, square=False), compute_uv=False)


@on_traced(scipy.linalg.eigvalsh)
def eigvalsh(
    a: Numeric[X, "*#b n n"] | Nested,
    b: Numeric[X, "*#b n n"] | Nested | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    driver: str | None = None,
) -> Float[Array, "*b k"]:
    """Eigenvalues of ``a v = w b v`` for symmetric a and positive definite b, like
    ``scipy.linalg.eigvalsh``.

    Args:
        a: a symmetric (Hermitian) matrix, shape (..., n, n), of which one triangle is read.
        b: likewise, positive definite; the identity by default.
        lower: True to read the lower triangle.
        overwrite_a, overwrite_b, check_finite, driver: accepted for SciPy's signature; they have no
            effect on traced values.
        type: 1 for ``a v = w b v``, 2 for ``a b v = w v``, 3 for ``b a v = w v``.
        subset_by_index: positions of the first and the last eigenvalue to return, in ascending
            order.
        subset_by_value: must be left out: the number of eigenvalues in an interval depends on
            values.

    Returns:
        eigenvalues, shape (..., k), ascending and real.

    Raises:
        ShapeError: if type is none of these, or a is not square in its last two axes.
        UnsupportedFunctionError: if subset_by_value is given.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: linalg.eigvalsh(x)[0])(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[ 0.2764, -0.4472],
               [-0.4472,  0.7236]])
    """
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


def _no_second(name: str, b: Operand | None, homogeneous: bool) -> None:
    if b is not None or homogeneous:
        raise UnsupportedFunctionError(
            f"scipy.linalg.{name} of traced values takes one matrix",
            fix="pass scipy.linalg.solve(b, a) for a pair",
        )


@on_traced(scipy.linalg.eigvals)
def eigvals(
    a: Numeric[X, "*b n n"] | Nested,
    b: Numeric[X, "*b n n"] | Nested | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Complex[Array, "*b n"]:
    """Eigenvalues of one matrix, like ``scipy.linalg.eigvals``: complex, always.

    Args:
        a: the matrix, shape (..., n, n).
        b, homogeneous_eigvals: must be left out: pairs of matrices are SciPy's, on plain values.
        overwrite_a, check_finite: accepted for SciPy's signature; they have no effect on traced
            values.

    Returns:
        eigenvalues, shape (..., n), complex, in LAPACK's order.

    Raises:
        ShapeError: if a is not square in its last two axes.
        UnsupportedFunctionError: if b is given, or homogeneous_eigvals is True.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(np.sort(ft.jit(linalg.eigvals)(np.array([[4.0, 1.0], [1.0, 3.0]])).real), 4)
        array([2.382, 4.618])
    """
    _no_second("eigvals", b, homogeneous_eigvals)
    return np_linalg.eigvals(matrices("eigvals", a) + 0j)


@on_traced(scipy.linalg.eig)
def eig(
    a: Numeric[X, "*b n n"] | Nested,
    b: Numeric[X, "*b n n"] | Nested | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Eigenvalues and right eigenvectors of one matrix, like ``scipy.linalg.eig``: always complex,
    unlike SciPy.

    Args:
        a: the matrix, shape (..., n, n).
        b, homogeneous_eigvals: must be left out: pairs of matrices are SciPy's, on plain values.
        left: must be False.
        right: False to return only eigenvalues.
        overwrite_a, overwrite_b, check_finite: accepted for SciPy's signature; they have no effect
            on traced values.

    Returns:
        eigenvalues, shape (..., n), complex, in LAPACK's order; and, if right is True, unit
        eigenvectors as columns, shape (..., n, n), complex.

    Raises:
        ShapeError: if a is not square in its last two axes.
        UnsupportedFunctionError: if b is given, or homogeneous_eigvals or left is True.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> values, vectors = ft.jit(linalg.eig)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(np.sort(values.real), 4)
        array([2.382, 4.618])
    """
    _no_second("eig", b, homogeneous_eigvals)
    if left:
        raise UnsupportedFunctionError(
            "scipy.linalg.eig of traced values has no left vectors", fix="take those of a.conj().T"
        )
    matrix = matrices("eig", a) + 0j
    return tuple(np_linalg.eig(matrix)) if right else np_linalg.eigvals(matrix)


@on_traced(scipy.linalg.polar)
def polar(
    a: Numeric[X, "*b m n"] | Nested, side: str = "right"
) -> tuple[Inexact[Array, "*b m n"], Inexact[Array, "*b k k"]]:
    """Polar decomposition into an orthogonal and a positive semidefinite factor, like
    ``scipy.linalg.polar``, by SVD.

    Args:
        a: the matrix, shape (..., m, n).
        side: "right" for ``a = u p``, "left" for ``a = p u``.

    Returns:
        u, shape (..., m, n), and p, shape (..., n, n), or (..., m, m) if side is "left"; in the
        dtype of a, integers as float64.

    Raises:
        ShapeError: if side is neither, or a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> factor, positive = ft.jit(linalg.polar)(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> np.round(positive, 4)
        array([[4., 1.],
               [1., 3.]])
    """
    if side not in ("right", "left"):
        raise ShapeError("`side` must be either 'right' or 'left'", fix="leave it out for 'right'")
    w, s, vh = np.linalg.svd(matrices("polar", a, square=False), full_matrices=False)
    p = (
        (adjoint(vh) * s[..., None, :]) @ vh
        if side == "right"
        else (w * s[..., None, :]) @ adjoint(w)
    )
    return w @ vh, p


@on_traced(scipy.linalg.pinv)
def pinv(
    a: Numeric[X, "*b m n"] | Nested,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Pseudoinverse, like ``scipy.linalg.pinv``, by SVD.

    Args:
        a: the matrix, shape (..., m, n).
        atol, rtol: singular values up to ``atol + rtol * largest`` count as 0; by default atol is 0
            and rtol is max(m, n) times the machine epsilon.
        return_rank: True to return the number of other singular values, too.
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        the pseudoinverse, shape (..., n, m), in the dtype of a, integers as float64; a tuple of it
        and the rank, integers of shape (...), if return_rank is True.

    Raises:
        ShapeError: if a has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: np.trace(linalg.pinv(x)))(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[-0.0826,  0.0579],
               [ 0.0579, -0.1405]])
    """
    matrix = matrices("pinv", a, square=False)
    s = np.linalg.svd(stop_gradient(matrix), compute_uv=False)
    largest = np.max(s, axis=-1, initial=0.0)
    relative = max(matrix.shape[-2:]) * np.finfo(matrix.dtype).eps if rtol is None else rtol
    if atol:
        relative = atol / np.where(largest > 0, largest, 1.0) + relative
    found = np_linalg.pinv(matrix, rcond=relative)
    return (
        (found, np.sum(s > np.expand_dims(relative * largest, -1), axis=-1))
        if return_rank
        else found
    )


@on_traced(scipy.linalg.pinvh)
def pinvh(
    a: Numeric[X, "*b n n"] | Nested,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Pseudoinverse of the symmetric (Hermitian) matrix with one triangle of ``a``, like
    ``scipy.linalg.pinvh``, by SVD.

    Args:
        a: the matrix, shape (..., n, n).
        atol, rtol: absolute eigenvalues up to ``atol + rtol * largest`` count as 0; by default atol
            is 0 and rtol is n times the machine epsilon.
        return_rank: True to return the number of other eigenvalues, too.
        lower: True to read the lower triangle.
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        the pseudoinverse, shape (..., n, n), in the dtype of a, integers as float64; a tuple of it
        and the rank, integers of shape (...), if return_rank is True.

    Raises:
        ShapeError: if a is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(linalg.pinvh)(np.array([[4.0, 1.0], [1.0, 3.0]])), 4)
        array([[ 0.2727, -0.0909],
               [-0.0909,  0.3636]])
    """
    matrix = matrices("pinvh", a)
    half = np.tril(matrix, -1) if lower else np.triu(matrix, 1)
    diagonal = matrix * np.eye(matrix.shape[-1], dtype=mf.real_dtype(matrix))
    return pinv(half + adjoint(half) + diagonal, atol=atol, rtol=rtol, return_rank=return_rank)


@on_traced(scipy.linalg.lstsq)
def lstsq(
    a: Numeric[X, "m n"] | Nested,
    b: Numeric[X, "m"] | Numeric[X, "m k"] | Nested,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    """Least-squares solution of ``a x = b``, like ``scipy.linalg.lstsq``: by `numpy.linalg.lstsq`.

    Args:
        a: the matrix, shape (m, n).
        b: right-hand sides, shape (m,) or (m, k).
        cond: singular values up to cond times the largest one count as 0; the machine epsilon by
            default.
        overwrite_a, overwrite_b, check_finite, lapack_driver: accepted for SciPy's signature; they
            have no effect on traced values.

    Returns:
        the solution of smallest norm, shape (n,) or (n, k); the squared norms of residuals, shape
        () or (k,), empty if the rank is below n or m <= n; the rank; and the singular values of a,
        shape (min(m, n),). In the common dtype of a and b, integers as float64.

    Raises:
        ShapeError: if a has fewer than two axes, or shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.grad(lambda b: linalg.lstsq(matrix, b)[0][0])(np.array([1.0, 2.0])), 4)
        array([ 0.2727, -0.0909])
    """
    matrix = matrices("lstsq", a, square=False)
    right: Any = arrayed(b)
    dtype = np.result_type(matrix.dtype, right.dtype)
    dtype = dtype if dtype != np.float16 else np.dtype(np.float64)  # LAPACK has no half precision
    rcond = np.finfo(dtype).eps if cond is None else cond
    return tuple(np_linalg.lstsq(matrix.astype(dtype), right.astype(dtype), rcond))


@on_traced(scipy.linalg.norm)
def norm(
    a: Numeric[X, "..."] | Nested,
    ord: float | str | None = None,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Numeric[Any, "..."]:
    """Norm of a vector or of a matrix, like ``scipy.linalg.norm``.

    Args:
        a: an array of any shape.
        ord: order of the norm, of a vector: a number, or ±inf; of a matrix: 1, -1, 2, -2, ±inf,
            "fro" or "nuc". By default the 2-norm of all elements.
        axis: the axis of vectors, or two axes of matrices; by default all of a.
        keepdims: True to keep these axes with size 1.
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        norms, in the shape of the other axes, real and floating.

    Raises:
        ShapeError: if ord is no norm of so many axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.grad(lambda x: linalg.norm(x))(np.array([3.0, 4.0])), 4)
        array([0.6, 0.8])
    """
    return np_linalg.norm(arrayed(a), ord, axis, keepdims)


@on_traced(scipy.linalg.expm_frechet)
def expm_frechet(
    A: Numeric[X, "*#b n n"] | Nested,
    E: Numeric[X, "*#b n n"] | Nested,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Any:
    """Matrix exponential, and its derivative in a direction, like ``scipy.linalg.expm_frechet``, by
    a block matrix of size 2n.

    Args:
        A: the matrix, shape (..., n, n).
        E: the direction, shape (..., n, n).
        method, check_finite: accepted for SciPy's signature; they have no effect on traced values.
        compute_expm: False to return only the derivative.

    Returns:
        the exponential and its derivative, both of shape (..., n, n), in the common dtype of A and
        E, integers as float64.

    Raises:
        ShapeError: if A or E is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> exponential, derivative = ft.jit(linalg.expm_frechet)(np.zeros((2, 2)), matrix)
        >>> np.round(derivative, 4)
        array([[4., 1.],
               [1., 3.]])
    """
    at, direction = together(matrices("expm_frechet", A), matrices("expm_frechet", E))
    change = bind(mf.frechet_p, (at, direction), ("expm",))
    return (mf.matrix_function(at, "expm"), change) if compute_expm else change


@on_traced(scipy.linalg.orthogonal_procrustes)
def orthogonal_procrustes(
    A: Numeric[X, "*#b m n"] | Nested, B: Numeric[X, "*#b m n"] | Nested, check_finite: bool = True
) -> tuple[Inexact[Array, "*b n n"], Float[Any, "*b"]]:
    """Orthogonal matrix R with ``A R`` nearest to B, and a scale, like
    ``scipy.linalg.orthogonal_procrustes``, by SVD.

    Args:
        A, B: matrices, shape (..., m, n).
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        R, shape (..., n, n), in the common dtype of A and B, integers as float64; and the sum of
        the singular values of ``A^H B``, shape (...), real.

    Raises:
        ShapeError: if A or B has fewer than two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> rotation, scale = ft.jit(linalg.orthogonal_procrustes)(matrix, np.eye(2))
        >>> np.round(scale, 4)
        np.float64(7.0)
    """
    a, b = together(
        matrices("orthogonal_procrustes", A, square=False),
        matrices("orthogonal_procrustes", B, square=False),
    )
    u, s, vh = np.linalg.svd(
        np.swapaxes(np.swapaxes(b, -1, -2) @ np.conj(a), -1, -2), full_matrices=False
    )
    return u @ vh, np.sum(s, axis=-1)


# -- without derivative ----------------------------------------------------------------------------


def _undifferentiated(name: str, because: str, head: str, args: str, returns: str) -> Any:
    """Return a function that raises under transforms: its arguments do not determine its result."""

    def function(*args: Operand, **kwargs: object) -> Any:
        raise NotDifferentiableError(
            f"scipy.linalg.{name} has no derivative here: {because}",
            fix="compute it outside of the transform, or give it a rule: functrace.primitive(f, "
            "vjp=…)",
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{head}: ``scipy.linalg.{name}`` of plain values.

    Args:
        args, kwargs: {args}

    Returns:
        {returns}

    Raises:
        NotDifferentiableError: if an argument is traced: {because}.
    """
    return on_traced(getattr(scipy.linalg, name))(function)


null_space = _undifferentiated(
    "null_space",
    "a basis of a null space is determined up to a rotation only",
    "Orthonormal basis of the null space of a matrix",
    "A, shape (m, n); rcond, the relative size up to which singular values count as 0.",
    "the basis as columns, shape (n, n - rank).",
)
orth = _undifferentiated(
    "orth",
    "a basis of a range is determined up to a rotation only",
    "Orthonormal basis of the range of a matrix",
    "A, shape (m, n); rcond, the relative size up to which singular values count as 0.",
    "the basis as columns, shape (m, rank).",
)
schur = _undifferentiated(
    "schur",
    "the order and the signs of Schur vectors are LAPACK's choice",
    "Schur decomposition ``a = z t z^H``",
    'a, shape (..., n, n); output, "real" or "complex"; sort, an order of eigenvalues.',
    "t, quasi-triangular, and z, unitary, both of shape (..., n, n).",
)
hessenberg = _undifferentiated(
    "hessenberg",
    "its reflections are LAPACK's choice",
    "Hessenberg form ``a = q h q^H``",
    "a, shape (..., n, n); calc_q, True to return q, too.",
    "h, shape (..., n, n), zero below the first subdiagonal; with calc_q also q, unitary.",
)
ldl = _undifferentiated(
    "ldl",
    "its pivots are blocks of one or two, by values",
    "LDL decomposition ``A = l d l^H`` of a symmetric matrix",
    "A, shape (..., n, n); lower, True to read the lower triangle; hermitian.",
    "l and d, shape (..., n, n), and the rows that make l triangular, integers of shape (..., n).",
)
funm = _undifferentiated(
    "funm",
    "it calls a Python function of eigenvalues; expm, logm and sqrtm have derivatives",
    "Function of a matrix by its Schur decomposition",
    "A, shape (..., n, n); func, a function of an array of eigenvalues; disp.",
    "the function of the matrix, shape (..., n, n).",
)
