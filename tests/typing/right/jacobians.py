"""Jacobians, Hessians and their products with vectors."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def rosenbrock(x: Vector) -> float:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


x: Vector = np.array([0.5, 1.0, 2.0])
hessian: Vector = ft.hessian(rosenbrock, mode="reverse-over-reverse")(x)
product = ft.hvp(rosenbrock, (x,), (np.ones(3),))
assert_type(product, Vector)
np.testing.assert_allclose(hessian @ np.ones(3), product)
assert ft.jacfwd(ft.grad(rosenbrock))(x).shape == ft.jacrev(ft.grad(rosenbrock))(x).shape
step = np.linalg.solve(hessian, ft.grad(rosenbrock)(x))
assert step.shape == (3,)
one, two = ft.hvp(lambda a, b: np.sum(a * b), (x, x), (x, x))
assert one.shape == two.shape
