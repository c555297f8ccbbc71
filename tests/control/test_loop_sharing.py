"""Loops of unknown length in programs that run: walked forward once, keeping residuals on the way;
counters; policies.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner
from tests.oracles import differences

X = np.linspace(0.1, 0.9, 5)


def looped(x: Any) -> Any:
    return np.sum(
        ft.while_loop(lambda s: s[0] < 6, lambda s: (s[0] + 1, np.sin(s[1]) * 1.5), (0, x))[1] ** 2
    )


def unrolled(x: Any) -> Any:
    for _ in range(6):
        x = np.sin(x) * 1.5
    return np.sum(x**2)


def root(a: Any) -> Any:
    return ft.while_loop(
        lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), 0.5 * (1.0 + a)
    )


def second(f: Any) -> Any:
    return lambda x: np.sum(ft.grad(f)(x) ** 2)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (ft.value_and_grad(looped), X),
        (ft.value_and_grad(root), np.float64(7.0)),
        (ft.value_and_grad(ft.jit(looped)), X),
        (ft.hessian(looped), X),
        (ft.value_and_grad(second(looped)), X),
        (ft.value_and_grad(lambda x: looped(x) * looped(2.0 * x)), X),
    ],
    ids=["loop", "closure", "jit", "hessian", "second", "two"],
)
def test_a_loop_and_its_reverse_walk_forward_once(f: Any, x: Any) -> None:
    program = ft.trace(f)(x)
    runner = Runner(program)
    listing = runner.flat.text()
    assert " walk " in listing and " along " in listing
    assert "while_loop" not in listing
    expected = ft.evaluate(program, x)
    expected = [expected] if isinstance(expected, np.ndarray) else list(expected)
    for found in (runner.interpret([x]), runner.compile()(x)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_derivatives_are_those_of_the_steps() -> None:
    np.testing.assert_allclose(
        ft.jit(ft.value_and_grad(looped))(X)[1], ft.grad(unrolled)(X), rtol=1e-13
    )
    np.testing.assert_allclose(ft.jit(ft.hessian(looped))(X), ft.hessian(unrolled)(X), rtol=1e-12)
    np.testing.assert_allclose(
        ft.jit(ft.grad(second(looped)))(X), ft.grad(second(unrolled))(X), rtol=1e-12
    )


def test_a_loop_in_a_checkpoint_is_rematerialized() -> None:
    made = Runner(ft.trace(ft.value_and_grad(ft.checkpoint(looped)))(X))
    assert " walk " not in made.flat.text()
    value, slope = made.compile()(X)
    np.testing.assert_allclose(slope, ft.grad(unrolled)(X), rtol=1e-13)
    np.testing.assert_allclose(value, unrolled(X), rtol=1e-13)


def test_loops_that_differ_are_not_taken_for_one_another() -> None:
    def f(x: Any) -> Any:
        def loop(factor: float) -> Any:
            return ft.while_loop(
                lambda s: s[0] < 4, lambda s: (s[0] + 1, np.sin(s[1]) * factor), (0, x)
            )[1]

        return np.sum(loop(1.5) ** 2) + np.sum(loop(1.25) ** 3)

    value, slope = ft.jit(ft.value_and_grad(f))(X)
    direction = np.linspace(1.0, -0.5, 5)
    np.testing.assert_allclose(slope @ direction, differences(f, [X], [direction])[0], rtol=1e-8)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)


@pytest.mark.parametrize("most", [6, 9])
def test_a_bound_is_kept_in_the_one_walk(most: int) -> None:
    def f(x: Any) -> Any:
        done = ft.while_loop(
            lambda s: s[0] < 6, lambda s: (s[0] + 1, np.sin(s[1]) * 1.5), (0, x), max_steps=most
        )
        return np.sum(done[1] ** 2)

    value, slope = ft.jit(ft.value_and_grad(f))(X)
    np.testing.assert_allclose(slope, ft.grad(unrolled)(X), rtol=1e-13)
    np.testing.assert_allclose(value, unrolled(X), rtol=1e-13)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_loop_that_takes_more_steps_than_its_bound_raises(compiled: bool) -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(lambda v: v < 100.0, lambda v: v * v, x, max_steps=3) ** 2

    runner = Runner(ft.trace(ft.value_and_grad(f))(1.5))
    run = runner.compile() if compiled else lambda *x: runner.interpret(x)
    assert run(np.float64(11.0))[0] == 11.0**4
    with pytest.raises(ft.errors.ArgumentError, match="max_steps=3"):
        run(np.float64(1.01))


def test_no_step_at_all() -> None:
    def f(x: Any, n: Any) -> Any:
        return np.sum(
            ft.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1])), (np.int64(0), x))[
                1
            ]
            ** 2
        )

    g = ft.jit(ft.value_and_grad(f))
    for n in (0, 3, 0):
        value, slope = g(X, np.int64(n))
        expected = X.copy()
        factor = np.ones(5)
        for _ in range(n):
            factor, expected = factor * np.cos(expected), np.sin(expected)
        np.testing.assert_allclose(value, np.sum(expected**2), rtol=1e-13)
        np.testing.assert_allclose(slope, 2.0 * expected * factor, rtol=1e-13)


# -- pytrees and policies --------------------------------------------------------------------------


@dataclass
class State:
    n: Any
    x: Any
    more: Any


def with_state(x: Any) -> Any:
    def step(s: State) -> State:
        return State(s.n + 1, np.sin(s.x) + s.more["v"][0], {"v": (s.x * 0.5, s.more["v"][0])})

    last = ft.while_loop(lambda s: s.n < 5, step, State(0, x, {"v": (x * 0.25, x)}))
    assert isinstance(last, State)
    return np.sum(last.x * last.more["v"][1])


def with_state_unrolled(x: Any) -> Any:
    y, a, b = x, x * 0.25, x
    for _ in range(5):
        y, a, b = np.sin(y) + a, y * 0.5, a
    return np.sum(y * b)


@pytest.mark.parametrize(
    "transform",
    [
        ft.grad,
        lambda f: ft.jit(ft.grad(f)),
        ft.jacfwd,
        lambda f: ft.jit(ft.hessian(f)),
        lambda f: ft.vmap(ft.grad(f)),
    ],
    ids=["grad", "jit", "forward", "hessian", "vmap"],
)
def test_a_carry_may_be_a_dataclass_of_pytrees(transform: Any) -> None:
    x = np.stack([X, 2.0 * X])
    found, expected = transform(with_state)(x), transform(with_state_unrolled)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


POLICIES = {
    "recompute": lambda f: ft.checkpoint(f),
    "named": lambda f: ft.checkpoint(f, policy=ft.policies.save_names("a")),
    "packed": lambda f: ft.checkpoint(f, policy=ft.policies.pack(lambda x: x.copy(), lambda x: x)),
}


@pytest.mark.parametrize("where", ["body", "loop"])
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "transform", [ft.grad, lambda f: ft.jit(ft.grad(f)), lambda f: ft.jit(ft.hessian(f))]
)
def test_policies_over_loops_change_no_derivative(name: str, where: str, transform: Any) -> None:
    policy = POLICIES[name]

    def step(s: Any) -> Any:
        return s[0] + 1, ft.checkpoint_name(np.sin(s[1]), "a") * 1.5

    def loop(x: Any) -> Any:
        body = policy(step) if where == "body" else step
        return np.sum(ft.while_loop(lambda s: s[0] < 6, body, (0, x))[1] ** 2)

    f = policy(loop) if where == "loop" else loop
    np.testing.assert_allclose(transform(f)(X), transform(unrolled)(X), rtol=1e-12)


def test_residuals_of_each_step_are_listed() -> None:
    kept = ft.saved_residuals(looped)(X)
    each = [row for row in kept if row.each]
    assert [(row.made, row.why, str(row.aval)) for row in each] == [
        ("result of cos of each step", "derivative of sin", "f64[5]")
    ]
    assert kept.nbytes_each == 40
    assert "40 for each step" in str(kept)
    again = ft.saved_residuals(
        lambda x: np.sum(
            ft.while_loop(
                lambda s: s[0] < 6,
                ft.checkpoint(lambda s: (s[0] + 1, np.exp(np.sin(s[1])))),
                (0, x),
            )[1]
        )
    )(X)
    assert [row.made for row in again if row.each] == ["carry of each step"]


# -- counters --------------------------------------------------------------------------------------

TOP = 2**63 - 1


@pytest.mark.parametrize(("start", "stop"), [(TOP - 3, TOP), (TOP - 2, TOP - 1)])
def test_counters_reach_the_last_of_64_bits(start: int, stop: int) -> None:
    def f(n: Any, x: Any) -> Any:
        return ft.while_loop(lambda s: s[0] < stop, lambda s: (s[0] + 1, s[1] * 2.0), (n, x))

    n, x = ft.jit(f)(start, 1.0)
    assert int(n) == stop
    assert x == 2.0 ** (stop - start)


@pytest.mark.parametrize(
    "step", [lambda n: n + 1, lambda n: n - (-1), lambda n: 1 + n, lambda n: n + n - (n - 1)]
)
def test_counters_that_leave_64_bits_raise(step: Any) -> None:
    def f(n: Any) -> Any:
        return ft.while_loop(lambda n: n != 5, step, n)

    run = ft.jit(f)
    for _ in range(60):  # interpreted first, then compiled
        assert int(run(3)) == 5
        with pytest.raises(OverflowError, match="64 bits"):
            run(TOP - 1)


def test_numpys_integers_wrap_around() -> None:
    def f(n: Any) -> Any:
        return ft.while_loop(lambda n: n > 5, lambda n: n + np.int64(1), n)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert Runner(ft.trace(f)(np.int64(7))).compile()(np.int64(TOP - 2))[0] == -(2**63)
