"""has_aux, on every transform that has it."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def loss(w: Vector, x: Vector) -> tuple[float, dict[str, Vector]]:
    prediction = x @ w
    return np.sum(prediction**2), {"prediction": prediction}


w, x = np.ones(2), np.ones((3, 2))
gradient, aux = ft.grad(loss, has_aux=True)(w, x)
assert_type(gradient, Vector)
assert_type(aux, dict[str, Vector])
(value, aux), gradient = ft.value_and_grad(loss, has_aux=True)(w, x)
assert_type(aux, dict[str, Vector])
both, aux = ft.grad(loss, (0, 1), True)(w, x)
assert_type(both, tuple[Any, ...])
_, pullback, aux = ft.vjp(loss, w, x, has_aux=True)
assert_type(aux, dict[str, Vector])
_, tangent, aux = ft.jvp(loss, (w, x), (w, x), has_aux=True)
assert_type(aux, dict[str, Vector])
jacobian, aux = ft.jacrev(loss, has_aux=True)(w, x)
assert_type(aux, dict[str, Vector])
assert aux["prediction"].shape == (3,) and len(pullback(1.0)) == 2
