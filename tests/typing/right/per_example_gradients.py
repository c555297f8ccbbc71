"""vmap of grad keeps parameters and results."""

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def loss(w: Vector, x: Vector, y: Vector) -> float:
    return (np.dot(w, x) - y) ** 2


per_example = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))
gradients: Vector = per_example(np.ones(2), np.ones((5, 2)), np.zeros(5))
assert gradients.shape == (5, 2)
norms: Vector = ft.jit(ft.vmap(lambda g: np.sqrt(np.sum(g**2))))(gradients)
assert norms.shape == (5,)
