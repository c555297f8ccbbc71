"""Inactive arguments contribute nothing to a derivative, not even where their own derivative is
infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.scipy import integrate, optimize

Function = Callable[..., Any]


def derivatives(f: Function, a: float, *rest: float) -> Iterator[tuple[str, Any]]:
    """The derivative of a function by its first argument, in every mode; with the others constant
    and as arguments.
    """

    def pushed(a: Any, *rest: Any) -> Any:
        return ft.jvp(lambda a: f(a, *rest), (a,), (1.0,))[1]

    for word, at in (("traced", lambda g: g(a, *rest)), ("constant", lambda g: g(a))):
        whole = f if word == "traced" else lambda a: f(a, *rest)
        forward = pushed if word == "traced" else lambda a: pushed(a, *rest)
        yield f"grad, others {word}", at(ft.grad(whole))
        yield f"jit grad, others {word}", at(ft.jit(ft.grad(whole)))
        yield f"grad jit, others {word}", at(ft.grad(ft.jit(whole)))
        yield f"jvp, others {word}", at(forward)
        yield f"jit jvp, others {word}", at(ft.jit(forward))
    yield "vmap grad", ft.vmap(ft.grad(lambda a: f(a, *rest)))(np.array([a, a]))[1]


INTEGRALS: dict[str, tuple[Function, tuple[float, ...], float]] = {
    "at the lower limit": (lambda a, low: integrate.quad(lambda x: a * x**-0.5, low, 1.0)[0],
    (0.0,), 2.0),
    "at the upper limit": (lambda a, high: integrate.quad(lambda x: a / np.sqrt(1.0 - x), 0.0,
    high)[0], (1.0,), 2.0),
    "at both": (lambda a, b: integrate.quad(lambda x: a / np.sqrt(x * (b - x)), 0.0, b)[0], (1.0,),
    np.pi),
    "backwards": (lambda a, low: integrate.quad(lambda x: a / np.sqrt(low - x), low, 0.0)[0],
    (1.0,), -2.0),
    "a logarithm": (lambda a, high: integrate.quad(lambda x: np.log(high - x) * a**2, 0.0,
    high)[0], (1.0,), -2.0),
    "to infinity": (
        lambda a, low: integrate.quad(lambda x: np.exp(-a * x) / np.sqrt(x), low, np.inf)[0],
        (0.0,), -0.5 * np.sqrt(np.pi),
    ),
    "at a point": (
        lambda a, b: integrate.quad(lambda x: a * abs(x - 0.3) ** -0.5 * b, 0.0, 1.0,
        points=[0.3])[0], (1.0,),
        2.0 * (0.3**0.5 + 0.7**0.5),
    ),
    "of vectors": (
        lambda a, low: integrate.quad_vec(lambda x: np.stack([a, 2.0 * a]) * x**-0.5, low,
        1.0)[0][1], (0.0,), 4.0,
    ),
    "second derivative": (
        lambda a, b: ft.grad(lambda a: integrate.quad(lambda x: a**2 / np.sqrt(b - x), 0.0,
        b)[0])(a), (1.0,), 4.0,
    ),
}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", INTEGRALS)
def test_integrands_may_be_infinite_at_limits_that_do_not_change(name: str) -> None:
    f, rest, expected = INTEGRALS[name]
    for word, found in derivatives(f, 1.0, *rest):
        np.testing.assert_allclose(found, expected, rtol=3e-8, err_msg=word)


def test_a_limit_that_changes_moves_the_integral() -> None:
    by_a, by_limit = ft.grad(
        lambda a, b: integrate.quad(lambda x: a * x**-0.5, 0.0, b)[0], argnums=(0, 1)
    )(3.0, 4.0)
    np.testing.assert_allclose([by_a, by_limit], [4.0, 1.5], rtol=1e-8)


def line(x: Any, a: Any, b: Any) -> Any:
    """A function whose derivative by b is infinite at 0."""
    return x - a - np.sqrt(b)


def rate(t: Any, y: Any, a: Any, b: Any) -> Any:
    """A rate likewise."""
    return np.sqrt(b) - a * y


START, TIMES = np.ones(1), np.array([0.0, 0.7, 1.0])
TIGHT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}


def linear(a: Any, b: Any) -> Any:
    """The solution of a linear equation."""
    solve = lambda matvec, right: right / matvec(np.ones(1))
    return ft.custom_linear_solve(lambda x: (a + np.sqrt(b)) * x, np.ones(1), solve, solve)[0]


SOLVERS: dict[str, tuple[Function, float]] = {
    "brentq": (lambda a, b: optimize.brentq(line, -1.0, 5.0, args=(a, b)), 1.0),
    "newton": (lambda a, b: optimize.newton(line, 0.5, args=(a, b)), 1.0),
    "root": (lambda a, b: optimize.root(line, START, args=(a, b)).x[0], 1.0),
    "fsolve": (lambda a, b: optimize.fsolve(line, START, args=(a, b))[0], 1.0),
    "minimize": (lambda a, b: optimize.minimize(lambda x: np.sum(line(x, a, b) ** 2), START).x[0],
    1.0),
    "minimize_scalar": (lambda a, b: optimize.minimize_scalar(lambda x: line(x, a, b) ** 2).x, 1.0),
    "least_squares": (lambda a, b: optimize.least_squares(line, START, args=(a, b)).x[0], 1.0),
    "curve_fit": (
        lambda a, b: optimize.curve_fit(lambda x, p: p * x + np.sqrt(b), np.arange(4.0),
        a * np.arange(4.0), p0=[1.0])[0][0],
        1.0,
    ),
    "fixed_point": (lambda a, b: optimize.fixed_point(lambda x: 0.5 * x + a + np.sqrt(b), 1.0),
    2.0),
    "custom_root": (
        lambda a, b: ft.custom_root(lambda x: line(x, a, b), 0.5, lambda f, x: x - f(x), lambda g,
        y: y / g(1.0)), 1.0,
    ),
    "custom_linear_solve": (linear, -1.0),
    "solve_ivp": (
        lambda a, b: integrate.solve_ivp(rate, (0.0, 1.0), START, t_eval=TIMES, args=(a, b),
        **TIGHT).y[0, -1],
        -np.exp(-1.0),
    ),
    "solve_ivp, direct": (
        lambda a, b: integrate.solve_ivp(
            rate, (0.0, 1.0), START, t_eval=TIMES, args=(a, b), gradient="direct", **TIGHT
        ).y[0, -1],
        -np.exp(-1.0),
    ),
    "odeint": (lambda a, b: integrate.odeint(rate, START, TIMES, (a, b), tfirst=True, **TIGHT)[-1,
    0], -np.exp(-1.0)),
    "fixed_quad": (lambda a, b: integrate.fixed_quad(lambda x: a * x + np.sqrt(b), 0.0, 1.0)[0],
    0.5),
    "quad": (lambda a, b: integrate.quad(lambda x: a * x + np.sqrt(b), 0.0, 1.0)[0], 0.5),
    "simpson": (lambda a, b: integrate.simpson(a * TIMES + np.sqrt(b), dx=0.25),
    0.25 * (4.0 * 0.7 + 1.0) / 3.0),
    "scan": (lambda a, b: ft.scan(lambda c, _: (c * a + np.sqrt(b), None), 1.0, None, length=3)[0],
    3.0),
    "while_loop": (
        lambda a, b: ft.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * a + np.sqrt(b)), (0, 1.0), max_steps=5
        )[1],
        3.0,
    ),
    "cond": (lambda a, b: ft.cond(a > 0, lambda a: a + np.sqrt(b), lambda a: a, a), 1.0),
    "checkpoint": (lambda a, b: ft.checkpoint(lambda a, b: a + np.sqrt(b))(a, b), 1.0),
}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_leave_out_parameters_that_do_not_change(name: str) -> None:
    f, expected = SOLVERS[name]
    for word, found in derivatives(f, 1.0, 0.0):
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=word)
