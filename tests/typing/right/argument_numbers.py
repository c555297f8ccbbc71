"""argnums: an int gives one gradient, a sequence a tuple of them."""

import numpy as np

import functrace as ft


def f(x: float, y: float, z: float = 1.0) -> float:
    return x * y * z


assert ft.grad(f)(2.0, 3.0) == 3.0
assert ft.grad(f, 1)(2.0, 3.0) == 2.0
by_x, by_y = ft.grad(f, argnums=(0, 1))(2.0, 3.0, z=2.0)
assert (by_x, by_y) == (6.0, 4.0)
value, gradients = ft.value_and_grad(f, argnums=[0, 1])(2.0, 3.0)
assert len(gradients) == 2 and value == 6.0
slope: float = ft.grad(ft.grad(f))(2.0, 3.0)
assert slope == 0.0
assert ft.elementwise_grad(np.sin)(np.zeros(2)).shape == (2,)
