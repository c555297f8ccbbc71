"""Trajectories of ``y' = f(t, y)``: SciPy's values, with tangent and adjoint equations.

Note [The adjoint]
    Cotangents of the values at times ``t_k`` are integrated backwards from each time to the one
    before: with ``a(t)`` the cotangent of ``y(t)``, ``a' = -a df/dy``, and the cotangent of a
    parameter accumulates ``a df/dp``. Between two times, ``y`` is integrated backwards, too, from
    the known value at the later one: so it does not drift, and only the results are residuals.
    These are trajectories themselves, computed with the same method and tolerances, and
    differentiated in the same way, to any order.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate

from functrace.api.batching.mapping import vmap
from functrace.api.capture.arguments import as_value
from functrace.api.capture.record import Operands, StagedFunction, stage
from functrace.api.control_flow.loops import scan
from functrace.api.custom_rules.external_values import attached, called_later
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.api.differentiation.jacobians import jacfwd
from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import Rewrite, restrict
from functrace.ir.program import Program
from functrace.keys import static_key
from functrace.numpy.protocol.operands import arrayed
from functrace.scipy.kinds import Given, Numbers
from functrace.scipy.operands import Shaped
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value
from functrace.transforms import is_differentiable

Function = Callable[..., Any]
IMPLICIT = ("Radau", "BDF", "LSODA")


class ODEProblem(NamedTuple):
    """The right-hand side of a differential equation, and options of its integration.

    Args:
        what: SciPy's function, for messages.
        program: a program of t, y and the captured values of the user's function.
        captured: the captured values.
        method: SciPy's.
        options: SciPy's, on plain values: pairs.
        slope: the Jacobian by y, with the same arguments, for methods that use it; otherwise they
            use differences.
    """

    what: str
    program: Program
    captured: list[Any]
    method: Any
    options: tuple[tuple[str, Any], ...]
    slope: Program | None

    @property
    def key(self) -> Hashable:
        """Cache key of the equation, without its captured values."""
        slope = None if self.slope is None else self.slope.interned()
        return (
            self.what,
            self.program.interned(),
            static_key(self.method),
            static_key(self.options),
            slope,
        )

    def __call__(
        self,
        t: Shaped[Any, ""],
        y: Shaped[Any, "n"],
        captured: Sequence[Any] | None = None,
    ) -> Shaped[Any, "n"]:
        """Evaluate the right-hand side."""
        return evaluate_program(
            self.program, [t, y, *(self.captured if captured is None else captured)]
        )[0]

    def plain(self, captured: Sequence[Any]) -> tuple[Function, Function | None]:
        """Return the right-hand side and its Jacobian as functions of plain arrays."""
        run, slope = Runner(self.program), None if self.slope is None else Runner(self.slope)

        def f(t: Numbers, y: Numbers) -> Any:
            return run([np.float64(t), y, *captured])[0]

        if slope is None:
            return f, None

        def by_y(t: Numbers, y: Numbers) -> Any:
            return slope([np.float64(t), y, *captured])[0]

        return f, by_y


def flow_of(
    what: str,
    f: Function,
    y: Numbers,
    method: Given,
    options: Sequence[tuple[str, Any]],
    *,
    slope: Function | None = None,
) -> ODEProblem:
    """Record a right-hand side.

    Args:
        what: SciPy's function.
        f: function of a time and a vector.
        y: an example of the vector.
        method, options: SciPy's.
        slope: its Jacobian, for methods that use it.
    """
    name = getattr(f, "__name__", type(f).__name__)
    operands = Operands((np.float64(0.0), y), {}).without_values()

    def right(t: Numbers, y: Numbers) -> Any:
        found: Any = arrayed(f(t, y))
        if shape_of(found) != shape_of(y) and int(np.prod(shape_of(found))) == int(
            np.prod(shape_of(y))
        ):
            found = np.reshape(found, shape_of(y))
        if shape_of(found) != shape_of(y):
            raise ShapeError(
                f"{what}: {name} returns {aval_of(found)}, but the state is {aval_of(y)}",
                fix="return one rate per element",
            )
        if found.dtype.kind == "c" and y.dtype.kind != "c":
            raise DtypeError(
                f"{what}: {name} returns {aval_of(found)} for a real state",
                fix="start with a complex y0",
            )
        return found if found.dtype == y.dtype else found.astype(y.dtype)

    made = stage(right, operands, f"{what} of {name}", name)
    by_y = None
    if slope is not None:
        captured = made.captured
        whole = Operands((np.float64(0.0), y, *captured), {}).without_values()

        def by_arguments(t: Numbers, y: Numbers, *_: Numbers) -> Any:
            return arrayed(slope(t, y))

        def with_slope(t: Numbers, y: Numbers) -> tuple[Any, Any]:
            return right(t, y), arrayed(slope(t, y))

        found = stage(by_arguments, whole, f"{what}: jac", "jac")
        if not any(isinstance(value, Tracer) for value in found.captured):
            by_y = _with_constants(found)
        else:  # captured values may differ: both functions take all of them
            both = stage(with_slope, operands, f"{what} of {name}", name)
            ids = both.program.output_ids
            programs = [
                restrict(both.program, both.program.input_ids, [i], keep=True).program for i in ids
            ]
            return ODEProblem(what, programs[0], both.captured, method, tuple(options), programs[1])
    return ODEProblem(what, made.program, made.captured, method, tuple(options), by_y)


def beside(flow: ODEProblem, f: Function, y: Shaped[Any, "n"]) -> ODEProblem:
    """Return a right-hand side for derivatives, of a longer state, with a flow's tolerances."""
    size, own = shape_of(y)[0], flow.program.avals[flow.program.input_ids[1]].shape[0]
    options: list[tuple[str, Any]] = []
    for name, value in flow.options:
        if name in (
            "first_step",
            "jac",
            "jac_sparsity",
            "lband",
            "uband",
            "h0",
            "hmin",
            "min_step",
        ):
            continue
        if name in ("atol", "rtol") and np.ndim(value):
            value = np.concatenate([value, np.full(size - own, np.min(value))])
        options.append((name, value))
    made = flow_of(flow.what, f, y, flow.method, options)
    if flow.method in IMPLICIT or flow.method == "odeint":
        whole = Operands((np.float64(0.0), y, *made.captured), {}).without_values()
        rate = made

        def slope(t: Numbers, y: Numbers, *captured: Numbers) -> Any:
            def at(y: Numbers) -> Any:
                return rate(t, y, captured)

            return jacfwd(at)(y)

        made = made._replace(slope=_with_constants(stage(slope, whole, f"{flow.what}: jac", "jac")))
    return made


