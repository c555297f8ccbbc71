"""``scipy.optimize.minimize`` and ``minimize_scalar`` on traced values.

The condition for a minimum is that the derivative of the objective is zero or, with bounds and
constraints, the Karush-Kuhn-Tucker equations. Active limits are expressed by a projection,
``x = clip(x - gradient, lower, upper)``, whose derivative is the limit's where a limit is active,
and the gradient's elsewhere.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from functrace.api.differentiation.gradients import grad
from functrace.api.differentiation.jacobians import hessian, jacfwd, jacrev
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.numpy.protocol.operands import Operand, arrayed, holds_tracer
from functrace.scipy.kinds import Found, Given, Numbers, where
from functrace.scipy.operands import Nested, Shaped, X
from functrace.scipy.solving import (
    Function,
    Solution,
    SolverCall,
    SolverFunction,
    named,
    tupled,
)
from functrace.tracing.binding import is_recording

_WITH_GRADIENT = frozenset(
    [
        "cg",
        "bfgs",
        "newton-cg",
        "l-bfgs-b",
        "tnc",
        "slsqp",
        "dogleg",
        "trust-ncg",
        "trust-krylov",
        "trust-exact",
        "trust-constr",
    ]
)
_WITH_HESSIAN = frozenset(
    ["newton-cg", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"]
)
_COUNTS = {
    "success": np.dtype(bool),
    "status": np.dtype(np.int64),
    "nfev": np.dtype(np.int64),
    "nit": np.dtype(np.int64),
}
"""Fields of a result that are concrete when the program runs, and have no derivative."""


def start_of(x0: Operand) -> Shaped[Any, "n"]:
    """Return a solver's starting point as a vector of floats."""
    at: Any = arrayed(x0)
    at = at if at.dtype.kind in "fc" else at.astype(np.float64)
    return np.reshape(at, (-1,))


def number(found: Found) -> Any:
    """Return an objective's result as a number: SciPy accepts an array of one element, too."""
    return (
        np.reshape(found, ()) if shape_of(found) and int(np.prod(shape_of(found))) == 1 else found
    )


def projected(x: Numbers, gradient: Numbers, lower: Numbers, upper: Numbers) -> Any:
    """Return the function that is zero at a minimum within limits."""
    return x - np.clip(x - gradient, lower, upper)


def counts(raw: Found) -> list[Any]:
    """Return the numeric fields of a result, -1 for those that a method does not have."""
    return [np.asarray(raw.get(name, -1)).astype(dtype)[()] for name, dtype in _COUNTS.items()]


COUNTS = [ShapeDtype((), dtype) for dtype in _COUNTS.values()]
"""The avals of `counts`."""


