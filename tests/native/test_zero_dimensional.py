"""Results without axes are scalars and arrays as in NumPy's run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

FUNCTIONS: dict[str, Any] = {
    "where": lambda x: np.where(x[0] > 0, x[0], 1.0),
    "arithmetic after where": lambda x: np.where(x[0] > 0, x[0], 1.0) * 2.0,
    "select": lambda x: np.select([x[0] > 0], [x[1]], 0.0),
    "reshape": lambda x: np.reshape(x[:1] * 2.0, ()),
    "squeeze": lambda x: np.squeeze(x[1:2]),
    "transpose": lambda x: np.transpose(np.reshape(x[:1], ())),
    "an element": lambda x: x[0] * 1.0,
    "an ellipsis": lambda x: x[..., 0],
    "sum": np.sum,
    "stop_gradient": lambda x: ft.stop_gradient(x[0] * 2.0),
    "converted": lambda x: np.where(x[0] > 0, 1.0, 2.0).astype(np.float32),
    "copied": lambda x: np.where(x[0] > 0, 1.0, 2.0).copy(),
    "cond": lambda x: ft.cond(x[0] > 1, lambda: np.where(x[0] > 0, x[0], 1.0), lambda: x[1] * 2),
    "scan": lambda x: ft.scan(lambda c, y: (np.where(c > 0, c, y), None), x[0], x)[0],
    "gradient": lambda x: ft.grad(lambda y: np.sum(np.where(y > 0, y * y, 1.0)))(x[1]),
    "covariance": np.cov,
    "between segments": lambda x: np.where(x[0] > 0, np.linalg.svd(x[:, None])[1][0] * 2.0, x[1]),
    "some of each": lambda x: (x.sum(), np.where(x[0] > 0, x[0], 1.0), x * 2.0, x[..., 1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_are_those_of_numpys_form(name: str) -> None:
    f, x = FUNCTIONS[name], np.arange(1.0, 5.0)
    compiled: Any = ft.jit(f, backend="native")
    plain: Any = ft.jit(f, backend="numpy")
    for _ in range(2):
        found, expected = (ft.tree.leaves(g(x)) for g in (compiled, plain))
        assert list(map(type, found)) == list(map(type, expected))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)
            assert np.asarray(one).dtype == np.asarray(other).dtype


def test_arrays_without_axes_are_new_ones() -> None:
    f: Any = ft.jit(FUNCTIONS["where"], backend="native")
    first = f(np.ones(3))
    first[...] = 7.0
    assert f(np.ones(3)) == 1.0
    with np.errstate(all="ignore"):  # NumPy's form runs
        assert f(np.array([np.nan, 1.0])) == 1.0
