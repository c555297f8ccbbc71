"""Exact passes change neither a bit nor a result's memory layout: random chains in mixed dtypes and
layouts.

Chains are of what the rows of `functrace.passes` rewrite: signs, factors, quotients, sums, ties,
broadcasts, moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.passes import PIPELINE, optimized, without
from functrace.tracing.evaluate import evaluate_program
from tests import oracles

pytestmark = pytest.mark.bits

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -3.0,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-310,
    6e4,
    -7e4,
    3e38,
    1.7e308,
    1e-5,
    1.1,
]
DTYPES = ["f8", "f4", "f2", "c8", "i8", "i1", "u1", "?"]
ONES, NUMBERS = np.ones(()), [2, -2, 4.0, 0.5, 0.0, -0.0, 3, 1.0, -1, 1024, 3.7, np.inf]
LAYOUTS: list[Callable[[Any, tuple[int, ...]], Any]] = [
    lambda make, shape: make(shape),
    lambda make, shape: make(shape[::-1]).T,
    lambda make, shape: make(tuple([2 * n for n in shape]))[
        tuple([slice(None, None, 2)] * len(shape))
    ],
    lambda make, shape: make(shape)[::-1],
    lambda make, shape: np.broadcast_to(make(shape[1:]), shape),
]


def zeros_but_first(x: Any) -> Any:
    z = np.zeros_like(x)
    z[..., :1] = -x[..., :1]
    return z


def ties(x: Any, axis: int, counted: int, keepdims: bool) -> Any:
    found = (x == np.max(x, axis=axis % x.ndim, keepdims=True)).astype(x.dtype)
    return found / np.sum(found, axis=counted % x.ndim, keepdims=keepdims)


STEPS: dict[str, Callable[[Any, Any, Any, int], Any]] = {
    "-x": lambda x, y, c, k: -x,
    "-x again": lambda x, y, c, k: -x,
    "x + y": lambda x, y, c, k: x + y,
    "x - y": lambda x, y, c, k: x - y,
    "x * y": lambda x, y, c, k: x * y,
    "x / y": lambda x, y, c, k: x / y,
    "a number": lambda x, y, c, k: (
        lambda n: (
            [x * n, n * x, x / n, n / x, x + n, n - x][k % 6] if x.dtype.kind in "fc" else x * 3
        )
    )(NUMBERS[k % len(NUMBERS)]),
    "abs": lambda x, y, c, k: abs(x),
    "square": lambda x, y, c, k: np.square(x),
    "roll": lambda x, y, c, k: np.roll(x, 1, 0),
    "flip": lambda x, y, c, k: x[::-1],
    "slice": lambda x, y, c, k: x[..., ::2],
    "transpose": lambda x, y, c, k: x.T,
    "flat": lambda x, y, c, k: x.reshape(-1),
    "wider": lambda x, y, c, k: np.expand_dims(x, k % (x.ndim + 1)),
    "narrow": lambda x, y, c, k: np.squeeze(x),
    "sum": lambda x, y, c, k: np.sum(
        x, axis=[None, (), *range(x.ndim)][k % (x.ndim + 2)], keepdims=k % 3 == 0
    ),
    "sum of -x": lambda x, y, c, k: np.sum(-x, axis=k % x.ndim),
    "zeros but first": lambda x, y, c, k: zeros_but_first(x) + zeros_but_first(y),
    "x @ y": lambda x, y, c, k: x @ y,
    "as float": lambda x, y, c, k: x.astype(DTYPES[k % 3]),
    "three times": lambda x, y, c, k: x + x + x,
    "ties": lambda x, y, c, k: y * ties(x, k, k // 3, k % 5 > 0),
    "broadcast": lambda x, y, c, k: np.broadcast_to(x, (2, *x.shape)),
    "constant": lambda x, y, c, k: [x * c, x + c, x * ONES.astype(c.dtype), np.zeros_like(x) + c][
        k % 4
    ],
    "ones": lambda x, y, c, k: x * np.ones_like(x),
}


def drawn(seed: int, layouts: int = 4) -> tuple[Callable[..., Any], list[Any]]:
    """A function of arrays, and arrays; what NumPy refuses is skipped, by the shapes and dtypes
    alone.
    """
    rng = np.random.default_rng(seed)
    base = tuple(rng.choice([1, 2, 3, 4, 9], size=rng.integers(1, 4)).tolist())
    count = int(rng.integers(1, 4))
    shapes = [
        base,
        *[tuple([1 if rng.random() < 0.3 else n for n in base]) for _ in range(count - 1)],
    ]
    kinds = [DTYPES[k] for k in rng.integers(0, 3 if rng.random() < 0.5 else len(DTYPES), count)]

    def array(layouts: int, shape: tuple[int, ...], kind: str) -> Any:
        def make(shape: tuple[int, ...]) -> Any:
            x = rng.choice(SPECIAL, shape) if rng.random() < 0.5 else rng.normal(size=shape)
            return (
                x.astype(kind)
                if kind in "f8 f4 f2 c8"
                else rng.integers(-128, 256, shape).astype(kind)
            )

        return LAYOUTS[int(rng.integers(layouts))](make, shape)

    args, constants = [
        [array(most, *each) for each in zip(shapes, kinds, strict=True)] for most in (layouts, 5)
    ]
    names = rng.choice(list(STEPS), int(rng.integers(2, 12))).tolist()
    places = rng.integers(0, 1 << 30, (len(names), 4)).tolist()

    def f(*values: Any) -> Any:
        known = list(values)
        for name, (a, b, k, newest) in zip(names, places, strict=True):
            x = known[-1 if newest % 3 == 0 else a % len(known)]
            try:
                made = STEPS[name](x, known[b % len(known)], constants[b % len(constants)], k)
            except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
                continue
            if made.size <= 600:
                known.append(made)
        return known[-1], known[-1 - places[0][3] % min(4, len(known))]

    return f, args


def bits(x: Any) -> Any:
    """An array in which equal numbers are equal bytes: nans count as one."""
    x = np.ascontiguousarray(x)
    parts = x.view(x.real.dtype) if x.dtype.kind == "c" else x
    return (
        np.where(np.isnan(parts), np.nan, parts).astype(parts.dtype).tobytes()
        if x.dtype.kind in "fc"
        else x.tobytes()
    )


def lies(x: Any) -> list[int]:
    x = np.asarray(x)
    return [step for step, n in zip(x.strides, x.shape, strict=True) if n > 1] if x.size else []


def assert_same(found: Any, expected: Any, what: object) -> None:
    for x, y in zip(found, expected, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y), what
        assert bits(x) == bits(y), what
        assert lies(x) == lies(y), what


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 1600, 40))
def test_exact_rows_change_no_bit_and_no_layout(seed: int) -> None:
    with np.errstate(all="ignore"):
        for each in range(seed, seed + 40):
            f, args = drawn(each)
            program = ft.trace(f)(*args)
            expected = evaluate_program(program, args)
            for row in PIPELINE:
                made = row.run(program)
                assert_same(evaluate_program(made, args), expected, (each, row.name, program, made))
            assert_same(evaluate_program(optimized(program), args), expected, (each, program))


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(10_000, 10_900, 30))
def test_interpreted_and_compiled_calls_have_the_same_bits_and_layout(
    seed: int,
) -> None:
    whole = [without("batched matmul"), without("small matmul")]
    with np.errstate(all="ignore"):
        for each in range(seed, seed + 30):
            f, args = drawn(each, layouts=len(LAYOUTS))
            compiled = ft.jit(f, passes=whole)
            first = compiled(*args)
            for _ in range(2):
                assert_same(compiled(*args), first, each)


def test_integers_wrap_before_they_are_multiplied() -> None:
    f = ft.jit(lambda a, b, c: c + (-a) * b)
    b, c = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    for a in (np.array([1, 2, 250], np.uint8), np.array([-128, 2, 3], np.int8)):
        for _ in range(3):
            np.testing.assert_array_equal(f(a, b, c), c + (-a) * b)


@pytest.mark.filterwarnings("ignore")
def test_counts_along_another_axis_are_not_taken_for_ties() -> None:
    def f(x: Any, c: Any) -> Any:
        found = (x > 0).astype(float)
        return c * (found / found.sum(1))  # by columns, as NumPy broadcasts

    x, c = np.array([[1.0, 1, 1], [-1, -1, -1], [1, -1, 1]]), np.array([[1.0], [2], [3]])
    for _ in range(3):
        np.testing.assert_array_equal(ft.jit(f)(x, c), f(x, c))


@pytest.mark.filterwarnings("ignore")
def test_more_ties_than_float16_counts_share_nothing() -> None:
    slope = ft.grad(lambda x: np.sum(x.max(1) * np.array([1, 2], x.dtype)))
    x, compiled = np.ones((2, 70000), np.float16), ft.jit(slope)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(x), slope(x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [np.logaddexp, np.logaddexp2], ids=lambda f: f.__name__)
@pytest.mark.parametrize("c", [0.0, -0.0, 1.5, -800.0, np.inf, -np.inf, np.nan], ids=str)
@pytest.mark.parametrize(
    "kind", [float, np.float64, np.float32, np.array], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("is_first", [False, True])
def test_derivatives_of_logaddexp_with_a_number(
    f: Any, c: float, kind: Any, is_first: bool
) -> None:
    number = kind(c)
    x = np.array([0.0, -0.0, 1.0, -3.0, 1.5, 800.0, -800.0, np.inf, -np.inf, np.nan])
    for points in (x, x.astype(np.float32), x[::-2], np.stack([x, x]).T):

        def gradient(x: Any) -> Any:
            return ft.elementwise_grad(lambda x: f(x, number) if is_first else f(number, x))(x)

        with np.errstate(all="ignore"):
            found = ft.jit(gradient)(points)
            expected = evaluate_program(ft.trace(gradient)(points), [points])[0]
            exact = 1 / (
                1
                + np.where(
                    points == c,
                    1.0,
                    np.power(np.e if f is np.logaddexp else 2.0, c - points.astype(float)),
                )
            )
        oracles.assert_same(found, expected)
        signs = [np.signbit(oracles.comparable(x)) for x in (found, expected)]
        np.testing.assert_array_equal(*signs)
        oracles.assert_same_layout(found, expected)
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-37)
