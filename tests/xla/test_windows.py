"""Windows, convolutions, filters, cosine transforms, segments and sparse products under XLA: values,
transposes and batches against NumPy's.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is not installed")

import functrace as ft
from functrace.errors import UnsupportedFunctionError
from functrace.ops.convolution import correlate, correlate_filters, correlate_input, count_windows
from functrace.ops.cosines import EDGES, KINDS, cosines, spline_coefficients
from functrace.ops.edges import clamp, lerp, rsqrt
from functrace.ops.grids import convolve_grids, recur
from functrace.ops.indexing import ARRAY, scatter_each
from functrace.ops.segments import sum_segments
from functrace.ops.sparse import sparse_matmul
from functrace.ops.windows import col2im, im2col, map_axis, max_windows, put_flat, take_flat
from tests.ops.test_windows import HOWS
from tests.xla.agreement import assert_agrees

MOST = 200
"""Roundings of the largest element of a result: of sums in another order."""


def assert_all_agree(f: Any, args: list[Any], diff: tuple[int, ...] = (0,)) -> None:
    """Assert that values, reverse derivatives and batches of a function are NumPy's."""
    assert_agrees(f, args, MOST)
    rng = np.random.default_rng(1)

    def pulled(*args: Any) -> Any:
        def of_differentiated(*some: Any) -> Any:
            given = list(args)
            for k, x in zip(diff, some, strict=True):
                given[k] = x
            return f(*given)

        y, pull = ft.vjp(of_differentiated, *[args[k] for k in diff])
        first = ft.tree.leaves(y)[0]
        ct = rng.normal(size=first.shape).astype(first.dtype)
        rest = [np.zeros(z.shape, z.dtype) for z in ft.tree.leaves(y)[1:]]
        return pull((ct, *rest) if rest else ct)

    if diff:
        assert_agrees(pulled, args, MOST)
    other = [x + np.asarray(k in diff, x.dtype) for k, x in enumerate(args)]
    stacks = [np.stack([x, y]) for x, y in zip(args, other, strict=True)]
    assert_agrees(ft.vmap(f), stacks, MOST)


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.sampled(3)
def test_maps_of_an_axis(how: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, how[1], 3))
    assert_all_agree(lambda x: map_axis(x, 1, how), [x])
    x[0, 1, 0], x[1, 0, 2] = np.inf, np.nan  # they stay in their rows
    assert_agrees(lambda x: map_axis(x, 1, how), [x], MOST)


@pytest.mark.parametrize("how", HOWS[:4], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex128])
@pytest.mark.sampled(4)
def test_maps_keep_dtypes(how: Any, dtype: Any) -> None:
    x = np.arange(how[1] * 2).reshape(how[1], 2).astype(dtype)
    assert_agrees(lambda x: map_axis(x, 0, how), [x], MOST)


WINDOWS: list[Any] = [
    ((2, 2, 0, 1, 3), (2, 2, 0, 1, 3)),
    ((3, 2, 1, 1, 3), (3, 1, 1, 2, 4)),
    ((2, 1, 0, 3, 3), (4,)),
    ((1,), (5,)),
    ((3, 1, 0, 1, 4),),
]


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("kind", ["numbers", "ties", "nan", "integers"])
@pytest.mark.sampled(2)
def test_maxima_of_windows(windows: Any, kind: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 6))
    if kind in ("ties", "integers"):
        x = np.round(x)
    if kind == "nan":
        x[rng.uniform(size=x.shape) < 0.2] = np.nan
        x[0, :3] = -np.inf
    if kind == "integers":
        x = x.astype(np.int32)
    call = lambda x: max_windows(x, windows)
    if kind == "numbers":
        assert_all_agree(call, [x])
    else:
        assert_agrees(call, [x], MOST)


def test_positions_are_checked_and_the_last_write_wins() -> None:
    x, at = np.arange(6.0).reshape(2, 3), np.array([[3, 1, 3], [0, 0, 2]])
    assert_all_agree(
        lambda x: put_flat(x, at, (2, 2)) if x.ndim == 1 else put_flat(x, at, (4,)), [x]
    )
    assert_all_agree(lambda x: take_flat(x, at % 3, 1), [x])
    run = ft.jit(lambda x, at: put_flat(x, at, (4,)), backend="xla")
    np.testing.assert_array_equal(run(x, at), [[0, 1, 0, 2], [4, 0, 5, 0]])
    with pytest.raises(IndexError, match="out of bounds"):
        run(x, at + 1)


