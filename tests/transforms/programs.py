"""Small programs that every transform is tried on, with arguments: of each way to hold values, one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import outputs_of, random_like

TABLE = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]])
X = np.array([0.3, -0.7, 1.1])


@dataclass(frozen=True)
class Example:
    """A function in NumPy, its arguments, and which of them carry derivatives."""

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    active: tuple[bool, ...]

    @property
    def program(self) -> ft.Program:
        return ft.trace(self.f)(*self.args)

    @property
    def primals(self) -> list[Any]:
        return [x for x, flag in zip(self.args, self.active, strict=True) if flag]

    def of_primals(self, *primals: Any) -> list[Any]:
        """The outputs as a function of the active arguments only."""
        found = iter(primals)
        values = [
            next(found) if flag else x for x, flag in zip(self.args, self.active, strict=True)
        ]
        return outputs_of(self.f(*values))

    def directions(self, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [random_like(rng, x) for x in self.primals]

    def weights(self, seed: int = 1) -> list[Any]:
        """A random cotangent per output."""
        rng = np.random.default_rng(seed)
        return [random_like(rng, y) for y in self.of_primals(*self.primals)]


def _loop(x: Any) -> Any:
    carry, ys = ft.scan(lambda c, t: (np.tanh(c * t + 0.5), c * t), x[0], x)
    return carry * np.sum(ys)


def _choice(x: Any, w: Any) -> Any:
    return ft.cond(x[0] > 0.0, lambda x: np.sum(np.sin(x) * w), lambda x: np.sum(x**3), x)


ONE, TWO = (True,), (True, True)
EXAMPLES = [
    Example("elementwise", lambda x: np.exp(-np.sin(x)) * x, (X,), ONE),
    Example("a value read twice", lambda x: (y := x * x) * np.cos(y) + y, (X,), ONE),
    Example("two arguments", lambda a, x: a * np.sin(x), (np.float64(0.7), X), TWO),
    Example(
        "one of two arguments", lambda a, x: a * np.sin(x), (np.float64(0.7), X), (False, True)
    ),
    Example("several outputs", lambda x: (np.sum(x**2), np.cos(x)), (X,), ONE),
    Example("an output that is an input", lambda x, y: (y, x * y), (X, X[::-1].copy()), TWO),
    Example("an output that is constant", lambda x: (np.sin(x), np.arange(2.0)), (X,), ONE),
    Example("an argument that is not read", lambda x, y: np.sum(x), (X, X), TWO),
    Example("a constant", lambda x: TABLE @ x, (X,), ONE),
    Example("products", lambda a, x: np.einsum("ij,j->i", a, x) * (a @ x), (TABLE, X), TWO),
    Example(
        "moved elements", lambda x: np.concatenate([x[::-1], x[:2] * 2.0]).reshape(5, 1), (X,), ONE
    ),
    Example(
        "integers beside", lambda x, k: x[k] * np.float64(2.0), (X, np.array([2, 0])), (True, False)
    ),
    Example("a loop", _loop, (X,), ONE),
    Example("a choice", _choice, (X, X + 1.0), TWO),
    Example("a call", lambda x: ft.jit(lambda y: np.sin(y) * x)(x * 2.0), (X,), ONE),
    Example("a checkpoint", ft.checkpoint(lambda x: np.tanh(x) * x), (X,), ONE),
    Example("a solution", lambda a, b: np.linalg.solve(a, b), (TABLE @ TABLE.T, X[:2]), TWO),
]

every = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
rules_and_templates = pytest.mark.parametrize("by_rules", [False, True], ids=["templates", "rules"])


def scalar(example: Example) -> Example:
    """The example with one number in front: a weighted sum of its outputs, whose gradient is taken."""
    bars = example.weights()

    def f(*args: Any) -> Any:
        outputs = outputs_of(example.f(*args))
        return sum(np.sum(y * bar) for y, bar in zip(outputs, bars, strict=True)), *outputs

    return Example(example.name, f, example.args, example.active)


def assert_close(found: Any, expected: Any, tol: float = 1e-12) -> None:
    """Compare values leaf by leaf, shapes and dtypes too."""
    found, expected = outputs_of(found), outputs_of(expected)
    assert len(found) == len(expected)
    for y, z in zip(found, expected, strict=True):
        assert (np.shape(y), np.asarray(y).dtype) == (np.shape(z), np.asarray(z).dtype)
        np.testing.assert_allclose(y, z, rtol=tol, atol=tol)
