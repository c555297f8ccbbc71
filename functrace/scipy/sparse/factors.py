"""``splu``, ``factorized`` and ``eigsh`` of sparse matrices with traced elements or right-hand
sides.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.external_values import attached, called_later
from functrace.api.custom_rules.foreign import pure_callback
from functrace.api.custom_rules.implicit import custom_linear_solve
from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.protocol.operands import arrayed, holds_tracer
from functrace.ops.indexing import ARRAY, gather
from functrace.ops.sparse import sparse_solve
from functrace.scipy.kinds import Found, Numbers
from functrace.scipy.sparse.matrices import Sparse, coordinates_of, csr_array, of
from functrace.scipy.sparse.operands import Nested, Operand, X
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

if TYPE_CHECKING:
    import jaxtyping  # its import hook, which has the shapes checked, imports it into the module


def square(name: str, a: object) -> Sparse:
    """Return an argument as a square sparse matrix.

    Raises:
        ShapeError: if it is not square.
        UnsupportedFunctionError: if it is no matrix.
    """
    if isinstance(a, Sparse) or scipy.sparse.issparse(a):
        made = of(a)
    elif isinstance(a, Tracer | np.ndarray):
        rows: Any = csr_array
        made = of(rows(a))
    else:
        raise UnsupportedFunctionError(
            f"scipy.sparse.linalg.{name} of traced values takes matrices, not a {type(a).__name__}",
            fix="pass a sparse matrix, or use functrace.custom_linear_solve with the operator's "
            "own product",
        )
    if made.shape[0] != made.shape[1]:
        raise ShapeError(
            f"scipy.sparse.linalg.{name} needs a square matrix, got shape {made.shape}",
            fix="make it square",
        )
    return made


def inexact(x: Operand) -> Any:
    """Return an operand as an array of floats or complex numbers."""
    made: Any = arrayed(x)
    return made if made.dtype.kind in "fc" else made.astype(np.float64)


def solved(
    matrix: Sparse,
    right: jaxtyping.Shaped[X, "n"] | jaxtyping.Shaped[X, "n k"],
    *,
    backwards: bool = False,
) -> jaxtyping.Shaped[Array, "n"] | jaxtyping.Shaped[Array, "n k"]:
    """Solve with a matrix, or its transpose, for right-hand sides of shape (n,) or (n, k).

    Raises:
        ShapeError: if they do not fit.
    """
    made: Any = right
    if made.ndim not in (1, 2) or made.shape[0] != matrix.shape[0]:
        raise ShapeError(
            f"a sparse matrix {matrix.shape} and a right-hand side {made.shape} do not fit",
            fix="pass one row per equation",
        )
    columns = made if made.ndim == 2 else made[:, None]
    found = sparse_solve(
        inexact(matrix.data), matrix.pattern, columns, backwards=matrix.turned != backwards
    )
    return found if made.ndim == 2 else found[:, 0]


# -- LU --------------------------------------------------------------------------------------------


@final
class Factors:
    """LU factors like ``scipy.sparse.linalg.SuperLU``, for traced right-hand sides.

    Args:
        matrix: the matrix.
        plain: SuperLU's own object, if the matrix is plain.
    """

    __slots__ = ("_matrix", "_plain")

    def __init__(self, matrix: Sparse, plain: Found = None) -> None:
        self._matrix, self._plain = matrix, plain

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self._matrix.shape

    def __getattr__(self, name: str) -> Any:
        if self._plain is not None:
            return getattr(self._plain, name)
        raise UnsupportedFunctionError(
            f"splu of a matrix with traced elements has no {name}",
            fix="use solve, shape; functrace.scipy.linalg.lu(A.toarray()) has dense factors",
        )

    def solve(
        self,
        rhs: jaxtyping.Shaped[X, "n"] | jaxtyping.Shaped[X, "n k"] | Nested,
        trans: str = "N",
    ) -> jaxtyping.Shaped[Array, "n"] | jaxtyping.Shaped[Array, "n k"]:
        """Solve ``A x = rhs``, ``A^T x = rhs`` ("T") or ``A^H x = rhs`` ("H").

        Args:
            rhs: right-hand sides, shape (n,) or (n, k).
            trans: the letter of the system.

        Returns:
            x, shape of rhs, floating or complex.

        Raises:
            ShapeError: if trans is none of these, or rhs does not fit.
            DtypeError: if rhs is complex, or wider than the factors of a plain matrix.

        Cost:
            The factors of a plain matrix are reused by every solve, and by its derivatives; with
            traced elements, each solve factorizes again.
        """
        if trans not in ("N", "T", "H"):
            raise ShapeError(f"trans must be N, T, or H, got {trans!r}", fix="leave trans out")
        if self._plain is not None and not holds_tracer(rhs):
            return self._plain.solve(rhs, trans)
        right = inexact(rhs)
        if trans == "H":
            return np.conj(self.solve(np.conj(right), "T"))
        if self._plain is None:
            return solved(self._matrix, right, backwards=trans == "T")
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[0]:
            raise ShapeError(
                f"rhs of shape {right.shape} is of incompatible size",
                fix=f"pass {self.shape[0]} rows",
            )
        matrix = self._matrix.T if trans == "T" else self._matrix
        kind = np.result_type(self._plain.L.dtype, right.dtype)
        if kind != self._plain.L.dtype:
            raise DtypeError(
                f"the factors of a matrix of {self._plain.L.dtype} do not solve for a right-hand "
                f"side of {right.dtype}",
                fix="pass A.astype(complex) to splu, or solve for rhs.real and rhs.imag",
            )
        right = right.astype(kind)
        result = ShapeDtype(right.shape, right.dtype)

        def solving(which: str) -> Callable[..., Any]:
            def call(b: Numbers) -> Any:
                return self._plain.solve(np.ascontiguousarray(b), which)

            def solve(_: object, b: Numbers) -> Any:
                return pure_callback(call, result, b)

            return solve

        def product(x: Numbers) -> Any:
            return matrix @ x

        other = "N" if trans == "T" else "T"
        return custom_linear_solve(product, right, solving(trans), solving(other))


def splu(A: object, *args: object, **options: object) -> Any:
    """LU factors of a sparse matrix that solve for traced right-hand sides, like
    ``scipy.sparse.linalg.splu``.

    Args:
        A: a sparse matrix, shape (n, n), whose elements may be traced.
        args, options: SuperLU's options, such as permc_spec and diag_pivot_thresh; without effect
            on traced elements.

    Returns:
        an object like SuperLU's: ``solve(rhs, trans="N")``, ``shape``; for plain matrices also its
        other attributes.

    Raises:
        ShapeError: if a matrix with traced elements is not square.
        RuntimeError: SciPy's, if a plain matrix is singular.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> factors = sparse.linalg.splu(sparse.csc_array(np.array([[2.0, 0.0], [1.0, 4.0]])))
        >>> ft.grad(lambda b: factors.solve(b)[1])(np.array([2.0, 3.0]))
        array([-0.125,  0.25 ])
    """
    if isinstance(A, Sparse) or holds_tracer(A):
        return Factors(square("splu", A))
    theirs: Any = scipy.sparse.linalg
    return Factors(of(A), theirs.splu(A, *args, **options))


def factorized(A: object) -> Callable[[Operand], Any]:
    """Function that solves ``A x = b``, like ``scipy.sparse.linalg.factorized``, for traced
    right-hand sides, too.

    Args:
        A: a sparse matrix, shape (n, n); its elements may be traced.

    Returns:
        a function of b, shape (n,) or (n, k), that returns x of the same shape.

    Raises:
        ShapeError: if a matrix with traced elements is not square.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> solve = sparse.linalg.factorized(sparse.csc_array(np.array([[2.0, 0.0], [1.0, 4.0]])))
        >>> ft.jit(solve)(np.array([2.0, 3.0]))
        array([1. , 0.5])
    """
    if isinstance(A, Sparse) or holds_tracer(A):
        return Factors(square("factorized", A)).solve
    return splu(scipy.sparse.csc_array(A)).solve


# -- eigenvalues -----------------------------------------------------------------------------------


def eigsh(
    A: object,
    k: int = 6,
    M: object = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Array | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    **options: object,
) -> Any:
    """Some eigenvalues and eigenvectors of a symmetric matrix with traced elements, like
    ``scipy.sparse.linalg.eigsh``.

    Args:
        A: a real symmetric sparse matrix, shape (n, n).
        k: number of eigenvalues, below n.
        M: must be left out with traced elements.
        sigma: a number near which eigenvalues are found, by inverse iteration.
        which: "LM" for the largest in magnitude (nearest to sigma, if given), "SM" for the
            smallest, "LA" and "SA" for the algebraically largest and smallest, "BE" for both ends.
        v0: where to start, shape (n,), plain; random by default.
        ncv: number of Lanczos vectors, more than k.
        maxiter: largest number of iterations.
        tol: relative accuracy of eigenvalues; 0 for machine precision.
        return_eigenvectors: True to return eigenvectors, too.
        options: rng, the generator that v0 is drawn from; mode of the inverse iteration.

    Returns:
        eigenvalues, shape (k,); and, unless return_eigenvectors is False, eigenvectors
        as columns, shape (n, k); in the dtype of A, integers as float64.

    Raises:
        ShapeError: if A is not square.
        UnsupportedFunctionError: if A is an operator or complex, M, OPinv or Minv is given, or v0
            is traced.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> row = column = np.arange(4)
        >>> def smallest(data):
        ...     a = sparse.csr_array((data, (row, column)))
        ...     return sparse.linalg.eigsh(a, 1, which="SA", return_eigenvectors=False)[0]
        >>> np.round(np.abs(ft.grad(smallest)(np.array([3.0, 1.0, 2.0, 4.0]))), 4)
        array([0., 1., 0., 0.])

    Cost:
        SciPy's. Derivatives of eigenvalues need only products, those of eigenvectors one sparse LU
        factorization of size n + 1 each. They are NaN for multiple eigenvalues.

    Source:
        R. B. Nelson, "Simplified calculation of eigenvector derivatives" (1976), with the
        normalization as one more row.
    """
    theirs: Any = scipy.sparse.linalg
    given = (sigma, which, v0, ncv, maxiter, tol, return_eigenvectors)
    if not isinstance(A, Sparse) and not holds_tracer([A, M, v0]):
        return theirs.eigsh(A, k, M, *given, **options)
    matrix = square("eigsh", A)
    refused = [name for name in ("OPinv", "Minv") if options.get(name) is not None] + ["M"] * (
        M is not None
    )
    if refused or matrix.dtype.kind == "c":
        raise UnsupportedFunctionError(
            "scipy.sparse.linalg.eigsh of traced values takes no "
            f"{'complex matrix' if not refused else refused[0]}",
            fix="use np.linalg.eigh(A.toarray()), or functrace.scipy.linalg.eigh(A.toarray(), M)",
        )
    if holds_tracer(v0):
        raise UnsupportedFunctionError(
            "scipy.sparse.linalg.eigsh: v0 is traced", fix="leave v0 out, or pass a plain array"
        )
    data, n = inexact(matrix.data), matrix.shape[0]
    matrix = matrix.with_data(data)
    index, starts, _ = matrix.pattern

    def solve(data: Array) -> list[Any]:
        a = scipy.sparse.csr_array((data, index, starts), shape=matrix.whole)
        w, v = theirs.eigsh(a, k, None, *given[:-1], True, **options)
        return [w, v]

    key = ("eigsh", n, k, *map(_key, (index, starts, *given, *options.items())))
    avals = [ShapeDtype((k,), data.dtype), ShapeDtype((n, k), data.dtype)]
    w, v = called_later("scipy.sparse.linalg.eigsh", solve, key, [data], avals)
    values = _eigenvalues(matrix, w, v, key)
    return (values, _eigenvectors(matrix, w, v, key)[1]) if return_eigenvectors else values


def _key(value: object) -> Any:
    if not isinstance(value, np.ndarray):
        return repr(value)
    array = cast("Array", value)
    return array.dtype.str, array.shape, array.tobytes()


def _eigenvalues(matrix: Sparse, w: Numbers, v: Numbers, key: Hashable) -> Any:
    """Attach eigenvalues to the elements: ``w_dot = v^T A_dot v``. Only higher derivatives
    differentiate v.
    """

    def push(outputs: Sequence[Any], given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        data, w, v = given
        vectors = _eigenvectors(matrix.with_data(data), w, v, key)[1]
        return [np.sum(vectors * (matrix.with_data(tangents[0]) @ vectors), axis=0)]

    def pull(
        outputs: Sequence[Any],
        given: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        data, w, v = given
        vectors = _eigenvectors(matrix.with_data(data), w, v, key)[1]
        return [_by_elements(matrix, vectors * cotangents[0], vectors), None, None]

    held = [stop_gradient(x) for x in (w, v)]
    return attached("eigsh", [w], [matrix.data, *held], (key, "values"), pull, push)[0]


def _eigenvectors(matrix: Sparse, w: Numbers, v: Numbers, key: Hashable) -> list[Any]:
    """Attach eigenvalues and eigenvectors to the elements, by the equations ``A v = w v`` and ``v^T
    v = 1``.
    """

    def push(outputs: Sequence[Any], given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        values, vectors = outputs
        right = -(matrix.with_data(tangents[0]) @ vectors)
        return _bordered(matrix.with_data(given[0]), values, vectors, right, np.zeros_like(values))

    def pull(
        outputs: Sequence[Any],
        given: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        values, vectors = outputs
        _, found = _bordered(
            matrix.with_data(given[0]), values, vectors, cotangents[1], cotangents[0]
        )
        return [-_by_elements(matrix, found, vectors)]

    return attached("eigsh", [w, v], [matrix.data], (key, "vectors"), pull, push)


def _by_elements(matrix: Sparse, left: Numbers, right: Numbers) -> Any:
    """For each element, the sum over k of ``left[row, k] * right[column, k]``."""
    row, column = matrix.coordinates()
    template = (ARRAY, (None, None, None))
    return np.sum(gather(left, template, (row,)) * gather(right, template, (column,)), axis=1)


def _bordered(matrix: Sparse, w: Numbers, v: Numbers, right: Numbers, below: Numbers) -> list[Any]:
    """Solve ``[[A - w, -v], [-v^T, 0]] [x; y] = [right; below]`` for each pair: returns all y,
    shape (k,), and x, (n, k).
    """
    n: int
    k: int
    n, k = v.shape
    row, column = matrix.coordinates()
    diagonal, last = np.arange(n), np.full(n, n)
    rows = np.concatenate([row, diagonal, diagonal, last])
    columns = np.concatenate([column, diagonal, last, diagonal])
    turned = np.transpose(v)
    elements = [
        np.broadcast_to(matrix.data, (k, matrix.nnz)),
        np.broadcast_to(-w[:, None], (k, n)),
        -turned,
        -turned,
    ]
    order, pattern = coordinates_of(rows, columns, n + 1)
    data = gather(np.concatenate(elements, axis=1), ((None, None, None), ARRAY), (order,))
    sides = np.concatenate([np.transpose(right), below[:, None]], axis=1)[..., None]
    found = sparse_solve(data, pattern, sides)[..., 0]
    return [found[:, n], np.transpose(found[:, :n])]
