"""Matrix functions by SciPy's LAPACK: functions of matrices, Sylvester's equation, LU factors.

SciPy is imported when one of these first runs.

Note [Derivatives of functions of matrices]
    For an analytic f, f([[A, E], [0, A]]) has the derivative of f at A along E in its upper right
    block (Mathias 1996). So ``frechet`` is f of a matrix of twice the size, it is linear in E, its
    transpose is ``frechet`` at the transposed A, and its own derivative by A is ``frechet`` of the
    block matrix: this gives every order, for every f.

Source: Higham, "Functions of Matrices" (2008), 3.2; Mathias, "A chain rule for matrix functions"
(1996); de Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using triangular
factorization" (2011) for LU.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import DtypeError, NotDifferentiableError, ProgramError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    ZERO,
    Operand,
    Primitive,
    Tangents,
    Values,
    absent,
    always,
    is_linear,
)
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import add, equal, mul, sub
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.linalg import solve
from functrace.ops.matrices import aligned
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _not_linear(name: str) -> Any:
    return absent(
        because=f"{name} is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    )


def _square(name: str, x: ShapeDtype) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name} needs square matrices in the last two axes, got {x}",
            fix="pass shape (..., n, n)",
        )


# -- functions of matrices -------------------------------------------------------------------------

FUNCTIONS = ("expm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm", "logm", "sqrtm")
"""Names of ``scipy.linalg`` that ``matrix_function`` and ``frechet`` may call."""


def _function_eval(x: Array, name: str) -> Any:
    import scipy.linalg

    function: Callable[..., Any] = getattr(scipy.linalg, name)
    found = np.asarray(function(x))
    if found.dtype.kind == "c" and x.dtype.kind != "c":
        raise DtypeError(
            f"scipy.linalg.{name} of this real matrix is complex, and what is traced has one dtype "
            "for all elements",
            fix="pass a complex matrix: x.astype(complex)",
        )
    return found.astype(x.dtype, copy=False)


def _check_name(name: str) -> None:
    """Check that a name is that of a function of matrices: it may come from a text, and is looked
    up in SciPy.
    """
    if name not in FUNCTIONS:
        raise ProgramError(
            f"{name!r} is no function of matrices", fix=f"name one of {', '.join(FUNCTIONS)}"
        )


def _function_aval(x: ShapeDtype, name: str) -> ShapeDtype:
    _check_name(name)
    _square(name, x)
    return x


def _function_jvp(primals: Values, _outputs: Values, tangents: tuple[Array], name: str) -> Any:
    return bind(frechet_p, (primals[0], tangents[0]), (name,))


matrix_function_p = Primitive(
    "matrix_function",
    eval=_function_eval,
    aval=_function_aval,
    jvp=_function_jvp,
    transpose=_not_linear("a function of matrices"),
    batch=lambda operands, _, name: bind(matrix_function_p, operands, (name,)),
    params=("name",),
    fails=always,
)


def matrix_function(x: Value, name: str) -> Any:
    """Apply a function of ``scipy.linalg``, by its name, to stacks of square matrices."""
    return bind(matrix_function_p, (x,), (name,))


def _frechet_eval(x: Array, t: Array, name: str) -> Any:
    n = x.shape[-1]
    shape = np.broadcast_shapes(x.shape, t.shape)
    block = np.zeros((*shape[:-2], 2 * n, 2 * n), np.result_type(x, t))
    block[..., :n, :n] = block[..., n:, n:] = x
    block[..., :n, n:] = t
    return _function_eval(block, name)[..., :n, n:].copy()


def _frechet_aval(x: ShapeDtype, t: ShapeDtype, name: str) -> ShapeDtype:
    _check_name(name)
    return ShapeDtype(np.broadcast_shapes(x.shape, t.shape), np.result_type(x.dtype, t.dtype))


def _block(a: Value, b: Value) -> Any:
    """[[a, b], [0, a]] of stacks of the same shape."""
    zero = mul(a, 0.0)
    rank = len(shape_of(a))
    rows = [concatenate((a, b), rank - 1), concatenate((zero, a), rank - 1)]
    return concatenate(rows, rank - 2)


def _frechet_jvp(primals: Values, _outputs: Values, tangents: Tangents, name: str) -> Any:
    (x, t), (dx, dt) = primals, tangents
    total = None if dt is None else bind(frechet_p, (x, dt), (name,))
    if dx is None:
        return total
    n, shape = shape_of(x)[-1], np.broadcast_shapes(shape_of(x), shape_of(t))
    x, t, dx = (broadcast_to(v, shape) if shape_of(v) != shape else v for v in (x, t, dx))
    moved = bind(frechet_p, (_block(x, t), _block(dx, mul(dx, 0.0))), (name,))
    change = index_static(moved, (Ellipsis, (None, n, None), (n, None, None)))
    return change if total is None else add(total, change)


def _frechet_transpose(ct: Array, x: Operand, t: Operand, name: str) -> Any:
    if is_linear(x):
        raise NotDifferentiableError(
            "frechet is not linear in its matrix", fix="differentiate with functrace.vjp instead"
        )
    return None, bind(frechet_p, (swap_last(x), ct), (name,))


frechet_p = Primitive(
    "frechet",
    eval=_frechet_eval,
    aval=_frechet_aval,
    jvp=_frechet_jvp,
    transpose=_frechet_transpose,
    batch=lambda operands, is_batched, name: bind(
        frechet_p, aligned(operands, is_batched, (2, 2)), (name,)
    ),
    params=("name",),
    fails=always,
)

# -- Sylvester's equation --------------------------------------------------------------------------


def _sylvester_eval(a: Array, b: Array, q: Array) -> Any:
    import scipy.linalg

    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    out = np.empty((*stack, *q.shape[-2:]), np.result_type(a, b, q))
    a, b, q = (np.broadcast_to(x, stack + x.shape[-2:]) for x in (a, b, q))
    for k in np.ndindex(stack):
        out[k] = scipy.linalg.solve_sylvester(a[k], b[k], q[k])
    return out


def _sylvester_aval(a: ShapeDtype, b: ShapeDtype, q: ShapeDtype) -> ShapeDtype:
    _square("solve_sylvester", a)
    _square("solve_sylvester", b)
    if q.ndim < 2 or q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"solve_sylvester cannot solve {a} and {b} for {q}",
            fix="pass shapes (m, m), (n, n) and (m, n)",
        )
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    return ShapeDtype((*stack, *q.shape[-2:]), np.result_type(a.dtype, b.dtype, q.dtype))


def _sylvester_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (a, b, _), (x,), (da, db, dq) = primals, outputs, tangents
    right: Any = dq
    for moved in (None if da is None else matmul(da, x), None if db is None else matmul(x, db)):
        if moved is not None:
            right = mul(moved, -1.0) if right is None else sub(right, moved)
    return sylvester(a, b, right)


def _sylvester_transpose(ct: Array, a: Operand, b: Operand, q: Operand) -> Any:
    if is_linear(a) or is_linear(b):
        raise NotDifferentiableError(
            "sylvester is linear in its last operand", fix="differentiate with functrace.vjp"
        )
    return None, None, sylvester(swap_last(a), swap_last(b), ct)


sylvester_p = Primitive(
    "sylvester",
    eval=_sylvester_eval,
    aval=_sylvester_aval,
    jvp=_sylvester_jvp,
    transpose=_sylvester_transpose,
    batch=lambda operands, is_batched: sylvester(*aligned(operands, is_batched, (2, 2, 2))),
    fails=always,
)


def sylvester(a: Value, b: Value, q: Value) -> Any:
    """Solve ``a x + x b = q`` for stacks of matrices."""
    return bind(sylvester_p, (a, b, q))


# -- LU --------------------------------------------------------------------------------------------


def _lu_eval(x: Array) -> Any:
    import warnings

    import scipy.linalg

    if not x.size:
        shape = (*x.shape[:-2], min(x.shape[-2:]))
        return x.copy(), np.zeros(shape, np.int32), np.zeros((*x.shape[:-2], x.shape[-2]), np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", scipy.linalg.LinAlgWarning
        )  # for singular matrices, which have factors, too
        factors, pivots = scipy.linalg.lu_factor(x)
    pivots = np.asarray(pivots, np.int32)
    return factors, pivots, _permutation_eval(pivots, x.shape[-2])


def _lu_aval(x: ShapeDtype) -> tuple[ShapeDtype, ...]:
    *stack, m, n = x.shape
    return (
        x,
        ShapeDtype((*stack, min(m, n)), np.dtype(np.int32)),
        ShapeDtype((*stack, m), np.dtype(np.int64)),
    )


def real_dtype(x: Any) -> np.dtype[Any]:
    """The dtype of an array's real part."""
    return x.dtype.type(0).real.dtype


