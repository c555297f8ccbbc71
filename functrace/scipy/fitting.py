"""Least squares by ``scipy.optimize``, on traced values, with implicit derivatives.

Layer: 9.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.optimize

from functrace.api.capture.programs import stop_gradient
from functrace.api.differentiation.gradients import grad
from functrace.api.differentiation.jacobians import jacfwd
from functrace.errors import ArgumentError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.numpy.protocol.operands import Operand, arrayed, holds_tracer
from functrace.scipy.kinds import Found, Given, Numbers, cholesky, where
from functrace.scipy.minimizing import projected, start_of
from functrace.scipy.operands import Float, Nested, Shaped, X
from functrace.scipy.solving import (
    Function,
    Solution,
    SolverCall,
    SolverFunction,
    named,
    tupled,
)
from functrace.tracing.binding import is_recording

# NumPy's own types say nothing about operands that may be traced values.
_inverse: Callable[[Any], Any] = np.linalg.inv
_solve: Callable[[Any, Any], Any] = np.linalg.solve

_EXACT = ("2-point", "cs")
"""Differences that functrace's Jacobian replaces: the default, and complex steps, which are exact,
too, but whose arguments are complex."""

_FLOAT, _INT, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)

_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "huber": lambda z: where(z <= 1, z, 2 * np.sqrt(where(z <= 1, 1.0, z)) - 1),
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""SciPy's loss functions, of squared residuals."""


def _floats(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


def _limits(bounds: Given, size: int) -> tuple[Shaped[Any, "n"], Shaped[Any, "n"], bool]:
    """Return lower and upper limits, and whether there are any."""
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, scipy.optimize.Bounds) else tuple(bounds)
    if len(pair) != 2:
        raise ArgumentError(
            f"bounds has {len(pair)} parts", fix="give (lower, upper), or a scipy.optimize.Bounds"
        )
    lower, upper = (np.broadcast_to(_floats(x), (size,)) for x in pair)
    has = holds_tracer(list(pair)) or not (
        np.all(np.isneginf(lower)) and np.all(np.isposinf(upper))
    )
    return lower, upper, has


