"""Convolutions and maxima of windows as generated source computes them: all windows at once."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ShapeError
from functrace.ops import plain_windows as plain
from functrace.ops.convolution import (
    correlate,
    correlate_filters,
    correlate_input,
    count_windows,
)
from functrace.ops.windows import max_windows
from tests.ir.programs import same
from tests.oracles import emitted


def draw_convolution(rng: np.random.Generator) -> tuple[Any, ...]:
    """Return shapes of images, filters and outputs, and stride, padding, dilation, groups."""
    axes = int(rng.integers(1, 4))
    kernel, stride, dilation = (
        tuple(map(int, rng.integers(1, 4, axes))) for _ in range(3)
    )  # fmt: skip
    padding = tuple(map(int, rng.integers(0, 3, axes)))
    groups, n = int(rng.integers(1, 4)), int(rng.choice([0, 1, 2, 3]))
    channels, out = (int(k) for k in rng.integers(1, 4, 2))
    sizes = tuple([
        max(1, d * (k - 1) + 1 - 2 * p) + int(rng.integers(0, 5))
        for k, p, d in zip(kernel, padding, dilation, strict=True)
    ])  # fmt: skip
    counts = count_windows(sizes, kernel, stride, padding, dilation)
    x, w = (n, groups * channels, *sizes), (groups * out, channels, *kernel)
    return x, w, (n, groups * out, *counts), stride, padding, dilation, groups


def compare(f: Any, *arguments: np.ndarray) -> None:
    """Compare the source of a function's program with the function, to rounding."""
    program = ft.trace(f)(*arguments)
    found, expected = emitted(program)(*arguments), f(*arguments)
    results = zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True)
    for a, b in results:
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            rounding = 1e3 * float(np.finfo(b.dtype).eps)
            np.testing.assert_allclose(a, b, rounding, rounding)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(60))
def test_source_computes_the_three_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of_x, of_w, of_y, *params = draw_convolution(rng)
    dtypes = rng.choice(["f4", "f8", "i4", "c16"], 2)
    x, w, y = (
        rng.integers(-3, 4, shape).astype(kind) * np.asarray(0.5 if kind[0] in "fc" else 1, kind)
        for shape, kind in zip((of_x, of_w, of_y), (*dtypes, dtypes[0]), strict=True)
    )
    compare(lambda x, w: correlate(x, w, *params), x, w)
    compare(lambda y, w: correlate_input(y, w, *params, x.shape[2:]), y, w)
    compare(lambda x, y: correlate_filters(x, y, *params, w.shape[2:]), x, y)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_infinities_stay_where_they_are() -> None:
    x = np.ones((1, 1, 5, 6))
    x[0, 0, 2, 5] = np.inf
    w, params = np.array([[[[0.0, 1.0], [2.0, 0.0]]]]), ((1, 1), (1, 1), (1, 1), 1)
    compare(lambda x, w: correlate(x, w, *params), x, w)
    compare(lambda w, x: correlate_input(x, w, *params, (4, 5)), w, x)
    compare(lambda x, y: correlate_filters(x, y, *params, (2, 2)), x, np.ones((1, 1, 6, 7)))


def draw_windows(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return sizes of the last axes, and windows along them, of which some reach outside."""
    sizes, windows = [], []
    for _ in range(int(rng.integers(1, 4))):
        size = int(rng.integers(1, 8))
        if rng.random() < 0.3:
            windows.append((int(rng.integers(1, 6)),))
        else:
            kernel, stride, dilation = (int(k) for k in rng.integers(1, 4, 3))
            padding = int(rng.integers(0, kernel // 2 + 1))
            # (Of fewer elements than a step, windows may lie beside the array: they are refused.)
            size = max(size, dilation, dilation * (kernel - 1) + 1 - 2 * padding)
            (count,) = count_windows((size,), (kernel,), (stride,), (padding,), (dilation,))
            windows.append((kernel, stride, padding, dilation, count))
        sizes.append(size)
    return tuple(sizes), tuple(windows)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(120))
def test_source_finds_maxima_and_their_positions(seed: int) -> None:
    """Ties go to the first element, nan to the last one."""
    rng = np.random.default_rng(seed)
    sizes, windows = draw_windows(rng)
    shape = (*map(int, rng.integers(0, 3, int(rng.integers(0, 3)))), *sizes)
    x = rng.integers(-2, 3, shape).astype(rng.choice(["f4", "f8", "i8", "u1"]))
    if x.dtype.kind == "f" and seed % 2:
        x[rng.random(shape) < 0.2] = np.nan
    program = ft.trace(lambda x: max_windows(x, windows))(x)
    for a, b in zip(emitted(program)(x), max_windows(x, windows), strict=True):
        same(a, b)


def test_source_of_the_gradient_of_a_network_stands_alone() -> None:
    """Convolution, maxima, means and their cotangents, exec'd without functrace."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 9, 8)), rng.standard_normal((4, 3, 3, 2))

    def loss(w: Any, x: Any) -> Any:
        y = correlate(x, w, (1, 2), (1, 1), (1, 1), 1)
        best, _ = max_windows(np.maximum(y, 0.0), ((2, 2, 0, 1, 4), (3,)))
        return np.sum(np.sin(best))

    program = ft.trace(ft.grad(loss, argnums=(0, 1)))(w, x)
    source = program.as_python("slope")
    assert "functrace" not in source
    ast.parse(source)
    expected = ft.grad(loss, argnums=(0, 1))(w, x)
    for a, b in zip(emitted(program)(w, x), expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_the_plain_function_is_what_the_source_holds() -> None:
    x, w = np.ones((1, 2, 4)), np.ones((3, 2, 2))
    program = ft.trace(lambda x, w: correlate(x, w, (1,), (0,), (1,), 1))(x, w)
    assert "def correlate(x, w, stride, padding, dilation, groups):" in program.as_python()
    assert "sliding_window_view" in program.as_python()
    found = plain.correlate(x, w, (1,), (0,), (1,), 1)
    np.testing.assert_array_equal(found, np.full((1, 3, 3), math.prod(w.shape[1:])))


def test_windows_beside_the_array_are_refused() -> None:
    """Two elements, and windows of two with a step of three: the first holds none."""
    with pytest.raises(ShapeError, match="lie beside an axis of 2"):
        max_windows(np.ones((1, 2)), ((2, 1, 1, 3, 1),))
