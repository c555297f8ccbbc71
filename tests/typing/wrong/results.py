"""Results that are taken for something else."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


class Layer(NamedTuple):
    weight: Vector
    bias: float


def loss(layer: Layer, x: Vector) -> float:
    return np.sum(layer.weight * x) + layer.bias


def aux(layer: Layer) -> tuple[float, str]:
    return layer.bias, "done"


layer, x = Layer(np.ones(2), 0.0), np.ones(2)
ft.grad(loss)(layer, x).wieght  # E
ft.grad(aux, has_aux=True)(layer)[1].bias  # E
value: str = ft.value_and_grad(loss)(layer, x)[0]  # E
count: int = ft.grad(loss, argnums=(0, 1))(layer, x)  # E
text: str = ft.jit(loss)(layer, x)  # E
ft.vmap(loss)(layer, x).weight  # E
out, pullback = ft.vjp(loss, layer, x)
out.weight  # E
pullback(1.0)[0].wieght  # E
pullback(1.0)[2]  # E
primal, tangent, more = ft.jvp(loss, (layer, x), (layer, x))  # E
ft.stop_gradient(layer).wieght  # E
ft.hvp(loss, (layer,), (layer,)).wieght  # E
program: str = ft.trace(loss)(layer, x)  # E
carry, ys, more = ft.scan(lambda c, x: (c, x), 0.0, x)  # E
