"""Infinities, signs of zero, NaN and odd numbers where functions interpolate, compare and move
elements: as NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import attempt

METHODS = [
    "linear", "lower", "higher", "midpoint", "nearest", "hazen", "weibull", "median_unbiased",
    "normal_unbiased",
    "interpolated_inverted_cdf",
]  # fmt: skip


def _check(f: Callable[[Any], Any], x: Any, what: Any, *, dtype: bool = True) -> None:
    expected = attempt(lambda: f(x))
    for run in (lambda: ft.vjp(f, x)[0], lambda: ft.jit(f)(x)):
        got = attempt(run)
        if isinstance(got, Exception):
            assert isinstance(got, FunctraceError) or type(got) is type(expected), (what, got)
            continue
        assert not isinstance(expected, Exception), (what, expected, got)
        for p, q in zip(got, expected, strict=True):
            assert p.shape == q.shape and (p.dtype == q.dtype or not dtype), (what, expected, got)
            np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-12, err_msg=str(what))
            if dtype:
                zeros = (p == 0) & (q == 0)
                np.testing.assert_array_equal(
                    np.signbit(p.real[zeros]), np.signbit(q.real[zeros]), str(what)
                )


@pytest.mark.sampled(12)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_of_special_values(name: str, method: str) -> None:
    rng = np.random.default_rng(METHODS.index(method))
    f: Any = getattr(np, name)
    for trial in range(60):
        shape = tuple(rng.integers(1, 5, size=rng.integers(1, 3)))
        special = (
            [0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 3.0]
            if trial % 2
            else [0.0, 1.0, -2.0, 3.0, 7.5]
        )
        x = rng.choice(special, size=shape).astype(
            "f8" if trial % 2 else rng.choice(["f8", "f4", "i8"])
        )
        axis = rng.choice([None, 0, -1])
        order: Any = [0, 1, 0.0, 0.25, 0.4, 0.5, 1.0, np.array([0.9, 0.5, 1.0]), np.array([0, 1])][
            rng.integers(9)
        ]
        # Of all-NaN slices NumPy's dtype depends on the values.
        _check(
            lambda a: f(a, order, axis=axis, method=method),
            x,
            (x, order, axis),
            dtype=not np.isnan(x).any(),
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["median", "nanmedian", "percentile", "nanpercentile"])
def test_medians_of_special_values(name: str) -> None:
    rng = np.random.default_rng(5)
    f: Any = getattr(np, name)
    for _ in range(100):
        shape = tuple(rng.integers(1, 5, size=rng.integers(1, 3)))
        x = rng.choice([1.0, -2.0, np.inf, -np.inf, np.nan, 3.0], size=shape)
        axis = rng.choice([None, 0, -1])
        rest = (40.0,) if "percentile" in name else ()
        _check(lambda a: f(a, *rest, axis=axis), x, (x, axis), dtype=False)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int64", "float16", "float32", "float64", "bool", "complex64"]
)
def test_closeness_to_odd_numbers(dtype: str) -> None:
    x = np.array([0, 1, 2, 3]).astype(dtype)
    for k in (
        0,
        1,
        2,
        300,
        -1,
        2**31,
        2**63,
        2**64,
        1.5,
        1e300,
        np.nan,
        np.inf,
        True,
        1j,
        1.0000001,
        1.00001,
    ):
        forms: list[Callable[[Any, Any], Any]] = [
            np.isclose,
            lambda x, k: np.isclose(k, x),
            np.allclose,
            np.array_equal,
            lambda x, k: np.isclose(x, k, equal_nan=True),
        ]
        for place, f in enumerate(forms):
            _check(lambda a: f(a, k), x, (k, place))
            expected, got = attempt(lambda: f(x, k)), attempt(lambda: ft.jit(f)(x, k))
            if isinstance(got, Exception):
                assert isinstance(got, FunctraceError) or type(got) is type(expected), (
                    k,
                    place,
                    got,
                )
            else:
                np.testing.assert_array_equal(got, expected, err_msg=f"{k} {place}")


def test_moving_elements_keeps_the_signs_of_zeros() -> None:
    x = np.array([-0.0, 1.0, 0.0, -0.0])
    moved: dict[str, Callable[[Any], Any]] = {
        "insert": lambda x: np.insert(x, [0, 2], -0.0),
        "insert many": lambda x: np.insert(x, 1, [-0.0, 0.0]),
        "delete": lambda x: np.delete(x, 1),
        "pad": lambda x: np.pad(x, 1, constant_values=-0.0),
        "roll": lambda x: np.roll(x, 1),
        "append": lambda x: np.append(x, -0.0),
        "resize": lambda x: np.resize(x, 7),
        "repeat": lambda x: np.repeat(x, 2),
        "tile": lambda x: np.tile(x, 2),
        "diag": lambda x: np.diagonal(np.diag(x)),
        "where": lambda x: np.where(x == 1, -0.0, x),
        "take": lambda x: np.take(x, [3, 0]),
        "sort": lambda x: np.sort(x, kind="stable"),
        "flip": np.flip,
        "block": lambda x: np.block([x, -x]),
        "select": lambda x: np.select([x > 0], [-x], x),
        "assign": lambda x: (lambda y: (y.__setitem__(1, -0.0), y)[1])(x.copy()),
        "put": lambda x: (lambda y: (np.put(y, [1], -0.0), y)[1])(x.copy()),
    }
    for name, f in moved.items():
        _check(f, x, name)


def test_broadcasts_are_read_only_and_dot_needs_out_in_c_order() -> None:
    def write(x: Any) -> Any:
        y = np.broadcast_to(np.sum(x), (3,))
        y[0] = 1.0
        return y

    def dot(y: Any) -> Any:
        return np.dot(y, y, out=y)

    with pytest.raises(ValueError, match="read-only"):
        ft.vjp(write, np.ones(2))
    square = np.arange(4.0).reshape(2, 2)
    with pytest.raises(FunctraceError, match="in C order"):
        ft.vjp(dot, np.asfortranarray(square))
    np.testing.assert_array_equal(ft.vjp(dot, square)[0], square @ square)


@pytest.mark.parametrize("initial", [-0.0, 0.0, 2.5, np.nan])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (3,)])
def test_sums_start_from_initial(initial: float, shape: tuple[int, ...]) -> None:
    for axis in (None, 0):
        _check(lambda x: np.sum(x, axis=axis, initial=initial), np.ones(shape), (axis,))
        _check(lambda x: np.prod(x, axis=axis, initial=initial), np.ones(shape), (axis,))


def test_hypot_is_reduced_without_overflow() -> None:
    arrays: list[Any] = [
        np.array([1e200, 1e200]),
        np.array([3e-200, 4e-200]),
        np.array([200, 100], np.uint8),
        np.array([[np.nan, 0.0, 2.0], [1.0, np.inf, 2.0]]),
        np.zeros((2, 3)),
        np.zeros((0, 3)),
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
    ]
    for x in arrays:
        for axis in (0, None, -1):
            _check(lambda a: np.hypot.reduce(a, axis=axis), x, (x, axis))
            _check(lambda a: np.logaddexp.reduce(a, axis=axis), x, (x, axis))
    gradient = ft.grad(np.hypot.reduce)(np.array([3e200, 4e200]))
    np.testing.assert_allclose(gradient, [0.6, 0.8])


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_odd_padding_leaves_the_elements_alone(mode: Any) -> None:
    for x in (
        [1.0, np.inf, 2.0],
        [-0.0, 1.0, np.nan, 3.0],
        [1.0, 2.0, np.inf, 4.0, 5.0],
        [1.0, 2.0],
        [3.0],
    ):
        for width in (1, (2, 0), (0, 3), (5, 4)):
            _check(
                lambda a: np.pad(a, width, mode, reflect_type="odd"),
                np.array(x),
                (x, width),
                dtype=False,
            )
            padded = ft.jit(lambda a: np.pad(a, width, mode, reflect_type="odd"))(np.array(x))
            low = width if isinstance(width, int) else width[0]
            np.testing.assert_array_equal(np.signbit(padded[low : low + len(x)]), np.signbit(x))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "complex128"])
@pytest.mark.parametrize(
    "name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd", "sum", "prod"]
)
def test_spreads_in_a_dtype(name: str, dtype: str) -> None:
    f: Any = getattr(np, name)
    for x in (
        np.array([[3, 0, 2], [1, 2, 2]]),
        np.array([[1.5, 2.0, 1.0], [0.5, 3.0, 2.5]]),
        np.array([1.5, 2.0]),
    ):
        for axis in (None, 0, -1):
            _check(lambda a: f(a, axis=axis, dtype=dtype), x, (x, axis))


def test_a_mask_does_not_broadcast_the_array() -> None:
    mask = np.ones((2, 3), bool)
    for name in ("sum", "prod", "max", "min", "any", "all", "mean", "nansum", "nanmax"):
        f: Any = getattr(np, name)
        rest = {"initial": 0.0} if name in ("max", "min", "nanmax") else {}
        for run in (
            ft.jit(lambda x: f(x, where=mask, **rest)),
            lambda x: ft.vjp(lambda x: f(x, where=mask, **rest), x),
        ):
            with pytest.raises(ValueError):
                run(np.ones(3))


@pytest.mark.parametrize("scale", [1.0, 300.0, 1e6])
@pytest.mark.parametrize(("f", "power"), [(np.logaddexp, np.exp), (np.logaddexp2, np.exp2)])
def test_derivatives_of_logaddexp_are_exact_however_large_its_operands(
    f: Any, power: Any, scale: float
) -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(size=500) * scale
    y = x + draw.normal(size=500) * 5.0
    apart = x.astype(np.longdouble) - y
    for found, sign in zip(
        ft.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(x, y), (1.0, -1.0), strict=True
    ):
        np.testing.assert_allclose(
            found, (1.0 / (1.0 + power(-sign * apart))).astype(float), rtol=5e-15
        )


@pytest.mark.parametrize("number", [10**20, -(10**30), 2**63, True, 3])
@pytest.mark.parametrize("dtype", [None, np.float32, np.complex128])
def test_full_like_of_any_integer(number: int, dtype: Any) -> None:
    x = np.array([1.0, 2.0])
    _check(lambda x: np.full_like(x, number, dtype) * x, x, (number, dtype))
    value, grad = ft.value_and_grad(lambda x: np.sum(np.full_like(x, number) + x))(x)
    assert value == np.sum(np.full_like(x, number) + x)
    np.testing.assert_array_equal(grad, [1.0, 1.0])
