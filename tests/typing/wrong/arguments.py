"""Calls that do not fit the function that was transformed."""

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


def loss(w: Vector, x: Vector, *, scale: float = 1.0) -> float:
    return np.sum(w * x) * scale


def aux(w: Vector) -> tuple[float, str]:
    return np.sum(w), "done"


class Model:
    @ft.jit
    def step(self, x: Vector) -> Vector:
        return x

    @ft.jit(static_argnums=2)
    def power(self, x: Vector, n: int) -> Vector:
        return x**n


x, model = np.ones(2), Model()
ft.grad(loss)(x)  # E
ft.grad(loss)(x, x, x)  # E
ft.grad(loss)(x, x, factor=2.0)  # E
ft.grad(loss)("w", x)  # E
ft.grad(loss)(w=x, x=x)  # E
ft.grad(loss, argnums=(0, 1))(x)  # E
ft.value_and_grad(loss)(x)  # E
ft.vmap(loss)(x)  # E
ft.jit(loss)(x, x, scale="big")  # E
ft.jit(static_argnames="scale")(loss)(x)  # E
ft.checkpoint(loss)(x)  # E
ft.checkpoint(policy=ft.policies.save)(loss)(x)  # E
ft.jvp(loss, (x, x))  # E
ft.linearize(loss, x, x)[1](x)  # E
ft.saved_residuals(loss)(x)  # E
model.step(x, x)  # E
model.step()  # E
model.power(x, "3")  # E
model.step.cache_size()  # E
ft.custom_vjp(loss)(x)  # E
ft.custom_vjp(aux).defvjp(aux)  # E
