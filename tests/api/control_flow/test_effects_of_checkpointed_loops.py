"""Side effects in loops with ``checkpoint=`` run as often as in the plain loop: once per step, and
never again where the reverse pass runs a step again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.policies import binomial

X = np.array([0.3, 0.7])
FACTORS = np.linspace(0.4, 1.6, 7)
SEEN: list[float] = []


def see(x: Any) -> None:
    SEEN.append(float(np.ravel(x)[0]))


def in_a_scan(x: Any, checkpoint: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        ft.debug.callback(see, c)
        return np.sin(c) * a, c

    end, ys = ft.scan(step, x, FACTORS, checkpoint=checkpoint)
    return np.sum(end * end) + np.sum(ys)


def of_what_nothing_reads(x: Any, checkpoint: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        ft.debug.callback(see, a)
        return c * a, None

    return np.sum(ft.scan(step, x, FACTORS, checkpoint=checkpoint)[0])


def in_a_while_loop(x: Any, checkpoint: Any) -> Any:
    def step(s: Any) -> Any:
        ft.debug.callback(see, s[1])
        return s[0] + 1, np.sin(s[1]) * 0.9

    chosen = checkpoint if checkpoint is None else binomial(2)
    return np.sum(ft.while_loop(lambda s: s[0] < 7, step, (np.int64(0), x), checkpoint=chosen)[1])


@ft.custom_vjp
def seen_sine(c: Any) -> Any:
    return np.sin(c)


def _forward(c: Any) -> Any:
    ft.debug.callback(see, c + 100.0)
    return np.sin(c), c


def _backward(c: Any, ct: Any) -> Any:
    ft.debug.callback(see, ct + 1000.0)
    return (np.cos(c) * ct,)


seen_sine.defvjp(_forward, _backward)


def in_both_passes(x: Any, checkpoint: Any) -> Any:
    step = lambda c, a: (seen_sine(c) * a, None)
    end, _ = ft.scan(step, x, FACTORS, checkpoint=checkpoint)
    return np.sum(end * end)


LOOPS = [in_a_scan, of_what_nothing_reads, in_a_while_loop, in_both_passes]
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(X),
    "grad": lambda f: ft.grad(f)(X),
    "jit of grad": lambda f: ft.jit(ft.grad(f))(X),
    "jit of what is dropped": lambda f: ft.jit(lambda x: (ft.grad(f)(x), x)[1])(X),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(np.stack([X, 2.0 * X])),
    "jvp": lambda f: ft.jvp(f, (X,), (X,)),
    "linearize": lambda f: ft.linearize(f, X)[1](X),
    "hessian": lambda f: ft.hessian(f)(X),
    "jit of hessian": lambda f: ft.jit(ft.hessian(f))(X),
    "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2))(X),
    "jit of grad of grad": lambda f: ft.jit(ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2)))(X),
    "jacrev of grad": lambda f: ft.jacrev(ft.grad(f))(X),
    "pullback, twice": lambda f: [ft.vjp(f, X)[1](1.0) for _ in range(2)],
    "in checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
    "in a scan": lambda f: ft.grad(
        lambda x: ft.scan(lambda c, _: (f(c * X), None), np.sum(x), None, length=2)[0]
    )(X),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("loop", LOOPS)
def test_side_effects_run_as_in_the_plain_loop(loop: Any, transform: Any) -> None:
    def seen(checkpoint: Any) -> Counter[float]:
        SEEN.clear()
        transform(lambda x: loop(x, checkpoint))
        return Counter(round(x, 9) for x in SEEN)

    expected = seen(None)
    for checkpoint in (2, binomial(2), binomial(20)):
        assert seen(checkpoint) == expected
