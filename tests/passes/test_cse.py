"""Common subexpression elimination: merges all but rematerialized operations, and changes no bit,
on random programs too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import planned
from functrace.keys import exact_key
from functrace.ops.indexing import embed_p
from functrace.passes import PIPELINE, drop_dead_results, optimized
from functrace.passes.algebraic_simplify import simplify, sink_broadcasts
from functrace.passes.cse import merge_common_subexpressions
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from tests.laws.programs import Recipe, programs, seeds

pytestmark = pytest.mark.bits

X = np.linspace(-2, 2, 7)


def counted(program: ft.Program) -> Counter[str]:
    return Counter(e.primitive.name for e in program.equations)


def among_zeros(x: Any, first: int) -> Any:
    return bind(embed_p, (x,), (((first, first + len(x), None),), (len(x) + 1,)))


def merged(f: Callable[..., Any], *arguments: Any) -> Counter[str]:
    program = ft.trace(f)(*arguments)
    made = merge_common_subexpressions(program).check()
    for found, expected in zip(
        evaluate_program(made, arguments), evaluate_program(program, arguments), strict=True
    ):
        np.testing.assert_array_equal(found, expected, strict=True)
    return counted(made)


def test_views_numbers_and_operations_are_merged() -> None:
    found = merged(lambda x: np.sum(x[:-1] * x[1:] + np.sin(x[:-1]) * np.sin(x[:-1]) * x[1:]), X)
    assert (found["index"], found["sin"]) == (2, 1)
    assert merged(lambda x: np.sin(x) * 2.0 + np.sin(x) * 2.0, X) == {"sin": 1, "mul": 1, "add": 1}
    assert merged(lambda x, y: (x * y) - (y * x), X, X[::-1])["mul"] == 1
    assert merged(lambda x, y: (x - y) * (y - x), X, X[::-1])["sub"] == 2


def test_numbers_are_the_same_bit_for_bit() -> None:
    assert merged(lambda x: (x * 0.0, x * -0.0), X)["mul"] == 2
    assert merged(lambda x: (x * 1, x * 1.0, x * True), X)["mul"] == 3
    assert merged(lambda x: (x * np.nan, x * float("nan")), X)["mul"] == 1
    assert exact_key(1 + 0j) != exact_key(complex(1, -0.0))
    assert len({exact_key(v) for v in (0, 0.0, -0.0, False, 0j, complex(-0.0, 0.0))}) == 6


def test_complex_products_keep_their_order() -> None:
    assert merged(lambda x, y: (x * y) - (y * x), X + 1j, X - 2j)["mul"] == 2


def test_rematerialized_operations_are_not_merged() -> None:
    layer = ft.checkpoint(lambda x: np.sin(np.exp(x) * x))
    gradient = ft.trace(ft.grad(lambda x: np.sum(layer(layer(x)))))(X)
    kept = ft.trace(ft.grad(lambda x: np.sum(np.sin(np.exp(x) * x))))(X)
    made = optimized(gradient)
    assert "name" not in counted(made)
    assert counted(made)["exp"] == 3  # 2, if they were merged
    assert counted(optimized(kept))["exp"] == 1
    again = optimized(ft.trace(ft.grad(lambda x: np.sum(layer(x) + np.exp(x))))(X))
    assert counted(again)["exp"] >= 2


def test_effects_and_draws() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        for _ in range(2):
            ft.debug.callback(lambda v: seen.append(float(v)), np.sum(x))
        key = ft.random.key(3)
        return ft.random.normal(key, (3,)) + ft.random.normal(key, (3,)) + np.sum(x)

    ft.jit(f)(X)
    assert len(seen) == 2


def test_large_arrays_are_not_kept_for_long() -> None:
    x = np.ones((256, 256))

    def f(x: Any) -> Any:
        y = np.exp(x)
        z = y
        for _ in range(12):
            z = np.sin(z) @ x
        return z + np.exp(x)

    assert merged(f, x)["exp"] == 2
    assert merged(f, x[:8, :8])["exp"] == 1


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    np.inf,
    -np.inf,
    np.nan,
    5e-324,
    -5e-324,
    1.7e308,
    -1.7e308,
    3.4e38,
    1e-45,
    65504.0,
    6e-8,
]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16", "i1", "u1", "i8", "u8"])
def test_savings_change_no_bit(kind: str) -> None:
    """Zeros with signs, infinities, nan, overflow and subnormal numbers, in all dtypes."""
    with np.errstate(all="ignore"):
        values = (
            np.array(SPECIAL).astype(kind)
            if kind[0] in "fc"
            else np.array([0, 1, 2, 127, 128, 255, 77]).astype(kind)
        )
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    z = np.roll(x, 5)
    square = (len(values), len(values))

    def rows(x: Any, y: Any, z: Any) -> Any:
        x, y, z = (np.reshape(part, square) for part in (x, y, z))
        c = z[:, :1]
        made = [
            -(x * c),
            -(c * x),
            -(x * 3),
            np.sum(-(x * y), axis=1),
            np.sum(-np.abs(x), axis=0),
            x + x + x,
            y + (x + x),
        ]
        if kind[0] == "f":
            ties = [
                np.astype(a == np.max(a, axis=1, keepdims=True), x.dtype) for a in (x, y, np.abs(z))
            ]
            made += [
                b * (t / np.sum(t, axis=1, keepdims=True))
                for t in ties
                for b in (c, x[:, 3:4], 2.5)
            ]
            made += [-(x / c), -(c / x), -(x / 0.0), -(2.5 / x), z + (z + z)]
        return tuple(made)

    def signs(x: Any, y: Any, z: Any) -> Any:
        n = -x
        p, q = n * y, np.roll(n, 3) * z
        made = (p + z, z - p, q + z, y - q, n * 3, 2 * q, n * n, np.abs(q), np.square(p))
        return (*made, z - 2.5 / n, (p / y) * -1.5, z - q / 0.5) if kind[0] in "fc" else made

    functions: list[Callable[..., Any]] = [
        rows,
        signs,
        lambda x, y, z: (x + (-y), (-x) + y, x - (-y), (-x) - (-y), (-x) + (-y)),
        lambda x, y, z: ((-x) * y + z, z + x * (-y), z - (-x) * y, z - x * (-y)),
        lambda x, y, z: (x + np.roll(-y, 3), x - np.roll(-y, -3), x + np.reshape(-y, (-1,))),
        lambda x, y, z: ((-x) * 3, 3 * (-x), -(x * 3), -(3 * x)),
        lambda x, y, z: (
            among_zeros(x, 0) + among_zeros(y, 0),
            among_zeros(x, 1) + among_zeros(z, 0),
        ),
        lambda x, y, z: (x / 2, x / 64, x / 3, x / 1, (x * 2) * 4, 4 * (x * 2), (x * 64) * 32),
    ]
    if kind[0] in "fc":
        large, small = (np.full(x.shape, value, kind) for value in (100.5, 0.3))
        functions += [
            lambda x, y, z: (
                (x * 2) * 100,
                3.3 * (x * -4.0),
                (x * 100) * 2,
                (x * 2) * 0.3,
                (x * 0.5) * 3.0,
                (x * 3.0) * 3.0,
            ),
            lambda x, y, z: (
                (x * 2) * large,
                large * (-8 * x),
                (x * 3) * large,
                (x * 2) * small,
                (x * 16384) * large,
            ),
            lambda x, y, z: ((-x) * (y * 2.5), (z * -0.5) * (-x), (-x) * (y * 0.0), (-x) * (y * z)),
            lambda x, y, z: (
                x / 1024,
                y / 16384,
                x / 32768,
                (x * 8192) * 4,
                (x * 64) * 1024,
                x / -2,
            ),
            lambda x, y, z: (
                (-x) * 2.5,
                -(x * 0.5),
                x / 2.0,
                x / -4.0,
                x / 0.25,
                x / 0.0,
                (x * 0.5) * 0.5,
                (x * 0.5) * 4.0,
            ),
            lambda x, y, z: (
                (-x) * 0.0,
                (-x) * -0.0,
                -(x * 0),
                (-x) * np.inf,
                (x * -2.0) * 4.0,
                (-x) * np.nan,
            ),
        ]
    for f in functions:
        with np.errstate(all="ignore"):
            program = ft.trace(f)(x, y, z)
            expected = evaluate_program(program, [x, y, z])
            for row in (simplify, optimized):
                made = row(program).check()
                for found, value in zip(evaluate_program(made, [x, y, z]), expected, strict=True):
                    np.testing.assert_array_equal(found, value, strict=True)
                    parts = (
                        [(found.real, value.real), (found.imag, value.imag)]
                        if kind[0] == "c"
                        else [(found, value)]
                    )
                    for a, b in parts:
                        shown = ~np.isnan(a)
                        np.testing.assert_array_equal(
                            np.signbit(a[shown]) if a.dtype.kind == "f" else a,
                            np.signbit(b[shown]) if b.dtype.kind == "f" else b,
                        )


@given(programs(), seeds(), st.lists(st.sampled_from(PIPELINE), unique=True))
def test_any_passes_in_any_order_change_no_bit(recipe: Recipe, seed: int, rows: list[Any]) -> None:
    arguments = recipe.arguments(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    for function in (recipe, pulled):
        program = ft.trace(function)(*arguments)
        expected = evaluate_program(program, arguments)
        made = optimized(program, rows).check()
        for run in (
            lambda *a, made=made: evaluate_program(made, a),
            NUMPY.compile(planned(optimized(made))),
        ):
            for found, value in zip(run(*arguments), expected, strict=True):
                np.testing.assert_array_equal(found, value, strict=True)


def test_passes_leave_programs_that_have_nothing_for_them() -> None:
    program = ft.trace(lambda x: np.sin(x) + 1.0)(X)
    for row in (merge_common_subexpressions, simplify, sink_broadcasts, drop_dead_results):
        assert row(program) is program