def counted(fields: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of `counts` by name."""
    return dict(zip(_COUNTS, fields, strict=True))


def minimize(
    fun: Function,
    x0: Shaped[X, "n"] | Shaped[X, ""] | Nested,
    args: Given = (),
    method: str | Function | None = None,
    jac: Given = None,
    hess: Given = None,
    hessp: Function | None = None,
    bounds: Given = None,
    constraints: Given = (),
    tol: float | None = None,
    callback: Function | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """``scipy.optimize.minimize``: differentiable by ``args``, limits and captures.

    Methods that use a gradient or a Hessian get functrace's, unless ``jac=`` or ``hess=`` is given.
    The derivative is that of the equations at a minimum: the gradient is zero, or balanced by
    active limits and constraints. It is evaluated at the point found, and as exact as that point.

    Args:
        fun: ``fun(x, *args)``: a number, for x of shape (n,).
        x0: the start, shape (n,) or a number.
        args: more arguments of ``fun``, ``jac``, ``hess`` and ``hessp``.
        method: SciPy's name of a method, or a function with its interface; by default "BFGS",
            "L-BFGS-B" with limits, "SLSQP" with constraints.
        jac: ``jac(x, *args)``, shape (n,); True if ``fun`` returns a pair with it; or the name of a
            difference formula.
        hess: ``hess(x, *args)``, shape (n, n), the name of a difference formula, or an object that
            updates an approximation.
        hessp: ``hessp(x, p, *args)``: the Hessian times p, shape (n,).
        bounds: n pairs, in which ``None`` is no limit, or a ``scipy.optimize.Bounds``.
        constraints: a ``scipy.optimize.LinearConstraint``, ``NonlinearConstraint`` or dict of
            SciPy's form, or a list of them.
        tol: tolerance, whose meaning depends on the method.
        callback: a function that is called after each iteration.
        options: options of the method, e.g. ``maxiter``.

    Returns:
        SciPy's result. ``x``, floats of shape (n,), and ``fun``, a number, have derivatives. Solver
        statistics (``nit``, ``success``) are plain for concrete values; other fields without
        derivative (``jac``, ``hess_inv``) raise when they are differentiated, and are missing under
        `jit` and `vmap`.

    Raises:
        NotDifferentiableError: if the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.minimize(lambda x: np.sum((x - a) ** 2), np.ones(1)).x[0])(4.0), 4)
        np.float64(1.0)

    Cost:
        SciPy's, and for a derivative the Hessian (``n`` forward derivatives of the gradient) and
        one solve with it.
    """
    args = tupled(args)
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.minimize(
            fun, x0, args, method, jac, hess, hessp, bounds, constraints, tol, callback, options
        )
    at = start_of(x0)
    lower, upper, keep = _limits(bounds, shape_of(at)[0])
    has_limits = bounds is not None
    parts = [_constraint(c) for c in _listed(constraints)]
    sides = [side for part in parts for side in (part.lower, part.upper)]
    word = method.lower() if isinstance(method, str) else method
    s = SolverCall(
        "scipy.optimize.minimize",
        [at, lower, upper, *sides],
        [word, tol, callback, options, jac, hess, hessp],
    )
    both = jac is True
    objective = s.function(
        named(fun, lambda x: number(fun(x, *args)[0] if both else fun(x, *args))), at
    )
    gradient = s.function(grad(objective), at)
    chosen = _default(word, has_limits, bool(parts))
    helpers: dict[str, SolverFunction] = {}
    if both:
        helpers["jac"] = s.function(lambda x: fun(x, *args)[1], at)
    elif callable(jac):
        helpers["jac"] = s.function(lambda x: jac(x, *args), at)
    elif jac in (None, False, "cs") and (chosen in _WITH_GRADIENT or callable(chosen)):
        helpers["jac"] = gradient
    if callable(hess):
        helpers["hess"] = s.function(lambda x: hess(x, *args), at)
    elif callable(hessp):
        helpers["hessp"] = s.function(lambda x, p: hessp(x, p, *args), at, at)
    elif hess is None and chosen in _WITH_HESSIAN:
        helpers["hess"] = s.function(hessian(objective), at)
    held = [s.function(part.f, at) for part in parts]
    slopes = [s.function(jacfwd(f) if _size(f) >= shape_of(at)[0] else jacrev(f), at) for f in held]
    if not s.traced:
        return scipy.optimize.minimize(
            fun, x0, args, method, jac, hess, hessp, bounds, constraints, tol, callback, options
        )
    order = s.functions

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> tuple[Any, Any]:
        of = dict(zip(map(id, order), functions, strict=True))
        given: dict[str, Any] = {name: of[id(f)] for name, f in helpers.items()}
        given |= {
            k: v
            for k, v in (("jac", jac), ("hess", hess))
            if k not in given and not callable(v) and v is not None
        }
        if has_limits:
            given["bounds"] = scipy.optimize.Bounds(operands[1], operands[2], keep)
        pairs = list(zip(operands[3::2], operands[4::2], strict=True))
        if parts:
            given["constraints"] = [
                part.scipys(of[id(f)], of[id(slope)], *pair)
                for part, f, slope, pair in zip(parts, held, slopes, pairs, strict=True)
            ]
        raw = scipy.optimize.minimize(
            of[id(objective)],
            operands[0],
            method=method,
            tol=tol,
            callback=callback,
            options=options,
            **given,
        )
        x = np.asarray(raw.x)
        values = [np.atleast_1d(of[id(f)](x)) for f in held]
        pushed = [np.reshape(of[id(f)](x), (-1, len(x))) for f in slopes]
        return raw, _multipliers(x, of[id(gradient)](x), values, pushed, operands[1:3], pairs)

    def equations(both: Sequence[Any]) -> Any:
        x, forces = both
        slope = grad(objective)(x)
        rest: list[Any] = []
        for f, force, part_lower, part_upper in zip(
            held, forces, sides[::2], sides[1::2], strict=True
        ):
            value = f(x)
            pull = np.reshape(
                (jacfwd(f) if _size(f) >= shape_of(x)[0] else jacrev(f))(x), (-1, shape_of(x)[0])
            )
            slope = slope - force @ pull
            rest.append(projected(np.reshape(value, (-1,)), force, part_lower, part_upper))
        return (projected(x, slope, lower, upper) if has_limits else slope), rest

    if s.is_concrete:
        raw, forces = s.at_once(solve)
        s.ok, s.message = bool(raw.success), str(raw.message)
        x = _solved(s, equations, raw.x, forces, True)
        return s.result(raw, {"x": x, "fun": objective(x)})
    avals = [
        ShapeDtype(shape_of(at), at.dtype),
        *COUNTS,
        *[ShapeDtype((_size(f),), np.dtype(float)) for f in held],
    ]

    def fields(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        raw, forces = solve(operands, functions)
        return [raw.x, *counts(raw), *forces]

    x, *found = s.run(fields, avals)
    summary = counted(found[: len(COUNTS)])
    s.ok = summary["success"]
    x = _solved(s, equations, x, found[len(COUNTS) :], False)
    return Solution(s.what, x=x, fun=objective(x), **summary)


def _solved(
    s: SolverCall,
    equations: Function,
    x: Shaped[Any, "n"],
    forces: Sequence[Any],
    at_solution: bool,
) -> Shaped[Any, "n"]:
    """Return the minimum defined by equations, together with the multipliers of constraints."""
    sizes = [shape_of(x)[0], *[shape_of(force)[0] for force in forces]]
    ends = np.cumsum(sizes)[:-1]

    def together(z: Numbers) -> Any:
        first, *rest = np.split(z, ends) if len(sizes) > 1 else [z]
        zero, others = equations((first, rest))
        return np.concatenate([zero, *others]) if others else zero

    z = np.concatenate([x, *forces]) if forces else x
    return s.defined(z, together, at_solution=at_solution)[: sizes[0]]


def _size(f: SolverFunction) -> int:
    return sum(aval.size for aval in f.staged.out_avals)


def _default(method: Given, has_limits: bool, has_constraints: bool) -> Any:
    """Return the method that SciPy chooses."""
    if method is not None:
        return method
    return "slsqp" if has_constraints else "l-bfgs-b" if has_limits else "bfgs"


def _limits(bounds: Given, size: int) -> tuple[Shaped[Any, "n"], Shaped[Any, "n"], Any]:
    """Return lower and upper limits, and whether a method must never leave them."""
    keep: Any = False
    if bounds is None:
        return np.full(size, -np.inf), np.full(size, np.inf), keep
    if isinstance(bounds, scipy.optimize.Bounds):
        lower, upper, keep = bounds.lb, bounds.ub, bounds.keep_feasible
    else:
        pairs = list(bounds)
        lower = [-np.inf if pair[0] is None else pair[0] for pair in pairs]
        upper = [np.inf if pair[1] is None else pair[1] for pair in pairs]
    return np.broadcast_to(_floats(lower), (size,)), np.broadcast_to(_floats(upper), (size,)), keep


def _floats(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


# -- constraints -----------------------------------------------------------------------------------


class _Constraint(NamedTuple):
    """``lower <= f(x) <= upper``.

    Args:
        f: the function.
        lower, upper: numbers or arrays.
        scipys: makes SciPy's form of it from the function, its Jacobian and the limits, all on
            plain values.
    """

    f: Callable[[Any], Any]
    lower: Any
    upper: Any
    scipys: Callable[[Function, Function, Any, Any], Any]


def _listed(constraints: Given) -> list[Any]:
    is_one = isinstance(
        constraints, dict | scipy.optimize.LinearConstraint | scipy.optimize.NonlinearConstraint
    )
    return [constraints] if is_one else list(constraints)


def _constraint(given: Given) -> _Constraint:
    if isinstance(given, scipy.optimize.LinearConstraint):
        dense: Any = given.A
        matrix = dense.toarray() if hasattr(dense, "toarray") else np.atleast_2d(dense)

        def unchanged(f: Function, slope: Function, lower: Numbers, upper: Numbers) -> Any:
            return given

        def product(x: Numbers) -> Any:
            return matrix @ x

        return _Constraint(product, _floats(given.lb), _floats(given.ub), unchanged)
    if isinstance(given, scipy.optimize.NonlinearConstraint):
        keep = given.keep_feasible

        def value(x: Numbers) -> Any:
            return np.reshape(arrayed(given.fun(x)), (-1,))

        def nonlinear(f: Function, slope: Function, lower: Numbers, upper: Numbers) -> Any:
            return scipy.optimize.NonlinearConstraint(f, lower, upper, slope, keep_feasible=keep)

        return _Constraint(value, _floats(given.lb), _floats(given.ub), nonlinear)
    args, kind, f = given.get("args", ()), given["type"].lower(), given["fun"]
    largest = 0.0 if kind == "eq" else np.inf

    def with_args(x: Numbers) -> Any:
        return np.reshape(arrayed(f(x, *args)), (-1,))

    def as_dict(f: Function, slope: Function, lower: Numbers, upper: Numbers) -> Any:
        return {"type": kind, "fun": f, "jac": slope}

    return _Constraint(with_args, np.float64(0.0), np.float64(largest), as_dict)


def _multipliers(
    x: Shaped[Any, "n"],
    gradient: Shaped[Any, "n"],
    values: Sequence[Any],
    slopes: Sequence[Any],
    limits: Sequence[Any],
    sides: Sequence[Any],
) -> list[Any]:
    """Return the multipliers that balance the gradient at a minimum, by least squares."""
    if not values:
        return []
    values, slopes, sides = (
        [*values, x],
        [*slopes, np.eye(len(x))],
        [*sides, limits],
    )  # limits have multipliers, too
    columns: list[Any] = []
    places: list[tuple[int, Any]] = []
    least: list[float] = []
    most: list[float] = []
    for k, (value, slope, (lower, upper)) in enumerate(zip(values, slopes, sides, strict=True)):
        at_lower, at_upper = (
            _is_near(value, np.broadcast_to(side, value.shape)) for side in (lower, upper)
        )
        for row in np.flatnonzero(at_lower | at_upper):
            columns.append(slope[row])
            places.append((k, row))
            least.append(-np.inf if at_upper[row] else 0.0)
            most.append(np.inf if at_lower[row] else 0.0)
    forces = [np.zeros(len(value)) for value in values]
    if columns:
        found = scipy.optimize.lsq_linear(
            np.stack(columns, 1), gradient, (least, most), method="bvls"
        ).x
        for (k, row), force in zip(places, found, strict=True):
            forces[k][row] = force
    return forces[:-1]


def _is_near(x: Shaped[Any, "n"], limit: Shaped[Any, "n"]) -> Shaped[Any, "n"]:
    """Return True if a constraint may be active: interior methods stop before it."""
    finite = np.where(np.isfinite(limit), limit, 0.0)
    return np.isfinite(limit) & (np.abs(x - finite) <= 1e-3 * (1 + np.abs(finite)))


# -- of one variable -------------------------------------------------------------------------------


def minimize_scalar(
    fun: Function,
    bracket: Given = None,
    bounds: Given = None,
    args: Given = (),
    method: str | Function | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """``scipy.optimize.minimize_scalar``; see `minimize` for the derivatives.

    Args:
        fun: ``fun(x, *args)``: a number, for a number.
        bracket: two or three numbers where a search for a minimum begins, for "brent" and "golden".
        bounds: the limits ``(lower, upper)``, for "bounded".
        args: more arguments of ``fun``.
        method: "brent" (the default), "golden", "bounded" (the default with ``bounds``), or a
            function with SciPy's interface.
        tol: relative tolerance of the minimum's place; absolute for "bounded".
        options: options of the method, e.g. ``maxiter``.

    Returns:
        SciPy's result. ``x``, the place of the minimum, and ``fun``, the value there, are float64
        numbers with derivatives.

    Raises:
        NotDifferentiableError: if the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2).x)(4.0), 4)
        np.float64(1.0)
    """
    args = tupled(args)
    plain = (fun, bracket, bounds, args, method, tol, options)
    if not is_recording():
        return scipy.optimize.minimize_scalar(*plain)
    within = _floats(bounds) if bounds is not None else np.array([-np.inf, np.inf])
    points = _floats(bracket) if bracket is not None else np.zeros(0)
    s = SolverCall("scipy.optimize.minimize_scalar", [within, points], [method, tol, options])
    objective = s.function(named(fun, lambda x: number(fun(x, *args))), np.float64(0.5))
    if not s.traced:
        return scipy.optimize.minimize_scalar(*plain)

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        limits = None if bounds is None else tuple(operands[0])
        start = None if bracket is None else tuple(operands[1])
        return scipy.optimize.minimize_scalar(functions[0], start, limits, (), method, tol, options)

    def equations(x: Numbers) -> Any:
        slope = grad(objective)(x)
        return slope if bounds is None else projected_near(x, slope, within[0], within[1])

    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.success), str(raw.get("message", ""))
        x = s.defined(np.float64(raw.x), equations, at_solution=True)
        return s.result(raw, {"x": x, "fun": objective(x)})
    x, *found = s.run(
        lambda operands, functions: _scalar_fields(solve(operands, functions)),
        [ShapeDtype((), np.dtype(float)), *COUNTS],
    )
    summary = counted(found)
    s.ok = summary["success"]
    x = s.defined(x, equations, at_solution=False)
    return Solution(s.what, x=x, fun=objective(x), **summary)


def _scalar_fields(raw: Found) -> list[Any]:
    return [np.float64(raw.x), *counts(raw)]


def projected_near(x: Numbers, gradient: Numbers, lower: Numbers, upper: Numbers) -> Any:
    """Like `projected` for interior methods: a limit within 1e-4 may be active."""
    near = 1e-4 * (upper - lower)
    is_lower = (x - lower < near) & (gradient > near)
    is_upper = (upper - x < near) & (gradient < -near)
    return where(is_lower, x - lower, where(is_upper, x - upper, gradient))
