"""Norms and limits against extended precision: dtypes, sizes near the ends of their ranges, zeros."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError

optim = ft.optim
BY_NORM: dict[str, Callable[..., Any]] = {
    "global": optim.clip_by_global_norm,
    "each": optim.clip_by_norm,
    "rms": optim.clip_by_block_rms,
}


def wide_norm(xs: list[Any]) -> Any:
    """The norm in long double, whose squares do not overflow here; complex numbers as pairs."""
    parts = [p for x in xs for p in ((x.real, x.imag) if np.iscomplexobj(x) else (x,))]
    wide = np.concatenate([np.asarray(p, np.longdouble).ravel() for p in parts])
    largest = np.max(np.abs(wide), initial=0)
    unit = largest if 0 < largest < np.inf else np.longdouble(1)
    return unit * np.sqrt(np.sum((wide / unit) ** 2))


def expected(name: str, xs: list[Any], limit: float) -> list[Any]:
    made = []
    for x in xs:
        size = wide_norm(xs if name == "global" else [x])
        if name == "rms":
            size = size / math.sqrt(max(x.size, 1))
        kind = np.clongdouble if np.iscomplexobj(x) else np.longdouble
        made.append(np.asarray(x, kind) * (min(limit / size, 1) if size > 0 else 1))
    return made


DTYPES = ["e", "f", "d", "F", "ef", "fd", "ed", "fD"]
SIZES = {
    "e": (1e-7, 1.0, 6e4),
    "f": (1e-44, 1e-20, 1.0, 1e25, 3e38),
    "d": (1e-320, 1e-200, 1.0, 1e300),
}


@pytest.mark.parametrize("limit", [0.0, 1e-3, 1.0, 2e4])
@pytest.mark.parametrize("name", BY_NORM)
@pytest.mark.parametrize("dtypes", DTYPES)
def test_limits_for_values_near_the_ends_of_every_dtype(
    dtypes: str, name: str, limit: float
) -> None:
    rng = np.random.default_rng(0)
    choices = [(0.0, *SIZES[np.finfo(d).dtype.char]) for d in dtypes]
    for scales in itertools.product(*choices):
        xs = [
            (rng.uniform(0.5, 1.0, size=(3, 2)) * scale).astype(d)
            for d, scale in zip(dtypes, scales, strict=True)
        ]
        with warnings.catch_warnings():  # (a norm larger than its dtype's numbers)
            warnings.simplefilter("ignore", RuntimeWarning)
            found = BY_NORM[name](limit).update(xs, ())[0]
        for x, y, wanted in zip(xs, found, expected(name, xs, limit), strict=True):
            assert x.dtype == y.dtype
            info, least = np.finfo(x.dtype), float(np.finfo(x.dtype).smallest_subnormal)
            np.testing.assert_allclose(
                np.asarray(y, wanted.dtype), wanted, rtol=20 * float(info.eps),
                atol=8 * least * (6e4 if info.bits == 64 else 1), err_msg=f"{scales}",
            )  # fmt: skip
        if dtypes != "e" and all(scale < 1e30 for scale in scales):
            size = optim.global_norm(xs)
            least = float(np.finfo(size.dtype).smallest_subnormal)
            np.testing.assert_allclose(size, float(wide_norm(xs)), rtol=1e-5, atol=2 * least)


def test_norms_of_many_numbers_of_float16() -> None:
    """Sums that float16 does not have: the update does not vanish."""
    x = np.ones(70_000, np.float16)
    np.testing.assert_allclose(optim.global_norm(x), math.sqrt(70_000), rtol=1e-6)
    for make, wanted in (
        (optim.clip_by_global_norm, 1 / math.sqrt(70_000)),
        (optim.clip_by_block_rms, 1.0),
    ):
        found = make(1.0).update(x, ())[0]
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, wanted, rtol=2e-3)


@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
@pytest.mark.parametrize("name", BY_NORM)
def test_jitted_limits(name: str, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    tx = BY_NORM[name](0.5)
    f = ft.jit(lambda xs: tx.update(xs, ())[0], backend=backend)
    for scale in (0.0, 1e-10, 1.0, 1e25):
        xs = [np.full(3, scale, "f4"), np.linspace(0, scale, 4), np.float64(scale)]
        for a, b in zip(f(xs), tx.update(xs, ())[0], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=0)


@pytest.mark.parametrize("limit", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("name", BY_NORM)
def test_derivatives_by_updates_and_limits(name: str, limit: float) -> None:
    rng = np.random.default_rng(1)
    x, c = rng.normal(size=5), rng.normal(size=5)

    def f(x: Any, limit: Any) -> Any:
        found = BY_NORM[name](limit).update([x[:2], x[2:]], ())[0]
        return np.sum(np.concatenate(found) * c)

    h = 1e-6
    by_x, by_limit = ft.grad(f, (0, 1))(x, limit)
    wanted = [(f(x + d, limit) - f(x - d, limit)) / (2 * h) for d in h * np.eye(5)]
    np.testing.assert_allclose(by_x, wanted, rtol=1e-6, atol=1e-8)
    if limit:
        wanted = (f(x, limit + h) - f(x, limit - h)) / (2 * h)
        np.testing.assert_allclose(by_limit, wanted, rtol=1e-6, atol=1e-8)
    at_zero = ft.grad(f)(np.zeros(5), limit)
    np.testing.assert_array_equal(at_zero, c)
    assert np.all(np.isfinite(ft.hessian(f)(x, limit)))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_clipped_norms_are_within_the_limit(values: list[float], limit: float) -> None:
    g = {"a": np.array(values), "b": np.array(values[:1])}
    found = optim.clip_by_global_norm(limit).update(g, ())[0]
    size = math.hypot(*values, values[0])
    np.testing.assert_allclose(optim.global_norm(g), size, rtol=1e-12, atol=1e-300)
    assert optim.global_norm(found) <= limit * (1 + 1e-12)
    if size < limit:
        np.testing.assert_array_equal(found["a"], g["a"])
    else:
        np.testing.assert_allclose(found["a"], g["a"] * (limit / size), rtol=1e-12, atol=1e-300)
    each = optim.clip_by_norm(limit).update(g, ())[0]
    assert all(np.linalg.norm(x) <= limit * (1 + 1e-12) for x in ft.tree.leaves(each))
    for name in g:
        wanted = np.clip(g[name], -limit, limit)
        np.testing.assert_array_equal(optim.clip(limit).update(g, ())[0][name], wanted)


def test_values_that_are_not_finite() -> None:
    for x in (np.nan, np.inf):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = optim.clip_by_global_norm(1.0).update([np.array([x]), np.ones(1)], ())[0]
        assert np.isnan(found[0][0])
        np.testing.assert_array_equal(found[1], np.nan if np.isnan(x) else 0.0)


def test_derivatives_at_zero() -> None:
    zero = np.zeros(3)
    for make in BY_NORM.values():
        f = make(1.0)
        np.testing.assert_array_equal(f.update(zero, ())[0], zero)
        np.testing.assert_array_equal(ft.grad(lambda g, f=f: np.sum(f.update(g, ())[0]))(zero), 1.0)
    np.testing.assert_array_equal(ft.grad(optim.global_norm)(zero), zero)
    np.testing.assert_allclose(ft.grad(optim.global_norm)(np.array([3.0, 4.0])), [0.6, 0.8])


@pytest.mark.parametrize("limit", [-1.0, np.float32(-0.5), np.array(-2)])
def test_negative_limits_are_refused(limit: Any) -> None:
    """They would turn updates around."""
    for make in (*BY_NORM.values(), optim.clip):
        with pytest.raises(ArgumentError, match="limit"):
            make(limit)
