"""Windows and resampling: all rules, matrices against their transposes, maxima against a loop."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ProgramError, ShapeError
from functrace.ops.windows import (
    col2im_p,
    im2col,
    im2col_p,
    map_axis,
    map_axis_p,
    max_windows,
    max_windows_p,
    put_flat,
    put_flat_p,
    take_flat,
)

RNG = np.random.default_rng(0)
HOWS: list[Any] = [
    ("sums", 6, 3, 2, 2, 0),
    ("sums", 6, 4, 3, 2, 1),
    ("sums", 5, 5, 1, 1, 0),
    ("sums", 6, 1, 6, 1, 0),
    ("means", 6, 3),
    ("means", 7, 3),
    ("means", 3, 5),
    ("means", 9, 1),
    ("reflected", 5, 9, 2),
    ("repeated", 5, 9, 3),
    ("wrapped", 5, 11, 4),
    ("nearest", 4, 8, 0.5, False),
    ("nearest", 7, 3, 7 / 3, True),
    ("linear", 4, 8, 0.5, False, True),
    ("linear", 4, 7, 0.0, True, True),
    ("linear", 7, 1, 0.0, True, True),
    ("cubic", 4, 9, 4 / 9, False, True),
    ("cubic", 2, 3, 0.0, True, True),
    ("smoothed", 9, 4, 9 / 4, False, "linear"),
    ("smoothed", 9, 4, 9 / 4, False, "cubic"),
    ("smoothed", 9, 4, 9 / 4, True, "lanczos"),
]


def dense(how: Any) -> Any:
    """Return the matrix of a map."""
    return np.stack([map_axis(row, 0, how) for row in np.eye(how[1])], 1)


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_maps_have_all_rules_and_their_transpose(how: Any) -> None:
    matrix = dense(how)
    x, y = RNG.normal(size=(2, how[1], 3)), RNG.normal(size=(2, how[2], 3))
    np.testing.assert_allclose(map_axis(x, 1, how), np.einsum("ij,njk->nik", matrix, x), atol=1e-13)
    back = map_axis_p.eval(y, 1, how, True)
    np.testing.assert_allclose(back, np.einsum("ij,nik->njk", matrix, y), atol=1e-13)
    ft.testing.check_rules(map_axis_p, x, params=(1, how, False))


def test_maps_that_average_have_rows_of_sum_1() -> None:
    for how in HOWS:
        if how[0] != "sums":
            np.testing.assert_allclose(dense(how).sum(1), 1, atol=1e-7)


def test_maps_leave_infinities_where_they_are() -> None:
    x = np.ones(7)
    x[0] = np.inf
    assert map_axis(x, 0, ("means", 7, 3)).tolist() == [np.inf, 1, 1]
    assert map_axis(x, 0, ("sums", 7, 3, 2, 2, 0)).tolist() == [np.inf, 2, 2]


def test_maps_keep_the_dtype() -> None:
    for how in HOWS:
        for dtype in (np.float32, np.complex64):
            assert map_axis(np.ones((2, how[1]), dtype), 1, how).dtype == dtype


def by_loop(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, counts: Any) -> Any:
    """Return maxima and positions of windows of one image."""
    values, positions = np.zeros(counts, x.dtype), np.zeros(counts, int)
    for place in itertools.product(*map(range, counts)):
        best, at = None, -1
        for taps in itertools.product(*map(range, kernel)):
            spot = tuple(
                p * s - q + t * d
                for p, s, q, t, d in zip(place, stride, padding, taps, dilation, strict=True)
            )
            if all(0 <= k < n for k, n in zip(spot, x.shape, strict=True)):
                v = x[spot]
                if best is None or v > best or np.isnan(v):
                    best, at = v, int(np.ravel_multi_index(spot, x.shape))
        values[place], positions[place] = best, at
    return values, positions


@pytest.mark.parametrize("filling", ["floats", "ties", "nan", "integers", "all -inf"])
def test_maxima_are_those_of_a_loop(filling: str) -> None:
    rng = Random(filling)
    for _ in range(40):
        axes = rng.choice([1, 2, 2, 3])

        def some(*options: int, axes: int = axes) -> tuple[int, ...]:
            return tuple(rng.choice(options) for _ in range(axes))

        kernel, stride, dilation = some(1, 2, 3), some(1, 2, 3), some(1, 1, 2)
        padding = tuple(rng.randint(0, k // 2) for k in kernel)
        sizes = tuple(
            rng.randint(d * (k - 1) + 1, d * (k - 1) + 5)
            for k, d in zip(kernel, dilation, strict=True)
        )
        counts = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(sizes, padding, dilation, kernel, stride, strict=True)
        )
        x = RNG.normal(size=(2, *sizes))
        if filling == "ties":
            x = np.round(x)
        elif filling == "integers":
            x = np.round(2 * x).astype(np.int32)
        elif filling == "nan":
            x[RNG.uniform(size=x.shape) < 0.2] = np.nan
        elif filling == "all -inf":
            x[:] = -np.inf
        windows = tuple(zip(kernel, stride, padding, dilation, counts, strict=True))
        values, positions = max_windows(x, windows)
        for k in range(2):
            expected = by_loop(x[k], kernel, stride, padding, dilation, counts)
            np.testing.assert_array_equal(values[k], expected[0])
            np.testing.assert_array_equal(positions[k], expected[1])


def test_maxima_of_spans() -> None:
    x = RNG.normal(size=(2, 7, 5))
    values, positions = max_windows(x, ((3,), (2,)))
    expected = [
        [x[1, a:b, c:d].max() for c, d in ((0, 3), (2, 5))] for a, b in ((0, 3), (2, 5), (4, 7))
    ]
    np.testing.assert_array_equal(values[1], expected)
    np.testing.assert_array_equal(x[1].ravel()[positions[1]], expected)


@pytest.mark.parametrize(
    "windows",
    [((2, 2, 0, 1, 3),), ((3, 1, 1, 1, 6),), ((2, 2, 0, 1, 2), (2, 1, 0, 2, 4)), ((3,), (4,))],
    ids=str,
)
def test_maxima_have_all_rules(windows: Any) -> None:
    x = RNG.permutation(2 * 5 * 6).reshape(2, 5, 6) * 0.1
    ft.testing.check_rules(lambda x: max_windows(x, windows)[0], x)
    assert max_windows_p.many


def test_elements_are_put_where_they_were() -> None:
    x = RNG.permutation(2 * 4 * 6).reshape(2, 4, 6) * 0.1
    values, positions = max_windows(x, ((2, 2, 0, 1, 2), (2, 2, 0, 1, 3)))
    back = put_flat(values, positions, (4, 6))
    np.testing.assert_array_equal(back[back != 0], x[back != 0])
    assert (back != 0).sum() == values.size - (values == 0).sum()
    ft.testing.check_rules(lambda values: put_flat(values, positions, (4, 6)), values)


def test_positions_may_repeat() -> None:
    x, positions = RNG.normal(size=(2, 3, 4)), RNG.integers(0, 12, (2, 5, 1))
    ft.testing.check_rules(lambda x: take_flat(x, positions, 2), x)
    ct = RNG.normal(size=(2, 5, 1))
    expected = np.zeros((2, 12))
    np.add.at(expected, (np.arange(2)[:, None], positions[..., 0]), ct[..., 0])
    found = put_flat_p.eval(ct, positions, (3, 4), False)
    np.testing.assert_allclose(found.reshape(2, 12), expected)


def test_columns_have_all_rules() -> None:
    x = RNG.normal(size=(2, 3, 5, 4))
    params = (2, 3), (2, 1), (1, 0), (1, 1)
    columns = im2col(x, *params)
    assert columns.shape == (2, 18, 6)
    ft.testing.check_rules(im2col_p, x, params=params)
    ft.testing.check_rules(col2im_p, columns, params=((5, 4), *params))


def test_columns_are_windows() -> None:
    x = np.arange(12.0).reshape(1, 1, 3, 4)
    columns = im2col(x, (2, 2), (1, 2), (0, 0), (1, 1))
    assert columns[0].T.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [4, 5, 8, 9], [6, 7, 10, 11]]


def test_programs_with_maps_and_windows_are_parsed_again() -> None:
    def function(x: Any) -> Any:
        y = map_axis(map_axis(x, 2, ("linear", 6, 8, 0.75, False, True)), 3, ("means", 4, 2))
        return (
            max_windows(y, ((2, 2, 0, 1, 4), (2,)))[0]
            + im2col(x, (2, 2), (1, 1), (0, 0), (1, 1)).sum()
        )

    program = ft.trace(function)(np.ones((1, 2, 6, 4)))
    assert ft.Program.parse(str(program)) == program
    assert ft.Program.from_json(program.to_json()) == program


def test_wrong_descriptions_are_refused() -> None:
    with pytest.raises(ProgramError, match="there is no matrix"):
        ft.trace(lambda x: map_axis(x, 0, ("unknown", 3, 4)))(np.ones(3))
    with pytest.raises(ShapeError, match="has not 4 elements"):
        ft.trace(lambda x: map_axis(x, 0, ("means", 4, 2)))(np.ones(3))
    with pytest.raises(ShapeError, match="have no windows"):
        ft.trace(lambda x: im2col(x, (5,), (1,), (0,), (1,)))(np.ones((1, 1, 2)))
