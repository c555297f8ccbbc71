"""vjp, jvp, linearize, linear_transpose."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def f(x: Vector, y: Vector) -> Vector:
    return np.sin(x) * y


x: Vector = np.array([0.5, 1.0])
out, pullback = ft.vjp(f, x, x)
assert_type(out, Vector)
by_x, by_y = pullback(np.ones(2))
assert_type(by_x, Vector)
out, tangent = ft.jvp(f, (x, x), (x, x))
assert_type(tangent, Vector)
out, push = ft.linearize(f, x, x)
assert_type(push(x, x), Vector)
(back,) = ft.linear_transpose(lambda v: 2.0 * v, x)(np.ones(2))
assert back.shape == by_y.shape == (2,)
y, slope = ft.vjp(np.sin, x)
assert len(slope(np.ones(2))) == 1
value, _ = ft.vjp(lambda x, *, scale: np.sum(x) * scale, x, scale=2.0)
assert value == 3.0
