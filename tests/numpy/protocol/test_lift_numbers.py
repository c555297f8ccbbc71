"""Python numbers that lifted code makes of traced values, as arguments of NumPy's functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import functrace as ft
from functrace.numpy import lift
from tests.oracles import differences

X = np.array([0.5, 1.2, 0.7])
NARROW = np.array([1.0, 2.0, 4.0], np.float32)

Call = Callable[[Any, Any], Any]

CALLS: dict[str, Call] = {
    "hstack": lambda k, v: np.hstack((k, v)),
    "hstack of numbers": lambda k, v: np.hstack([k, k]),
    "hstack with nothing": lambda k, v: np.hstack((k, [])),
    "vstack": lambda k, v: np.vstack((k, k)),
    "dstack": lambda k, v: np.dstack((k, k)),
    "column_stack": lambda k, v: np.column_stack((k, k)),
    "stack": lambda k, v: np.stack((k, k)),
    "block": lambda k, v: np.block([v, k]),
    "concatenate": lambda k, v: np.concatenate(([k], v)),
    "append": lambda k, v: np.append(k, v),
    "insert": lambda k, v: np.insert(v, 1, k),
    "r_": lambda k, v: np.r_[k, v],
    "atleast_1d": lambda k, v: np.atleast_1d(k),
    "atleast_2d": lambda k, v: np.atleast_2d(k),
    "atleast_3d": lambda k, v: np.atleast_3d(k),
    "broadcast_to": lambda k, v: np.broadcast_to(k, (2,)),
    "broadcast_arrays": lambda k, v: np.broadcast_arrays(k, v)[0],
    "reshape": lambda k, v: np.reshape(k, (1, 1)),
    "ravel": lambda k, v: np.ravel(k),
    "squeeze": lambda k, v: np.squeeze(k),
    "expand_dims": lambda k, v: np.expand_dims(k, 0),
    "transpose": lambda k, v: np.transpose(k),
    "ascontiguousarray": lambda k, v: np.ascontiguousarray(k),
    "require": lambda k, v: np.require(k, float),
    "tile": lambda k, v: np.tile(k, 3),
    "repeat": lambda k, v: np.repeat(k, 3),
    "full": lambda k, v: np.full(3, k),
    "outer": lambda k, v: np.outer(k, v),
    "dot": lambda k, v: np.dot(v, k),
    "dot of float32": lambda k, v: np.dot(NARROW, k),
    "inner of float32": lambda k, v: np.inner(NARROW, k),
    "kron": lambda k, v: np.kron(k, v),
    "kron of float32": lambda k, v: np.kron(k, NARROW),
    "einsum of float32": lambda k, v: np.einsum(",i", k, NARROW),
    "clip": lambda k, v: np.clip(v, k, None),
    "clip of float32": lambda k, v: np.clip(NARROW, k, None),
    "clip by float32": lambda k, v: np.clip(k, NARROW - 5, NARROW),
    "minimum of float32": lambda k, v: np.minimum(NARROW, k),
    "where of float32": lambda k, v: np.where(NARROW > 1, k, NARROW),
    "full_like of float32": lambda k, v: np.full_like(NARROW, k),
    "hstack of float32": lambda k, v: np.hstack([NARROW, k]),
    "trapezoid of float32": lambda k, v: np.trapezoid(NARROW, dx=k),
    "gradient of float32": lambda k, v: np.gradient(NARROW, k),
    "mean": lambda k, v: np.mean([k, v[0]]),
    "trace": lambda k, v: np.trace([[k, 1.0], [k, k]]),
    "copyto": lambda k, v: _written(lambda z: np.copyto(z, k)),
    "fill": lambda k, v: _written(lambda z: z.fill(k)),
    "put": lambda k, v: _written(lambda z: np.put(z, [0], k)),
    "result_type": lambda k, v: np.result_type(k, np.float32).itemsize * k,
    "result_type of float32": lambda k, v: np.result_type(k, NARROW).itemsize * k,
    "complex": lambda k, v: (complex(k, v[0]) ** 2).imag,
    "complex by name": lambda k, v: (complex(1.0, imag=k) ** 2).imag,
    "complex of complex": lambda k, v: (complex(1j, k) ** 2).real,
}
"""Calls with a Python number and an array."""


def _written(write: Callable[[Any], Any]) -> Any:
    z = np.zeros(2)
    write(z)
    return z


def test_numbers_are_arguments_of_numpys_functions() -> None:
    failures: list[str] = []
    direction = np.array([0.3, -0.8, 0.5])
    for name, call in CALLS.items():
        for number in (lambda x: float(x[0]), lambda x: math.sqrt(x[0])):

            def f(x: Any, call: Call = call, number: Any = number) -> Any:
                y = call(number(x), x[1:])
                return np.sum(y * np.arange(1.0, np.size(y) + 1).reshape(np.shape(y)))

            (expected,) = differences(f, [X], [direction])
            lifted = lift(f)
            tolerance = 2e-2 if "float32" in name else 1e-6  # of the differences
            for run in (ft.grad(lifted), ft.jit(ft.grad(lifted))):
                try:
                    np.testing.assert_allclose(
                        run(X) @ direction, expected, rtol=tolerance, atol=tolerance
                    )
                except Exception as error:
                    failures.append(f"{name}: {type(error).__name__}: {error}")
            if abs(ft.value_and_grad(lifted)(X)[0] - f(X)) > (
                1e-5 if "float32" in name else 1e-14
            ) * abs(f(X)):
                failures.append(f"{name}: another value")
    assert not failures, "\n".join(failures)


def test_results_have_the_dtypes_that_numpy_gives_numbers() -> None:
    made: dict[str, Any] = {}

    def f(x: Any) -> Any:
        made.update(
            {name: np.asarray(ft.value(call(float(x[0]), X[1:]))) for name, call in CALLS.items()}
        )
        return x[0]

    f(X)
    expected = dict(made)
    ft.grad(lift(f))(X)
    different = {
        name: (made[name].dtype, y.dtype)
        for name, y in expected.items()
        if (made[name].dtype, made[name].shape) != (y.dtype, y.shape)
    }
    assert not different
