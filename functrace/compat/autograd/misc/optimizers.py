"""``autograd.misc.optimizers``: gradient descent, RMSProp and Adam, on containers of arrays.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.compat.autograd.misc.flatten import flatten
from functrace.compat.kinds import Given, Values

__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]

Function = Callable[..., Any]


def unflatten_optimizer(optimize: Function) -> Function:
    """Extend an optimizer of vectors to pytrees of tuples, lists and dicts."""

    @functools.wraps(optimize)
    def of_nests(
        grad: Function, x0: Values, callback: Function | None = None, *args: Given, **kwargs: Given
    ) -> Any:
        start, unflatten = flatten(x0)

        def called(x: Values, i: int, g: Values) -> Any:
            assert callback is not None
            return callback(unflatten(x), i, unflatten(g))

        def gradient(x: Values, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        shown = None if callback is None else called
        return unflatten(optimize(gradient, start, shown, *args, **kwargs))

    return of_nests


@unflatten_optimizer
def sgd(
    grad: Function,
    x: Values,
    callback: Given = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Descend along gradients with momentum; ``grad(x, i)`` is the gradient in step ``i``."""
    velocity = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(
    grad: Function,
    x: Values,
    callback: Given = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Descend along gradients divided by the root of their mean square."""
    square = np.ones(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        square = square * gamma + g**2 * (1 - gamma)
        x = x - step_size * g / (np.sqrt(square) + eps)
    return x


@unflatten_optimizer
def adam(
    grad: Function,
    x: Values,
    callback: Given = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Descend by Adam.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1.
    """
    first, second = np.zeros(len(x)), np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        first = (1 - b1) * g + b1 * first
        second = (1 - b2) * g**2 + b2 * second
        x = x - step_size * (first / (1 - b1 ** (i + 1))) / (
            np.sqrt(second / (1 - b2 ** (i + 1))) + eps
        )
    return x
