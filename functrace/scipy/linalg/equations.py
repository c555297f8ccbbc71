"""Matrix equations: Sylvester, Lyapunov and Riccati; see `functrace.scipy.linalg`.

Note [Derivatives of Riccati equations]
    SciPy computes the stabilizing solution X of F(X, a, b, …) = 0. With the closed loop A - B K,
    the derivative of F by X is E^H dX (A - B K) + (A - B K)^H dX E, or (A - B K)^H dX (A - B K) -
    E^H dX E in discrete time. So a tangent of X is the solution of a Lyapunov equation for Y = E^H
    dX E, whose coefficient is the matrix E^-1 (A - B K) and whose right-hand side is the tangent of
    F at fixed X. The coefficient depends on X, which is again a function of the arguments: this
    gives derivatives of every order.

Source: Kao and Hennequin, "Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
equations" (2020).

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg

from functrace.api.custom_rules.external_values import attached, called_later
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.protocol.operands import arrayed
from functrace.ops import matrix_functions as mf
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import Numbers, np_linalg
from functrace.scipy.linalg.dense import adjoint, matrices, together
from functrace.scipy.operands import Inexact, Nested, Numeric, Operand, X
from functrace.typing import Array

Equation: TypeAlias = Callable[..., Any]


@on_traced(scipy.linalg.solve_sylvester)
def solve_sylvester(
    a: Numeric[X, "*#b m m"] | Nested,
    b: Numeric[X, "*#b n n"] | Nested,
    q: Numeric[X, "*#b m n"] | Nested,
) -> Inexact[Array, "*b m n"]:
    """Solve ``a x + x b = q``, like ``scipy.linalg.solve_sylvester``.

    Args:
        a: shape (..., m, m).
        b: shape (..., n, n).
        q: shape (..., m, n).

    Returns:
        x, shape (..., m, n), in the common dtype of the arguments, integers as float64.

    Raises:
        ShapeError: if a or b is not square, or shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.jit(linalg.solve_sylvester)(matrix, np.eye(2), np.eye(2)), 4)
        array([[ 0.2105, -0.0526],
               [-0.0526,  0.2632]])
    """
    left, right = matrices("solve_sylvester", a), matrices("solve_sylvester", b)
    return mf.sylvester(*together(left, right, matrices("solve_sylvester", q, square=False)))


@on_traced(scipy.linalg.solve_continuous_lyapunov)
def solve_continuous_lyapunov(
    a: Numeric[X, "*#b n n"] | Nested, q: Numeric[X, "*#b n n"] | Nested
) -> Inexact[Array, "*b n n"]:
    """Solve ``a x + x a^H = q``, like ``scipy.linalg.solve_continuous_lyapunov``.

    Args:
        a, q: matrices, shape (..., n, n).

    Returns:
        x, shape (..., n, n), in the common dtype of the arguments, integers as float64.

    Raises:
        ShapeError: if a is not square, or shapes do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.jit(linalg.solve_continuous_lyapunov)(matrix, np.eye(2)), 4)
        array([[ 0.1364, -0.0455],
               [-0.0455,  0.1818]])
    """
    matrix = matrices("solve_continuous_lyapunov", a)
    return solve_sylvester(matrix, adjoint(matrix), q)


@on_traced(scipy.linalg.solve_discrete_lyapunov)
def solve_discrete_lyapunov(
    a: Numeric[X, "*#b n n"] | Nested, q: Numeric[X, "*#b n n"] | Nested, method: str | None = None
) -> Inexact[Array, "*b n n"]:
    """Solve ``a x a^H - x + q = 0``, like ``scipy.linalg.solve_discrete_lyapunov``.

    Args:
        a, q: matrices, shape (..., n, n).
        method: "direct" solves n**2 equations, "bilinear" a continuous one; by default the former
            for n < 10.

    Returns:
        x, shape (..., n, n), in the common dtype of the arguments, integers as float64.

    Raises:
        ShapeError: if method is neither, or a matrix is not square in its last two axes.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> np.round(ft.jit(linalg.solve_discrete_lyapunov)(0.1 * matrix, np.eye(2)), 4)
        array([[1.2128, 0.0943],
               [0.0943, 1.1184]])
    """
    if method not in (None, "direct", "bilinear"):
        raise ShapeError(f"Unknown solver {method}", fix="leave method out")
    matrix, right = together(
        matrices("solve_discrete_lyapunov", a), matrices("solve_discrete_lyapunov", q)
    )
    n = matrix.shape[-1]
    if method == "direct" or (method is None and n < 10):
        stack = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        product = np.einsum("...ij,...kl->...ikjl", matrix, np.conj(matrix)).reshape(
            *matrix.shape[:-2], n * n, n * n
        )
        columns = right.reshape(*right.shape[:-2], n * n, 1)
        found = np_linalg.solve(np.eye(n * n, dtype=matrix.dtype) - product, columns)
        return found.reshape(*stack, n, n)
    identity = np.eye(n, dtype=matrix.dtype)
    turned = adjoint(matrix)
    inverse = np_linalg.inv(turned + identity)
    b = (turned - identity) @ inverse
    c = 2 * np_linalg.solve(matrix + identity, right @ inverse)
    return solve_continuous_lyapunov(adjoint(b), -c)


# -- Riccati ---------------------------------------------------------------------------------------


@on_traced(scipy.linalg.solve_continuous_are)
def solve_continuous_are(
    a: Numeric[X, "n n"] | Numeric[X, ""] | Nested,
    b: Numeric[X, "n k"] | Numeric[X, ""] | Nested,
    q: Numeric[X, "n n"] | Numeric[X, ""] | Nested,
    r: Numeric[X, "k k"] | Numeric[X, ""] | Nested,
    e: Numeric[X, "n n"] | Numeric[X, ""] | Nested | None = None,
    s: Numeric[X, "n k"] | Numeric[X, ""] | Nested | None = None,
    balanced: bool = True,
) -> Inexact[Array, "n n"]:
    """Solve the continuous algebraic Riccati equation, like ``scipy.linalg.solve_continuous_are``.

    ``e^H x a + a^H x e - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0``

    Args:
        a, b, q, r, e, s: shapes (n, n), (n, k), (n, n), (k, k), (n, n) and (n, k); a number is a
            matrix of one element. q and r are symmetric (Hermitian); e is the identity and s zeros
            by default. Map stacks with `functrace.vmap`.
        balanced: True to balance the matrix pencil before it is factorized.

    Returns:
        the stabilizing solution x, shape (n, n), float64 or complex128 (wider if an argument is).

    Raises:
        ShapeError: if an argument is a stack of matrices, or shapes do not fit.
        ValueError, LinAlgError: SciPy's, when the program runs: if q or r is not symmetric, or
            there is no stabilizing solution.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(lambda q: linalg.solve_continuous_are(np.eye(2), np.eye(2), q, np.eye(2)))(np.eye(2)), 4)
        array([[2.4142, 0.    ],
               [0.    , 2.4142]])

    Cost:
        SciPy's; a derivative adds one Lyapunov equation. See Note
        [Derivatives of Riccati equations].
    """
    return _riccati(
        "solve_continuous_are",
        scipy.linalg.solve_continuous_are,
        _continuous,
        (a, b, q, r, e, s),
        balanced,
    )


@on_traced(scipy.linalg.solve_discrete_are)
def solve_discrete_are(
    a: Numeric[X, "n n"] | Numeric[X, ""] | Nested,
    b: Numeric[X, "n k"] | Numeric[X, ""] | Nested,
    q: Numeric[X, "n n"] | Numeric[X, ""] | Nested,
    r: Numeric[X, "k k"] | Numeric[X, ""] | Nested,
    e: Numeric[X, "n n"] | Numeric[X, ""] | Nested | None = None,
    s: Numeric[X, "n k"] | Numeric[X, ""] | Nested | None = None,
    balanced: bool = True,
) -> Inexact[Array, "n n"]:
    """Solve the discrete algebraic Riccati equation, like ``scipy.linalg.solve_discrete_are``.

    ``a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0``

    Args:
        a, b, q, r, e, s: shapes (n, n), (n, k), (n, n), (k, k), (n, n) and (n, k); a number is a
            matrix of one element. q and r are symmetric (Hermitian); e is the identity and s zeros
            by default. Map stacks with `functrace.vmap`.
        balanced: True to balance the matrix pencil before it is factorized.

    Returns:
        the stabilizing solution x, shape (n, n), float64 or complex128 (wider if an argument is).

    Raises:
        ShapeError: if an argument is a stack of matrices, or shapes do not fit.
        ValueError, LinAlgError: SciPy's, when the program runs: if q or r is not symmetric, or
            there is no stabilizing solution.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import linalg
        >>> np.round(ft.jit(lambda q: linalg.solve_discrete_are(np.eye(2), np.eye(2), q, np.eye(2)))(np.eye(2)), 4)
        array([[1.618, 0.   ],
               [0.   , 1.618]])

    Cost:
        SciPy's; a derivative adds one Lyapunov equation. See Note
        [Derivatives of Riccati equations].
    """
    return _riccati(
        "solve_discrete_are",
        scipy.linalg.solve_discrete_are,
        _discrete,
        (a, b, q, r, e, s),
        balanced,
    )


def _continuous(
    x: Numbers, a: Numbers, b: Numbers, q: Numbers, r: Numbers, e: Numbers, s: Numbers
) -> tuple[Any, Any]:
    """Return the residual of the continuous equation, and the gain of the feedback."""
    moved = adjoint(b) @ x @ e + adjoint(s)
    gain = np_linalg.solve(r, moved)
    return adjoint(e) @ x @ a + adjoint(a) @ x @ e - (adjoint(e) @ x @ b + s) @ gain + q, gain


def _discrete(
    x: Numbers, a: Numbers, b: Numbers, q: Numbers, r: Numbers, e: Numbers, s: Numbers
) -> tuple[Any, Any]:
    """Return the residual of the discrete equation, and the gain of the feedback."""
    moved = adjoint(b) @ x @ a + adjoint(s)
    gain = np_linalg.solve(r + adjoint(b) @ x @ b, moved)
    return adjoint(a) @ x @ a - adjoint(e) @ x @ e - (adjoint(a) @ x @ b + s) @ gain + q, gain


def _riccati(
    name: str, solver: Equation, equation: Equation, given: Sequence[Operand | None], balanced: bool
) -> Any:
    optional = [x is not None for x in given]
    made = [_matrix(name, x) for x in given if x is not None]
    kind = np.result_type(np.float64, *[x.dtype for x in made])
    made = [x.astype(kind) for x in made]
    n, k = made[1].shape
    shapes = [
        shape
        for shape, flag in zip(
            ((n, n), (n, k), (n, n), (k, k), (n, n), (n, k)), optional, strict=True
        )
        if flag
    ]
    for x, shape in zip(made, shapes, strict=True):
        if x.shape != shape:
            raise ShapeError(
                f"scipy.linalg.{name}: matrices of shapes {', '.join(str(x.shape) for x in made)} "
                "do not fit",
                fix="pass a (n, n), b (n, k), q (n, n), r (k, k), e (n, n) and s (n, k)",
            )

    def whole(values: Sequence[Any]) -> list[Any]:
        """Return all six matrices, by default the identity for e and zeros for s."""
        found = iter(values)
        missing = (None, None, None, None, np.eye(n, dtype=kind), np.zeros((n, k), kind))
        return [
            next(found) if flag else other for flag, other in zip(optional, missing, strict=True)
        ]

    def solve(*values: Numbers) -> list[Any]:
        found = iter(values)
        return [
            np.asarray(
                solver(*[next(found) if flag else None for flag in optional], balanced), kind
            )
        ]

    def linearized(x: Numbers, values: Sequence[Any], moving: Sequence[int]) -> Equation:
        """Return a function of the active arguments with the derivative of the solution."""
        a, b, *_, e, _ = every = whole(values)
        loop = np_linalg.solve(e, a - b @ equation(x, *every)[1])

        def moved(*chosen: Numbers) -> Any:
            at = list(values)
            for place, value in zip(moving, chosen, strict=True):
                at[place] = value
            off, _ = equation(x, *whole(at))
            if equation is _continuous:
                y = solve_sylvester(adjoint(loop), loop, -off)
            else:
                y = solve_discrete_lyapunov(adjoint(loop), off)
            return np_linalg.solve(adjoint(e), adjoint(np_linalg.solve(adjoint(e), adjoint(y))))

        return moved

    def push(outputs: Sequence[Any], values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        moving = [place for place, t in enumerate(tangents) if t is not None]
        f = linearized(outputs[0], values, moving)
        return [
            jvp(f, [values[place] for place in moving], [tangents[place] for place in moving])[1]
        ]

    def pull(
        outputs: Sequence[Any],
        values: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        moving = [place for place, flag in enumerate(wanted) if flag]
        _, back = vjp(linearized(outputs[0], values, moving), *[values[place] for place in moving])
        found = dict(zip(moving, back(cotangents[0]), strict=True))
        return [found.get(place) for place in range(len(values))]

    key = (name, tuple(optional), balanced)
    found = called_later(f"scipy.linalg.{name}", solve, key, made, [ShapeDtype((n, n), kind)])
    return attached(name, found, made, key, pull, push)[0]


def _matrix(name: str, x: Operand) -> Any:
    made: Any = arrayed(x)
    if made.ndim > 2:
        raise ShapeError(
            f"scipy.linalg.{name} of traced values takes matrices, not stacks of them: shape "
            f"{made.shape}",
            fix="map the stack: functrace.vmap(scipy.linalg.…)",
        )
    return np.atleast_2d(made)