def least_squares(
    fun: Function,
    x0: Shaped[X, "n"] | Shaped[X, ""] | Nested,
    jac: Given = "2-point",
    bounds: Given = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Given = None,
    loss: str | Function = "linear",
    f_scale: float = 1.0,
    diff_step: Given = None,
    tr_solver: str | None = None,
    tr_options: dict[str, Any] | None = None,
    jac_sparsity: Given = None,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: Given = (),
    kwargs: dict[str, Any] | None = None,
    callback: Function | None = None,
    workers: Given = None,
) -> Any:
    """``scipy.optimize.least_squares``: differentiable, by limits and captured values too.

    It minimizes the cost ``0.5 * sum(f_scale**2 * rho((r / f_scale)**2))`` of m residuals r of n
    unknowns. It uses functrace's Jacobian, unless ``jac=`` is a function or "3-point". The derivative is
    that of a minimum of the cost, so it includes the second derivatives of the residuals.

    Args:
        fun: ``fun(x, *args, **kwargs)``: residuals, shape (m,) or a number, for x of shape (n,).
        x0: the start, shape (n,) or a number.
        jac: ``jac(x, *args, **kwargs)``, shape (m, n), or the name of a difference formula.
        bounds: ``(lower, upper)``, numbers or of shape (n,), or a ``scipy.optimize.Bounds``.
        method: "trf" and "dogbox" (trust regions, with limits) or "lm" (without).
        ftol, xtol, gtol: tolerances of the relative change of the cost, the relative change of x,
            and the norm of the gradient; ``None`` to ignore one.
        x_scale: typical sizes of the unknowns, a number or shape (n,), or "jac".
        loss: rho: "linear", "huber", "soft_l1", "cauchy", "arctan", or a function of squares of
            shape (m,) that returns rho and two derivatives, shape (3, m).
        f_scale: the residual from which on it counts as an outlier.
        diff_step: relative step of differences, a number or shape (n,).
        tr_solver, tr_options: solver of the subproblems, "exact" or "lsmr", and its options.
        jac_sparsity: the pattern of nonzeros of the Jacobian, shape (m, n), for differences.
        max_nfev: largest number of calls of ``fun``.
        verbose: 1 to print a report, 2 to print each iteration.
        args, kwargs: more arguments of ``fun`` and of a function ``jac``.
        callback: a function that is called with each iterate (SciPy 1.16).
        workers: a number of processes, or a map, for differences (SciPy 1.16).

    Returns:
        SciPy's result. ``x``, shape (n,), ``fun``, shape (m,), and ``cost``, a number, are floats
        with derivatives; other floats (``grad``, ``jac``) raise when they are differentiated, and
        are missing under `jit` and `vmap`.

    Raises:
        ArgumentError: if ``bounds`` is no pair.
        NotDifferentiableError: if the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.least_squares(lambda x: x - a, np.ones(1)).x[0])(4.0), 4)
        np.float64(1.0)
    """
    args = tupled(args)
    more = kwargs or {}
    options: dict[str, Any] = {
        "method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale,
        "loss": loss, "f_scale": f_scale,
        "diff_step": diff_step, "tr_solver": tr_solver, "tr_options": tr_options,
        "jac_sparsity": jac_sparsity,
        "max_nfev": max_nfev, "verbose": verbose, "callback": callback, "workers": workers,
    }  # fmt: skip
    for name in (
        "x_scale",
        "callback",
        "workers",
    ):  # SciPy has None for these, and the last two at all, from 1.16 on
        if options[name] is None:
            del options[name]

    def scipys() -> Any:
        return scipy.optimize.least_squares(fun, x0, jac, bounds, args=args, kwargs=more, **options)

    if not is_recording() and not holds_tracer([x0, list(args), list(more.values())]):
        return scipys()
    at = start_of(x0)
    lower, upper, has_limits = _limits(bounds, shape_of(at)[0])
    s = SolverCall("scipy.optimize.least_squares", [at, lower, upper], [*options.values(), jac])
    residuals = s.function(
        named(fun, lambda x: np.reshape(arrayed(fun(x, *args, **more)), (-1,))), at
    )
    if callable(jac):
        s.function(lambda x: jac(x, *args, **more), at)
    elif jac in _EXACT:
        s.function(jacfwd(residuals), at)
    if not s.traced:
        return scipys()

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        given: Any = functions[1] if len(functions) > 1 else jac
        limits = (operands[1], operands[2]) if has_limits else (-np.inf, np.inf)
        return scipy.optimize.least_squares(functions[0], operands[0], given, limits, **options)

    def cost(x: Numbers) -> Any:
        return _cost(residuals(x), loss, f_scale)

    def equations(x: Numbers) -> Any:
        return projected(x, grad(cost)(x), lower, upper) if has_limits else grad(cost)(x)

    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.success), str(raw.message)
        x = s.defined(_at_limits(raw, lower, upper), equations, at_solution=True)
        return s.result(raw, {"x": x, "fun": residuals(x), "cost": cost(x)})

    def fields(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        raw = solve(operands, functions)
        x = _at_limits(raw, operands[1], operands[2])
        return [x, np.bool_(raw.success), np.int64(raw.status), np.int64(raw.nfev)]

    count = ShapeDtype((), _INT)
    x, ok, status, calls = s.run(
        fields, [ShapeDtype(shape_of(at), at.dtype), ShapeDtype((), _BOOL), count, count]
    )
    s.ok = ok
    x = s.defined(x, equations, at_solution=False)
    return Solution(
        s.what, x=x, fun=residuals(x), cost=cost(x), success=ok, status=status, nfev=calls
    )


def _cost(residuals: Shaped[Any, "m"], loss: str | Function, f_scale: float) -> Shaped[Any, ""]:
    if loss == "linear":
        return 0.5 * np.sum(residuals**2)
    squares = (residuals / f_scale) ** 2
    rho = _LOSSES[loss](squares) if isinstance(loss, str) else loss(squares)[0]
    return 0.5 * f_scale**2 * np.sum(rho)


def _at_limits(raw: Found, lower: Shaped[Any, "n"], upper: Shaped[Any, "n"]) -> Shaped[Any, "n"]:
    """Return the solution with active limits set exactly, which interior methods only approach."""
    mask = raw.active_mask
    return (
        where(mask < 0, stop_gradient(lower), where(mask > 0, stop_gradient(upper), raw.x))
        if mask.any()
        else raw.x
    )


def leastsq(
    func: Function,
    x0: Shaped[X, "n"] | Shaped[X, ""] | Nested,
    args: Given = (),
    Dfun: Function | None = None,
    full_output: bool = False,
    col_deriv: bool = False,
    ftol: float = 1.49012e-8,
    xtol: float = 1.49012e-8,
    gtol: float = 0.0,
    maxfev: int = 0,
    epsfcn: float | None = None,
    factor: Given = 100,
    diag: Shaped[X, "n"] | Nested | None = None,
) -> Any:
    """``scipy.optimize.leastsq``: differentiable by ``args`` and captured values.

    It minimizes the sum of the squares of m residuals of n unknowns. It uses functrace's Jacobian,
    unless ``Dfun=`` is a function. The derivative is that of a minimum of the sum of squares.

    Args:
        func: ``func(x, *args)``: residuals, shape (m,), for x of shape (n,).
        x0: the start, shape (n,) or a number.
        args: more arguments of ``func`` and ``Dfun``.
        Dfun: ``Dfun(x, *args)``: the Jacobian, shape (m, n).
        full_output: True to return five results.
        col_deriv: True if ``Dfun`` returns the transposed Jacobian, shape (n, m).
        ftol, xtol, gtol: tolerances of the relative change of the sum of squares, the relative
            change of x, and the cosine between residuals and columns of the Jacobian.
        maxfev: largest number of calls of ``func``; 0 for SciPy's choice.
        epsfcn: relative step of differences, which traced values do not need.
        factor: bound of the first step, relative to the norm of ``diag * x0``.
        diag: scales of the unknowns, shape (n,).

    Returns:
        the solution, floats of shape (n,), and SciPy's status, an int from 1 to 4 for success. With
        ``full_output``: the solution, the inverse of ``J.T @ J``, shape (n, n), or ``None``, the
        dict ``infodict``, the message and the status; of ``infodict``, only ``fvec``, the
        residuals, has a derivative.

    Raises:
        NotDifferentiableError: if the solution is differentiated and the solver did not succeed.
        UnsupportedFunctionError: with ``full_output`` on abstract values (`jit`): the message is a
            text.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.leastsq(lambda x: x - a, np.ones(1))[0][0])(4.0), 4)
        np.float64(1.0)
    """
    args = tupled(args)
    rest = (ftol, xtol, gtol, maxfev, epsfcn, factor, diag)
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.leastsq(func, x0, args, Dfun, full_output, col_deriv, *rest)
    at = start_of(x0)
    s = SolverCall("scipy.optimize.leastsq", [at], [col_deriv, *rest])
    residuals = s.function(named(func, lambda x: np.reshape(arrayed(func(x, *args)), (-1,))), at)
    if Dfun is None:
        s.function(jacfwd(residuals), at)
    else:
        s.function(lambda x: Dfun(x, *args), at)
    by_columns = col_deriv and Dfun is not None
    if not s.traced:
        return scipy.optimize.leastsq(func, x0, args, Dfun, full_output, col_deriv, *rest)

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        return scipy.optimize.leastsq(
            functions[0], operands[0], (), functions[1], True, by_columns, *rest
        )

    def equations(x: Numbers) -> Any:
        def cost(x: Numbers) -> Any:
            return 0.5 * np.sum(residuals(x) ** 2)

        return grad(cost)(x)

    if not s.is_concrete:
        if full_output:
            raise UnsupportedFunctionError(
                "scipy.optimize.leastsq: full_output=True has a message, which is not known under "
                "jit and vmap",
                fix="leave it out, or use functrace.scipy.optimize.least_squares",
            )
        avals = [ShapeDtype(shape_of(at), at.dtype), ShapeDtype((), _INT)]
        x, status = s.run(lambda operands, functions: _pair(solve(operands, functions)), avals)
        s.ok = (status > 0) & (status < 5)
        return s.defined(x, equations, at_solution=False), status
    found, spread, info, s.message, status = s.at_once(solve)
    s.ok = status in (1, 2, 3, 4)
    x = s.defined(np.asarray(found), equations, at_solution=True)
    if not full_output:
        return x, status
    fields = {
        name: s.undifferentiated(name, value) if np.asarray(value).dtype.kind == "f" else value
        for name, value in info.items()
    }
    slope = jacfwd(residuals)(x)
    return (
        x,
        None if spread is None else _inverse(slope.T @ slope),
        {**fields, "fvec": residuals(x)},
        s.message,
        status,
    )


def _pair(raw: Found) -> list[Any]:
    return [raw[0], np.int64(raw[4])]


def curve_fit(
    f: Function,
    xdata: Given,
    ydata: Operand,
    p0: Shaped[X, "k"] | Shaped[X, ""] | Nested | None = None,
    sigma: Shaped[X, ""] | Shaped[X, "m"] | Shaped[X, "m m"] | Nested | None = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Given = (-np.inf, np.inf),
    method: str | None = None,
    jac: Given = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **kwargs: Given,
) -> Any:
    """``scipy.optimize.curve_fit``: differentiable by data, weights and captured values.

    It fits k parameters of a model to m observations. It uses functrace's Jacobian, unless ``jac=``
    is a function or "3-point".

    Args:
        f: the model, ``f(xdata, p1, ..., pk)``: m values.
        xdata: where the observations were made: an array whose last axis has length m, or anything
            that ``f`` takes.
        ydata: the observations, shape (m,).
        p0: the start, shape (k,); 1 for each parameter by default, or a point between limits.
        sigma: standard deviations of the observations, a number or shape (m,), or their covariance,
            shape (m, m).
        absolute_sigma: True if ``sigma`` has the unit of the observations; otherwise only ratios
            matter, and the covariance is scaled by the residuals.
        check_finite, nan_policy: checks for NaN and infinity, on plain values; no effect on traced
            ones.
        bounds: ``(lower, upper)``, numbers or of shape (k,), or a ``scipy.optimize.Bounds``.
        method: "lm" (the default without limits), "trf" or "dogbox".
        jac: ``jac(xdata, p1, ..., pk)``, shape (m, k), or the name of a difference formula.
        full_output: not possible on traced values.
        kwargs: options of the solver, `leastsq` for "lm" and `least_squares` for the others.

    Returns:
        the parameters, floats of shape (k,), and their covariance, shape (k, k); both have
        derivatives.

    Raises:
        ArgumentError: with ``full_output`` on traced values, or if ``bounds`` is no pair.
        RuntimeError: like SciPy, if the fit fails.
        LinAlgError: if the covariance is computed and the parameters are not determined.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> x = np.arange(4.0)
        >>> np.round(ft.grad(lambda y: optimize.curve_fit(lambda x, a: a * x, x, y)[0][0])(2.0 * x), 4)
        array([0.    , 0.0714, 0.1429, 0.2143])
    """

    def scipys() -> Any:
        return scipy.optimize.curve_fit(
            f, xdata, ydata, p0, sigma, absolute_sigma, check_finite, bounds, method, jac,
            full_output=full_output, nan_policy=nan_policy, **kwargs,
        )  # fmt: skip

    data: Operand = xdata
    if not is_recording() and not holds_tracer([data, ydata, p0, sigma]):
        return scipys()
    count = len(inspect.signature(f).parameters) - 1 if p0 is None else shape_of(start_of(p0))[0]
    lower, upper, has_limits = _limits(bounds, count)
    at = start_of(_feasible(lower, upper) if p0 is None else p0)
    x: Any = arrayed(data) if isinstance(data, list | tuple | float | int) else data
    y = np.reshape(_floats(ydata), (-1,))
    weights = None if sigma is None else _floats(sigma)
    if weights is not None and weights.size == 1:
        weights = np.reshape(weights, (-1,))  # a standard deviation, also as a matrix
    s = SolverCall(
        "scipy.optimize.curve_fit", [at, lower, upper], [method, jac, absolute_sigma, kwargs]
    )

    def residuals(p: Numbers) -> Any:
        difference = np.reshape(arrayed(f(x, *[p[k] for k in range(count)])), (-1,)) - y
        if weights is None:
            return difference
        if weights.ndim == 2:
            return _solve(cholesky(weights), difference)
        return difference / weights  # of one or m elements

    recorded = s.function(named(f, residuals), at)
    if callable(jac):
        slope: Function = jac
        s.function(
            lambda p: _weighted(arrayed(slope(x, *[p[k] for k in range(count)])), weights), at
        )
    elif jac is None or jac in _EXACT:
        s.function(jacfwd(recorded), at)
    if not s.traced:
        return scipys()
    if full_output:
        raise ArgumentError(
            "scipy.optimize.curve_fit has no full_output on traced values",
            fix="use scipy.optimize.least_squares",
        )
    size = shape_of(y)[0]

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        def called(f: Function) -> Function:
            return lambda *xs: f(np.asarray(xs[1:]))

        given: Any = called(functions[1]) if len(functions) > 1 else jac
        limits = (operands[1], operands[2]) if has_limits else (-np.inf, np.inf)
        found = scipy.optimize.curve_fit(
            called(functions[0]), np.zeros(size), np.zeros(size), operands[0],
            bounds=limits,
            method=method, jac=given, **kwargs,
        )[0]  # fmt: skip
        return [found]

    def equations(p: Numbers) -> Any:
        def cost(p: Numbers) -> Any:
            return 0.5 * np.sum(recorded(p) ** 2)

        slope = grad(cost)(p)
        return projected(p, slope, lower, upper) if has_limits else slope

    known = s.is_concrete
    (p,) = s.at_once(solve) if known else s.run(solve, [ShapeDtype((count,), _FLOAT)])
    p = s.defined(p, equations, at_solution=known)
    return p, _covariance(recorded, p, size - count, absolute_sigma)


def _weighted(
    slope: Shaped[Any, "m k"],
    weights: Shaped[Any, "1"] | Shaped[Any, "m"] | Shaped[Any, "m m"] | None,
) -> Shaped[Any, "m k"]:
    if weights is None:
        return slope
    return _solve(cholesky(weights), slope) if weights.ndim == 2 else slope / weights[:, None]


def _feasible(lower: Shaped[Any, "n"], upper: Shaped[Any, "n"]) -> Shaped[Any, "n"]:
    """Return SciPy's starting point."""
    low, high = np.isfinite(lower), np.isfinite(upper)
    middle = np.where(low, lower, 0.0) / 2 + np.where(high, upper, 0.0) / 2
    one_side = np.where(
        low, np.where(low, lower, 0.0) + 1, np.where(high, np.where(high, upper, 0.0) - 1, 1.0)
    )
    return np.where(low & high, middle, one_side)


def _covariance(
    recorded: SolverFunction, p: Shaped[Any, "k"], freedom: int, absolute: bool
) -> Shaped[Any, "k k"]:
    slope = jacfwd(recorded)(p)
    covariance = _inverse(slope.T @ slope)
    if absolute:
        return covariance
    return covariance * (np.sum(recorded(p) ** 2) / freedom) if freedom > 0 else covariance * np.inf


# -- linear problems -------------------------------------------------------------------------------


@runtime_checkable
class _Sparse(Protocol):
    """A sparse matrix of SciPy."""

    def tocsr(self) -> Any: ...


@runtime_checkable
class _LinearOperator(Protocol):
    """An operator of SciPy."""

    def matvec(self, x: object, /) -> Any: ...


def _linear(a: Given, b: Operand, what: str) -> tuple[Shaped[Any, "m n"], Shaped[Any, "m"]]:
    matrix, right = _floats(a), _floats(b)
    if matrix.ndim != 2 or right.ndim != 1 or matrix.shape[0] != right.shape[0]:
        raise ShapeError(
            f"scipy.optimize.{what}: A is {matrix.shape} and b is {right.shape}",
            fix="pass shapes (m, n) and (m,)",
        )
    return matrix, right


def nnls(
    A: Shaped[X, "m n"] | Nested,
    b: Shaped[X, "m"] | Shaped[X, "m 1"] | Nested,
    *,
    maxiter: int | None = None,
    **others: Given,
) -> tuple[Float[Any, "n"], Float[Any, ""] | float]:
    """``scipy.optimize.nnls``: minimize ``|A x - b|`` for ``x >= 0``, differentiably.

    Args:
        A: shape (m, n).
        b: shape (m,).
        maxiter: largest number of iterations; 3 n by default.
        others: further options of the installed SciPy; no effect on traced values.

    Returns:
        the solution, floats of shape (n,), and the norm of ``A x - b``, a number.

    Raises:
        ShapeError: if the shapes are not (m, n) and (m,).
        RuntimeError: like SciPy, if it does not converge.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda b: optimize.nnls(2.0 * np.eye(2), b)[0][0])(np.ones(2))[0], 4)
        np.float64(0.5)
    """
    if not holds_tracer([A, b]):
        return scipy.optimize.nnls(A, b, maxiter=maxiter, **others)
    matrix, right = _linear(A, b, "nnls")
    s = SolverCall("scipy.optimize.nnls", [matrix, right], [maxiter])

    def solve(operands: Sequence[Any], _: Sequence[Function]) -> list[Any]:
        return [scipy.optimize.nnls(operands[0], operands[1], maxiter=maxiter)[0]]

    def equations(x: Numbers) -> Any:
        return projected(x, matrix.T @ (matrix @ x - right), 0.0, np.inf)

    known = s.is_concrete
    (x,) = s.at_once(solve) if known else s.run(solve, [ShapeDtype((matrix.shape[1],), _FLOAT)])
    x = s.defined(x, equations, at_solution=known)
    return x, np.linalg.norm(matrix @ x - right)


def lsq_linear(
    A: Shaped[X, "m n"] | Nested | _Sparse | _LinearOperator,
    b: Shaped[X, "m"] | Nested,
    bounds: Given = (-np.inf, np.inf),
    method: str = "trf",
    tol: float = 1e-10,
    lsq_solver: str | None = None,
    lsmr_tol: Given = None,
    max_iter: int | None = None,
    verbose: int = 0,
    *,
    lsmr_maxiter: int | None = None,
) -> Any:
    """``scipy.optimize.lsq_linear``: differentiable by ``A``, ``b`` and limits.

    It minimizes ``|A x - b|**2 / 2`` between limits.

    Args:
        A: shape (m, n); an array, if it is traced.
        b: shape (m,).
        bounds: ``(lower, upper)``, numbers or of shape (n,), or a ``scipy.optimize.Bounds``.
        method: "trf" (interior points) or "bvls" (active sets).
        tol: tolerance of the relative change of the cost, and of the gradient.
        lsq_solver: solver of problems without limits: "exact" (SVD) or "lsmr".
        lsmr_tol, lsmr_maxiter: tolerance and largest number of iterations of "lsmr".
        max_iter: largest number of iterations; ``None`` for SciPy's choice.
        verbose: 1 to print a report, 2 to print each iteration.

    Returns:
        SciPy's result. ``x``, shape (n,), ``fun``, the residuals of shape (m,), and ``cost``, a
        number, are floats with derivatives.

    Raises:
        ShapeError: if the shapes are not (m, n) and (m,).
        ArgumentError: if ``bounds`` is no pair.
        NotDifferentiableError: if the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda b: optimize.lsq_linear(2.0 * np.eye(2), b).x[0])(np.ones(2))[0], 4)
        np.float64(0.5)
    """
    options: dict[str, Any] = {
        "method": method, "tol": tol, "lsq_solver": lsq_solver, "lsmr_tol": lsmr_tol,
        "max_iter": max_iter,
        "verbose": verbose, "lsmr_maxiter": lsmr_maxiter,
    }  # fmt: skip
    sides = [bounds.lb, bounds.ub] if isinstance(bounds, scipy.optimize.Bounds) else list(bounds)
    if not holds_tracer([A, b, *sides]):
        return scipy.optimize.lsq_linear(A, b, bounds, **options)
    matrix, right = _linear(A, b, "lsq_linear")
    lower, upper, has_limits = _limits(bounds, matrix.shape[1])
    s = SolverCall(
        "scipy.optimize.lsq_linear", [matrix, right, lower, upper], list(options.values())
    )

    def solve(operands: Sequence[Any], _: Sequence[Function]) -> Any:
        return scipy.optimize.lsq_linear(
            operands[0], operands[1], (operands[2], operands[3]), **options
        )

    def equations(x: Numbers) -> Any:
        slope = matrix.T @ (matrix @ x - right)
        return projected(x, slope, lower, upper) if has_limits else slope

    def fields(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        raw = solve(operands, functions)
        return [
            _at_limits(raw, operands[2], operands[3]),
            np.bool_(raw.success),
            np.int64(raw.status),
        ]

    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.success), str(raw.message)
        x = s.defined(_at_limits(raw, lower, upper), equations, at_solution=True)
        rest = matrix @ x - right
        return s.result(raw, {"x": x, "fun": rest, "cost": 0.5 * np.sum(rest**2)})
    avals = [ShapeDtype((matrix.shape[1],), _FLOAT), ShapeDtype((), _BOOL), ShapeDtype((), _INT)]
    x, ok, status = s.run(fields, avals)
    s.ok = ok
    x = s.defined(x, equations, at_solution=False)
    rest = matrix @ x - right
    return Solution(s.what, x=x, fun=rest, cost=0.5 * np.sum(rest**2), success=ok, status=status)
