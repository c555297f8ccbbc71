"""The shift of a softmax has derivative zero: the pass drops its derivative where the program
proves it, and only there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.runner import Runner
from functrace.passes import optimized, without
from functrace.passes.softmax_shift import drop_softmax_shifts

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 5, 4)), RNG.normal(size=(3, 5, 4))
LABELS = np.abs(RNG.normal(size=X.shape))
Function = Callable[[Any, Any, int], Any]


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def logsumexp(x: Any, axis: int) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top


def cross_entropy(x: Any, y: Any, axis: int) -> Any:
    z = x - np.max(x, axis=axis, keepdims=True)
    return -np.mean(
        np.sum(y * (z - np.log(np.sum(np.exp(z), axis=axis, keepdims=True))), axis=axis)
    )


FREE: dict[str, Function] = {
    "softmax": lambda x, y, axis: np.sum(softmax(x, axis) * y),
    "scaled": lambda x, y, axis: np.sum(softmax(x / 3.0, axis) * y),
    "squared": lambda x, y, axis: np.sum(softmax(x, axis) ** 2 * y),
    "its logarithm": lambda x, y, axis: np.sum(np.log(softmax(x, axis)) * y),
    "of a softmax": lambda x, y, axis: np.sum(softmax(softmax(x, axis), axis) * y),
    "logsumexp": lambda x, y, axis: np.sum(logsumexp(x, axis) * y),
    "cross-entropy": cross_entropy,
    "by the smallest": lambda x, y, axis: (
        np.sum(logsumexp(-x, axis) * y) + np.sum(softmax(x, axis)[0])
    ),
    "nn": lambda x, y, axis: np.sum(ft.nn.softmax(x, axis=axis) * y),
}
BOUND: dict[str, Function] = {
    "no quotient": lambda x, y, axis: np.sum(np.exp(x - np.max(x, axis=axis, keepdims=True)) * y),
    "differences": lambda x, y, axis: np.sum((x - np.max(x, axis=axis, keepdims=True)) * y),
    "maxima": lambda x, y, axis: np.sum(np.max(x, axis=axis, keepdims=True) * y),
    "half of it": lambda x, y, axis: (
        np.sum(softmax(x, axis) * y) + np.sum(np.max(x, axis=axis) ** 2)
    ),
    "another sum": lambda x, y, axis: np.sum(
        np.exp(x - np.max(x, axis=axis, keepdims=True))
        / np.sum(np.exp(x), axis=axis, keepdims=True)
        * y
    ),
    "a part of the row": lambda x, y, axis: np.sum(
        np.exp(x - np.max(x, axis=axis, keepdims=True))
        / np.sum(np.exp(x - 1.0) * y, axis=axis, keepdims=True)
    ),
    "the sum over another axis": lambda x, y, axis: np.sum(
        np.exp(x - np.max(x, axis=axis, keepdims=True))
        / np.sum(np.exp(x), axis=axis - 1, keepdims=True)
        * y
    ),
}


def has_masks(program: ft.Program) -> bool:
    return any(op[0].name == "equal" for op in optimized(program).ops)


def of_gradient(f: Function, x: Any, y: Any, axis: int) -> ft.Program:
    return Runner(ft.trace(ft.value_and_grad(lambda x, y: f(x, y, axis)))(x, y)).flat


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FREE)
def test_shifts_without_an_effect_have_no_derivative(name: str, dtype: str, axis: int) -> None:
    x, y, f = X.astype(dtype), LABELS.astype(dtype), FREE[name]
    program = of_gradient(f, x, y, axis)
    made = drop_softmax_shifts(program).check()
    if name != "nn":
        assert has_masks(program)
    assert not has_masks(made)
    expected = ft.value_and_grad(lambda x, y: f(x, y, axis))(x, y)
    for a, b in zip(ft.evaluate(made, x, y), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(
            a, b, rtol=1e-3 if dtype == "f4" else 1e-11, atol=1e-5 if dtype == "f4" else 1e-13
        )


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("name", BOUND)
def test_other_maxima_keep_their_derivatives(name: str, axis: int) -> None:
    f = BOUND[name]
    program = of_gradient(f, X, LABELS, axis)
    assert has_masks(drop_softmax_shifts(program))
    expected, found = (
        g(lambda x, y: f(x, y, axis)) for g in (ft.grad, lambda f: ft.jit(ft.grad(f)))
    )
    np.testing.assert_allclose(found(X, LABELS), expected(X, LABELS), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "cross-entropy"])
def test_rows_with_infinities_and_ties_are_as_without_the_pass(name: str) -> None:
    f, x = FREE[name], X.copy()
    x[0, 0, 1] = -np.inf
    x[0, 1] = 2.0
    x[1, 0, 0] = np.nan
    x[1, 1, 0] = np.inf
    x[2, 0] = -np.inf
    y = LABELS.copy()
    y[2, 2, 2] = np.inf

    def value(x: Any, y: Any) -> Any:
        return f(x, y, -1)

    with np.errstate(all="ignore"):
        expected = ft.jit(ft.grad(value), passes=[without("softmax shifts")])(x, y)
        found = ft.jit(ft.grad(value))(x, y)
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(expected[0]))
    finite = np.isfinite(expected)
    assert finite.sum() > 20
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-11, atol=1e-13)


def test_programs_without_maxima_stay_as_they_are() -> None:
    program = ft.trace(lambda x: np.tanh(x) + 1.0)(X)
    assert drop_softmax_shifts(program) is program
    other = ft.trace(lambda x: np.max(x, axis=-1))(X)
    assert drop_softmax_shifts(other) is other


def test_squares_of_squares_are_looked_at_in_no_time() -> None:
    """Their coefficients would have as many digits as there are ways through them."""

    def powers(x: Any, y: Any, axis: int) -> Any:
        for _ in range(40):
            x = 0.7 * x * x + 0.1
        return np.sum(softmax(x, axis) * y)

    assert not has_masks(drop_softmax_shifts(of_gradient(powers, X, LABELS, -1)))
