"""What ``axis=`` may be, function by function, against NumPy: it is taken as NumPy takes it, or
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import attempt

X = np.arange(1.0, 7.0).reshape(2, 3)

Call = Callable[[Any, Any], Any]


def _plain(name: str) -> Call:
    f = getattr(np, name)
    return lambda x, axis: f(x, axis=axis)


COMPILED: dict[str, Call] = {
    **{name: _plain(name) for name in (
        "sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "argmax", "argmin",
        "cumsum", "cumprod", "ptp",
        "argsort", "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanstd", "nanvar",
        "nanargmax", "nanargmin",
        "nancumsum", "nancumprod", "count_nonzero",
    )},
    "repeat": lambda x, axis: np.repeat(x, 2, axis=axis),
    "take": lambda x, axis: np.take(x, 0, axis=axis),
    "append": lambda x, axis: np.append(x, x, axis=axis),
    "concatenate": lambda x, axis: np.concatenate([x, x], axis=axis),
    "argpartition": lambda x, axis: np.sort(np.argpartition(x, 1, axis=axis), axis=None),
    "add.reduce": lambda x, axis: np.add.reduce(x, axis=axis),
    "maximum.reduce": lambda x, axis: np.maximum.reduce(x, axis=axis),
    "logaddexp.reduce": lambda x, axis: np.logaddexp.reduce(x, axis=axis),
    "x.sum": lambda x, axis: x.sum(axis=axis),
    "x.argmax": lambda x, axis: x.argmax(axis=axis),
    "x.cumsum": lambda x, axis: x.cumsum(axis=axis),
    "x.repeat": lambda x, axis: x.repeat(2, axis=axis),
    "x.take": lambda x, axis: x.take([0], axis=axis),
}  # fmt: skip
"""NumPy's compiled functions: no bools, no lists."""

OTHERS: dict[str, Call] = {
    **{
        name: _plain(name)
        for name in (
            "median",
            "nanmedian",
            "sort",
            "flip",
            "squeeze",
            "diff",
            "average",
            "expand_dims",
        )
    },
    "quantile": lambda x, axis: np.quantile(x, 0.5, axis=axis),
    "squeeze of ones": lambda x, axis: np.squeeze(x[:1, :1], axis=axis),
    "moveaxis from": lambda x, axis: np.moveaxis(x, axis, 0),
    "linalg.norm": lambda x, axis: np.linalg.norm(x, axis=axis),
    "stack": lambda x, axis: np.stack([x, x], axis=axis),
    "split": lambda x, axis: np.split(x, 1, axis=axis),
    "delete": lambda x, axis: np.delete(x, 0, axis=axis),
    "insert": lambda x, axis: np.insert(x, 0, 1.0, axis=axis),
    "moveaxis": lambda x, axis: np.moveaxis(x, 0, axis),
    "swapaxes": lambda x, axis: np.swapaxes(x, 0, axis),
    "take_along_axis": lambda x, axis: np.take_along_axis(x, np.zeros((2, 3), int), axis=axis),
}
"""NumPy functions in Python, whose axes go through ``operator.index``; ours accept no more than
that.
"""


class Indexed:
    def __index__(self) -> int:
        return 1


AXES: list[Any] = [
    True, False, np.True_, 1.0, 0, 1, -1, 2, -3, 3, "a", None, (0,), (0, 1), (1, 0), (0, 0), (0,
    True), (0, -2), [0], [0, 1],
    (), np.int64(1), np.array(1), np.array([0, 1]), Indexed(), (np.int64(0),), 0.5, (0.0,), 1j,
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*COMPILED, *OTHERS])
def test_axes_are_interpreted_as_in_numpy(name: str) -> None:
    f = COMPILED.get(name) or OTHERS[name]
    taken = 0
    for axis in AXES:
        expected = attempt(lambda: f(X, axis))
        for run in (
            lambda: ft.vjp(lambda x: f(x, axis), X)[0],
            lambda: ft.jit(lambda x: f(x, axis))(X),
        ):
            got = attempt(run)
            if isinstance(got, Exception):
                assert isinstance(got, FunctraceError | TypeError), (axis, got)
                assert name in OTHERS or isinstance(expected, Exception), (axis, got)
                continue
            taken += 1
            assert not isinstance(expected, Exception), (axis, expected, got)
            assert len(got) == len(expected)
            for p, q in zip(expected, got, strict=True):
                assert p.shape == q.shape and p.dtype == q.dtype and np.allclose(p, q), axis
    assert taken


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("dtype", ["u8", "i8", "u1"])
def test_take_brings_indices_of_all_integers_into_bounds(dtype: str, mode: Any) -> None:
    x, indices = np.arange(37.0), np.array([2**64 - 50, 255, 36, 0], "u8").astype(dtype)
    np.testing.assert_array_equal(
        ft.jit(lambda x, i: np.take(x, i, mode=mode))(x, indices), np.take(x, indices, mode=mode)
    )
