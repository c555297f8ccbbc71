"""Loop fission: results equal those of the whole loop up to rounding; operations that must stay in
the loop stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control.scan import scan_p
from functrace.executor.runner import Runner, compile_at_once
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p
from functrace.passes import without
from functrace.passes.loop_fission import FEWEST, fission_loops
from functrace.passes.matmul_selection import choose_dot
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from tests.oracles import assert_same

WHOLE = [without("loop fission"), without("small matmul")]
N, STEPS = 4, 7


def steps_of(which: int, w: Any, b: Any) -> Callable[[Any, Any], Any]:
    """Bodies of a vector that is carried, a sum, and slices of a vector and a matrix."""

    def cell(c: Any, x: Any) -> Any:
        h, s = c
        h = np.tanh(w @ h + x[0] @ w + b)
        return (h, s + h), (h * h, x[0] * 2.0)

    def outer(c: Any, x: Any) -> Any:
        h, s = c
        new = np.sin(h) * x[0]
        return (new, s - np.sum(new[:, None] * h, axis=0)), (h, np.exp(x[1]).T)

    def chosen(c: Any, x: Any) -> Any:
        h, s = c
        h = ft.cond(h[0] > 0.0, lambda h: h * x[0], lambda h: h - w @ x[0], h)
        return (h, s + np.where(x[0] > 0, h, 1.0)), (
            np.linalg.solve(x[1] + 3 * np.eye(N), h),
            np.max(x[1], axis=0),
        )

    def nested(c: Any, x: Any) -> Any:
        h, s = c
        inner, rows = ft.scan(lambda k, r: (k + np.outer(r, r) @ b, np.cos(r) * k), h, np.exp(x[1]))
        return (np.tanh(inner), s + rows[0] + rows[-1]), (rows, h[::-1])

    def unread(c: Any, x: Any) -> Any:
        h, s = c
        return (x[0], 2.0 + s), (b + 1.0, h)

    def only_sums(c: Any, x: Any) -> Any:
        h, s = c
        return (h + (x[1] @ x[0] + b * x[0]), s + np.sum(x[1] ** 2)), (x[1] @ w, x[0][0])

    def mixed(c: Any, x: Any) -> Any:
        h, s = c
        return (np.sqrt(np.abs(h + x[0])) * x[1][0], s + h.astype(np.float32).astype(np.float64)), (
            np.argmax(h),
            h[1:3],
        )

    def algebra(c: Any, x: Any) -> Any:
        h, s = c
        m = x[1] @ x[1].T + (h @ h) * np.eye(N)
        h = np.stack([h[1], h[0] * x[0][2], *h[2:]])
        lower = np.linalg.cholesky(m + np.eye(N))
        return (h, s + np.diag(lower)), (np.linalg.det(m), np.linalg.solve(m + np.eye(N), w), w)

    return (cell, outer, chosen, nested, unread, only_sums, mixed, algebra)[which]


def run(which: int, reverse: bool, steps: int) -> Callable[..., Any]:
    def f(w: Any, b: Any, h: Any, x: Any, m: Any) -> Any:
        return ft.scan(
            steps_of(which, w, b), (h, np.zeros(N)), (x, m), reverse=reverse, length=steps
        )

    return f


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """One number of all results."""
    return lambda *args: sum(
        [np.sum(np.sin(leaf)) for leaf in ft.tree.flatten(f(*args))[0] if leaf.dtype.kind == "f"]
    )


def given(steps: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=shape) * 0.5 for shape in ((N, N), (N,), (N,), (steps, N), (steps, N, N))
    ]


def assert_close(found: Any, expected: Any) -> None:
    first, second = ft.tree.flatten(found), ft.tree.flatten(expected)
    assert first[1] == second[1]
    for x, y in zip(first[0], second[0], strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


FORMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "value": lambda f: f,
    "grad": lambda f: ft.grad(total(f), argnums=(0, 1, 2, 3, 4)),
    "jvp": lambda f: lambda *args: ft.jvp(f, args, tuple(map(np.cos, args))),
    "second": lambda f: ft.grad(
        lambda *args: np.sum(ft.grad(total(f))(*args) ** 2), argnums=(0, 3)
    ),
    "vmap of grad": lambda f: ft.vmap(
        ft.grad(total(f), argnums=(0, 4)), in_axes=(None, None, 0, None, None)
    ),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(total(f)), argnums=(0, 1, 2)),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", range(8))
def test_a_loop_in_parts_is_the_loop(which: int, form: str) -> None:
    for reverse, steps in ((False, STEPS), (True, STEPS), (True, 1)):
        f, args = FORMS[form](run(which, reverse, steps)), given(steps)
        if form.startswith("vmap"):
            args[2] = np.stack([args[2], -args[2]])
        expected = ft.jit(f, passes=WHOLE)(*args)
        assert_close(ft.jit(f)(*args), expected)
        assert_close(expected, f(*args))
        program = Runner(ft.trace(f)(*args)).flat
        parts = fission_loops(program).check()
        leaves = ft.tree.flatten(tuple(args))[0]
        parts = choose_dot(parts).check()
        for x, y in zip(
            compile_at_once(program)(*leaves), evaluate_program(parts, leaves), strict=True
        ):
            np.testing.assert_array_equal(x, y, strict=True)


def loops(program: Program) -> list[Any]:
    return [op for op in program.ops if op[0] is scan_p]


def words(program: Program) -> list[str]:
    return [program.ops[k][0].name for k, _ in program.schedule]


def test_the_gradient_of_a_recurrence_does_three_products_a_step() -> None:
    """One forward, one backward, none for the weights; the rest is done for all steps."""

    def loss(w: Any, b: Any, xs: Any) -> Any:
        return np.sum(ft.scan(lambda h, x: (np.tanh(w @ h + x @ w + b), None), np.zeros(N), xs)[0])

    args = (np.eye(N), np.ones(N), np.ones((STEPS, N)))
    parts = fission_loops(Runner(ft.trace(ft.grad(loss, argnums=(0, 1, 2)))(*args)).flat)
    forward, backward = [op[2][0] for op in loops(parts)]
    assert words(forward) == ["matmul", "add", "add", "tanh"]
    assert words(backward) == ["mul", "matmul"]


def test_a_body_that_calls_the_users_code_stays_whole() -> None:
    seen: list[float] = []

    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            ft.debug.callback(lambda v: seen.append(float(v)), x)
            return c + np.sqrt(x), np.exp(x)

        return ft.scan(step, 0.0, xs)

    xs = np.arange(6.0)
    program = Runner(ft.trace(f)(xs)).flat
    assert fission_loops(program) is program or str(fission_loops(program)) == str(program)
    assert_close(ft.jit(f)(xs), ft.jit(f, passes=WHOLE)(xs))
    assert seen == [*range(6), *range(6)]


def test_rematerialized_operations_stay_in_the_loop() -> None:
    def f(w: Any, xs: Any) -> Any:
        step = ft.checkpoint(lambda h, x: (np.tanh(np.sin(w @ h) * x), None))
        return np.sum(ft.scan(step, np.ones(N), xs)[0])

    program = Runner(ft.trace(ft.grad(f))(np.eye(N), np.ones((STEPS, N)))).flat
    backward = loops(fission_loops(program))[-1][2][0]
    assert words(backward) == words(loops(program)[-1][2][0])


def test_memory_has_a_bound() -> None:
    """Large intermediates of a step are not computed for all steps at once."""
    count, steps = 100, 1000
    wide = np.ones(count * 10)

    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return c * 0.5 + np.sum(np.sin(x * wide)), np.sum(np.cos(c * wide))

        return ft.scan(step, 0.0, xs)

    parts = fission_loops(Runner(ft.trace(f)(np.ones(steps))).flat)
    assert max(aval.nbytes for aval in parts.avals) <= FEWEST
    assert "sin" in words(loops(parts)[0][2][0]) and "cos" in words(loops(parts)[0][2][0])


def test_errors_name_the_line() -> None:
    def f(ms: Any) -> Any:
        return ft.scan(lambda c, m: (c + np.sum(np.linalg.inv(m)), np.exp(c)), 0.0, ms)

    ms = np.stack([np.eye(2)] * 5 + [np.zeros((2, 2))])
    with pytest.raises(np.linalg.LinAlgError) as caught:
        ft.jit(f)(ms)
    assert any(__file__.rsplit("/", 1)[-1] in note for note in caught.value.__notes__)


def test_warnings_and_error_modes_apply() -> None:
    def f(xs: Any) -> Any:
        return ft.scan(lambda c, x: (c * 0.5 + np.log(x), np.sqrt(c)), 1.0, xs)

    xs = np.array([1.0, 2.0, 0.0, 3.0, 1.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ft.jit(f)(xs)
    assert {str(w.message).split(" encountered in ")[0] for w in caught} == {
        "divide by zero",
        "invalid value",
    }
    assert {w.filename for w in caught} == {__file__}
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ft.jit(f)(xs)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        ft.jit(f)(xs)


def test_sums_of_narrow_dtypes_and_integers_stay_in_the_loop() -> None:
    for dtype in (np.float16, np.int32, np.int64, bool):
        xs = np.ones((STEPS, 3)).astype(dtype)
        f = lambda xs: ft.scan(lambda c, x: (c + x, c), np.zeros(3, xs.dtype), xs)
        (found, rows), (expected, others) = ft.jit(f)(xs), f(xs)
        np.testing.assert_array_equal(found, expected, strict=True)
        np.testing.assert_array_equal(rows, others, strict=True)


def test_small_products_are_by_dot() -> None:
    """``dot`` has the same bits as ``matmul``, for operands in C and Fortran order."""

    def f(x: Any, y: Any, v: Any) -> Any:
        return (
            x @ y,
            y.T @ x.T,
            x @ v,
            v @ y,
            ft.cond(v[0] > 0, lambda: y @ v[: y.shape[1]], lambda: v),
        )

    found = ft.debug.passes(f)(np.ones((3, 4)), np.ones((4, 4)), np.ones(4))
    made = next(step.after for step in found.steps if step.name == "small matmul")
    assert words(made).count("dot") == 4 and "matmul" not in str(made)
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32, np.complex64):
        for order in "CF":
            x, y, v = [
                np.asarray(rng.normal(size=s).astype(dtype), order=order)
                for s in ((3, 4), (4, 4), 4)
            ]
            program = ft.trace(f)(x, y, v)
            for a, b in zip(ft.jit(f)(x, y, v), evaluate_program(program, [x, y, v]), strict=True):
                assert_same(a, b)
    for x, y in (
        (np.ones((3, 1)), np.ones((1, 3))),
        (np.ones((2, 3, 4)), np.ones(4)),
        (np.ones((3, 3)), np.ones(3, int)),
    ):
        assert "dot" not in words(choose_dot(ft.trace(np.matmul)(x, y)))
    with pytest.raises(ft.errors.ShapeError, match="vectors and matrices"):
        ft.trace(lambda x: bind(dot_p, (x, x)))(np.ones((2, 2, 2)))


def test_the_pass_is_named_and_can_be_left_out() -> None:
    f = lambda xs: ft.scan(lambda c, x: (c + x, None), 0.0, xs)[0]
    xs = np.full(8, 0.1)
    assert ft.jit(f, passes=WHOLE)(xs) == 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1
    steps = {step.name: step for step in ft.debug.passes(f)(xs).steps}
    assert loops(steps["loop fission"].before) and not loops(steps["loop fission"].after)
    assert "loop fission" not in {step.name for step in ft.debug.passes(f, passes=WHOLE)(xs).steps}
    with pytest.raises(ft.errors.ArgumentError, match="loop fission"):
        without("loops")


BALANCES: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda c, s: c + np.exp(s[0]) - np.exp(s[1]),
    "sums, the other way round": lambda c, s: np.exp(s[0]) + (c - np.exp(s[1])),
    "three": lambda c, s: c - np.exp(s[0]) + np.exp(s[1]) * 0.5 + np.exp(s[1]) * 0.5,
    "a number and an array": lambda c, s: c + np.max(np.exp(s[0])) - np.exp(s[1]),
    "a product and a sum": lambda c, s: (
        c + np.exp(s[0])[:, None] * np.ones_like(s[0]) - np.exp(s[1])[:, None]
    ),
    "products": lambda c, s: c + np.outer(np.exp(s[0]), s[0]) - np.outer(np.exp(s[1]), s[1]),
    "a negative": lambda c, s: c + np.outer(np.exp(s[0]), s[0]) + (-np.outer(np.exp(s[1]), s[1])).T,
}


@pytest.mark.parametrize("balance", BALANCES)
def test_terms_that_cancel_in_each_step_are_not_summed_separately(balance: str) -> None:
    def f(x: Any, y: Any) -> Any:
        step = BALANCES[balance]
        return ft.scan(lambda c, s: (step(c, s), None), 0.0 * step(0.0, (x[0], y[0])), (x, y))[0]

    x = np.full((1000, 3), 84, np.float32)  # a thousand times exp(84) is more than a float32 holds
    y = np.full((1000, 3), 84, np.float32)
    y[::2, 1] -= 1e-5
    x[::2, 1] -= 1e-5
    np.testing.assert_array_equal(ft.jit(f)(x, y), f(x, y))