def _with_constants(staged: StagedFunction) -> Program:
    """Return a program with its captured arrays as constants."""
    program, count = staged.program, len(staged.captured)
    explicit = len(program.input_ids) - count
    write = Rewrite(program, range(explicit))
    for i, value in zip(program.input_ids[explicit:], staged.captured, strict=True):
        write.moved[i] = write.constant(value, aval_of(value))
    return write.finish(write.keep_all())


# -- values ----------------------------------------------------------------------------------------


def solved(
    flow: ODEProblem,
    captured: Sequence[Any],
    span: tuple[Any, Any],
    y0: Shaped[Any, "n"],
    **how: Given,
) -> Any:
    """Run SciPy on plain values."""
    f, slope = flow.plain(captured)
    options = dict(flow.options)
    if slope is not None:
        options["jac"] = slope
    return scipy.integrate.solve_ivp(f, span, y0, flow.method, **how, **options)


def _values(
    flow: ODEProblem,
    captured: Sequence[Any],
    t0: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ts: Shaped[Any, "times"],
) -> Shaped[Any, "times n"]:
    """Return the values at times, one row each, by SciPy on plain values."""
    if not len(ts):
        return np.zeros((0, *y0.shape), y0.dtype)
    if ts[-1] == t0:
        return np.stack([y0] * len(ts))
    sign = -1.0 if ts[-1] < t0 else 1.0
    if flow.method == "odeint":
        distinct = np.unique(sign * np.concatenate([[t0], ts]))
        return odeint_values(flow, captured, sign * distinct, y0)[
            np.searchsorted(distinct, sign * ts)
        ]
    distinct = np.unique(sign * ts)
    found = solved(flow, captured, (t0, ts[-1]), y0, t_eval=sign * distinct)
    if not found.success:
        raise failed(flow.what, found.message)
    return found.y.T[np.searchsorted(distinct, sign * ts)]


