"""A training loop over a dict of parameters."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Params = dict[str, NDArray[np.float64]]


def loss(params: Params, x: NDArray[np.float64], y: NDArray[np.float64]) -> np.floating:
    return np.mean((np.tanh(x @ params["w"]) + params["b"] - y) ** 2)


rng = np.random.default_rng(0)
params: Params = {"w": rng.normal(size=3), "b": np.zeros(1)}
x, y = rng.normal(size=(8, 3)), rng.normal(size=8)
step = ft.value_and_grad(loss)
losses: list[float] = []
for _ in range(3):
    value, gradient = step(params, x, y)
    assert_type(gradient, Params)
    params = ft.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    losses.append(float(value))
assert losses[-1] < losses[0]