COLUMNS: list[Any] = [
    ((5, 6), (2, 3), (1, 1), (0, 0), (1, 1)),
    ((5, 6), (2, 2), (2, 1), (1, 1), (2, 1)),
    ((7,), (3,), (2,), (2,), (2,)),
]


@pytest.mark.parametrize("case", COLUMNS, ids=str)
def test_columns(case: Any) -> None:
    sizes, *params = case
    x = np.random.default_rng(0).normal(size=(2, 3, *sizes))
    assert_all_agree(lambda x: im2col(x, *params), [x])
    assert_all_agree(lambda x: col2im(x, sizes, *params), [im2col(x, *params)])


def drawn_convolution(seed: int) -> Any:
    """Draw shapes and params of a convolution."""
    rng = Random(seed)
    axes = rng.choice([1, 2, 2, 3])
    several = lambda low, high: tuple([rng.randint(low, high) for _ in range(axes)])
    kernel, stride, padding, dilation = several(1, 3), several(1, 3), several(0, 3), several(1, 2)
    reach = [d * (k - 1) + 1 - 2 * p for k, p, d in zip(kernel, padding, dilation, strict=True)]
    sizes = tuple([max(1, r) + rng.randint(0, 4) for r in reach])
    groups, of_group, channels = rng.choice([1, 1, 2, 3]), rng.randint(1, 2), rng.randint(1, 2)
    shapes = (rng.randint(1, 3), groups * channels, *sizes), (groups * of_group, channels, *kernel)
    return shapes, (stride, padding, dilation, groups)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.sampled(4)
def test_convolutions_of_random_shapes(seed: int) -> None:
    (shape, filters), params = drawn_convolution(seed)
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=shape), rng.normal(size=filters)
    y = rng.normal(size=(shape[0], filters[0], *count_windows(shape[2:], filters[2:], *params[:3])))
    assert_all_agree(lambda x, w: correlate(x, w, *params), [x, w], (0, 1))
    assert_agrees(lambda y, w: correlate_input(y, w, *params, sizes=shape[2:]), [y, w], MOST)
    assert_agrees(lambda x, y: correlate_filters(x, y, *params, kernel=filters[2:]), [x, y], MOST)


@pytest.mark.parametrize(
    "dtype", [np.int32, np.int64, np.float16, np.float32, np.complex64, np.bool_]
)
def test_convolutions_keep_dtypes(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = [rng.integers(0, 3, s).astype(dtype) for s in [(2, 4, 7, 6), (6, 2, 3, 2)]]
    params: Any = ((2, 1), (1, 0), (1, 2), 2)
    y = correlate(x, w, *params)
    assert_agrees(lambda x, w: correlate(x, w, *params), [x, w], MOST)
    assert_agrees(lambda y, w: correlate_input(y, w, *params, sizes=(7, 6)), [y, w], MOST)
    assert_agrees(lambda x, y: correlate_filters(x, y, *params, kernel=(3, 2)), [x, y], MOST)


def test_infinities_stay_in_their_windows() -> None:
    x, w = np.ones((1, 1, 6)), np.array([[[1.0, 0.0, 2.0]]])
    x[0, 0, 2] = np.inf
    for p in (0, 2):
        params: Any = ((1,), (p,), (1,), 1)
        assert_agrees(lambda x, w, params=params: correlate(x, w, *params), [x, w], MOST)
    parts: list[Any] = ["full", "valid"]
    for part in parts:
        assert_agrees(
            lambda x, y, part=part: convolve_grids(x, y, 0, part), [x[0, 0], w[0, 0]], MOST
        )


GRIDS: list[Any] = [
    ((7,), (3,), 0),
    ((7, 5), (3, 2), 0),
    ((2, 7), (2, 3), 1),
    ((2, 7), (1, 3), 1),
    ((1, 7), (3, 3), 1),
    ((2, 1, 6, 5), (1, 3, 2, 2), 2),
    ((4, 4, 4), (2, 3, 1), 0),
]


@pytest.mark.parametrize("case", GRIDS, ids=str)
@pytest.mark.parametrize("part", ["full", "valid"])
@pytest.mark.sampled(2)
def test_convolutions_of_grids(case: Any, part: Any) -> None:
    left, right, stack = case
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=left), rng.normal(size=right)
    assert_all_agree(lambda x, y: convolve_grids(x, y, stack, part), [x, y], (0, 1))
    integers = [(9 * v).astype(np.int64) for v in (x, y)]
    assert_agrees(lambda x, y: convolve_grids(x, y, stack, part), integers, MOST)
    assert_agrees(lambda x, y: convolve_grids(x, y, stack, part), [x + 1j, y], MOST)


