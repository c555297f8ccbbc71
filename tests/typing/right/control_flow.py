"""cond and scan."""

from typing import NamedTuple, assert_type

import numpy as np
from numpy.typing import NDArray

import functrace as ft

Vector = NDArray[np.float64]


class State(NamedTuple):
    position: Vector
    velocity: Vector


def move(state: State, force: Vector) -> tuple[State, Vector]:
    velocity = state.velocity + 0.1 * force
    return State(state.position + 0.1 * velocity, velocity), state.position


def energy(start: State) -> float:
    final, path = ft.scan(move, start, np.ones((10, 2)))
    assert_type(final, State)
    return np.sum(final.velocity**2) + np.sum(path)


def clipped(x: Vector) -> Vector:
    y = ft.cond(np.sum(x) > 1.0, lambda x: x / np.sum(x), lambda x: x, x)
    return ft.stop_gradient(y) * x


start = State(np.zeros(2), np.ones(2))
gradient = ft.grad(energy)(start)
assert gradient.velocity.shape == (2,)
assert clipped(np.ones(2)).shape == (2,)
total, _ = ft.scan(lambda total, x: (total + x, None), 0.0, np.ones(3))
assert total == 3.0
