"""Reverse mode over reverse mode, to the third order, has the same bits with a lossless policy as
without one: on random functions, through loops, calls of calls and several uses of a value.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.test_checkpoint import assert_equal

Function = Callable[[Any], Any]
Wrap = Callable[[Function], Function]

RNG = np.random.default_rng(7)
W = RNG.normal(size=(4, 4)) / 2
UNARY = (
    np.sin,
    np.cos,
    np.tanh,
    np.exp,
    np.square,
    lambda v: v + 1.0,
    lambda v: W @ v,
    np.negative,
)


def random_layer(seed: int) -> Function:
    """A function of an array of four numbers that reads its values several times."""
    rng = np.random.default_rng(seed)
    steps = [tuple(rng.integers(0, 64, size=4)) for _ in range(rng.integers(2, 7))]

    def layer(x: Any) -> Any:
        values = [x]
        for f, a, b, kind in steps:
            u = UNARY[f % len(UNARY)](values[a % len(values)])
            v = values[b % len(values)]
            values.append(u * v if kind % 3 == 0 else u - 0.5 * v if kind % 3 == 1 else np.tanh(u))
        return np.tanh(sum(values[1:], values[0] * 0.25))

    return layer


def one(wrap: Wrap, layer: Function) -> Function:
    f = wrap(layer)
    return lambda x: np.sum(f(x) ** 2)


def chain(wrap: Wrap, layer: Function) -> Function:
    f = wrap(layer)
    return lambda x: np.sum(np.sin(x) * f(f(f(x) + x)))


def several(wrap: Wrap, layer: Function) -> Function:
    f = wrap(layer)
    return lambda x: np.sum(f(x) * x + np.sin(x) * f(x) + f(np.cos(x)))


def nested(wrap: Wrap, layer: Function) -> Function:
    inner = wrap(layer)
    f = wrap(lambda x: inner(inner(x) * x) + x)
    return lambda x: np.sum(f(f(x)))


def loop(wrap: Wrap, layer: Function) -> Function:
    f = wrap(layer)
    scanned = wrap(
        lambda x: ft.scan(lambda c, y: (f(c) * y, np.sin(c)), x, np.array([0.5, 1.5, 0.75]))
    )

    def run(x: Any) -> Any:
        carry, ys = scanned(x)
        return np.sum(carry**2) + np.sum(ys)

    return run


FUNCTIONS = (one, chain, several, nested, loop)


def dotted(f: Function) -> Function:
    return lambda x: np.sum(ft.grad(f)(x) ** 2)


def with_value(f: Function) -> Function:
    def g(x: Any) -> Any:
        value, gradient = ft.value_and_grad(f)(x)
        return value * np.sum(gradient**2)

    return g


X = RNG.normal(size=4)
TRANSFORMS: dict[str, Callable[[Function], Any]] = {
    "grad of grad": lambda f: ft.grad(dotted(f))(X),
    "with the value": lambda f: ft.grad(with_value(f))(X),
    "third order": lambda f: ft.grad(dotted(dotted(f)))(X),
    "vmap": lambda f: ft.vmap(ft.grad(dotted(f)))(np.stack([X, 2 * X])),
    "pullback": lambda f: ft.vjp(ft.grad(f), X)[1](X[::-1].copy()),
    "grad of jvp of grad": lambda f: ft.grad(lambda x: np.sum(ft.jvp(ft.grad(f), (x,), (X,))[1]))(
        X
    ),
}
POLICIES = {
    "recompute": lambda _: ft.policies.recompute,
    "save": lambda _: ft.policies.save,
    "dots": lambda _: ft.policies.save_dots,
    "elementwise": lambda _: ft.policies.recompute_elementwise,
    "zlib": lambda _: ft.policies.compress("zlib"),
    "offload": ft.policies.offload,
    "stored dots": lambda _: ft.policies.save_dots & ft.policies.compress("zlib"),
}


@pytest.mark.bits
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("build", FUNCTIONS)
@pytest.mark.parametrize("seed", range(8))
def test_lossless_policies_change_no_bit(
    seed: int,
    build: Callable[[Wrap, Function], Function],
    transform: str,
    name: str,
    tmp_path: Path,
) -> None:
    policy = POLICIES[name](tmp_path)
    layer = random_layer(100 * FUNCTIONS.index(build) + seed)
    apply = TRANSFORMS[transform]
    expected = apply(build(lambda f: f, layer))
    found = apply(build(lambda f: ft.checkpoint(f, policy=policy), layer))
    assert_equal(found, expected)


def test_reverse_over_reverse_of_calls_keeps_the_values_of_one_call() -> None:
    x, length = np.linspace(0.1, 1.0, 20_000), 8

    def layer(x: Any) -> Any:
        for _ in range(8):
            x = np.sin(x) * np.exp(-x * x) + x
        return x

    def peak(wrap: Wrap) -> float:
        step = wrap(layer)

        def f(x: Any) -> Any:
            for _ in range(length):
                x = step(x)
            return np.sum(x**2)

        run = ft.grad(dotted(f))
        run(x)
        tracemalloc.start()
        run(x)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most / x.nbytes

    plain, recomputed = peak(lambda f: f), peak(ft.checkpoint)
    assert recomputed < plain / 3, (plain, recomputed)
