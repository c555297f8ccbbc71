"""Parameters in a NamedTuple: the gradient is one too."""

from typing import NamedTuple, assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft


class Layer(NamedTuple):
    weight: NDArray[np.float64]
    bias: float


def loss(layer: Layer, x: NDArray[np.float64], *, scale: float = 1.0) -> float:
    return np.sum(x @ layer.weight + layer.bias) * scale


layer = Layer(np.ones(2), 0.5)
gradient = ft.grad(loss)(layer, np.ones((3, 2)), scale=2.0)
assert_type(gradient, Layer)
assert gradient.weight.shape == (2,)
assert gradient.bias == 6.0
