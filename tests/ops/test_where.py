"""``where`` on large arrays: NumPy's values, dtypes and memory layouts, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functrace.ops.elementwise import where

choose = where.eval


def choices(shape: tuple[int, ...], dtype: str) -> list:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(shape) * 100).astype(dtype)
    if a.dtype.kind == "f":
        a.flat[::7], a.flat[::11], a.flat[3::13] = np.nan, -0.0, np.inf
    apart = np.concatenate([a, a], -1)[..., ::2]
    numbers = [0, 0.0, -0.0, False, 1.5, a.dtype.type(0), np.zeros((), dtype)]
    return [a, np.asfortranarray(a), apart, a[:1], *numbers]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(31, 32), (128, 64), (5000,), (3, 5, 700)])
@pytest.mark.parametrize("second", ["f4", "f8", "i4", ">f4"])
@pytest.mark.parametrize("first", ["f4", "f8", "i4", "i8", "f2", ">f4"])
def test_values_and_layouts_are_those_of_numpy(
    shape: tuple[int, ...], first: str, second: str
) -> None:
    drawn = np.random.default_rng(1).random(shape) < 0.5
    for condition in (drawn, np.asfortranarray(drawn)):
        for x, y in itertools.product(choices(shape, first), choices(shape, second)):
            found, wanted = choose(condition, x, y), np.where(condition, x, y)
            assert (found.dtype, found.strides) == (wanted.dtype, wanted.strides)
            assert found.tobytes() == wanted.tobytes()
