"""Orthogonal factors, eigenvalues, singular values …; see `functrace.scipy.linalg`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import scipy.linalg
from jaxtyping import Complex, Float, Inexact

from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.foreign import pure_callback
from functrace.errors import NotDifferentiableError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.protocol.operands import arrayed
from functrace.ops import matrix_functions as mf
from functrace.scipy.dispatch import on_traced
from functrace.scipy.linalg.dense import adjoint, eigh, matrices, together
from functrace.scipy.linalg.operands import Nested, Numeric, Operand, X, np_linalg
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
    """``scipy.linalg.qr``; the order of columns has no derivative.

    Args:
        a: shape (..., m, n).
        overwrite_a, lwork, check_finite: accepted for SciPy's signature; they have no effect on
            traced values.
        mode: "full", "economic", or "r" for the triangular factor alone; "raw" is LAPACK's, for
            plain values.
        pivoting: True to order columns by decreasing diagonals, and to return the order.

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
    """``scipy.linalg.svdvals``, for traced values too.

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
    """``scipy.linalg.eigvalsh``: the eigenvalues of `functrace.scipy.linalg.eigh`.

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
    """``scipy.linalg.eigvals`` of one matrix: complex, always.

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
    """``scipy.linalg.eig`` of one matrix, with right vectors: always complex, unlike SciPy.

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
    """``scipy.linalg.polar``: orthogonal and positive semidefinite factors, by SVD.

    Args:
        a: shape (..., m, n).
        side: "right" for ``a = u p``, "left" for ``a = p u``.

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
    """``scipy.linalg.pinv``: singular values up to ``atol + rtol * largest`` count as 0.

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
    """``scipy.linalg.pinvh``: pseudoinverse of the Hermitian matrix with one given triangle.

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
    """``scipy.linalg.lstsq``: solution, residuals, rank and singular values; by
    `numpy.linalg.lstsq`.

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
    """``scipy.linalg.norm``, for traced values too.

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
    """``scipy.linalg.expm_frechet``: the exponential, and its derivative in a direction, by a block
    matrix.

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
    """``scipy.linalg.orthogonal_procrustes``: the orthogonal ``R`` with ``A R`` nearest to ``B``,
    and a scale.

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


def _undifferentiated(name: str, because: str) -> Any:
    """Return a function that raises under transforms: its arguments do not determine its result."""

    def function(*args: Operand, **kwargs: object) -> Any:
        raise NotDifferentiableError(
            f"scipy.linalg.{name} has no derivative here: {because}",
            fix="compute it outside of the transform, or give it a rule: functrace.primitive(f, "
            "vjp=…)",
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""``scipy.linalg.{name}`` of plain values; traced ones raise: {because}."""
    return on_traced(getattr(scipy.linalg, name))(function)


null_space = _undifferentiated(
    "null_space", "a basis of a null space is determined up to a rotation only"
)
orth = _undifferentiated("orth", "a basis of a range is determined up to a rotation only")
schur = _undifferentiated("schur", "the order and the signs of Schur vectors are LAPACK's choice")
hessenberg = _undifferentiated("hessenberg", "its reflections are LAPACK's choice")
ldl = _undifferentiated("ldl", "its pivots are blocks of one or two, by values")
funm = _undifferentiated(
    "funm", "it calls a Python function of eigenvalues; expm, logm and sqrtm have derivatives"
)
