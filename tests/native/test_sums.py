"""Sums of machine code are NumPy's to the bit: in its order of adding, which depends on the layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native.numpy_order import BLOCKS, LANES, halves, order_of
from functrace.native.values import Shape, c_strides
from tests.native.test_programs import native


def _random(shape: Shape, dtype: str, seed: int = 0) -> Any:
    """Return numbers of very different sizes, whose sums depend on the order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 3, size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def _check(f: Callable[..., Any], *arguments: Any) -> None:
    made = native(ft.trace(f)(*arguments))
    expected = f(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, one in zip(made.call(*arguments), expected, strict=True):
        assert found.dtype == one.dtype
        assert found.shape == one.shape
        assert found.tobytes() == one.tobytes()
    assert made.fallbacks == 0


SIZES = (1, 2, 3, 7, 8, 9, 15, 36, 37, 127, 128, 129, 135, 136, 137, 255, 256, 257, 1000, 2049,
         2053, 2176, 2177, 4104, 8191, 8192, 8193, 20_000, 70_001, 131_072)  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("size", SIZES)
def test_sum_of_a_vector(size: int, dtype: str) -> None:
    x = _random((size,), dtype)
    _check(lambda x: (np.sum(x), np.sum(x - 1.0), np.sum(x + x)), x)


SHAPES = ((3, 50), (50, 3), (9, 129), (129, 9), (40, 1), (1, 40), (4, 5, 6), (16, 9, 24),
          (5, 8, 33), (2, 3, 1, 40), (3, 7, 8, 9), (70, 13, 11), (3, 5001))  # fmt: skip


def _subsets(axes: int) -> Sequence[tuple[int, ...]]:
    return [some for n in range(1, axes + 1) for some in itertools.combinations(range(axes), n)]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize(
    ("shape", "axes"), [(shape, axes) for shape in SHAPES for axes in _subsets(len(shape))]
)
def test_sums_over_axes(shape: Shape, axes: tuple[int, ...], dtype: str) -> None:
    x, w = _random(shape, dtype), _random(shape[-1:], "f8").astype(dtype)
    last = tuple(range(len(shape)))[::-1]

    def sums(x: Any, w: Any) -> tuple[Any, ...]:
        return (
            np.sum(x, axis=axes),
            np.sum(x - w, axis=axes),
            np.sum(x.transpose(last) + 1.0, axis=axes),
            np.sum(x - w, axis=0),
            x - w,
        )

    _check(sums, x, w)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    ("shape", "axes"), [(shape, axes) for shape in SHAPES for axes in _subsets(len(shape))]
)
def test_functions_made_of_sums(shape: Shape, axes: tuple[int, ...], dtype: str) -> None:
    x = _random(shape, dtype) + 3.0

    def functions(x: Any) -> tuple[Any, ...]:
        square = x * x
        return (
            np.var(x, axis=axes),
            np.sum(square, axis=axes),
            np.max(square, axis=axes),
            np.sum(x > 0, axis=axes),
            np.prod(x * 1e-2, axis=axes),
        )

    with np.errstate(all="ignore"):
        _check(functions, x)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("columns", [7, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 160, 1024])
@pytest.mark.parametrize("rows", [2, 3, 5, 15, 31, 76, 77, 130, (3, 5), (7, 11), (8, 16)])
def test_sums_of_expressions_that_broadcast(rows: Any, columns: int, dtype: str) -> None:
    """Expensive and cheap elements; parts of a sum begin anywhere in a row."""
    rows = rows if isinstance(rows, tuple) else (rows,)
    x, y = (_random((*rows, columns), dtype, seed) for seed in range(2))

    def roots(x: Any) -> Any:
        for _ in range(6):
            x = np.sqrt(np.abs(x) / 3.0)
        return x

    _check(lambda x, y: np.sum(x - y[..., :1]), x, y)
    _check(lambda x, y: np.sum(x - y[(0,) * len(rows)]), x, y)
    _check(lambda x, y: np.sum(roots(x) - y[..., :1]), x, y)
    if dtype != "c16":
        _check(lambda x, y: np.sum(roots(x) * np.max(y, axis=-1, keepdims=True)), x, y)


@pytest.mark.parametrize("shape", [(5,), (40,), (300,), (3, 50), (50, 3)])
def test_the_sum_of_negative_zeros_is_zero(shape: Shape) -> None:
    x = np.full(shape, -0.0)
    for axis in range(len(shape)):
        _check(lambda x, axis=axis: np.sum(x, axis=axis), x)


def test_sums_of_sliced_rows() -> None:
    """Every row is a run; NumPy's runs of sliced arrays are longer only where several axes are."""
    x = _random((40, 300), "f8")
    for index in ((slice(None), slice(1, None)), (slice(None), slice(None, None, -1)), (slice(None, None, 2),)):  # fmt: skip
        for axis in (0, 1):
            _check(lambda x, index=index, axis=axis: np.sum(x[index], axis=axis), x)


def test_halves_are_numpys() -> None:
    def parts(size: int) -> list[int]:
        if size <= BLOCKS * LANES:
            return [size]
        half = size // 2
        half -= half % LANES
        return parts(half) + parts(size - half)

    for size in (*range(129, 2400), *range(8100, 8300), 10**5, 10**6 + 3):
        blocks, rest = divmod(size, LANES)
        cut = halves(blocks, rest)
        found: list[int] = []
        for part in range(1 << cut.depth):
            turned = int(format(part, f"0{cut.depth}b")[::-1], 2)
            count = (blocks + turned) >> cut.depth
            if not cut.is_even:
                half = 1 << (cut.depth - 1)
                whole = (blocks + turned % half) >> (cut.depth - 1)
                is_last = part >> 1 == half - 1
                if LANES * whole + is_last * rest <= BLOCKS * LANES:
                    count = 0 if part & 1 else whole
            found.append(LANES * count + (rest if part == cut.last else 0))
        assert [n for n in found if n] == parts(size)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(60))
def test_order_of_any_layout(seed: int) -> None:
    """The order equals that of NumPy's iterator, for strides of all kinds."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 8, 9, 17], rank))
    steps = rng.choice([1, 1, 2, -1], rank)
    turned = rng.permutation(rank)
    large = _random(tuple(shape[k] * abs(int(steps[k])) for k in turned), "f4", seed)
    x = large.transpose(np.argsort(turned))[tuple(slice(None, None, int(s)) for s in steps)]
    if rng.random() < 0.3:
        x = np.broadcast_to(x[:1], x.shape)
    axes = tuple(sorted(int(k) for k in rng.permutation(rank)[: rng.integers(1, rank + 1)]))
    order, is_exact = order_of(x.shape, tuple(n // 4 for n in x.strides), axes)
    if not is_exact:
        return
    kept = [k for k in range(rank) if k not in axes]
    found = np.zeros(math.prod(shape[k] for k in kept), "f4")
    strides = dict(zip(kept, c_strides([shape[k] for k in kept]), strict=True))
    outer = order.axes[: len(order.axes) - order.run]
    single = [k for k in range(rank) if shape[k] == 1]
    lines = x.transpose([*single, *order.axes])[(0,) * len(single)]
    for places in itertools.product(*[range(shape[k]) for k in outer]):
        line = np.ascontiguousarray(lines[places]).ravel()
        target = sum(
            place * strides[k] for k, place in zip(outer, places, strict=True) if k in strides
        )
        found[target] += np.add.reduce(line) if order.run else line[0]
    assert np.add.reduce(x, axis=axes).tobytes() == found.tobytes()
