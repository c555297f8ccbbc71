"""``scipy.sparse.linalg`` for traced values: linear systems with implicit derivatives.

Iterative methods are SciPy's own, called while the program runs; a derivative is one more system,
solved by the same method with the same tolerances, with the transposed matrix in reverse mode.
Other names are SciPy's own.

Layer: 9.
"""

# pyright: reportUnusedImport=false
# (what is imported here is exported; `__getattr__` adds SciPy's other names)
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from functrace.api.custom_rules.foreign import pure_callback
from functrace.api.custom_rules.implicit import custom_linear_solve
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.protocol.operands import arrayed, holds_tracer
from functrace.scipy.kinds import Numbers
from functrace.scipy.sparse.factors import eigsh, factorized, inexact, solved, splu, square  # noqa: F401
from functrace.scipy.sparse.matrices import Sparse
from functrace.scipy.sparse.operands import Nested, Plain, X
from functrace.typing import Array

if TYPE_CHECKING:
    import jaxtyping  # its import hook, which has the shapes checked, imports it into the module


def _is_traced(*values: object) -> bool:
    return any(isinstance(v, Sparse) or holds_tracer(v) for v in values)


def spsolve(
    A: object,
    b: jaxtyping.Shaped[X, "n"] | jaxtyping.Shaped[X, "n k"] | Nested,
    permc_spec: str | None = None,
    use_umfpack: bool = True,
) -> jaxtyping.Shaped[Array, "n"] | jaxtyping.Shaped[Array, "n k"] | Plain:
    """Solve a sparse system ``A x = b``, like ``scipy.sparse.linalg.spsolve``, by SuperLU;
    differentiable by the matrix's elements and by ``b``.

    Args:
        A: a sparse matrix, shape (n, n): one of SciPy's, or a `Sparse` with traced elements.
        b: right-hand sides, shape (n,) or (n, k).
        permc_spec, use_umfpack: options of SciPy's solver; they have no effect on traced values.

    Returns:
        the solution x, shape of b, in the common dtype of A and b, integers as float64.

    Raises:
        ShapeError: if A is not square, or b does not fit.
        UnsupportedFunctionError: if A is no matrix.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> a = sparse.csc_array(np.array([[2.0, 0.0], [1.0, 4.0]]))
        >>> ft.grad(lambda b: sparse.linalg.spsolve(a, b)[1])(np.array([2.0, 3.0]))
        array([-0.125,  0.25 ])
    """
    if not _is_traced(A, b):
        plain: Any = scipy.sparse.linalg
        return plain.spsolve(A, b, permc_spec, use_umfpack)
    return solved(square("spsolve", A), inexact(b))


_NEEDS = {"cg": ", symmetric and positive definite", "minres": ", symmetric"}


def _iterative(name: str) -> Callable[..., tuple[Any, Any]]:
    theirs: Any = getattr(scipy.sparse.linalg, name)

    def solver(
        A: object,
        b: jaxtyping.Shaped[X, "n"] | jaxtyping.Shaped[X, "n 1"] | Nested,
        x0: jaxtyping.Shaped[X, "n"] | jaxtyping.Shaped[X, "n 1"] | Nested | str | None = None,
        **options: object,
    ) -> tuple[jaxtyping.Shaped[Array, "n"], Any]:
        if not _is_traced(A, b, x0):
            return theirs(A, b, x0, **options)
        matrix, right = square(name, A), inexact(b)
        if right.shape != (matrix.shape[0],):
            raise ShapeError(
                f"scipy.sparse.linalg.{name}: matrix {matrix.shape} and right-hand side "
                f"{right.shape} do not fit",
                fix="pass one element per equation; map several right-hand sides with vmap",
            )
        dtype = np.result_type(matrix.dtype, right.dtype, np.float32)
        right = right.astype(dtype)
        index, starts, _ = matrix.pattern
        first_guess: Any = x0
        start = np.zeros(right.shape, dtype) if x0 is None else arrayed(first_guess)

        def run(turned: bool, first: bool) -> Callable[..., Any]:
            def call(data: Array, b: Array, x0: Array) -> tuple[Any, Any]:
                a: Any = scipy.sparse.csr_array((data, index, starts), shape=matrix.whole)
                given = dict(options)
                if not first:
                    given.pop("callback", None)
                x, info = theirs(a.T if turned else a, b, x0 if first else None, **given)
                return x.astype(dtype), np.int64(info)

            shapes = (ShapeDtype(right.shape, np.dtype(dtype)), ShapeDtype((), np.dtype(np.int64)))

            def solve(_: object, b: Numbers) -> Any:
                return pure_callback(call, shapes, matrix.data, b, start)

            return solve

        def product(x: Numbers) -> Any:
            return matrix @ x

        return custom_linear_solve(
            product,
            right,
            run(matrix.turned, True),
            run(not matrix.turned, False),
            has_aux=True,
        )

    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"""Solve ``A x = b`` by iteration, like ``scipy.sparse.linalg.{name}``.

    The solution is differentiable by the matrix's elements and by ``b``.

    Args:
        A: a matrix, shape (n, n): a sparse one of SciPy's, a `Sparse` with traced elements, or a
            dense one{_NEEDS.get(name, "")}.
        b: the right-hand side, shape (n,).
        x0: the first guess, shape (n,), zeros by default; there is no derivative by it.
        options: options of SciPy's method, such as ``rtol``, ``atol`` and ``maxiter``. A derivative
            is as exact as they make it.

    Returns:
        the solution, shape (n,), floating or complex; and an integer that is 0 if it was found.

    Raises:
        ShapeError: if A is not square, or b does not fit.
        UnsupportedFunctionError: if A is no matrix.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import sparse
        >>> a = sparse.csr_array(np.array([[4.0, 1.0], [1.0, 3.0]]))
        >>> x, info = ft.jit(lambda b: sparse.linalg.{name}(a, b))(np.array([1.0, 2.0]))
        >>> bool(np.allclose(a @ x, [1.0, 2.0], atol=1e-4))
        True
    """
    return solver


cg = _iterative("cg")
cgs = _iterative("cgs")
bicg = _iterative("bicg")
bicgstab = _iterative("bicgstab")
gmres = _iterative("gmres")
lgmres = _iterative("lgmres")
minres = _iterative("minres")
qmr = _iterative("qmr")
gcrotmk = _iterative("gcrotmk")
tfqmr = _iterative("tfqmr")


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.sparse.linalg, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.sparse.linalg)})
