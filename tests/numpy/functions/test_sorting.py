"""Descending sorts, which NumPy has from 2.5 on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.lib import NumpyVersion

import functrace as ft
import functrace.numpy as fnp

HAS_DESCENDING = NumpyVersion(np.__version__) >= "2.5.0"
RNG = np.random.default_rng(3)
ARRAYS = {
    "floats": np.array([[2.0, np.nan, -1.0, 2.0], [0.0, -0.0, np.inf, -np.inf]]),
    "float32": RNG.normal(size=(3, 5)).astype(np.float32),
    "complex": np.array([1 + 2j, 1 - 1j, 3.0, complex(np.nan, 1.0), complex(1.0, np.nan)]),
    "integers": np.array([[-128, 127, 0, 5], [5, 4, 5, -128]], np.int8),
    "unsigned": np.array([0, 2**64 - 1, 7, 7], np.uint64),
    "bools": np.array([[True, False, True], [False, False, True]]),
    "empty": np.zeros((2, 0)),
}


def expected_positions(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the positions that sort the last axis, the largest first, NaN last, ties in order."""

    def key(value: Any) -> tuple[Any, ...]:
        parts = (value.real, value.imag) if x.dtype.kind == "c" else (value,)
        return tuple(map(bool, np.isnan(parts))), tuple(0 if np.isnan(p) else -p for p in parts)

    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).tolist()
    found = [sorted(range(len(row)), key=lambda k: key(row[k])) for row in rows]
    return np.array(found, np.intp).reshape(x.shape)


@pytest.mark.parametrize("name", ARRAYS)
def test_descending_sorts(name: str) -> None:
    x = ARRAYS[name]
    places = expected_positions(x)
    values = np.take_along_axis(x, places, -1)
    sort = ft.jit(lambda x: fnp.sort(x, descending=True))
    argsort = ft.jit(lambda x: fnp.argsort(x, descending=True, stable=True))
    np.testing.assert_array_equal(sort(x), values)
    np.testing.assert_array_equal(np.signbit(sort(x).real), np.signbit(values.real))
    np.testing.assert_array_equal(argsort(x), places)
    if HAS_DESCENDING:
        sorted_by_numpy = np.sort(x, descending=True, stable=True)  # type: ignore[call-overload]
        np.testing.assert_array_equal(values, sorted_by_numpy)


def test_methods_and_derivatives() -> None:
    x = np.array([[2.0, 0.5, 3.0], [1.0, 4.0, -1.0]])
    weights = np.array([1.0, 10.0, 100.0])

    def total(x: Any) -> Any:
        x = x + 0.0
        x.sort(axis=0, descending=True)
        return np.sum(x @ weights * np.array([1.0, 2.0]))

    np.testing.assert_array_equal(ft.grad(total)(x), [[1.0, 20.0, 100.0], [2.0, 10.0, 200.0]])
    positions = ft.vmap(lambda row: row.argsort(descending=True))(x)
    np.testing.assert_array_equal(positions, [[2, 0, 1], [1, 0, 2]])
    np.testing.assert_array_equal(ft.jit(lambda x: fnp.sort(x, descending=False))(x), np.sort(x))
