"""Roots of equations by ``scipy.optimize``, on traced values, with implicit derivatives.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from functrace.api.differentiation.gradients import grad
from functrace.api.differentiation.jacobians import jacfwd
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.numpy.protocol.operands import Operand, arrayed, holds_tracer
from functrace.scipy.kinds import Found, Given, Numbers
from functrace.scipy.minimizing import start_of
from functrace.scipy.operands import Nested, Scalar, Shaped, X
from functrace.scipy.solving import (
    Function,
    Solution,
    SolverCall,
    SolverFunction,
    named,
    tupled,
)
from functrace.tracing.binding import is_recording

_FLOAT, _INT, _BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)


def root(
    fun: Function,
    x0: Shaped[X, "n"] | Shaped[X, ""] | Nested,
    args: Given = (),
    method: str = "hybr",
    jac: Given = None,
    tol: float | None = None,
    callback: Function | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """``scipy.optimize.root``: ``x`` and ``fun`` have derivatives, by ``args`` and captured values.

    It finds a zero of n functions of n unknowns. The methods "hybr" and "lm" use functrace's
    Jacobian, unless ``jac=`` is given.

    Args:
        fun: ``fun(x, *args)``: residuals, shape (n,), for x of shape (n,); with "lm" there may be
            more, whose squares are minimized.
        x0: the start, shape (n,) or a number.
        args: more arguments of ``fun`` and ``jac``.
        method: "hybr", "lm", or another of SciPy's names.
        jac: ``jac(x, *args)``, shape (n, n); True if ``fun`` returns a pair with it.
        tol: tolerance, whose meaning depends on the method.
        callback: a function that is called in each iteration, for the methods that have one.
        options: options of the method, e.g. ``maxiter``.

    Returns:
        SciPy's result. ``x``, floats of shape (n,), and ``fun``, the residuals, have derivatives;
        statistics of the solver (``fjac``, ``qtf``) raise when they are differentiated, and are
        missing under `jit` and `vmap`.

    Raises:
        NotDifferentiableError: if the result is differentiated and ``success`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.root(lambda x: x**2 - a, 1.0).x[0])(4.0), 4)
        np.float64(0.25)

    Cost:
        SciPy's, and for a derivative the Jacobian and one solve with it.
    """
    args = tupled(args)
    plain = (fun, x0, args, method, jac, tol, callback, options)
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.root(*plain)
    at = start_of(x0)
    s = SolverCall("scipy.optimize.root", [at], [method, tol, callback, options, jac])
    both = jac is True
    f = s.function(named(fun, lambda x: _vector(fun(x, *args)[0] if both else fun(x, *args))), at)
    slope: SolverFunction | None = None
    if both or callable(jac):
        slope = s.function(lambda x: fun(x, *args)[1] if both else jac(x, *args), at)
    elif method in ("hybr", "lm") and jac in (None, False):
        slope = s.function(jacfwd(f), at)
    if not s.traced:
        return scipy.optimize.root(*plain)

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        given: Any = functions[1] if slope is not None else jac
        return scipy.optimize.root(
            functions[0], operands[0], (), method, given, tol, callback, options
        )

    square = f.staged.out_avals[0].shape == shape_of(at)

    def cost(x: Numbers) -> Any:
        return np.sum(f(x) ** 2) / 2

    # "lm" accepts more equations than unknowns
    equations: Callable[[Any], Any] = f if square else grad(cost)
    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.success), str(raw.message)
        x = s.defined(np.asarray(raw.x), equations, at_solution=True)
        return s.result(raw, {"x": x, "fun": f(x)})
    x, ok, status, calls = s.run(
        lambda operands, functions: _fields(solve(operands, functions)),
        [
            ShapeDtype(shape_of(at), at.dtype),
            ShapeDtype((), _BOOL),
            ShapeDtype((), _INT),
            ShapeDtype((), _INT),
        ],
    )
    s.ok = ok
    x = s.defined(x, equations, at_solution=False)
    return Solution(s.what, x=x, fun=f(x), success=ok, status=status, nfev=calls)


def _vector(found: Found) -> Shaped[Any, "n"]:
    return np.reshape(arrayed(found), (-1,))


def _fields(raw: Found) -> list[Any]:
    return [
        raw.x,
        np.bool_(raw.success),
        np.int64(raw.get("status", -1)),
        np.int64(raw.get("nfev", -1)),
    ]


def fsolve(
    func: Function,
    x0: Shaped[X, "n"] | Shaped[X, ""] | Nested,
    args: Given = (),
    fprime: Function | None = None,
    full_output: bool = False,
    col_deriv: bool = False,
    xtol: float = 1.49012e-08,
    maxfev: int = 0,
    band: tuple[int, int] | None = None,
    epsfcn: float | None = None,
    factor: Given = 100,
    diag: Shaped[X, "n"] | Nested | None = None,
) -> Any:
    """``scipy.optimize.fsolve``: the root is differentiable by ``args`` and captured values.

    It finds a zero of n functions of n unknowns, with functrace's Jacobian by default.

    Args:
        func: ``func(x, *args)``: residuals, shape (n,), for x of shape (n,).
        x0: the start, shape (n,) or a number.
        args: more arguments of ``func`` and ``fprime``.
        fprime: ``fprime(x, *args)``: the Jacobian, shape (n, n).
        full_output: True to return four results.
        col_deriv: True if ``fprime`` returns the transposed Jacobian.
        xtol: tolerance of the relative change of x.
        maxfev: largest number of calls of ``func``; 0 for SciPy's choice.
        band, epsfcn: number of diagonals of the Jacobian below and above the main one, and the
            relative step of differences; no effect on traced values, which need no differences.
        factor: bound of the first step, relative to the norm of ``diag * x0``.
        diag: scales of the unknowns, shape (n,).

    Returns:
        the root, floats of shape (n,). With ``full_output``: the root, the dict ``infodict``, of
        which only ``fvec``, the residuals, has a derivative, the status, 1 for success, and the
        message, which is empty under `jit` and `vmap`.

    Raises:
        NotDifferentiableError: if the root is differentiated and the solver did not succeed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.fsolve(lambda x: x**2 - a, 1.0)[0])(4.0), 4)
        np.float64(0.25)
    """
    args = tupled(args)
    plain = (
        func,
        x0,
        args,
        fprime,
        full_output,
        col_deriv,
        xtol,
        maxfev,
        band,
        epsfcn,
        factor,
        diag,
    )
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.fsolve(*plain)
    at = start_of(x0)
    rest = (xtol, maxfev, band, epsfcn, factor, diag)
    s = SolverCall("scipy.optimize.fsolve", [at], [col_deriv, fprime, *rest])
    f = s.function(named(func, lambda x: _vector(func(x, *args))), at)
    if fprime is None:
        s.function(jacfwd(f), at)
    else:
        s.function(lambda x: fprime(x, *args), at)
    if not s.traced:
        return scipy.optimize.fsolve(*plain)
    by_column = col_deriv if fprime is not None else False

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        return scipy.optimize.fsolve(
            functions[0], operands[0], (), functions[1], True, by_column, *rest
        )

    if s.is_concrete:
        x, info, flag, message = s.at_once(solve)
        s.ok, s.message = flag == 1, str(message)
        x = s.defined(np.asarray(x), f, at_solution=True)
        if not full_output:
            return x
        raw = scipy.optimize.OptimizeResult(info)
        return x, dict(s.result(raw, {"fvec": f(x)})), flag, message

    def fields(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        x, info, flag, _ = solve(operands, functions)
        return [x, np.int64(flag), np.int64(info["nfev"])]

    x, flag, calls = s.run(
        fields, [ShapeDtype(shape_of(at), at.dtype), ShapeDtype((), _INT), ShapeDtype((), _INT)]
    )
    s.ok = flag == 1
    x = s.defined(x, f, at_solution=False)
    return (x, {"fvec": f(x), "nfev": calls}, flag, "") if full_output else x


# -- one equation ----------------------------------------------------------------------------------


def _scalar_solving(
    what: str,
    f: Function,
    args: Sequence[Any],
    starts: Sequence[Operand],
    static: Sequence[Any],
    helpers: Sequence[Function | None] = (),
) -> tuple[SolverCall, SolverFunction, list[bool]]:
    """Prepare the solution of one equation; also return which of the helpers exist."""
    s = SolverCall(what, [_double(x) for x in starts], static)
    example = s.operands[0] if starts else np.float64(0.0)
    recorded = s.function(named(f, lambda x: _number(f(x, *args))), example)
    there = [h is not None for h in helpers]

    def with_args(helper: Function) -> Callable[[Any], Any]:
        return lambda x: _number(helper(x, *args))

    for helper in helpers:
        if helper is not None:
            s.function(with_args(helper), example)
    return s, recorded, there


def _double(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype.kind in "fc" else made.astype(np.float64)


def _number(found: Found) -> Any:
    made = arrayed(found)
    return np.reshape(made, ()) if shape_of(made) == (1,) else made


def root_scalar(
    f: Function,
    args: Given = (),
    method: str | None = None,
    bracket: Given = None,
    fprime: Given = None,
    fprime2: Given = None,
    x0: Operand | None = None,
    x1: Operand | None = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """``scipy.optimize.root_scalar``: ``root`` has derivatives by ``args`` and captured values.

    The method "newton" uses functrace's derivative, unless one is given.

    Args:
        f: ``f(x, *args)``: a number, for a number.
        args: more arguments of ``f``, ``fprime`` and ``fprime2``.
        method: "brentq", "brenth", "bisect", "ridder", "toms748" (with ``bracket``), "newton",
            "halley", "secant"; by default one that needs no more than what is given.
        bracket: two numbers where ``f`` has different signs.
        fprime: the derivative of ``f``; True if ``f`` returns it, too.
        fprime2: the second derivative of ``f``; True if ``f`` returns it, too.
        x0, x1: the start, and a second one for "secant".
        xtol, rtol: absolute and relative tolerance of the root.
        maxiter: largest number of iterations.
        options: options of the method, by name.

    Returns:
        SciPy's result. ``root``, a float64 number, has derivatives; ``converged``, ``iterations``
        and ``function_calls`` have none.

    Raises:
        NotDifferentiableError: if the root is differentiated and ``converged`` is false.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.root_scalar(lambda x: x**2 - a, bracket=(0.0, 5.0)).root)(4.0), 4)
        np.float64(0.25)
    """
    args = tupled(args)
    plain = (f, args, method, bracket, fprime, fprime2, x0, x1, xtol, rtol, maxiter, options)
    if not is_recording():
        return scipy.optimize.root_scalar(*plain)
    starts: list[Operand] = [] if bracket is None else list(bracket)
    starts += [x for x in (x0, x1) if x is not None]
    first, second = callable(fprime), callable(fprime2)
    several = int(bool(fprime) and not first) + int(
        bool(fprime2) and not second
    )  # f returns its derivatives, too

    def alone(x: Numbers, *rest: Numbers) -> Any:
        return f(x, *rest)[0] if several else f(x, *rest)

    what = "scipy.optimize.root_scalar"
    static = [method, several, xtol, rtol, maxiter, options, len(starts), fprime, fprime2]
    s, recorded, _ = _scalar_solving(what, named(f, alone), args, starts, static)
    if not s.traced:
        return scipy.optimize.root_scalar(*plain)
    slopes: list[Callable[[Any], Any]] = []
    if several:
        slopes.append(lambda x: f(x, *args)[1])
        if fprime2 and not second:
            slopes.append(lambda x: f(x, *args)[2])
    elif first:
        slopes.append(lambda x: fprime(x, *args))
    if method == "newton" and not slopes:
        slopes = [grad(recorded)]
    if second:
        slopes.append(lambda x: fprime2(x, *args))
    for slope in slopes:
        s.function(slope, s.operands[0])
    count = 0 if bracket is None else 2

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        within = None if bracket is None else tuple(operands[:2])
        rest = list(operands[count:])
        at = rest.pop(0) if x0 is not None else None
        to = rest.pop(0) if x1 is not None else None
        first, second = [*functions[1:], None, None][:2]
        return scipy.optimize.root_scalar(
            functions[0], (), method, within, first, second, at, to, xtol, rtol, maxiter, options
        )

    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.converged), str(raw.flag)
        return s.result(raw, {"root": s.defined(np.float64(raw.root), recorded, at_solution=True)})
    x, ok, rounds, calls = s.run(
        lambda operands, functions: _root_fields(solve(operands, functions)),
        [ShapeDtype((), _FLOAT), ShapeDtype((), _BOOL), ShapeDtype((), _INT), ShapeDtype((), _INT)],
    )
    s.ok = ok
    x = s.defined(x, recorded, at_solution=False)
    return Solution(s.what, root=x, converged=ok, iterations=rounds, function_calls=calls)


def _root_fields(raw: Found) -> list[Any]:
    return [
        np.float64(raw.root),
        np.bool_(raw.converged),
        np.int64(raw.iterations),
        np.int64(raw.function_calls),
    ]


def _bracketing(name: str) -> Any:
    scipys: Function = getattr(scipy.optimize, name)

    def solver(
        f: Function,
        a: Shaped[X, ""] | Scalar,
        b: Shaped[X, ""] | Scalar,
        args: Given = (),
        xtol: float = 2e-12,
        rtol: float = 4 * float(np.finfo(float).eps),
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "disp": disp}
        return _between(name, scipys, f, a, b, args, full_output, options)

    return _documented(name, solver)


def _between(
    name: str,
    scipys: Function,
    f: Function,
    a: Shaped[X, ""] | Scalar,
    b: Shaped[X, ""] | Scalar,
    args: Given,
    full_output: bool,
    options: dict[str, Any],
) -> Any:
    args = tupled(args)
    if not is_recording():
        return scipys(f, a, b, args, full_output=full_output, **options)
    s, recorded, _ = _scalar_solving(f"scipy.optimize.{name}", f, args, [a, b], [options])
    if not s.traced:
        return scipys(f, a, b, args, full_output=full_output, **options)

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> Any:
        return scipys(
            functions[0], float(operands[0]), float(operands[1]), full_output=True, **options
        )[1]

    if s.is_concrete:
        raw = s.at_once(solve)
        s.ok, s.message = bool(raw.converged), str(raw.flag)
        x = s.defined(np.float64(raw.root), recorded, at_solution=True)
        return (x, s.result(raw, {"root": x})) if full_output else x
    x, ok, rounds, calls = s.run(
        lambda operands, functions: _root_fields(solve(operands, functions)),
        [ShapeDtype((), _FLOAT), ShapeDtype((), _BOOL), ShapeDtype((), _INT), ShapeDtype((), _INT)],
    )
    s.ok = ok
    x = s.defined(x, recorded, at_solution=False)
    made = Solution(s.what, root=x, converged=ok, iterations=rounds, function_calls=calls)
    return (x, made) if full_output else x


def _documented(name: str, solver: Callable[..., Any]) -> Any:
    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"""``scipy.optimize.{name}``; the root has derivatives by ``args`` and closures (see `root_scalar`).

    Args:
        f: ``f(x, *args)``: a number, for a number.
        a, b: the ends of an interval, numbers where ``f`` has different signs.
        args: more arguments of ``f``.
        xtol, rtol: absolute and relative tolerance of the root.
        maxiter: largest number of iterations.
        full_output: True to return a pair.
        disp: True to raise an error if it does not converge.

    Returns:
        the root, a float64 number; with ``full_output`` also an object with ``root``,
        ``converged``, ``iterations`` and ``function_calls``.

    Raises:
        NotDifferentiableError: if the root is differentiated and it has not converged.
        RuntimeError: like SciPy, with ``disp``, if it does not converge.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.{name}(lambda x: x**2 - a, 0.0, 5.0))(4.0), 4)
        np.float64(0.25)
    """
    return solver


brentq = _bracketing("brentq")
brenth = _bracketing("brenth")
bisect = _bracketing("bisect")
ridder = _bracketing("ridder")


def toms748(
    f: Function,
    a: Shaped[X, ""] | Scalar,
    b: Shaped[X, ""] | Scalar,
    args: Given = (),
    k: int = 1,
    xtol: float = 2e-12,
    rtol: float = 4 * float(np.finfo(float).eps),
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """``scipy.optimize.toms748``: differentiable by ``args`` and captures; see `root_scalar`.

    Args:
        f: ``f(x, *args)``: a number, for a number.
        a, b: the ends of an interval, numbers where ``f`` has different signs.
        args: more arguments of ``f``.
        k: number of Newton-quadratic steps in an iteration.
        xtol, rtol: absolute and relative tolerance of the root.
        maxiter: largest number of iterations.
        full_output: True to return a pair.
        disp: True to raise an error if it does not converge.

    Returns:
        the root, a float64 number; with ``full_output`` also an object with ``root``,
        ``converged``, ``iterations`` and ``function_calls``.

    Raises:
        NotDifferentiableError: if the root is differentiated and it has not converged.
        RuntimeError: like SciPy, with ``disp``, if it does not converge.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.toms748(lambda x: x**2 - a, 0.0, 5.0))(4.0), 4)
        np.float64(0.25)
    """
    options = {"k": k, "xtol": xtol, "rtol": rtol, "maxiter": maxiter, "disp": disp}
    return _between("toms748", scipy.optimize.toms748, f, a, b, args, full_output, options)


def newton(
    func: Function,
    x0: Operand,
    fprime: Function | None = None,
    args: Given = (),
    tol: float = 1.48e-08,
    maxiter: int = 50,
    fprime2: Function | None = None,
    x1: Operand | None = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """``scipy.optimize.newton``, a number or elementwise: differentiable by ``args`` and captures.

    Without ``fprime``, it is the secant method, like SciPy's.

    Args:
        func: ``func(x, *args)``: values of the shape of x, each of which depends on one element.
        x0: the starts, a number or an array, floats or complex numbers.
        fprime: ``fprime(x, *args)``: the derivative of ``func``, elementwise.
        args: more arguments of ``func``, ``fprime`` and ``fprime2``.
        tol, rtol: absolute and relative tolerance of a root.
        maxiter: largest number of iterations.
        fprime2: the second derivative of ``func``, for Halley's method.
        x1: second starts of the secant method, like ``x0``.
        full_output: True to return more results.
        disp: True to raise an error if a number does not converge.

    Returns:
        the roots, of the shape and dtype of ``x0``. With ``full_output``, for a number: the root
        and an object with ``root`` and ``converged``; for an array: the roots, which of them have
        converged, and where the derivative was zero (always false on traced values), bools.

    Raises:
        NotDifferentiableError: if a root is differentiated, and one of them has not converged.
        RuntimeError: like SciPy, with ``disp``, if a number does not converge.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.newton(lambda x: x**2 - a, 1.0))(4.0), 4)
        np.float64(0.25)
    """
    args = tupled(args)
    plain = (func, x0, fprime, args, tol, maxiter, fprime2, x1, rtol, full_output, disp)
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.newton(*plain)
    starts = [x0, *([] if x1 is None else [x1])]
    options = (tol, maxiter, rtol, disp)
    s, recorded, there = _scalar_solving(
        "scipy.optimize.newton", func, args, starts, [options, fprime, fprime2], [fprime, fprime2]
    )
    if not s.traced:
        return scipy.optimize.newton(*plain)
    shape, dtype = shape_of(s.operands[0]), s.operands[0].dtype
    is_array = int(np.prod(shape)) > 1

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        rest = list(functions[1:])
        slopes = [rest.pop(0) if flag else None for flag in there]
        found = scipy.optimize.newton(
            functions[0], operands[0], slopes[0], (), tol, maxiter, slopes[1],
            operands[1] if x1 is not None else None,
            rtol, True, disp,
        )  # fmt: skip
        ok = found[1] if is_array else found[1].converged
        return [np.asarray(found[0], dtype).reshape(shape)[()], np.asarray(ok).reshape(shape)[()]]

    if s.is_concrete:
        x, ok = s.at_once(solve)
        s.ok, s.message = bool(np.all(ok)), "convergence failed"
    else:
        x, ok = s.run(solve, [ShapeDtype(shape, dtype), ShapeDtype(shape, _BOOL)])
        s.ok = np.all(ok)
    x = s.defined(x, recorded, at_solution=s.is_concrete, elementwise=True)
    if not full_output:
        return x
    return (
        (x, ok, np.zeros(shape, bool)) if is_array else (x, Solution(s.what, root=x, converged=ok))
    )


def fixed_point(
    func: Function,
    x0: Operand,
    args: Given = (),
    xtol: float = 1e-08,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """``scipy.optimize.fixed_point``: ``x = func(x)``, differentiable by ``args`` and captures.

    Args:
        func: ``func(x, *args)``: values of the shape of x.
        x0: the start, a number or an array.
        args: more arguments of ``func``.
        xtol: tolerance of the relative change of x.
        maxiter: largest number of iterations.
        method: "del2" (Steffensen's acceleration) or "iteration".

    Returns:
        the fixed point, of the shape of ``x0``, floats.

    Raises:
        ShapeError: if ``func`` returns another shape.
        RuntimeError: like SciPy, if it does not converge.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import optimize
        >>> np.round(ft.grad(lambda a: optimize.fixed_point(lambda x: np.sqrt(a + 0.0 * x), 1.0))(4.0), 4)
        np.float64(0.25)
    """
    args = tupled(args)
    plain = (func, x0, args, xtol, maxiter, method)
    if not is_recording() and not holds_tracer([x0, list(args)]):
        return scipy.optimize.fixed_point(*plain)
    at = _double(x0)
    s = SolverCall("scipy.optimize.fixed_point", [at], [xtol, maxiter, method])
    f = s.function(named(func, lambda x: arrayed(func(x, *args))), at)
    if not s.traced:
        return scipy.optimize.fixed_point(*plain)
    aval = f.staged.out_avals[0]
    if aval.shape != shape_of(at):
        raise ShapeError(f"scipy.optimize.fixed_point: {named(func, func).__name__} returns {aval} at a point of shape "
                         f"{shape_of(at)}",
                         fix="start with an array like what it returns")  # fmt: skip

    def solve(operands: Sequence[Any], functions: Sequence[Function]) -> list[Any]:
        return [
            np.asarray(
                scipy.optimize.fixed_point(functions[0], operands[0], (), xtol, maxiter, method)
            )[()]
        ]

    def equations(x: Numbers) -> Any:
        return f(x) - x

    known = s.is_concrete
    (x,) = s.at_once(solve) if known else s.run(solve, [aval])
    return s.defined(x, equations, at_solution=known)
