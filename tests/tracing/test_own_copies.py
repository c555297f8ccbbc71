"""Copies that a recording keeps have the memory layout of the array, so that NumPy's results have
the same bits.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.tracing.copies import own
from tests.oracles import assert_same

PARTS: list[Any] = [
    slice(None),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(3, None, -2),
    slice(0, 1),
    slice(1, 1),
]
WHOLE = np.arange(4 * 3 * 4).reshape(4, 3, 4)


def shape_of_memory(x: Any) -> list[tuple[int, int, bool]]:
    """Axes by their strides: which, in which direction, and whether they follow on the one before
    without a gap.
    """
    found: list[tuple[int, int, bool]] = []
    end = x.itemsize
    for k in sorted(range(x.ndim), key=lambda k: abs(x.strides[k])):
        step, n = x.strides[k], x.shape[k]
        if n > 1:
            found.append((k, int(np.sign(step)), step == 0 or abs(step) == end))
            end = n * abs(step) if step else end
    return found


@pytest.mark.parametrize("dtype", ["f8", "f4", "c8", "i2", "?", ">f8"])
def test_copies_have_the_layout_of_the_array(dtype: str) -> None:
    for parts, axes in itertools.product(
        itertools.product(PARTS, repeat=3), [(0, 1, 2), (2, 0, 1), (1, 0, 2)]
    ):
        x = WHOLE.astype(dtype)[parts].transpose(axes)
        for value in (
            x,
            x[..., 0] if x.shape[-1] else x,
            np.broadcast_to(x[:, :, :1], x.shape),
            np.broadcast_to(x, (2, *x.shape)),
        ):
            copied = own(value)
            np.testing.assert_array_equal(copied, value)
            assert copied.dtype == value.dtype.newbyteorder("=") and not np.shares_memory(
                copied, value
            )
            if value.size:
                assert shape_of_memory(copied) == shape_of_memory(value), (
                    value.shape,
                    value.strides,
                    copied.strides,
                )


def test_windows_and_objects_are_copied() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 3)
    np.testing.assert_array_equal(own(windows), windows)
    things = np.array([["a", None], [1, 2.0]], object)[:, ::-1]
    np.testing.assert_array_equal(own(things), things)


def test_copies_of_broadcast_arrays_are_read_only() -> None:
    assert not own(np.broadcast_to(np.arange(3.0), (2, 3))).flags.writeable
    assert own(np.arange(6.0)[::-2]).flags.writeable


def test_complex_numbers_in_any_layout_round_equally_in_every_call() -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(9, 7)) + 1j * rng.normal(size=(9, 7))).astype(np.complex64)
    for value in (x[:, 0], x[::-1], x.T[::2], x[:, :3], np.broadcast_to(x[0], (5, 7))):
        f = ft.jit(
            lambda x: (abs(x), x * x, np.sum(x * np.conj(x)), x[..., None] @ x[..., None, :])
        )
        plain = (
            abs(value),
            value * value,
            np.sum(value * np.conj(value)),
            value[..., None] @ value[..., None, :],
        )
        for _ in range(3):
            for found, expected in zip(f(value), plain, strict=True):
                assert_same(found, expected)
