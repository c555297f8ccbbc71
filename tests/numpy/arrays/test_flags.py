"""``x.flags``: as NumPy's, wherever the layout is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import UnsupportedFunctionError

WAYS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x.T,
    lambda x: x[::2],
    lambda x: x[:, :1],
    lambda x: x[:1],
    lambda x: x[:0],
    lambda x: x.reshape(-1),
    lambda x: x + 1.0,
    lambda x: x.T + 1.0,
    lambda x: x.copy("F"),
    lambda x: np.broadcast_to(x, (2, *x.shape)),
    lambda x: np.sum(x),
    lambda x: np.zeros_like(x, shape=()),
    lambda x: np.diagonal(x),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0),
]
ATTRIBUTES = [
    "c_contiguous", "f_contiguous", "contiguous", "fortran", "fnc", "forc", "writeable", "aligned",
    "writebackifcopy",
    "behaved", "carray",
]  # fmt: skip  # NumPy's "farray" is true of what is not in Fortran's order
KEYS = [
    "C", "CONTIGUOUS", "C_CONTIGUOUS", "F", "FORTRAN", "F_CONTIGUOUS", "W", "WRITEABLE", "A",
    "ALIGNED",
    "X", "WRITEBACKIFCOPY", "B", "BEHAVED", "CA", "CARRAY", "FNC", "FORC",
]  # fmt: skip


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize(
    "x",
    [np.arange(9.0).reshape(3, 3), np.asfortranarray(np.arange(12.0).reshape(3, 4))],
    ids=["C", "F"],
)
def test_flags_are_numpys(x: Any, way: int) -> None:
    expected = WAYS[way](x).flags
    seen: list[bool] = []

    def f(x: Any) -> Any:
        made = WAYS[way](x)
        assert [getattr(made.flags, name) for name in ATTRIBUTES] == [
            getattr(expected, name) for name in ATTRIBUTES
        ]
        assert [made.flags[key] for key in KEYS] == [expected[key] for key in KEYS]
        seen.append(np.isfortran(made))
        return x * 1.0

    ft.grad(lambda x: np.sum(f(x)))(x)
    assert seen == [np.isfortran(WAYS[way](x))]


def test_unknown_flags_raise_unless_the_shape_determines_them() -> None:
    x = np.ones((3, 3))
    for transform in (ft.jit, ft.vmap):
        given = x if transform is ft.jit else np.stack([x, x])
        assert np.all(
            transform(lambda x: x * (not np.isfortran(x[0])) * x.copy().flags.c_contiguous)(given)
            == given
        )
    with pytest.raises(UnsupportedFunctionError, match=r"x\.copy\(\)\.flags"):
        ft.jit(lambda x: x * np.isfortran(x))(x)
    with pytest.raises(UnsupportedFunctionError, match="memory ownership"):
        ft.vjp(lambda x: x * x.flags["OWNDATA"], x)


def test_flags_are_read_only_and_checked() -> None:
    def f(x: Any) -> Any:
        for name, key in itertools.product(("writeable", "c_contiguous"), ("W", "nonsense")):
            with pytest.raises(UnsupportedFunctionError, match="cannot be set"):
                setattr(x.flags, name, False)
            with pytest.raises(UnsupportedFunctionError, match="cannot be set"):
                x.flags[key] = False
        with pytest.raises(KeyError, match="Unknown flag"):
            x.flags["c"]
        with pytest.raises(AttributeError):
            x.flags.nonsense
        return x * 1.0

    ft.vjp(f, np.ones(3))
