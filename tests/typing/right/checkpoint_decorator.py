"""checkpoint as a function, as a decorator, and with a policy."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


@ft.checkpoint
def layer(h: Vector, t: float = 0.5) -> Vector:
    return np.tanh(h * t)


@ft.checkpoint(policy=ft.policies.save_names("hidden"))
def block(h: Vector, *, scale: float) -> Vector:
    hidden = ft.checkpoint_name(np.sin(h), "hidden")
    return np.cos(hidden) * scale


def loss(x: Vector) -> float:
    return np.sum(block(layer(x), scale=2.0))


assert_type(layer(np.ones(2)), Vector)
assert ft.grad(loss)(np.ones(2)).shape == (2,)
assert ft.saved_residuals(loss)(np.ones(2)).nbytes > 0
