"""The functions that the compositions are tried on: smooth, of one vector, written in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

W = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5], [-0.25, 0.5, 1.0]])
X = np.array([0.3, -0.7, 1.1])
V = np.array([0.9, 0.2, -0.4])
BATCH = np.array([[0.3, -0.7, 1.1], [1.2, 0.1, -0.5], [-0.9, 0.4, 0.8], [0.0, 1.0, 2.0]])


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def network(x: Any) -> Any:
    hidden = np.tanh(W @ x)
    return np.sum(np.log1p(np.exp(W.T @ hidden)))


def reductions(x: Any) -> Any:
    return np.mean(np.sin(x) * x[::-1]) + np.sum(np.outer(x, np.cos(x)), axis=0)[1]


def in_place(x: Any) -> Any:
    y = np.zeros_like(x)
    y[1:] = x[:-1]
    y *= 2.0
    return np.sum(np.exp(-y * x))


SCALAR: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (rosenbrock, network, reductions, in_place)
}
scalar = pytest.mark.parametrize("f", SCALAR.values(), ids=SCALAR)


def vector(x: Any) -> Any:
    """Three numbers to two."""
    return np.stack([np.sum(np.sin(x) * x), np.prod(x + 2.0)])


def jacobian_by_differences(f: Callable[[Any], Any], x: Any) -> Any:
    """Jacobian by central differences with one Richardson step; the oracle of this folder."""

    def along(k: int, h: float) -> Any:
        e = np.zeros_like(x)
        e.flat[k] = h
        return (np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * h)

    columns = [(4 * along(k, 5e-5) - along(k, 1e-4)) / 3 for k in range(x.size)]
    rows = np.stack(columns, axis=-1)
    return rows.reshape((*rows.shape[:-1], *x.shape))