def lu_parts(factors: Array) -> tuple[Any, Any]:
    """Return the lower factor, with unit diagonal, and the upper one, from the result of ``lu``."""
    m, n = shape_of(factors)[-2:]
    k = min(m, n)
    kind = real_dtype(factors)
    left = index_static(factors, (Ellipsis, (None, None, None), (None, k, None)))
    right = index_static(factors, (Ellipsis, (None, k, None), (None, None, None)))
    return add(mul(left, np.tri(m, k, -1, kind)), np.eye(m, k, dtype=kind)), mul(
        right, np.tri(n, k, 0, kind).T
    )


def _lu_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    # With L and U completed by identities to square ones: F = L^-1 P dA U^-1, dL = L tril(F, -1),
    # dU = triu(F) U.
    (factors, _, permutation), (t,) = outputs, tangents
    m, n = shape_of(factors)[-2:]
    k, kind = min(m, n), real_dtype(factors)
    lower, upper = lu_parts(factors)
    rank = len(shape_of(factors))
    if m > k:
        tail = np.eye(m, dtype=kind)[:, k:]
        lower = concatenate(
            (lower, broadcast_to(tail, (*shape_of(factors)[:-2], m, m - k))), rank - 1
        )
    if n > k:
        tail = np.eye(n, dtype=kind)[k:]
        upper = concatenate(
            (upper, broadcast_to(tail, (*shape_of(factors)[:-2], n - k, n))), rank - 2
        )
    moved = matmul(permutation_matrix(permutation, kind), t)
    inner = solve(lower, moved)
    inner = swap_last(solve(swap_last(upper), swap_last(inner)))
    below = mul(inner, np.tri(m, n, -1, kind))
    change = add(
        _cut(matmul(lower, _cut(below, m, m)), m, n), matmul(_cut(sub(inner, below), m, n), upper)
    )
    return change, None, None


