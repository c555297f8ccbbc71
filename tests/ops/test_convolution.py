"""The three products of convolution: all rules, and values against a loop over windows."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ShapeError
from functrace.ops import convolution
from functrace.ops.convolution import (
    correlate,
    correlate_filters,
    correlate_filters_p,
    correlate_input,
    correlate_input_p,
    correlate_p,
)

RNG = np.random.default_rng(0)
CASES: list[tuple[Any, ...]] = [
    # input, filters, stride, padding, dilation, groups
    ((2, 3, 6), (4, 3, 2), (1,), (0,), (1,), 1),
    ((2, 4, 7), (4, 2, 3), (2,), (1,), (2,), 2),
    ((2, 2, 5, 4), (3, 2, 2, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 4, 5, 6), (4, 1, 2, 2), (2, 1), (0, 1), (1, 2), 4),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 1, 1), (0, 0, 1), (1, 1, 1), 1),
    ((2, 3, 4, 4), (2, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
]


def drawn(case: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
    """Return input, filters, output and params of a case."""
    x, w = RNG.normal(size=case[0]), RNG.normal(size=case[1])
    params = case[2:]
    return x, w, RNG.normal(size=correlate(x, w, *params).shape), params


def by_loop(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Return the convolution, window by window."""
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    kernel = w.shape[2:]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    per, channels = w.shape[0] // groups, w.shape[1]
    for place in itertools.product(*map(range, counts)):
        window = x[(slice(None), slice(None), *[
            slice(a * s, a * s + d * (k - 1) + 1, d)
            for a, s, d, k in zip(place, stride, dilation, kernel, strict=True)
        ])]  # fmt: skip
        for o in range(w.shape[0]):
            part = window[:, o // per * channels :][:, :channels]
            y[(slice(None), o, *place)] = (part * w[o]).reshape(x.shape[0], -1).sum(1)
    return y


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_rules(case: tuple[Any, ...]) -> None:
    x, w, y, params = drawn(case)
    sizes, kernel = x.shape[2:], w.shape[2:]
    ft.testing.check_rules(correlate_p, x, w, params=params)
    ft.testing.check_rules(correlate_input_p, y, w, params=(*params, sizes))
    ft.testing.check_rules(correlate_filters_p, x, y, params=(*params, kernel))


@pytest.mark.parametrize("tile", [convolution.TILE, 400])
def test_values_of_random_shapes_are_those_of_a_loop(tile: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(convolution, "TILE", tile)
    if tile == 400:  # several groups and row blocks, too
        monkeypatch.setattr(convolution, "LARGEST", 1000)
    rng = Random(5)
    for _ in range(60):
        axes = rng.choice([1, 2, 2, 3])
        groups, channels, per = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([1, 2])

        def some(*options: int, axes: int = axes) -> tuple[int, ...]:
            return tuple(rng.choice(options) for _ in range(axes))

        kernel, stride, padding, dilation = some(1, 2, 3), some(1, 1, 2), some(0, 1, 2), some(1, 2)
        least = [
            max(1, d * (k - 1) + 1 - 2 * p)
            for k, p, d in zip(kernel, padding, dilation, strict=True)
        ]
        sizes = [rng.randint(n, n + 4) for n in least]
        x = RNG.normal(size=(rng.choice([1, 3]), groups * channels, *sizes))
        w = RNG.normal(size=(groups * per, channels, *kernel))
        params = stride, padding, dilation, groups
        y = correlate(x, w, *params)
        np.testing.assert_allclose(y, by_loop(x, w, *params), atol=1e-12)
        ct = RNG.normal(size=y.shape)
        # <ct, x * w> is linear in x and in w
        back = correlate_input(ct, w, *params, tuple(sizes))
        filters = correlate_filters(x, ct, *params, kernel)
        other_x, other_w = RNG.normal(size=x.shape), RNG.normal(size=w.shape)
        for change, found in ((correlate(other_x, w, *params), (back * other_x).sum()),
                              (correlate(x, other_w, *params), (filters * other_w).sum())):  # fmt: skip
            np.testing.assert_allclose((ct * change).sum(), found, atol=1e-10)


def test_input_may_have_elements_in_no_window() -> None:
    y, w = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 2, 2))
    params = (3,), (0,), (1,), 1
    x, longer = (correlate_input(y, w, *params, (n,)) for n in (11, 13))
    np.testing.assert_array_equal(longer[..., :11], x)
    assert not longer[..., 11:].any()
    with pytest.raises(ShapeError, match="is not the output"):
        ft.trace(lambda y, w: correlate_input(y, w, *params, (14,)))(y, w)


