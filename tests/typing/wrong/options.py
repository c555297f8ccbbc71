"""Options that do not exist, or have other types."""

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def loss(x: Vector, y: Vector) -> float:
    return np.sum(x * y)


def pair(x: Vector) -> tuple[float, Vector]:
    return np.sum(x), x


ft.grad(loss, argnum=1)  # E
ft.grad(loss, "x")  # E
ft.grad(loss, has_aux=True)  # E
ft.value_and_grad(loss, argnums=1.5)  # E
ft.vmap(loss, in_axis=0)  # E
ft.vmap(loss, axis_size="2")  # E
ft.jit(loss, static_argnum=0)  # E
ft.jit(loss, 0)  # E
ft.jit(static_argnums="x")  # E
ft.checkpoint(loss, policies=None)  # E
ft.checkpoint(loss, policy=3)  # E
ft.jacrev(pair, has_aux="yes")  # E
ft.checkpoint_name(np.ones(2), 3)  # E
ft.scan(lambda c, x: (c, x), 0.0, np.ones(3), reversed=True)  # E
ft.grad(3)  # E
ft.jit(3)  # E
