"""Integrals of functions by ``scipy.integrate``, differentiable by limits and parameters.

By Leibniz' rule, the derivative of the integral of ``f`` from ``a`` to ``b`` is ``f(b) db/dp - f(a)
da/dp`` plus the integral of ``df/dp``, which is computed in the same way, with the same tolerances.
The terms of constant limits are omitted: the integrand may be infinite there.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.integrate
import scipy.special

from functrace.api.capture.record import Operands, stage
from functrace.api.custom_rules.external_values import attached, called_later
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Program
from functrace.keys import static_key
from functrace.numpy.protocol.operands import Operand, arrayed
from functrace.ops.solutions import undifferentiated
from functrace.scipy.kinds import Given, Numbers, where
from functrace.scipy.odes import real
from functrace.scipy.operands import Scalar, Shaped, X
from functrace.scipy.solving import AnyFunction, Function, named, tupled
from functrace.tracing.binding import is_recording
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value
from functrace.transforms import is_differentiable


class Integrand(NamedTuple):
    """A function of a number, to be integrated.

    Args:
        what: SciPy's function, for messages.
        program: a program of a number and the captured values of the user's function.
        captured: the captured values.
        options: options of ``scipy.integrate.quad_vec``: pairs.
    """

    what: str
    program: Program
    captured: list[Any]
    options: tuple[tuple[str, Any], ...]

    def __call__(self, x: Numbers) -> Any:
        """Evaluate the function at a point."""
        return evaluate_program(self.program, [x, *self.captured])[0]

    @property
    def aval(self) -> ShapeDtype:
        """Aval of the result."""
        return self.program.avals[self.program.output_ids[0]]

    def plain(self, captured: Sequence[Any]) -> Function:
        """Return it as a function of a plain number."""
        run = Runner(self.program)

        def value(x: Numbers) -> Any:
            return run([np.float64(x), *captured])[0]

        return value


def _integrand(what: str, f: Function, options: Sequence[tuple[str, Any]]) -> Integrand:
    name = getattr(f, "__name__", type(f).__name__)

    def value(x: Numbers) -> Any:
        found: Any = arrayed(f(x))
        return found if found.dtype.kind in "fc" else found.astype(np.float64)

    made = stage(
        value, Operands((np.float64(0.5),), {}).without_values(), f"{what} of {name}", name
    )
    return Integrand(what, made.program, made.captured, tuple(options))


def _integral(
    f: Integrand,
    a: Shaped[Any, ""],
    b: Shaped[Any, ""],
    values: Function | None = None,
    key: Hashable = (),
) -> Any:
    """Return the integral of a function.

    Args:
        f: the function; its results may have any shape.
        a, b: the limits.
        values: computes it on plain values; `_by_quad_vec` by default.
        key: cache key of ``values``.
    """
    run: Function = _by_quad_vec if values is None else values
    operands = [*f.captured, a, b]
    count = len(f.captured)
    known = [concrete_value(x) for x in operands]
    whole = (f.what, f.program.interned(), static_key(f.options), key)
    if all(x is not None for x in known):
        found = [run(f.plain(known[:count]), known[-2], known[-1], dict(f.options))]
    else:

        def later(*xs: Numbers) -> list[Any]:
            return [run(f.plain(xs[:count]), xs[-2], xs[-1], dict(f.options))]

        found = called_later(f.what, later, whole, operands, [f.aval])
    held = f._replace(captured=[])
    moving = [k for k, x in enumerate(f.captured) if is_differentiable(aval_of(x))]

    def part(given: Sequence[Any], active: Sequence[int]) -> Function:
        def at(x: Numbers, *chosen: Numbers) -> Any:
            captured = list(given[:count])
            for k, value in zip(active, chosen, strict=True):
                captured[k] = value
            return held._replace(captured=captured)(x)

        return at

    def pull(
        outputs: Sequence[Any],
        given: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        active = [k for k in moving if wanted[k]]
        at, chosen = part(given, active), [given[k] for k in active]
        bars: dict[int, Any] = {}
        for k, sign in ((count, -1.0), (count + 1, 1.0)):
            if wanted[k]:
                bars[k] = sign * np.real(
                    np.sum(cotangents[0] * _at_end(lambda x: at(x, *chosen), given[k]))
                )
        if active:
            sizes = [int(np.prod(shape_of(x))) for x in chosen]
            dtype = np.result_type(np.float64, *[x.dtype for x in chosen])

            def slopes(x: Numbers) -> Any:
                _, back = vjp(functools.partial(at, x), *chosen)
                return np.concatenate(
                    [np.reshape(ct, (-1,)).astype(dtype) for ct in back(cotangents[0])]
                )

            both = _integral(_integrand(f.what, slopes, f.options), given[-2], given[-1])
            pieces = np.split(both, [int(n) for n in np.cumsum(sizes)[:-1]])
            for k, piece, x in zip(active, pieces, chosen, strict=True):
                kept = np.real(piece) if x.dtype.kind != "c" and dtype.kind == "c" else piece
                bars[k] = np.reshape(kept, shape_of(x)).astype(x.dtype)
        return [bars.get(k) for k in (*moving, count, count + 1)]

    def push(outputs: Sequence[Any], given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        active = [k for k in moving if tangents[k] is not None]
        at, chosen, dots = (
            part(given, active),
            [given[k] for k in active],
            [tangents[k] for k in active],
        )
        terms: list[Any] = []
        for limit, dot, sign in ((given[-1], tangents[-1], 1.0), (given[-2], tangents[-2], -1.0)):
            if dot is not None:
                terms.append(_at_end(lambda x: at(x, *chosen), limit) * (sign * dot))
        if active:

            def change(x: Numbers) -> Any:
                return jvp(functools.partial(at, x), chosen, dots)[1]

            terms.append(_integral(_integrand(f.what, change, f.options), given[-2], given[-1]))
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return [total.astype(f.aval.dtype)]

    return attached("integral", found, operands, whole, pull, push)[0]


def _at_end(f: AnyFunction, x: Numbers) -> Any:
    """Return a function at a limit; 0 at an infinite one, which is constant."""
    finite, called = np.isfinite(x), cast("Function", f)
    return where(finite, called(where(finite, x, 0.5)), 0.0)


def _by_quad_vec(f: Function, a: Numbers, b: Numbers, options: dict[str, Any]) -> Any:
    """Return an integral; no node is rounded to a limit or point, where it may be infinite."""
    a, b = float(a), float(b)
    ends = {a, b, *map(float, options.get("points") or ())}

    def inside(x: float) -> Any:
        return f(np.nextafter(x, a if x == b else b) if x in ends else x)

    return scipy.integrate.quad_vec(inside, a, b, **options)[0]


def quad(
    func: Function,
    a: Shaped[X, ""] | Scalar,
    b: Shaped[X, ""] | Scalar,
    args: Given = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Sequence[float] | None = None,
    weight: str | None = None,
    wvar: Given = None,
    wopts: Given = None,
    maxp1: int = 50,
    limlst: int = 50,
    complex_func: bool = False,
) -> Any:
    """``scipy.integrate.quad``, differentiable by limits, ``args`` and captures of ``func``.

    Args:
        func: ``func(x, *args)``: a number, for a number. It is recorded once, so it must not read
            concrete values.
        a, b: the limits, numbers; infinity is possible.
        args: more arguments of ``func``.
        full_output: not possible on traced values.
        epsabs, epsrel: absolute and relative tolerance of the integral.
        limit: largest number of subintervals.
        points: places where ``func`` is not smooth, plain.
        weight: a factor of ``func``: "cos" and "sin" of ``wvar * x``; others on plain values only.
        wvar: the parameter of ``weight``.
        wopts: moments of a previous call with the same ``weight``, for plain values.
        maxp1: largest number of Chebyshev moments, with ``weight``.
        limlst: largest number of cycles, with ``weight`` and an infinite limit.
        complex_func: True if ``func`` returns complex numbers.

    Returns:
        the integral, float64 or complex128, and SciPy's error estimate (infinity when staged),
        which has no derivative.

    Raises:
        ArgumentError: on traced values, with ``full_output`` or if ``func`` returns no number.
        UnsupportedFunctionError: on traced values, with a ``weight`` other than "cos" and "sin".

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> np.round(ft.grad(lambda a: integrate.quad(lambda x: np.sin(a * x), 0.0, 1.0)[0])(1.0), 4)
        np.float64(0.3818)
    """
    options: dict[str, Any] = {
        "epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points, "weight": weight,
        "wvar": wvar,
        "wopts": wopts, "maxp1": maxp1, "limlst": limlst, "complex_func": complex_func,
    }  # fmt: skip

    def scipys() -> Any:
        return scipy.integrate.quad(func, a, b, args, full_output, **options)

    if not is_recording():
        return scipys()
    what = "scipy.integrate.quad"
    more = tupled(args)

    def weighted(x: Numbers) -> Any:
        found = func(x, *more)
        if weight is None:
            return found
        angle = wvar * x
        return found * (np.cos(angle) if weight == "cos" else np.sin(angle))

    value = named(func, weighted if weight in ("cos", "sin") else lambda x: func(x, *more))
    vector = (
        ("epsabs", epsabs),
        ("epsrel", epsrel),
        ("limit", max(limit, 1000)),
        ("points", points),
    )
    f = _integrand(what, value, vector)
    low, high = real(a), real(b)
    traced = [x for x in (*f.captured, low, high) if isinstance(x, Tracer)]
    if not traced:
        return scipys()
    if weight not in (None, "cos", "sin"):
        raise UnsupportedFunctionError(
            f"{what} has no weight={weight!r} on traced values", fix="write the weight into func"
        )
    if full_output:
        raise ArgumentError(f"{what} has no full_output on traced values", fix="leave it out")
    if shape_of(f.aval) != ():
        raise ArgumentError(
            f"{what}: {value.__name__} returns {f.aval}, not a number", fix="use quad_vec"
        )
    error: list[Any] = [np.float64(np.inf)]
    plain = {
        name: x
        for name, x in options.items()
        if name not in ("weight", "wvar", "wopts", "maxp1", "limlst", "complex_func")
    }

    def values(f: Function, a: Numbers, b: Numbers, _: dict[str, Any]) -> Any:
        found = scipy.integrate.quad(f, a, b, complex_func=complex_func, **plain)
        error[0] = np.float64(np.abs(found[1]))
        return np.asarray(found[0])[()]

    found = _integral(f, low, high, values, static_key(list(options.values())))
    return found, undifferentiated(
        error[0],
        traced,
        f"the estimated error of {what} has no derivative",
        "pass it through functrace.stop_gradient",
    )


def quad_vec(
    f: Function,
    a: Shaped[X, ""] | Scalar,
    b: Shaped[X, ""] | Scalar,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    cache_size: float = 100e6,
    limit: int = 10000,
    workers: Given = 1,
    points: Sequence[float] | None = None,
    quadrature: str | None = None,
    full_output: bool = False,
    *,
    args: tuple[Any, ...] = (),
) -> Any:
    """``scipy.integrate.quad_vec``, differentiable by limits, ``args`` and captures; see `quad`.

    Args:
        f: ``f(x, *args)``: an array, for a number. It is recorded once, so it must not read
            concrete values.
        a, b: the limits, numbers; infinity is possible.
        epsabs, epsrel: absolute and relative tolerance of the integral, in ``norm``.
        norm: the norm of errors: "2" or "max".
        cache_size: bytes of intermediate results that are kept.
        limit: largest number of subintervals.
        workers: a number of processes, or a map.
        points: places where ``f`` is not smooth, plain.
        quadrature: the rule on an interval: "gk21", "gk15" or "trapezoid".
        full_output: not possible on traced values.
        args: more arguments of ``f``.

    Returns:
        the integral, floats or complex numbers of the shape of ``f(x)``, and SciPy's error estimate
        (infinity when staged), which has no derivative.

    Raises:
        ArgumentError: with ``full_output`` on traced values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> total = lambda a: np.sum(integrate.quad_vec(lambda x: a * np.stack([x, x**2]), 0.0, 1.0)[0])
        >>> np.round(ft.grad(total)(1.0), 4)
        np.float64(0.8333)
    """
    options: dict[str, Any] = {
        "epsabs": epsabs, "epsrel": epsrel, "norm": norm, "cache_size": cache_size, "limit": limit,
        "workers": workers,
        "points": points, "quadrature": quadrature,
    }  # fmt: skip

    def scipys() -> Any:
        return scipy.integrate.quad_vec(f, a, b, full_output=full_output, args=args, **options)

    if not is_recording():
        return scipys()
    what = "scipy.integrate.quad_vec"
    value = named(f, lambda x: f(x, *args))
    made = _integrand(what, value, list(options.items()))
    low, high = real(a), real(b)
    traced = [x for x in (*made.captured, low, high) if isinstance(x, Tracer)]
    if not traced:
        return scipys()
    if full_output:
        raise ArgumentError(f"{what} has no full_output on traced values", fix="leave it out")
    error: list[Any] = [np.float64(np.inf)]

    def values(f: Function, a: Numbers, b: Numbers, options: dict[str, Any]) -> Any:
        found, estimate = scipy.integrate.quad_vec(f, float(a), float(b), **options)
        error[0] = np.float64(estimate)
        return found

    found = _integral(made, low, high, values, "vec")
    return found, undifferentiated(
        error[0],
        traced,
        f"the estimated error of {what} has no derivative",
        "pass it through functrace.stop_gradient",
    )


def fixed_quad(
    func: Function, a: Operand, b: Operand, args: tuple[Any, ...] = (), n: int = 5
) -> Any:
    """``scipy.integrate.fixed_quad``: Gauss-Legendre quadrature, with SciPy's nodes and weights.

    Args:
        func: ``func(x, *args)``: values of shape (..., n), for points of shape (n,).
        a, b: the limits, finite numbers.
        args: more arguments of ``func``.
        n: the number of points; polynomials of a degree up to 2 n - 1 are integrated exactly.

    Returns:
        the integral, shape (...), and ``None``, in place of an error estimate.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> np.round(ft.grad(lambda a: integrate.fixed_quad(lambda x: a * x**2, 0.0, 1.0)[0])(2.0), 4)
        np.float64(0.3333)
    """
    if not is_recording():
        return scipy.integrate.fixed_quad(func, a, b, args, n)
    places, weights = scipy.special.roots_legendre(n)
    low, high = real(a), real(b)
    at = (high - low) * (places + 1) / 2.0 + low
    return (high - low) / 2.0 * np.sum(weights * func(at, *args), axis=-1), None
