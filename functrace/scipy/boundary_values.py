"""Boundary value problems by ``scipy.integrate``, on traced values: differentiated by the
collocation equations.

Source: J. Kierzenka and L. F. Shampine, "A BVP solver based on residual control and the MATLAB PSE"
(2001): the equations that SciPy solves on its last mesh.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate

from functrace.errors import ConcretizationError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.protocol.operands import Operand, arrayed, holds_tracer
from functrace.scipy.interpolate.pieces import CubicHermiteSpline
from functrace.scipy.kinds import Numbers, where
from functrace.scipy.operands import Nested, Shaped, X
from functrace.scipy.solving import Function, SolverCall, named, plainly
from functrace.tracing.binding import is_recording

# NumPy's own types say nothing about `Any`.
_pinv: Callable[[Any], Any] = np.linalg.pinv


def solve_bvp(
    fun: Function,
    bc: Function,
    x: Shaped[X, "m"] | Nested,
    y: Shaped[X, "n m"] | Nested,
    p: Shaped[X, "k"] | Nested | None = None,
    S: Shaped[X, "n n"] | Nested | None = None,
    fun_jac: Function | None = None,
    bc_jac: Function | None = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> Any:
    """``scipy.integrate.solve_bvp``: ``y``, ``yp``, ``p`` and ``sol`` are differentiable.

    It solves ``y' = fun(x, y, p) + S y / (x - a)`` with ``bc(y(a), y(b), p) = 0`` for n functions
    y and k parameters p. The derivative is that of the collocation equations on the mesh that SciPy
    has chosen, and as exact as these. There is none by the mesh, or by the guesses ``y`` and ``p``.

    Args:
        fun: ``fun(x, y)``, or ``fun(x, y, p)`` if ``p`` is given: for points of shape (m,) and
            values of shape (n, m), slopes of shape (n, m).
        bc: ``bc(ya, yb)`` or ``bc(ya, yb, p)``: residuals of the boundary conditions, shape
            (n + k,), of values at both ends, shape (n,).
        x: the first mesh, shape (m,): increasing, plain; ``x[0]`` and ``x[-1]`` are the ends a, b.
        y: guess of the solution on the mesh, shape (n, m); complex for a complex problem.
        p: guess of the parameters, shape (k,); ``None`` if there are none.
        S: the matrix of the singular term, shape (n, n), plain; ``None`` if there is none.
        fun_jac, bc_jac: derivatives of ``fun`` by y and p, shapes (n, n, m) and (n, k, m), and of
            ``bc`` by both ends and p; SciPy takes differences without them.
        tol: tolerance of the relative residuals of the differential equation, on each interval.
        max_nodes: largest number of mesh nodes.
        verbose: 1 to print a report, 2 to print each iteration.
        bc_tol: absolute tolerance of the boundary conditions; ``tol`` by default.

    Returns:
        SciPy's result. ``x`` is the last mesh, shape (nodes,), plain; ``y`` and ``yp`` are values
        and slopes there, shape (n, nodes), of the dtype of ``y``; ``p`` has shape (k,) or is
        ``None``; ``sol`` is a function of points. ``rms_residuals`` raises when it is
        differentiated.

    Raises:
        ShapeError: if the shapes of ``x``, ``y`` and ``p`` do not fit.
        UnsupportedFunctionError: if ``x`` or ``S`` is traced.
        ConcretizationError: under `jit` and `vmap`, where the number of mesh nodes is unknown.
        NotDifferentiableError: where the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> x, guess = np.linspace(0.0, 1.0, 5), np.zeros((2, 5))
        >>> def slope(a):
        ...     fun = lambda x, y: np.stack([y[1], 0.0 * y[0]])
        ...     ends = lambda left, right: np.stack([left[0], right[0] - a])
        ...     return integrate.solve_bvp(fun, ends, x, guess).y[1, 0]
        >>> np.round(ft.grad(slope)(2.0), 4)
        np.float64(1.0)

    Cost:
        SciPy's, with a recording of ``fun`` and ``bc`` per call; a derivative solves n m + k dense
        linear equations, for n unknowns on m nodes.
    """
    rest = (tol, max_nodes, verbose, bc_tol)
    plain = (fun, bc, x, y, p, S, fun_jac, bc_jac, *rest)
    if not is_recording() and not holds_tracer([x, y, p, S]):
        return scipy.integrate.solve_bvp(*plain)
    if holds_tracer([x, S]):
        raise UnsupportedFunctionError(
            "scipy.integrate.solve_bvp: the mesh x, or S, is traced",
            fix="pass a plain mesh: with t = (x - a) / (b - a) on [0, 1], fun is multiplied by b - "
            "a",
        )
    guess: Any = arrayed(y)
    unknown: Any = np.zeros(0) if p is None else arrayed(p)
    mesh: Any = np.asarray(x, float)
    if guess.ndim != 2 or unknown.ndim != 1 or guess.shape[1:] != mesh.shape:
        raise ShapeError(
            f"scipy.integrate.solve_bvp: x {mesh.shape}, y {guess.shape} and p {unknown.shape} do "
            "not fit",
            fix="pass shapes (m,), (n, m) and (k,)",
        )
    kind = complex if guess.dtype.kind == "c" else float
    s = SolverCall(
        "scipy.integrate.solve_bvp", [guess.astype(kind), unknown.astype(kind)], [S, *rest]
    )
    has_parameters = p is not None
    right = named(fun, lambda x, y, p: arrayed(fun(x, y, p) if has_parameters else fun(x, y)))
    ends = named(bc, lambda a, b, p: arrayed(bc(a, b, p) if has_parameters else bc(a, b)))
    first: Any
    first, parameters = s.operands
    s.function(
        right, mesh, first, parameters
    )  # to find captured values: SciPy calls them on other meshes
    s.function(ends, first[:, 0], first[:, -1], parameters)
    if not s.traced:
        return scipy.integrate.solve_bvp(*plain)
    if not s.is_concrete:
        raise ConcretizationError(
            "scipy.integrate.solve_bvp chooses its mesh by values, which are not known under jit "
            "and vmap",
            fix="call it outside of jit, under grad or jvp; or solve the equations on a mesh of "
            "your own by "
            "functrace.scipy.optimize.root",
        )

    def called(f: Function | None) -> Function | None:
        return None if f is None else functools.partial(plainly, s.what, f)

    def solve(operands: Sequence[Any], _: Sequence[Function]) -> Any:
        start = (operands[0].copy(), None if p is None else operands[1])  # SciPy writes into y
        return scipy.integrate.solve_bvp(
            called(fun), called(bc), mesh, *start, S, called(fun_jac), called(bc_jac), *rest
        )

    raw = s.at_once(solve)
    s.ok, s.message = bool(raw.success), str(raw.message)
    n, m = raw.y.shape
    slope = _with_singular_term(right, S, mesh[0], n)
    found = np.concatenate([raw.y.ravel(), np.zeros(0) if p is None else raw.p])

    def parts(unknowns: Numbers) -> tuple[Any, Any]:
        return np.reshape(unknowns[: n * m], (n, m)), unknowns[n * m :]

    def equations(unknowns: Numbers) -> Any:
        y, p = parts(unknowns)
        off = _collocation(slope, raw.x, y, p)
        return np.concatenate(
            [np.reshape(off, (-1,)), np.reshape(ends(y[:, 0], y[:, -1], p), (-1,))]
        )

    values, roots = parts(s.defined(found, equations, at_solution=True))
    slopes = slope(raw.x, values, roots)
    made = s.result(raw, {"y": values, "yp": slopes, "p": roots if shape_of(roots)[0] else None})
    made["sol"] = CubicHermiteSpline(raw.x, values, slopes, axis=1)
    return made


def _with_singular_term(
    f: Function, S: Operand | None, start: float, n: int
) -> Callable[[Any, Any, Any], Any]:
    """Add ``S y / (x - a)``, with its limit at a, like SciPy."""
    if S is None:
        return f
    matrix: Any = np.asarray(S)
    limit = _pinv(np.eye(n) - matrix)

    def whole(x: Numbers, y: Numbers, p: Numbers) -> Any:
        found = f(x, y, p)
        at_start = x == start
        away = found + matrix @ y / np.where(at_start, 1.0, x - start)
        return where(at_start, limit @ found, away)

    return whole


def _collocation(
    f: Callable[[Any, Any, Any], Any],
    x: Shaped[Any, "m"],
    y: Shaped[Any, "n m"],
    p: Shaped[Any, "k"],
) -> Shaped[Any, "n m-1"]:
    """Return the residuals of the three-stage Lobatto formula on each interval, shape (n,
    m - 1).
    """
    h = np.diff(x)
    slope = f(x, y, p)
    middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (slope[:, 1:] - slope[:, :-1])
    between = f(x[:-1] + 0.5 * h, middle, p)
    return y[:, 1:] - y[:, :-1] - h / 6 * (slope[:, :-1] + slope[:, 1:] + 4 * between)
