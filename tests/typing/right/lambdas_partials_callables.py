"""Functions of all kinds: lambdas, partials, ufuncs, objects that are called, functions without
annotations.
"""

import functools

import numpy as np

import functrace as ft


def untyped(p, x, scale=1.0):
    return np.sum(p["w"] * x) * scale


class Quadratic:
    def __init__(self, a: np.ndarray) -> None:
        self.a = a

    def __call__(self, x: np.ndarray) -> float:
        return np.sum(x @ self.a * x)

    def loss(self, x: np.ndarray, y: float) -> float:
        return np.sum(x) * y


x = np.ones(2)
q = Quadratic(np.eye(2))
assert ft.grad(lambda x: np.sum(x**2) + x[0])(x).shape == (2,)
assert ft.grad(np.sin)(0.0) == 1.0
assert ft.grad(functools.partial(untyped, scale=2.0))({"w": x}, x)["w"].shape == (2,)
assert ft.value_and_grad(untyped)({"w": x}, x)[1]["w"].shape == (2,)
assert ft.grad(q)(x).shape == ft.grad(q.loss)(x, 2.0).shape
assert ft.jit(ft.vmap(np.dot))(np.ones((3, 2)), np.ones((3, 2))).shape == (3,)
assert ft.vmap(lambda x, y: x * y, in_axes=(0, None))(x, 2.0).shape == (2,)