def odeint_values(
    flow: ODEProblem,
    captured: Sequence[Any],
    ts: Shaped[Any, "times"],
    y0: Shaped[Any, "n"],
    **more: Given,
) -> Shaped[Any, "times n"]:
    """Return the values at times by ``scipy.integrate.odeint``, on plain values."""
    f, slope = flow.plain(captured)
    found = scipy.integrate.odeint(
        f, y0, ts, Dfun=slope, tfirst=True, full_output=True, **dict(flow.options), **more
    )
    if found[1]["message"] != "Integration successful.":
        raise failed(flow.what, found[1]["message"])
    return found[0]


def real(x: Numbers) -> Any:
    """Return times as floats."""
    made: Any = as_value(arrayed(x), "a time")
    return made if made.dtype == np.float64 else made.astype(np.float64)


def failed(what: str, message: str) -> ArgumentError:
    """Return the error for a failed integration."""
    return ArgumentError(f"{what} failed: {message}", fix="try another method, or other tolerances")


def trajectory(
    flow: ODEProblem,
    t0: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ts: Shaped[Any, "times"],
    values: Shaped[Any, "times n"] | None = None,
) -> Shaped[Any, "times n"]:
    """Return the solution at ordered times, shape (times, size).

    Args:
        flow: the equation.
        t0: the start, a number.
        y0: the initial value, shape (size,).
        ts: times, shape (times,).
        values: the result, if it is precomputed.
    """
    t0, ts = real(t0), real(ts)
    operands = [*flow.captured, t0, y0, ts]
    count = len(flow.captured)
    result = ShapeDtype((*shape_of(ts), *shape_of(y0)), y0.dtype)
    if values is None:
        known = [concrete_value(x) for x in operands]
        if all(x is not None for x in known):
            values = _values(flow, known[:count], *known[count:])
        else:

            def run(*xs: Numbers) -> list[Any]:
                t0, y0, ts = xs[count:]
                return [_values(flow, xs[:count], t0, y0, ts)]

            (values,) = called_later(flow.what, run, (flow.key, result), operands, [result])
    held = flow._replace(captured=[])

    def pull(
        outputs: Sequence[Any],
        given: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        t0, y0, ts = given[count:]
        return _pulled(
            held._replace(captured=list(given[:count])),
            t0,
            y0,
            ts,
            outputs[0],
            cotangents[0],
            wanted,
        )

    def push(outputs: Sequence[Any], given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        t0, y0, ts = given[count:]
        return [
            _pushed(held._replace(captured=list(given[:count])), t0, y0, ts, outputs[0], tangents)
        ]

    (found,) = attached("trajectory", [values], operands, flow.key, pull, push)
    return found


# -- derivatives -----------------------------------------------------------------------------------


def _pushed(
    flow: ODEProblem,
    t0: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ts: Shaped[Any, "times"],
    ys: Shaped[Any, "times n"],
    tangents: Sequence[Any],
) -> Shaped[Any, "times n"]:
    """Return the tangents of a trajectory: a second trajectory."""
    size = shape_of(y0)[0]
    *dots, t0_dot, y0_dot, ts_dot = tangents
    moving = [k for k, dot in enumerate(dots) if dot is not None]

    def f(t: Numbers, both: Numbers) -> Any:
        def rate(y: Numbers, *chosen: Numbers) -> Any:
            return flow(t, y, _with(flow.captured, moving, chosen))

        chosen, moved = [flow.captured[k] for k in moving], [dots[k] for k in moving]
        value, change = jvp(rate, (both[:size], *chosen), (both[size:], *moved))
        return np.concatenate([value, change])

    start_dot = np.zeros(shape_of(y0), y0.dtype) if y0_dot is None else y0_dot
    if t0_dot is not None:
        start_dot = start_dot - flow(t0, y0) * t0_dot
    start = np.concatenate([y0, start_dot])
    found = trajectory(beside(flow, f, start), t0, start, ts)
    if ts_dot is None or not shape_of(ts)[0]:
        return found[:, size:]

    def by_time(t: Numbers, y: Numbers, t_dot: Numbers) -> Any:
        return flow(t, y) * t_dot

    return found[:, size:] + vmap(by_time)(ts, ys, ts_dot)


def _with(values: Sequence[Any], places: Sequence[int], chosen: Sequence[Any]) -> list[Any]:
    whole = list(values)
    for k, value in zip(places, chosen, strict=True):
        whole[k] = value
    return whole


def _pulled(
    flow: ODEProblem,
    t0: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ts: Shaped[Any, "times"],
    ys: Shaped[Any, "times n"],
    ys_bar: Shaped[Any, "times n"],
    wanted: Sequence[bool],
) -> list[Any]:
    """Return the wanted cotangents of a trajectory's inputs; see Note [The adjoint]."""
    size = shape_of(y0)[0]
    *by_captured, by_t0, _, by_ts = wanted
    moving = [k for k, flag in enumerate(by_captured) if flag]
    chosen = [flow.captured[k] for k in moving]
    dtype = np.result_type(y0.dtype, *[x.dtype for x in chosen], np.float64)
    sizes = [int(np.prod(shape_of(x))) for x in chosen]
    ends = [2 * size + int(n) for n in np.cumsum([0, *sizes])]

    def cotangents_of_rate(t: Numbers, y: Numbers, a: Numbers) -> tuple[Any, Any, Any]:
        def rate(y: Numbers, *chosen: Numbers) -> Any:
            return flow(t, y, _with(flow.captured, moving, chosen))

        value, pull = vjp(rate, y, *chosen)
        by_y, *by_chosen = pull(a)
        return value, by_y, [np.reshape(x, (-1,)).astype(dtype) for x in by_chosen]

    def f(t: Numbers, state: Numbers) -> Any:
        y, a = _cast(state[:size], y0.dtype), _cast(state[size : 2 * size], y0.dtype)
        value, by_y, rest = cotangents_of_rate(t, y, a)
        return np.concatenate([value.astype(dtype), -by_y.astype(dtype), *[-x for x in rest]])

    flow_back = beside(flow, f, np.zeros(ends[-1], dtype))
    before = np.concatenate([np.reshape(t0, (1,)), ts[:-1]])

    def step(carry: Numbers, at: Numbers) -> Any:
        t, previous, y, y_bar = at
        carry = carry + np.concatenate([y_bar.astype(dtype), np.zeros(ends[-1] - 2 * size, dtype)])
        state = np.concatenate([y.astype(dtype), carry])
        found = trajectory(flow_back, t, state, np.reshape(previous, (1,)))[0]
        return found[size:], np.real(np.sum(y_bar * flow(t, y))) if by_ts else np.float64(0.0)

    start = np.zeros(ends[-1] - size, dtype)
    last, ts_bar = scan(step, start, (ts, before, ys, ys_bar), reverse=True)
    a = _cast(last[:size], y0.dtype)
    t0_bar = -np.real(np.sum(a * flow(t0, y0))) if by_t0 else None
    found = {
        k: np.reshape(_cast(last[low - size : high - size], x.dtype), shape_of(x))
        for k, x, low, high in zip(moving, chosen, ends[:-1], ends[1:], strict=True)
    }
    differentiable = [
        k for k, value in enumerate(flow.captured) if is_differentiable(aval_of(value))
    ]
    return [*[found.get(k) for k in differentiable], t0_bar, a, ts_bar]


def _cast(x: Numbers, dtype: np.dtype[Any]) -> Any:
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = np.real(x)
    return x if x.dtype == dtype else x.astype(dtype)