def test_recursive_filters() -> None:
    rng = np.random.default_rng(0)
    a, x = 0.3 * rng.normal(size=(1, 2)), rng.normal(size=(3, 9))
    assert_all_agree(lambda a, x: recur(a, x), [a, x], (0, 1))
    assert_all_agree(lambda a, x: recur(a, x), [np.broadcast_to(a, (3, 2)), x], (0, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 8, 15])
@pytest.mark.sampled(2)
def test_cosine_transforms(kind: str, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(2, n, 3))
    assert_all_agree(lambda x: cosines(x, kind, 1), [x])
    assert_agrees(lambda x: cosines(x, kind, 1), [x + 1j * x[::-1]], MOST)
    assert_agrees(lambda x: cosines(x, kind, 1), [x.astype(np.float32)], MOST)


def test_cosine_transforms_of_one_point() -> None:
    for kind in KINDS:
        if kind != "dct1":
            assert_agrees(lambda x, kind=kind: cosines(x, kind, 0), [np.array([1.5])], MOST)


@pytest.mark.parametrize("kind", EDGES)
def test_spline_filters(kind: str) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    assert_all_agree(lambda x: spline_coefficients(x, 3, kind, 0), [x])
    with pytest.raises(UnsupportedFunctionError, match="spline_coefficients"):
        ft.jit(lambda x: spline_coefficients(x, 3, kind, 0), backend="xla")(np.zeros(1000))


def test_segments_and_sparse_products() -> None:
    rng = np.random.default_rng(0)
    x, starts = rng.normal(size=(7, 2)), np.array([0, 2, 2, 5])
    stops = np.array([2, 3, 5, 7])
    assert_all_agree(lambda x: sum_segments(x, starts, stops), [x])
    assert_agrees(lambda x: sum_segments(x, starts, stops), [x > 0], MOST)
    pattern = np.array([0, 3, 1, 1, 2]), np.array([0, 2, 2, 5]), np.array([0, 0, 2, 2, 2])
    data = rng.normal(size=5)
    for backwards, n in ((False, 4), (True, 3)):
        columns = rng.normal(size=(2, n, 3))
        product = lambda d, x, b=backwards: sparse_matmul(d, pattern, x, (3, 4), backwards=b)
        assert_all_agree(product, [data, columns], (0, 1))


def test_functions_at_edges() -> None:
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(3, 2, 4))
    assert_all_agree(lambda x: rsqrt(np.abs(x)), [x])
    assert_agrees(lambda x: rsqrt(x), [np.array([0.0, -0.0, -1.0, np.inf, 4.0])], MOST)
    assert_agrees(lambda x: rsqrt(x), [np.arange(4)], MOST)
    assert_all_agree(lambda x, y, w: lerp(x, y, w), [x, y, w], (0, 1, 2))
    for weight in (0.3, 0.5, 2):
        assert_all_agree(lambda x, y, w=weight: lerp(x, y, w), [x, y], (0, 1))
        half = [v.astype(np.float16) for v in (x, y)]
        assert_agrees(lambda x, y, w=weight: lerp(x, y, w), half, 0)
    assert_all_agree(lambda x, y, w: clamp(x, y, w), [x, y, w], (0, 1, 2))
    assert_agrees(lambda x: clamp(x, np.nan, 1.0), [x], MOST)


def test_repeated_writes_keep_the_last_value_and_every_derivative() -> None:
    x, at, v = np.zeros(4), np.array([1, 3, 1, 1]), np.arange(1.0, 5)
    assert_all_agree(lambda x, v: scatter_each(x, (ARRAY,), v, (at,)), [x, v], (0, 1))


def test_grids_of_maps_and_kinds_are_whole() -> None:
    """The lists above cover every matrix and every kind."""
    from functrace.ops.windows import MATRICES

    tested = {how[0] for how in itertools.chain(HOWS, [("fixed point",)])}
    assert tested == set(MATRICES)
