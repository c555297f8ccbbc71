"""Groups of operations on large arrays: found where they are, and the evaluator's bits, however
they are divided.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.parallel.sums import added_up, summed_bounds, sums_are_in_pairs
from functrace.executor.plan.fusion import blocks_p
from functrace.executor.plan.planner import Plan, planned
from functrace.executor.policy import NUMPY_POLICY
from functrace.ir.structures import FusionGroup
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.passes import optimized
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_same

pytestmark = pytest.mark.bits


def divided(block: int, count: int = 2) -> AbstractContextManager[None]:
    return ft.config(block=block, threads=count)


def planned_of(function: Callable[..., Any], *arguments: Any) -> Plan:
    return planned(optimized(ft.trace(function)(*arguments)))


def planned_in_blocks(program: ft.Program) -> list[Any]:
    with divided(16):
        return list(planned(optimized(program)).steps)


def groups(plan: Plan) -> list[list[str]]:
    """The names of the operations of every group."""
    found = [
        step.bodies[0].program for step in plan.steps if isinstance(step.structure, FusionGroup)
    ]
    return [[program.ops[k][0].name for k, _ in program.schedule] for program in found]


def assert_same_bits(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.shape == () or a.strides == b.strides
        np.testing.assert_array_equal(a, b, strict=True)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b)) if a.dtype.kind == "f" else None


def whole(program: ft.Program) -> Callable[..., Any]:
    return NUMPY.compile(planned(optimized(program), NUMPY_POLICY.ungrouped))


def check(function: Callable[..., Any], *arguments: Any, block: int = 16) -> list[list[str]]:
    """Compare with the evaluator, for one to four threads; returns the groups."""
    program = ft.trace(function)(*arguments)
    for found, value in zip(
        whole(program)(*arguments), evaluate_program(program, list(arguments)), strict=True
    ):
        np.testing.assert_array_equal(found, value, strict=True)
    expected = [np.asarray(x) for x in whole(program)(*arguments)]
    with divided(block):
        plan = planned(optimized(program))
        run = NUMPY.compile(plan)
    for count in (1, 2, 3, 4):
        before = [np.copy(x) for x in arguments]
        with divided(block, count):
            results = run(*arguments)
        assert_same_bits([np.asarray(x) for x in results], expected)
        for a, b, again in zip(arguments, before, arguments, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not any(np.shares_memory(x, again) for x in results)
        for a, b in itertools.combinations(results, 2):
            assert not np.shares_memory(a, b)
    return groups(plan)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def normalized(x: Any) -> Any:
    d = x - np.mean(x, axis=-1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + 1e-5)


def logsumexp(x: Any) -> Any:
    top = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]


ROWS = np.random.default_rng(0).normal(size=(24, 10)).astype(np.float32)
DEEP = np.random.default_rng(1).normal(size=(6, 4, 5, 3))
FLAT = np.random.default_rng(2).normal(size=1003)
SCALE = np.random.default_rng(3).normal(size=10).astype(np.float32)


def test_elementwise_with_its_sum_is_one_group() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * np.exp(-(x**2)) + np.log1p(x**2))

    for x in (FLAT, FLAT.astype(np.float32), DEEP, FLAT + 1j * FLAT[::-1]):
        found = check(f, x)
        assert len(found) == 1
        assert "reduce_sum" in found[0]
    (names,) = check(ft.value_and_grad(f), FLAT)
    assert names.count("tanh") == 1


def test_rows_are_one_group() -> None:
    for f in (softmax, normalized, logsumexp, lambda x: normalized(softmax(x))):
        assert len(check(f, ROWS)) == 1
        check(ft.value_and_grad(lambda x, f=f: np.sum(f(x) ** 3)), ROWS)
        check(f, DEEP)
    found = check(
        ft.value_and_grad(lambda x: np.sum(normalized(softmax(x)) ** 3)), ROWS[:, :8], block=32
    )
    assert len(found) == 1


def test_rows_pass_over_a_block_no_more_often_than_is_needed() -> None:
    """Rematerialized operations run once, and signs, shares of ties and factors of 3 are applied to
    the small arrays.
    """
    rows = np.random.default_rng(0).normal(size=(4096, 8)).astype(np.float32)
    rows[7, 3], rows[8] = rows[7].max(), 2.0
    with divided(16):
        function = ft.jit(ft.value_and_grad(lambda x: np.sum(normalized(softmax(x)) ** 3)))
        program = ft.trace(function)(rows)
    (names,) = check(lambda x: ft.evaluate(program, x), rows)
    counts = {name: names.count(name) for name in ("exp", "equal", "convert")}
    assert counts == {"exp": 1, "equal": 1, "convert": 1}
    body = next(
        step.bodies[0].program
        for step in planned_in_blocks(program)
        if isinstance(step.structure, FusionGroup)
    )
    full = [body.ops[k][0].name for k, _ in body.schedule if body.avals[k].shape == rows.shape]
    assert full.count("neg") == 0
    assert full.count("div") == 6


def test_groups_do_not_pass_values_that_a_later_group_can_recompute() -> None:
    """A mask passes as bools between them, and a quotient of what is written in any case does not."""

    def f(x: Any, w: Any) -> Any:
        mask = np.astype(x > 0, x.dtype)
        e = np.exp(x) * mask
        q = e / (w[:1] + 2.0)
        return (np.tanh(e @ w) + mask) * q

    rows = np.random.default_rng(0).normal(size=(24, 10))
    check(f, rows, np.eye(10) + 0.1)
    with divided(16):
        program = planned(optimized(ft.trace(f)(rows, np.eye(10)))).program
    first = next(k for k, _ in program.schedule if program.ops[k][0] is blocks_p)
    made = [program.avals[first + n].dtype.kind for n in range(program.result_count(first))]
    assert sorted(made) == ["b", "f"]


def test_numpys_buffers_are_the_callers_afterwards() -> None:
    before = np.setbufsize(4096)
    try:
        check(lambda x, n: np.tanh(x) * n + x, ROWS, np.arange(10, dtype=np.float32))
        check(
            lambda x, n: np.tanh(x) * n + x, ROWS, np.arange(10)
        )  # which are converted within the buffers
        assert np.getbufsize() == 4096
    finally:
        np.setbufsize(before)


def test_operands_broadcast_along_rows_are_not_tiled() -> None:
    (names,) = check(lambda x, w: np.tanh(normalized(x) * w + 2.0), ROWS, SCALE)
    assert "reduce_sum" in names
    check(lambda x, w: np.tanh(x * w + x), ROWS, SCALE[None])
    check(ft.value_and_grad(lambda x, w: np.sum(np.tanh(x * w) ** 2), argnums=(0, 1)), ROWS, SCALE)
    check(lambda x, w: np.tanh(x * w) - x, DEEP, DEEP[:, :1, :, :])
    check(lambda x, w: np.tanh(x * w) - x, DEEP, DEEP[:1, :, :, :1])
    check(lambda x, c: np.tanh(x * c[:, None]) - np.sin(c)[:, None], ROWS, ROWS[:, 0])
    check(lambda x, c: np.tanh(x * c) - c * np.sin(c), ROWS, np.float32(0.3))


def test_one_array_in_two_roles() -> None:
    square = np.random.default_rng(0).normal(size=(12, 12))
    check(
        lambda x, w: (np.tanh(x * w) + np.tanh(np.sin(x) * w[:, None]), x * np.exp(w)),
        square,
        square[0],
    )


def test_arguments_with_other_strides() -> None:
    arrangements: list[Callable[[Any], Any]] = [
        lambda x: x.copy("F"),
        lambda x: x[::-1],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.broadcast_to(x[0], x.shape),
        lambda x: np.broadcast_to(x[0, 0], x.shape),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    ]
    for arrange in arrangements:
        for f in (
            softmax,
            lambda x: np.sum(np.tanh(x) * np.exp(-x * x)),
            lambda x: (np.tanh(x) * 2 + np.sin(x), np.sum(x)),
        ):
            check(f, arrange(ROWS))
            check(lambda x, y, f=f: (f(x), np.exp(np.sin(x + y))), arrange(ROWS), ROWS)


def test_mixed_dtypes_and_choices() -> None:
    k = np.arange(24 * 10).reshape(24, 10)
    check(lambda x: np.where(x > 0, np.sin(x), np.exp(-x * x)) * (k % 3), ROWS)
    check(
        lambda x: (
            np.max(x * 2 + 1, axis=1),
            np.min(x % 7, axis=1),
            np.sum(x * x),
            np.prod(x % 5 + 1, axis=1),
        ),
        k,
    )
    check(
        lambda x: (
            np.any(np.sin(x) > 0.5, axis=1),
            np.all(np.cos(x) < 0.99, axis=1),
            (x > 0) & (x < 1),
        ),
        ROWS,
    )
    check(lambda x: np.sum(np.sin(x.astype(np.float16)) * np.cos(x), axis=1), ROWS)
    check(
        lambda x: (
            np.sum(np.sin(x).astype(np.float16)),
            np.sum(np.sin(x).astype(np.longdouble) * 2),
        ),
        ROWS,
    )


def test_reductions_of_other_axes() -> None:
    for axes in [(0,), (1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (0, 3), (1, 2, 3), (0, 1, 2, 3)]:
        check(lambda x, axes=axes: np.sum(np.tanh(x) * np.sin(x), axis=axes), DEEP)
        check(lambda x, axes=axes: np.tanh(x) / np.sum(np.exp(x), axis=axes, keepdims=True), DEEP)


def test_views_that_are_read_outside() -> None:
    def f(x: Any) -> Any:
        top = np.max(np.tanh(x) * 2, axis=1, keepdims=True)
        return top, x - top, np.reshape(np.sin(x), (24, 2, 5)) * 2, np.broadcast_to(top, x.shape)

    check(f, ROWS)


def test_small_arrays_stay_as_they_are() -> None:
    assert not groups(planned_of(softmax, ROWS))
    assert not groups(planned_of(lambda x: x + 1, np.ones(1 << 19)))
    assert groups(planned_of(lambda x: np.exp(np.sin(x)) + x, np.ones(1 << 19)))


def test_long_lived_values_are_not_fused() -> None:
    """A forward fusion group does not compute values that only the backward part reads."""

    def loss(x: Any, w: Any) -> Any:
        for _ in range(6):
            x = np.tanh(np.sin(x @ w) * np.exp(-((x @ w) ** 2)))
        return np.sum(x)

    x, w = np.random.default_rng(0).normal(size=(4096, 8)), np.eye(8)
    program = optimized(ft.trace(ft.grad(loss, argnums=1))(x, w))
    with divided(16):
        inside = planned(program)
    assert groups(inside)
    assert inside.peak_bytes <= 1.1 * planned(program, NUMPY_POLICY.ungrouped).peak_bytes
    check(ft.grad(loss, argnums=1), x, w)


def test_warnings_are_given_once_and_name_the_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x) * np.exp(x * 1000.0))

    for count in (1, 2, 4):
        with divided(16, count), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ft.jit(f)(FLAT)
        said = {str(w.message) for w in found}
        assert {"invalid value encountered in log", "overflow encountered in exp"} <= said
        assert len(found) == len(said)
        assert {w.filename for w in found} == {__file__}
        assert {w.lineno for w in found} == {f.__code__.co_firstlineno + 1}


def test_error_modes_of_the_caller_apply() -> None:
    with divided(16):
        run = ft.jit(lambda x: np.sum(np.exp(np.log(x)) + x))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isnan(run(FLAT))
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="log"):
            run(FLAT)
        seen: list[str] = []
        with np.errstate(invalid="call", call=lambda kind, _: seen.append(kind)):
            run(FLAT)
        assert seen
        assert run(np.abs(FLAT)) == ft.evaluate(
            ft.trace(lambda x: np.sum(np.exp(np.log(x)) + x))(FLAT), np.abs(FLAT)
        )


def test_results_are_not_overwritten_by_later_calls() -> None:
    x = ROWS.copy()
    with divided(16):
        run = ft.jit(lambda x: (softmax(x), np.tanh(x) * np.sin(x)))
        first = run(x)
        kept = [r.copy() for r in first]
        x[:] = 7
        second = run(x)
        for r in second:
            r[:] = -1
        run(ROWS)
    for a, b in zip(first, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_block_size_than_it_was_compiled_for() -> None:
    program = optimized(ft.trace(lambda x: np.sum(softmax(x) ** 3))(ROWS[:, :8]))
    (expected,) = evaluate_program(program, [ROWS[:, :8]])
    with divided(64):
        run = NUMPY.compile(planned(program))
    for block in (1, 2, 8, 16, 100, 1 << 20):
        with divided(block):
            assert run(ROWS[:, :8].copy()) == (expected,)


def test_a_plans_program_differentiates() -> None:
    with divided(16):
        program = planned_of(lambda x: np.sum(np.tanh(x) * np.sin(x)), FLAT).program
    assert program.ops[-1][0] is blocks_p or any(op[0] is blocks_p for op in program.ops)
    expected = ft.grad(lambda x: np.sum(np.tanh(x) * np.sin(x)))
    np.testing.assert_allclose(
        ft.grad(lambda x: ft.evaluate(program, x))(FLAT), expected(FLAT), rtol=1e-13
    )
    np.testing.assert_allclose(
        ft.vmap(lambda x: ft.evaluate(program, x))(np.stack([FLAT, -FLAT])).shape, (2,)
    )
    _, found = ft.jvp(lambda x: ft.evaluate(program, x), (FLAT,), (np.ones_like(FLAT),))
    np.testing.assert_allclose(found, np.sum(expected(FLAT)), rtol=1e-12)


def test_effects_stay_between() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        y = np.tanh(x) * 2
        ft.debug.callback(lambda v: seen.append(float(v)), y[0])
        return np.exp(y) + np.sin(x)

    with divided(16):
        found = ft.jit(f)(FLAT)
    assert seen == [float(np.tanh(FLAT[0]) * 2)]
    assert_same(found, np.exp(np.tanh(FLAT) * 2) + np.sin(FLAT))


def test_settings_are_checked_and_put_back() -> None:
    before = ft.config.threads, ft.config.block
    with pytest.raises(RuntimeError, match="stop"), ft.config(threads=3, block=100):
        assert (ft.config.threads, ft.config.block) == (3, 100)
        raise RuntimeError("stop")
    assert (ft.config.threads, ft.config.block) == before
    bad: list[Any] = [0, -1, 1.5, None, "2"]
    for value in bad:
        with pytest.raises(ft.errors.ArgumentError, match="integer of at least 1"):
            ft.config.threads = value
        with pytest.raises(ft.errors.ArgumentError, match="integer of at least 1"):
            ft.config.block = value
    assert (ft.config.threads, ft.config.block) == before


# -- sums ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("most", [1, 128, 200, 1000, 8192])
def test_sums_are_added_as_numpy_does(kind: str, most: int) -> None:
    assert sums_are_in_pairs()
    rng = np.random.default_rng(most)
    for size in (1, 7, 128, 129, 1000, 4097, 65536, 100003):
        x = (rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size)).astype(kind)
        ends = summed_bounds(size, most, kind[0] == "c")
        assert ends == sorted(set(ends))
        assert ends[-1] == size
        parts = [np.add.reduce(x[a:b]) for a, b in itertools.pairwise([0, *ends])]
        assert added_up(parts, size, kind[0] == "c", most) == np.add.reduce(x)


# -- laws ------------------------------------------------------------------------------------------


@given(programs(), seeds(), st.sampled_from([1, 2, 3, 8]), st.integers(1, 4))
def test_groups_equal_the_evaluator(recipe: Recipe, seed: int, block: int, count: int) -> None:
    arguments = recipe.arguments(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    for function in (recipe, pulled):
        program = optimized(ft.trace(function)(*arguments))
        expected = evaluate_program(program, arguments)
        with divided(block, count):
            plan = planned(program)
            plan.program.check()
            run = NUMPY.compile(planned(program))
            for found, value in zip(run(*arguments), expected, strict=True):
                np.testing.assert_array_equal(found, value, strict=True)


SHAPES = [(6, 5), (6, 1), (5,), (1, 5), (), (6, 5)]
UNARY = [
    np.sin,
    np.exp,
    np.negative,
    np.square,
    lambda x: x + 0.5,
    lambda x: np.where(x > 0, x, 0.1 * x),
]
BINARY = [np.add, np.multiply, np.subtract, np.maximum, lambda x, y: np.where(x > y, x, y * 2.0)]


@given(st.data(), st.sampled_from([1, 2, 3, 8]), st.sampled_from(["f4", "f8"]))
def test_programs_of_rows_equal_the_evaluator(data: st.DataObject, block: int, kind: str) -> None:
    """Denser than the laws' programs: everything may join, everything may be an output."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    arguments = [rng.normal(size=shape).astype(kind) for shape in SHAPES]

    def f(*given_values: Any) -> Any:
        values = list(given_values)
        for _ in range(data.draw(st.integers(2, 14))):
            x, y = (values[data.draw(st.integers(0, len(values) - 1))] for _ in range(2))
            way = data.draw(st.integers(0, 5))
            if way == 0:
                made = data.draw(st.sampled_from(UNARY))(x)
            elif way == 1 and x.ndim == 2:
                reduce = data.draw(st.sampled_from([np.sum, np.max, np.mean]))
                made = reduce(
                    x,
                    axis=data.draw(st.sampled_from([1, -1, 0, None])),
                    keepdims=data.draw(st.booleans()),
                )
            elif way == 2 and x.ndim:
                made = (
                    np.reshape(x, (x.shape[0], -1, 1))
                    if data.draw(st.booleans())
                    else np.broadcast_to(x, (6, *x.shape))
                )
                made = made * 2 if made.size < 400 else np.sum(made)
            else:
                try:
                    np.broadcast_shapes(x.shape, y.shape)
                except ValueError:
                    continue
                made = data.draw(st.sampled_from(BINARY))(x, y)
            if made.ndim <= 3 and math.prod(made.shape) <= 400:
                values.append(made)
        return values[-data.draw(st.integers(1, 4)) :]

    with np.errstate(all="ignore"):
        program = ft.trace(f)(*arguments)
        expected = evaluate_program(optimized(program), arguments)
        with divided(block, 2):
            run = NUMPY.compile(planned(optimized(program)))
            for found, value in zip(run(*arguments), expected, strict=True):
                np.testing.assert_array_equal(found, value, strict=True)
            places = data.draw(st.sets(st.integers(0, len(arguments) - 1), min_size=1))
            run = NUMPY.compile(planned(optimized(program), donated=sorted(places)))
            given = [np.copy(x) for x in arguments]
            for found, value in zip(run(*given), expected, strict=True):
                np.testing.assert_array_equal(found, value, strict=True)
            for place in {*range(len(arguments))} - places:
                np.testing.assert_array_equal(given[place], arguments[place])


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (np.sqrt(v) + 1e-8), m, v