def _cut(x: Array, m: int, n: int) -> Any:
    """Cut matrices to n columns, or append columns of zeros."""
    found = shape_of(x)[-1]
    if found >= n:
        return x if found == n else index_static(x, (Ellipsis, (None, None, None), (None, n, None)))
    zeros = broadcast_to(np.zeros((), x.dtype), (*shape_of(x)[:-1], n - found))
    return concatenate((x, zeros), len(shape_of(x)) - 1)


lu_p = Primitive(
    "lu",
    eval=_lu_eval,
    aval=_lu_aval,
    jvp=_lu_jvp,
    transpose=_not_linear("lu"),
    batch=lambda operands, _: bind(lu_p, operands),
    many=True,
    fails=always,
)


def lu(x: Value) -> tuple[Any, Any, Any]:
    """Return both factors in one matrix, LAPACK's pivots, and the row order of the factors."""
    return bind(lu_p, (x,))


def permutation_matrix(permutation: Value, dtype: np.dtype[Any]) -> Any:
    """Return the matrix P such that P x has the rows of x in a given order."""
    shape = shape_of(permutation)
    return convert(equal(reshape(permutation, (*shape, 1)), np.arange(shape[-1])), dtype)


def _permutation_eval(pivots: Array, rows: int) -> Any:
    out = np.empty((*pivots.shape[:-1], rows), np.int64)
    for k in np.ndindex(pivots.shape[:-1]):
        order = np.arange(rows)
        for i, j in enumerate(pivots[k]):
            order[[i, j]] = order[[j, i]]
        out[k] = order
    return out


permutation_p = Primitive(
    "permutation_of_pivots",
    eval=_permutation_eval,
    aval=lambda pivots, rows: ShapeDtype((*pivots.shape[:-1], rows), np.dtype(np.int64)),
    jvp=ZERO,
    transpose=_not_linear("an order of rows"),
    batch=lambda operands, _, rows: bind(permutation_p, operands, (rows,)),
    params=("rows",),
    fails=always,
)
