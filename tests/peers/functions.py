"""The functions compared with peers. Each takes the peer's NumPy namespace first, so that one text
runs in every library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

A = np.array([[2.0, 0.3, -0.1], [0.4, 1.5, 0.2], [0.1, -0.3, 1.8]])
X = np.array([0.4, 1.3, -0.8])
POSITIVE = np.array([0.4, 1.3, 0.8])


def rosenbrock(xp: Any, x: Any) -> Any:
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def network(xp: Any, x: Any) -> Any:
    return xp.sum(xp.tanh(xp.dot(A, xp.tanh(xp.dot(A.T, x)))) ** 2)


def softmax_entropy(xp: Any, x: Any) -> Any:
    p = xp.exp(x - xp.max(x))
    p = p / xp.sum(p)
    return -xp.sum(p * xp.log(p))


def polynomial(xp: Any, x: Any) -> Any:
    return xp.sum(x**3 - 2.0 * x**2 + x / (1.0 + x**2)) + xp.prod(x)


def ties_and_kinks(xp: Any, x: Any) -> Any:
    return xp.sum(xp.maximum(x, 0.1) * xp.abs(x)) + xp.sum(xp.where(x > 0, xp.sin(x), x**2))


def statistics(xp: Any, x: Any) -> Any:
    return xp.std(x) / (1.0 + xp.mean(x) ** 2) + xp.var(x)


def quadratic(xp: Any, x: Any) -> Any:
    return xp.dot(x, xp.dot(A, x)) + xp.sum(xp.outer(x, x) * A)


def shaped(xp: Any, x: Any) -> Any:
    y = xp.concatenate([x, 2.0 * x[::-1]]).reshape(2, 3)
    return xp.sum(xp.cos(y.T @ y)) + xp.sum(y[:, 1] ** 2)


def einsums(xp: Any, x: Any) -> Any:
    return xp.einsum("ij,j,i->", A, xp.sin(x), x) + xp.trace(xp.outer(x, xp.exp(x)))


def solved(xp: Any, x: Any) -> Any:
    return xp.sum(xp.linalg.solve(A + xp.outer(x, x), x) ** 2)


def determinant(xp: Any, x: Any) -> Any:
    return xp.linalg.slogdet(A + xp.outer(x, x))[1] + xp.linalg.det(A * xp.exp(x))


def norms(xp: Any, x: Any) -> Any:
    return xp.linalg.norm(x) + xp.sum(xp.sqrt(x**2 + 1.0)) + xp.linalg.norm(xp.outer(x, x) + A)


def cumulative(xp: Any, x: Any) -> Any:
    return xp.sum(xp.cumsum(x) ** 2) + xp.sum(xp.sort(x) * np.array([1.0, 2.0, 3.0]))


def hyperbolic(xp: Any, x: Any) -> Any:
    return xp.sum(
        xp.sinh(x) * xp.arctan(x) + xp.log1p(x**2) * xp.expm1(0.1 * x) + xp.logaddexp(x, 0.3)
    )


SCALAR: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f
    for f in (
        rosenbrock, network, softmax_entropy, polynomial, ties_and_kinks, statistics, quadratic,
        shaped, einsums, solved,
        determinant, norms, cumulative, hyperbolic,
    )
}  # fmt: skip


def vector(xp: Any, x: Any) -> Any:
    return xp.tanh(xp.dot(A, x)) * xp.sum(x**2)


# Complex: holomorphic functions, and functions that are not.
Z = np.array([0.4 + 0.3j, -1.2 + 0.7j, 0.8 - 0.5j])

HOLOMORPHIC: dict[str, Callable[[Any, Any], Any]] = {
    "exponential": lambda xp, z: xp.sum(xp.exp(z) * z**2),
    "trigonometric": lambda xp, z: xp.sum(xp.sin(z) / (z + 3.0)),
    "logarithm": lambda xp, z: xp.sum(xp.log(z) + xp.sqrt(z)),
    "product": lambda xp, z: xp.dot(z, xp.dot(A, z)) * 1j,
}

REAL_OF_COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "squared modulus": lambda xp, z: xp.sum(xp.abs(z) ** 2),
    "modulus": lambda xp, z: xp.sum(xp.abs(z)),
    "real part": lambda xp, z: xp.sum(xp.real(xp.exp(z))),
    "imaginary part": lambda xp, z: xp.sum(xp.imag(z**3)),
    "conjugate": lambda xp, z: xp.real(xp.sum(xp.conj(z) * xp.sin(z))),
    "angle": lambda xp, z: xp.sum(xp.angle(z)),
    "mixed": lambda xp, z: xp.sum(xp.real(z) * xp.imag(z) + xp.abs(z * 2j)),
}

COMPLEX_OF_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "phase": lambda xp, x: xp.real(xp.sum(xp.exp(1j * x) * (1.0 + 2.0j))),
    "modulus of a sum": lambda xp, x: xp.abs(xp.sum(xp.exp(2j * x))) ** 2,
}
