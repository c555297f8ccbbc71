"""jaxtyping's shapes on ft.Array."""

import numpy as np
from jaxtyping import Float

import functrace as ft


def predict(w: Float[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, " n"]:
    return np.tanh(w @ x)


def loss(w: Float[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, ""]:
    return np.sum(predict(w, x) ** 2)


gradient: Float[ft.Array, "n d"] = ft.grad(loss)(np.ones((3, 2)), np.ones(2))
rows = ft.vmap(predict, in_axes=(None, 0))(np.ones((3, 2)), np.ones((5, 2)))
assert gradient.shape == (3, 2) and rows.shape == (5, 3)
