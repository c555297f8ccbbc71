"""custom_vjp and custom_jvp as decorators; the function keeps its type."""

import functools
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


@ft.custom_vjp
def clip_gradient(x: Vector) -> Vector:
    return x * 1.0


def forward(x: Vector) -> tuple[Vector, None]:
    return clip_gradient(x), None


def backward(_: None, y_bar: Vector) -> tuple[Vector]:
    return (np.clip(y_bar, -1.0, 1.0),)


clip_gradient.defvjp(forward, backward)


@functools.partial(ft.custom_jvp, nondiff_argnums=(1,))
def power(x: Vector, n: int) -> Vector:
    return x**n


@power.defjvp
def power_rule(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return x**n, n * x ** (n - 1) * x_dot


assert_type(clip_gradient(np.ones(2)), Vector)
assert ft.grad(lambda x: np.sum(5.0 * clip_gradient(x)))(np.ones(2)).tolist() == [1.0, 1.0]
assert ft.grad(lambda x: np.sum(power(x, 3)))(np.ones(2)).tolist() == [3.0, 3.0]