def test_results_are_written_into_donated_memory() -> None:
    state = [np.abs(np.random.default_rng(k).normal(size=1003)) for k in range(3)]
    with divided(16):
        step, plain = ft.jit(adam, donate_argnums=(0, 1, 2)), ft.jit(adam)
        found, expected = [np.copy(x) for x in state], state
        places = None
        for _ in range(4):
            found, expected = step(*found, FLAT), plain(*expected, FLAT)
            assert_same_bits(found, expected)
            where = sorted(x.__array_interface__["data"][0] for x in found)
            assert places in (None, where)
            places = where
        with np.errstate(all="raise"):  # a group runs whole
            found, expected = step(*found, FLAT), plain(*expected, FLAT)
            assert_same_bits(found, expected)
            assert not any(np.shares_memory(x, y) for x, y in itertools.combinations(found, 2))


def test_values_read_later_are_not_overwritten() -> None:
    program = ft.trace(
        lambda x, y: (np.exp(y) * 0.5, np.tanh(x) + np.cumsum(y) * x, np.sin(x) * np.exp(y))
    )(FLAT, FLAT)
    arguments = [FLAT, np.ascontiguousarray(FLAT[::-1])]
    expected = evaluate_program(program, arguments)
    with divided(16):
        for places in ((0,), (1,), (0, 1)):
            run = NUMPY.compile(planned(optimized(program), donated=places))
            for found, value in zip(run(*map(np.copy, arguments)), expected, strict=True):
                np.testing.assert_array_equal(found, value, strict=True)


def test_under_other_transforms() -> None:
    with ArrayRecording("test") as recording, divided(16):
        x = recording.new_input(ft.ShapeDtype((1003,), np.dtype(float)))
        program = planned_of(lambda x: np.tanh(x) * np.sin(x), FLAT).program
        (out,) = bind(blocks_p, (x,), program.ops[-1][2])
        assert out.shape == (1003,)
