"""Functions whose programs hold programs, of one vector of three numbers; all are smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.array([0.3, -0.7, 1.1])


def recurrence(x: Any) -> Any:
    """A scan with a constant, a carry and stacked results."""
    scale = np.sin(x[0]) + 1.0

    def step(h: Any, xt: Any) -> Any:
        h = np.tanh(scale * h + xt)
        return h, h * xt

    h, ys = ft.scan(step, np.float64(0.1), x)
    return h + np.sum(ys**2)


def reversed_pair(x: Any) -> Any:
    """A reversed scan whose carry is a pytree with a counter."""

    def step(carry: Any, xt: Any) -> Any:
        carry = {"n": carry["n"] + 1, "v": np.cos(carry["v"]) * xt + carry["n"]}
        return carry, carry["v"]

    last, ys = ft.scan(step, {"n": 0, "v": x}, x, reverse=True)
    return np.sum(last["v"] * ys[0]) + last["n"] * np.sum(ys)


def choice(x: Any) -> Any:
    """A choice by value, with captured operands in one branch."""
    weights = np.exp(x)
    return ft.cond(x[0] > 0.0, lambda x: np.sum(np.sin(x) * weights), lambda x: np.sum(x**3), x)


def choice_in_loop(x: Any) -> Any:
    """Cond in scan: the branch changes from step to step."""

    def step(c: Any, xt: Any) -> Any:
        c = ft.cond(xt > 0.0, lambda c: np.sin(c) * xt, lambda c: c * c + xt, c)
        return c, c

    c, ys = ft.scan(step, x[1], x)
    return c * np.sum(ys)


def loop_in_choice(x: Any) -> Any:
    """Scan in cond."""
    return ft.cond(
        np.sum(x) > 0.0,
        lambda x: np.sum(ft.scan(lambda c, xt: (c * xt + 1.0, np.sin(c)), x[0], x)[1]),
        lambda x: np.sum(x),
        x,
    )


def loop_in_loop(x: Any) -> Any:
    """Scan in scan, with a closure over the outer carry."""

    def outer(c: Any, xt: Any) -> Any:
        d, zs = ft.scan(lambda d, _: (np.sin(d) + xt, c * d), c, None, 3)
        return d, np.sum(zs)

    c, ys = ft.scan(outer, x[2], x)
    return c * np.sum(ys)


def recomputed_loop(x: Any) -> Any:
    """Checkpoint in scan."""
    step = ft.checkpoint(lambda c, xt: (np.tanh(c * xt + x[0]), np.exp(c) * xt))
    c, ys = ft.scan(step, x[1], x)
    return c + np.sum(ys)


def loop_until(x: Any) -> Any:
    """A while loop, whose carry holds a counter, and what the trip of its derivative keeps."""
    scale = np.sin(x[0]) + 1.5

    def step(state: Any) -> Any:
        return state["n"] + 1, np.tanh(state["v"] * scale) + 0.1 * state["n"] * x

    body = lambda state: dict(zip("nv", step(state), strict=True))
    last = ft.while_loop(
        lambda state: (state["n"] < 4) & (np.sum(state["v"]) < 9.0),
        body,
        {"n": np.int64(0), "v": x},
    )
    return np.sum(last["v"] ** 2) * last["n"]


def loops_in_one_another(x: Any) -> Any:
    """A while loop in a scan in a while loop, and a loop between bounds that are not known."""

    def outer(state: Any) -> Any:
        c, ys = ft.scan(lambda c, xt: (until(c * xt), np.cos(c)), state[1], x)
        return state[0] + 1, np.sin(c) + np.sum(ys)

    def until(v: Any) -> Any:
        return ft.while_loop(lambda v: v < 1.0, lambda v: v * 0.5 + 0.1 * x[1] + 0.8, v)

    n, c = ft.while_loop(lambda state: state[0] < 2, outer, (np.int64(0), x[0]))
    return c * ft.fori_loop(n, 3 * n, lambda i, v: np.sin(v) * i + x, x)[0]


def choice_of_three(x: Any) -> Any:
    """A choice by number, in a loop by number."""
    branches = [lambda v: np.sin(v) * x, lambda v: v * x[0], lambda v: np.cos(v) + x[2]]
    return np.sum(ft.fori_loop(-1, 4, lambda i, v: ft.switch(i, branches, v), x))


def mapped_in_turn(x: Any) -> Any:
    """`map`, in batches of two and a rest of one."""
    return np.sum(ft.map(lambda v: np.sin(v) * x[0], x, batch_size=2) * ft.map(np.exp, x))


def called(x: Any) -> Any:
    """Nested checkpoints, and a policy by name."""

    def inner(x: Any) -> Any:
        return np.sin(ft.checkpoint_name(np.exp(x), "exp"))

    outer = ft.checkpoint(
        lambda x: np.cos(ft.checkpoint(inner, policy=ft.policies.save_names("exp"))(x)) * x
    )
    return np.sum(outer(x))


def staged(x: Any) -> Any:
    """A jitted function, called twice."""
    return _JITTED(x) * _JITTED(x * 0.5)


def _weighted(x: Any) -> Any:
    return np.sum(np.sin(x) * np.cos(x[::-1]))


_JITTED = ft.jit(_weighted)


@ft.custom_jvp
def _softened(x: Any) -> Any:
    return np.log1p(np.exp(x))


_softened.defjvp(lambda x, x_dot: (np.log1p(np.exp(x[0])), x_dot[0] / (1.0 + np.exp(-x[0]))))


@ft.custom_vjp
def _cubed(x: Any, k: Any) -> Any:
    return k * x**3


_cubed.defvjp(
    lambda x, k: (k * x**3, (x, k)),
    lambda kept, y_bar: (3.0 * kept[1] * kept[0] ** 2 * y_bar, kept[0] ** 3 * y_bar),
)


@ft.custom_jvp
def _sine(x: Any) -> Any:
    return np.sin(x)


_sine.defjvps(lambda x_dot, y, x: np.sqrt(1.0 - y * y) * x_dot)


@ft.custom_vjp
def _exponential(x: Any) -> Any:
    return np.exp(x)


_exponential.defvjp(lambda x: (_exponential(x),) * 2, lambda y, y_bar: (y * y_bar,))


def custom_rules(x: Any) -> Any:
    """Both kinds of custom rules."""
    return np.sum(_softened(x) * _cubed(x, x[::-1]))


def custom_rules_in_control_flow(x: Any) -> Any:
    """Custom rules in a loop and in a choice."""
    c, ys = ft.scan(lambda c, xt: (_softened(c) * xt, _cubed(c, xt)), x[0], x)
    return ft.cond(x[1] < 0.0, lambda v: _cubed(v, c), lambda v: _softened(v), np.sum(ys))


def rules_that_call_themselves(x: Any) -> Any:
    """Rules in terms of their own function, as people write them."""
    return np.sum(_exponential(x) * np.tanh(_sine(x / 4.0)))


def _dense(linear: Any, right: Any) -> Any:
    return np.linalg.solve(ft.jacfwd(linear)(right), right)


def solved_equations(x: Any) -> Any:
    """A root by Newton steps in a loop, and linear equations with a matrix that is not symmetric."""

    def step(y: Any, _: Any) -> Any:
        return y - (y + 0.3 * y**3 - np.sin(x)) / (1.0 + 0.9 * y**2), None

    root = ft.custom_root(
        lambda y: y + 0.3 * y**3 - np.sin(x),
        x,
        lambda f, y: ft.scan(step, y, None, 8)[0],
        lambda g, y: _dense(g, y),
    )
    skew = np.array([[0.0, 1.0, -0.5], [0.2, 0.0, 0.3], [-0.4, 0.1, 0.0]])
    return np.sum(
        ft.custom_linear_solve(
            lambda v: 2.0 * v + np.tanh(x) * (skew @ v), root * x[::-1], _dense, _dense
        )
    )


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        recurrence, reversed_pair, choice, choice_in_loop, loop_in_choice, loop_in_loop,
        recomputed_loop, loop_until,
        loops_in_one_another, choice_of_three, mapped_in_turn, called, staged,
        custom_rules, custom_rules_in_control_flow, rules_that_call_themselves, solved_equations,
    )
}  # fmt: skip
WRITTEN = {name: f for name, f in FUNCTIONS.items() if f is not rules_that_call_themselves}
functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
