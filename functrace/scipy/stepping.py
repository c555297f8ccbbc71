"""The steps of SciPy's explicit Runge-Kutta methods as a differentiable loop with SciPy's values.

SciPy chooses the steps, on plain values. The loop repeats them with the same coefficients and step
ends, so the derivative is that of the numbers that the solver returned, for constant step sizes.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.integrate

from functrace.api.control_flow.loops import scan
from functrace.ir.aval import shape_of
from functrace.scipy.kinds import Found, Numbers, searchsorted
from functrace.scipy.odes import ODEProblem, failed, solved
from functrace.scipy.operands import Shaped
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value

EXPLICIT: dict[str, Any] = {
    "RK23": scipy.integrate.RK23, "RK45": scipy.integrate.RK45, "DOP853": scipy.integrate.DOP853,
}  # fmt: skip


class Steps(NamedTuple):
    """Steps of a solver, and their interpolation.

    Args:
        times: ends of the steps, with the start in front, shape (steps + 1,).
        ys: values there, shape (steps + 1, size).
        weights: coefficients of the interpolation by step, shape (steps, terms, size).
        method: SciPy's.
    """

    times: Any
    ys: Any
    weights: Any
    method: str

    def __call__(self, ts: Shaped[Any, "times"]) -> Shaped[Any, "times size"]:
        """Interpolate like SciPy; shape (times, size)."""
        count = shape_of(self.times)[0] - 1
        if not count:
            return np.zeros((shape_of(ts)[0], 1)) + self.ys[0]
        ends, at = plain(self.times), plain(ts)
        sign = -1.0 if ends[-1] < ends[0] else 1.0
        k = np.clip(searchsorted(sign * ends, sign * at) - 1, 0, count - 1)
        start, y = self.times[k], self.ys[k]
        h = self.times[k + 1] - start
        x = ((ts - start) / h)[:, None]
        weights = self.weights[k]
        if self.method != "DOP853":
            terms = shape_of(weights)[1]
            powers = np.stack([x ** (n + 1) for n in range(terms)], axis=1)
            return h[:, None] * np.sum(weights * powers, axis=1) + y
        total = np.zeros_like(y)
        for n in range(shape_of(weights)[1]):
            total = (total + weights[:, -1 - n]) * (x if n % 2 == 0 else 1.0 - x)
        return total + y


def plain(x: Numbers) -> Any:
    """Return the concrete value of something that may be traced."""
    return concrete_value(x) if isinstance(x, Tracer) else x


def step_ends(raw: Found) -> Shaped[Any, "steps"]:
    """Return the ends of SciPy's steps, from its dense output."""
    return np.array([piece.t for piece in raw.sol.interpolants if piece.t != piece.t_old])


def taken(
    flow: ODEProblem,
    t0: Shaped[Any, ""],
    t1: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ends: Shaped[Any, "steps"],
) -> Steps:
    """Repeat a solver's steps.

    Args:
        flow: the equation, with one of the explicit methods.
        t0, t1: start of the first step, and end of the last one if it is the end of the span.
        y0: the initial value.
        ends: ends of the steps.
    """
    kind = EXPLICIT[flow.method]
    if not len(ends):
        return Steps(np.reshape(t0, (1,)), np.reshape(y0, (1, -1)), None, flow.method)
    last = t1 if ends[-1] == plain(t1) else np.float64(ends[-1])
    times = np.concatenate(
        [np.reshape(t0, (1,)), np.asarray(ends[:-1], np.float64), np.reshape(last, (1,))]
    )

    def step(carry: Numbers, at: Numbers) -> Any:
        y, rate = carry
        t, h = at
        rates = [rate]
        for row, c in zip(kind.A[1:], kind.C[1:], strict=True):
            rates.append(
                flow(t + c * h, y + np.tensordot(row[: len(rates)], np.stack(rates), 1) * h)
            )
        after = y + h * np.tensordot(kind.B, np.stack(rates), 1)
        rates.append(flow(t + h, after))
        after_rate = rates[-1]
        if flow.method == "DOP853":
            for row, c in zip(kind.A_EXTRA, kind.C_EXTRA, strict=True):
                rates.append(
                    flow(t + c * h, y + np.tensordot(row[: len(rates)], np.stack(rates), 1) * h)
                )
            change = after - y
            rest = h * np.tensordot(kind.D, np.stack(rates), 1)
            weights = np.concatenate(
                [
                    np.stack([change, h * rate - change, 2.0 * change - h * (after_rate + rate)]),
                    rest,
                ]
            )
        else:
            weights = np.tensordot(kind.P.T, np.stack(rates), 1)
        return (after, after_rate), (after, weights)

    _, (ys, weights) = scan(step, (y0, flow(t0, y0)), (times[:-1], times[1:] - times[:-1]))
    return Steps(times, np.concatenate([np.reshape(y0, (1, -1)), ys]), weights, flow.method)


def values_at(
    flow: ODEProblem,
    t0: Shaped[Any, ""],
    t1: Shaped[Any, ""],
    y0: Shaped[Any, "n"],
    ts: Shaped[Any, "times"],
) -> Shaped[Any, "times n"]:
    """Return the solution at times, by steps that SciPy chooses; shape (times, size)."""
    known = [plain(x) for x in flow.captured]
    raw = solved(flow, known, (plain(t0), plain(t1)), plain(y0), dense_output=True)
    if not raw.success:
        raise failed(flow.what, raw.message)
    return taken(flow, t0, t1, y0, step_ends(raw))(ts)