def test_infinities_stay_in_their_windows() -> None:
    x = RNG.normal(size=(2, 2, 6, 6))
    params = (1, 1), (0, 0), (1, 1), 1
    x[0, 0, 0, 0] = np.inf
    y = np.abs(RNG.normal(size=(2, 3, 4, 4)))
    filters = correlate_filters(x, y, *params, (3, 3))
    assert np.isinf(filters[:, 0, 0, 0]).all()
    filters[:, 0, 0, 0] = 0
    assert np.isfinite(filters).all()


def test_dtypes_are_promoted_and_kept() -> None:
    x, w = np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 2, 2), np.float32)
    params = (1, 1), (0, 0), (1, 1), 1
    assert correlate(x, w, *params).dtype == np.float32
    assert correlate(x, w.astype(complex), *params).dtype == np.complex128
    assert correlate(x.astype(int), w.astype(int), *params).tolist() == [[[[4, 4], [4, 4]]]]


def test_wrong_shapes_are_refused() -> None:
    x, w = np.ones((1, 2, 3)), np.ones((1, 1, 2))
    with pytest.raises(ShapeError, match="in 1 groups"):
        ft.trace(lambda x, w: correlate(x, w, (1,), (0,), (1,), 1))(x, w)
    with pytest.raises(ShapeError, match="at least as large as a window"):
        ft.trace(lambda x, w: correlate(x, w, (1,), (0,), (1,), 2))(x, np.ones((2, 1, 4)))


def products_of(x: Any, w: Any, params: tuple[Any, ...]) -> list[Any]:
    stride, padding, dilation, groups = params
    y = correlate(x, w, stride, padding, dilation, groups)
    return [
        y,
        correlate_input(y, w, stride, padding, dilation, groups, x.shape[2:]),
        correlate_filters(x, y, stride, padding, dilation, groups, w.shape[2:]),
    ]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("tile", [1, 300, 3000])
def test_bits_do_not_depend_on_the_number_of_threads(
    case: tuple[Any, ...], tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = RNG.normal(size=(9, *case[0][1:])), RNG.normal(size=case[1])
    monkeypatch.setattr(convolution, "TILE", tile)
    monkeypatch.setattr(convolution, "_FEWEST", 2)
    made = []
    for threads in (1, 2, 3):
        with ft.config(threads=threads):
            made.append(products_of(x, w, case[2:]))
    for others in made[1:]:
        for a, b in zip(made[0], others, strict=True):
            assert a.tobytes() == b.tobytes()


def test_errors_in_threads_are_those_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinities of both signs: one warning, or an error, as NumPy gives in one thread."""
    monkeypatch.setattr(convolution, "TILE", 1)
    monkeypatch.setattr(convolution, "_FEWEST", 2)
    x, w = np.full((4, 1, 9), 1e308), np.full((1, 1, 3), 10.0)
    for threads in (1, 3):
        with ft.config(threads=threads):
            with np.errstate(all="ignore"):
                assert np.isinf(correlate(x, w, (1,), (0,), (1,), 1)).all()
            with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
                correlate(x, w, (1,), (0,), (1,), 1)
            with pytest.warns(RuntimeWarning, match="overflow"):
                correlate(x, w, (1,), (0,), (1,), 1)


@pytest.mark.parametrize("shape", [(2, 1, 4, 9), (1, 2, 3, 4, 5), (3, 1, 6, 6)])
@pytest.mark.parametrize("tile", [1, 1000, 1 << 20])
def test_no_warnings_of_windows_that_do_not_exist(
    shape: tuple[int, ...], tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinities of both signs at the ends of rows are in no common window."""
    monkeypatch.setattr(convolution, "TILE", tile)
    x, rank = np.zeros(shape), len(shape) - 2
    x[..., -1], x[..., 0] = np.inf, -np.inf
    w = np.ones((1, shape[1], *(2,) * rank))
    with np.errstate(all="raise"):
        y = correlate(x, w, (1,) * rank, (0,) * rank, (1,) * rank, 1)
    assert (y[..., 0] == -np.inf).all()
    assert (y[..., -1] == np.inf).all()
    assert (y[..., 1:-1] == 0).all()
