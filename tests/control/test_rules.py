"""The rules of primitives that hold programs, against differences and Python loops, on functions
that mix them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner
from functrace.numpy.arrays.recording import ArrayRecording
from tests.compositions.functions import jacobian_by_differences
from tests.control.programs import FUNCTIONS, X, functions
from tests.oracles import assert_same, differences, outputs_of, stacked

V = np.array([0.9, 0.2, -0.4])
BATCH = np.stack([X, [1.2, 0.1, -0.5], [-0.9, 0.4, 0.8], [-0.2, -0.3, -0.4]])
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def value_of(f: Any) -> Any:
    """The function on plain arrays, by the evaluator of every operation."""
    return lambda x: np.asarray(f(x))


@functions
def test_value_on_traced_values_is_that_on_arrays(f: Any) -> None:
    program = ft.trace(f)(X)
    assert_same(ft.evaluate(program, X), f(X), rtol=1e-15)
    assert_same(ft.value_and_grad(f)(X)[0], f(X), rtol=1e-15)


@pytest.mark.bits
@functions
def test_executor_equals_evaluator(f: Any) -> None:
    from functrace.tracing.evaluate import evaluate_program

    program = ft.trace(f)(X)
    expected = evaluate_program(program, [X])
    runner = Runner(program)
    for _ in range(3):
        for a, b in zip(runner([X]), expected, strict=True):
            assert_same(a, b)


@functions
def test_jvp_equals_differences(f: Any) -> None:
    value, tangent = ft.jvp(f, (X,), (V,))
    assert_same(value, f(X), rtol=1e-15)
    np.testing.assert_allclose(tangent, differences(value_of(f), [X], [V])[0], rtol=1e-8)


@functions
def test_gradient_equals_differences(f: Any) -> None:
    np.testing.assert_allclose(
        ft.grad(f)(X), jacobian_by_differences(value_of(f), X), rtol=1e-7, atol=1e-9
    )


@functions
def test_linearize_and_its_transpose(f: Any) -> None:
    value, f_jvp = ft.linearize(f, X)
    assert_same(value, f(X), rtol=1e-15)
    np.testing.assert_allclose(f_jvp(V), ft.jvp(f, (X,), (V,))[1], **CLOSE)
    np.testing.assert_allclose(f_jvp(V), ft.grad(f)(X) @ V, **CLOSE)


@functions
def test_vmap_equals_loop(f: Any) -> None:
    np.testing.assert_allclose(ft.vmap(f)(BATCH), stacked(f, [BATCH])[0], **CLOSE)


@functions
def test_vmap_of_grad_equals_loop(f: Any) -> None:
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(BATCH), stacked(ft.grad(f), [BATCH])[0], **CLOSE)


@functions
def test_grad_of_vmap_equals_grads_of_examples(f: Any) -> None:
    found = ft.grad(lambda b: np.sum(ft.vmap(f)(b)))(BATCH)
    np.testing.assert_allclose(found, stacked(ft.grad(f), [BATCH])[0], **CLOSE)


@pytest.mark.sampled(6)
@functions
@pytest.mark.parametrize("outer", [ft.jacfwd, ft.jacrev], ids=["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", [ft.jacfwd, ft.jacrev], ids=["jacfwd", "jacrev"])
def test_second_order_in_all_combinations(f: Any, inner: Any, outer: Any) -> None:
    expected = jacobian_by_differences(ft.grad(f), X)
    np.testing.assert_allclose(outer(inner(f))(X), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.sampled(3)
@functions
def test_third_order(f: Any) -> None:
    expected = jacobian_by_differences(ft.hessian(f), X)
    np.testing.assert_allclose(ft.jacfwd(ft.hessian(f))(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@functions
def test_jit_around_and_inside(f: Any) -> None:
    np.testing.assert_allclose(ft.jit(f)(X), f(X), **CLOSE)
    np.testing.assert_allclose(ft.jit(ft.grad(f))(X), ft.grad(f)(X), **CLOSE)
    np.testing.assert_allclose(ft.grad(ft.jit(f))(X), ft.grad(f)(X), **CLOSE)
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.grad(f)))(BATCH), ft.vmap(ft.grad(f))(BATCH), **CLOSE
    )
    np.testing.assert_allclose(
        ft.vmap(ft.jit(ft.grad(f)))(BATCH), ft.vmap(ft.grad(f))(BATCH), **CLOSE
    )


@pytest.mark.sampled(2)
@functions
def test_checkpoint_around_changes_no_bit(f: Any) -> None:
    recomputed = ft.checkpoint(f)
    assert_same(recomputed(X), f(X))
    assert_same(ft.grad(recomputed)(X), ft.grad(f)(X))
    assert_same(ft.jvp(recomputed, (X,), (V,))[1], ft.jvp(f, (X,), (V,))[1])
    assert_same(ft.vmap(ft.grad(recomputed))(BATCH), ft.vmap(ft.grad(f))(BATCH))


@pytest.mark.sampled(3)
@functions
def test_mapped_twice_equals_loops(f: Any) -> None:
    grid = np.stack([BATCH, BATCH[::-1] * 0.5])
    expected = np.stack([stacked(f, [b])[0] for b in grid])
    np.testing.assert_allclose(ft.vmap(ft.vmap(f))(grid), expected, **CLOSE)
    expected = np.stack([stacked(ft.grad(f), [b])[0] for b in grid])
    np.testing.assert_allclose(ft.vmap(ft.vmap(ft.grad(f)))(grid), expected, **CLOSE)


@pytest.mark.parametrize(
    "name",
    ["choice", "choice_in_loop", "loop_in_loop", "recomputed_loop", "called", "custom_rules"],
)
def test_single_precision_stays_single(name: str) -> None:
    f, x = FUNCTIONS[name], X.astype(np.float32)
    found = ft.grad(f)(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ft.grad(f)(X), rtol=2e-5, atol=1e-5)
    assert "f64" not in str(ft.trace(ft.grad(f))(x))
    assert "f64" not in str(ft.trace(ft.vmap(ft.grad(f)))(np.stack([x, -x])))


def test_a_program_with_several_results_takes_any_cotangents() -> None:
    def f(x: Any) -> Any:
        c, ys = ft.scan(lambda c, xt: (c * xt, (np.sin(c), c + xt)), x[0], x)
        return c, ys[0], ft.checkpoint(lambda y: (np.exp(y), y * 2.0))(ys[1])

    values, pullback = ft.vjp(f, X)
    leaves = outputs_of(values)
    rng = np.random.default_rng(3)
    bars = [np.asarray(rng.uniform(-1, 1, np.shape(v)))[()] for v in leaves]
    tangents = outputs_of(ft.jvp(f, (X,), (V,))[1])
    c, y, (a, b) = bars[0], bars[1], bars[2:]
    (x_bar,) = pullback((c, y, (a, b)))
    np.testing.assert_allclose(
        x_bar @ V, sum(np.sum(p * q) for p, q in zip(bars, tangents, strict=True)), **CLOSE
    )


def _choices(depth: int) -> Any:
    return (lambda x: ft.cond(x > -10.0, _choices(depth - 1), np.cos, x)) if depth else np.sin


def _loops(depth: int) -> Any:
    return (
        (lambda x: ft.scan(lambda c, _: (_loops(depth - 1)(c), None), x, None, 1)[0])
        if depth
        else np.sin
    )


def _calls(depth: int) -> Any:
    return (lambda x: ft.checkpoint(_calls(depth - 1))(x)) if depth else np.sin


@pytest.mark.sampled(3)
@pytest.mark.parametrize("nested", [_choices, _loops, _calls])
@pytest.mark.parametrize(
    "of", [ft.grad, ft.jacfwd, ft.hessian, lambda f: lambda x: ft.vmap(ft.grad(f))(np.full(2, x))]
)
def test_effort_grows_with_the_depth_of_nesting_not_exponentially(nested: Any, of: Any) -> None:
    def recordings(depth: int) -> int:
        before = ArrayRecording("test", keeps_source=False).serial
        of(nested(depth))(0.5)
        return ArrayRecording("test", keeps_source=False).serial - before

    assert recordings(16) <= 4**2 * recordings(
        4
    )  # at most with the square; 4**6 times as many, if each level doubled them


@pytest.mark.full
def test_deep_nesting() -> None:
    for nested in (_choices, _loops, _calls):
        np.testing.assert_allclose(ft.grad(nested(40))(0.5), np.cos(0.5), **CLOSE)
        np.testing.assert_allclose(ft.hessian(nested(40))(0.5), -np.sin(0.5), **CLOSE)
