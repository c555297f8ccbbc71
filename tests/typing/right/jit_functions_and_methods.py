"""jit as a function, as a decorator, with arguments, on methods."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

import functrace as ft
from functrace.stages import Jitted

Vector = NDArray[np.float64]


@ft.jit
def norm(x: Vector) -> Vector:
    return np.sqrt(np.sum(x * x))


@ft.jit(static_argnums=1)
def power(x: Vector, n: int = 2) -> Vector:
    return x**n


@dataclasses.dataclass(frozen=True)
class Config:
    depth: int = 2


@ft.jit(static_argnames=("config",))
def deep(x: Vector, *, config: Config) -> Vector:
    for _ in range(config.depth):
        x = np.sin(x)
    return x


@dataclasses.dataclass(frozen=True)
class Model:
    scale: float = 2.0

    @ft.jit
    def predict(self, x: Vector) -> Vector:
        return np.tanh(self.scale * x)

    @ft.jit(static_argnums=2)
    def power(self, x: Vector, n: int) -> Vector:
        return self.scale * x**n


def describe(function: Jitted[..., Any]) -> str:
    info = function.cache_info()
    return f"{info.hits} hits, {info.misses} misses"


x = np.ones(2)
model = Model()
out: Vector = (
    model.predict(x) + model.power(x, 3) + power(x, 3) + deep(x, config=Config()) + norm(x)
)
assert out.shape == (2,)
assert describe(norm) == "0 hits, 1 misses"
assert model.predict.cache_info().currsize == 1
norm.cache_clear()
assert norm.cache_info().currsize == 0
gradient = ft.jit(ft.grad(lambda x: np.sum(power(x, 2))))(x)
assert gradient.shape == (2,)
