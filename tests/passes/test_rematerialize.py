"""`rematerialize_values` keeps fewer arrays, and changes no bit."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import planned
from functrace.passes import inline_calls, rematerialize_values, sink_operations
from functrace.passes import rematerialize as rematerialization
from functrace.passes.cse import drop_names
from functrace.tracing.evaluate import evaluate_program
from tests.compositions.functions import BATCH, X, scalar
from tests.laws.programs import Recipe, programs, seeds

pytestmark = pytest.mark.bits

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.standard_normal((256, 256), np.float32) / np.float32(16.0) for _ in range(12)]
ROWS = 0.1 * RNG.standard_normal((512, 256), np.float32)
SIZE = ROWS.nbytes


@pytest.fixture
def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rematerialize everything that may be, whatever it costs."""
    free(monkeypatch)


def free(patch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST_PEAK", "LEAST_VALUE", "IN_CACHE"):
        patch.setattr(rematerialization, name, 0)
    patch.setattr(rematerialization, "MOST_PASSES", 1e9)
    patch.setattr(rematerialization, "LEAST_GAIN", -1e9)
    every = dict.fromkeys(
        rematerialization.ONE_PASS | {p for row in rematerialization.SEVERAL.values() for p in row},
        1.0,
    )
    patch.setattr(rematerialization, "SEVERAL", {np.dtype(np.float64): every})


def chain(ws: Any, h: Any) -> Any:
    for w in ws:
        h = np.tanh(np.sin(h @ w) * np.exp(-(h**2)))
    return np.sum(h * h)


def late(f: Any, *args: Any) -> ft.Program:
    return sink_operations(inline_calls(ft.trace(f)(*args)))


def counts(program: ft.Program) -> Counter[str]:
    return Counter(equation.primitive.name for equation in program.equations)


def assert_equal_programs(program: ft.Program, *args: Any) -> ft.Program:
    made = rematerialize_values(program)
    made.check()
    expected = evaluate_program(program, args)
    for run in (lambda: evaluate_program(made, args), lambda: NUMPY.compile(planned(made))(*args)):
        for found, value in zip(run(), expected, strict=True):
            np.testing.assert_array_equal(found, value, strict=True)
    return made


@given(programs(), seeds())
def test_gradients_of_random_programs_stay_the_same_bit_for_bit(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    before = [np.copy(a) for a in arguments]

    def gradient(*args: Any) -> Any:
        loss = ft.value_and_grad(lambda args: sum([np.sum(np.sin(y)) for y in recipe(*args)]))
        return loss(args)

    program = late(gradient, *[np.asarray(a) for a in arguments])
    with pytest.MonkeyPatch.context() as patch:
        free(patch)
        assert_equal_programs(program, *arguments)
    for a, b in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, b)


@scalar
def test_derivatives_stay_the_same_bit_for_bit(f: Any, whatever_it_costs: None) -> None:
    assert_equal_programs(late(lambda x: ft.value_and_grad(f)(x), X), X)
    assert_equal_programs(late(lambda x: (ft.hessian(f)(x), f(x)), X), X)
    assert_equal_programs(late(lambda b: (ft.vmap(ft.grad(f))(b), b), BATCH), BATCH)
    assert_equal_programs(late(lambda x: (*ft.value_and_grad(ft.checkpoint(f))(x), x), X), X)


def test_views_of_rematerialized_values_are_recomputed(whatever_it_costs: None) -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        seen = y.T[:2]
        for _ in range(3):
            x = np.tanh(x @ y)
        return np.sum((seen @ x) * seen[0]) + np.sum(x * y)

    x = np.random.default_rng(1).standard_normal((4, 4))
    made = assert_equal_programs(late(ft.grad(f), x), x)
    assert counts(made)["exp"] >= 2


@pytest.mark.full
def test_three_arrays_per_two_layers_are_kept() -> None:
    program = late(ft.grad(chain), WEIGHTS * 6, ROWS)
    made = assert_equal_programs(program, *WEIGHTS * 6, ROWS)
    layers = 6 * len(WEIGHTS)
    kept = planned(made).peak_bytes / SIZE
    assert planned(program).peak_bytes / SIZE > 4 * layers - 4
    assert 1.5 * layers <= kept <= 1.5 * layers + 10


def test_expensive_values_are_not_rematerialized() -> None:
    # NumPy computes sin of float64 without vectors; and 16 MiB are the least that are worth it.
    wide = [w.astype(np.float64) for w in WEIGHTS]
    made = rematerialize_values(late(ft.grad(chain), wide * 2, ROWS.astype(np.float64)))
    assert counts(made)["sin"] == 2 * len(wide) < counts(made)["exp"]
    small = late(ft.grad(chain), WEIGHTS, ROWS[:64])
    assert rematerialize_values(small) is small


def test_nothing_is_rematerialized_without_a_lower_peak() -> None:
    def f(x: Any) -> Any:  # the largest arrays are of its second half, where nothing waits
        y = np.exp(x)
        first = np.sum(np.tanh(x @ y) * y)
        wide = np.concatenate([x] * 40)
        return first + np.sum(np.abs(wide))

    program = late(f, np.ones((512, 512), np.float32))
    assert rematerialize_values(program) is program


@pytest.mark.full
def test_it_is_among_the_rows_that_every_path_takes() -> None:
    f = ft.grad(chain)
    expected = f(WEIGHTS, ROWS)
    for run in (f, f, ft.jit(f), lambda *args: ft.vjp(chain, *args)[1](np.float32(1.0))[0]):
        for a, b in zip(run(WEIGHTS, ROWS), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert math.isfinite(float(expected[0].sum()))


def test_calls_of_the_users_functions_are_carried_out_once(whatever_it_costs: None) -> None:
    seen: list[str] = []

    def pack(x: Any) -> Any:
        seen.append("pack")
        return x

    layer = ft.checkpoint(lambda x: np.exp(np.sin(x)), policy=ft.policies.pack(pack, lambda x: x))
    program = late(ft.grad(lambda x: np.sum(layer(layer(x)))), X)
    logs = []
    for made in (program, rematerialize_values(program)):
        seen.clear()
        ft.evaluate(made, X)
        logs.append(list(seen))
    assert logs[0] == logs[1]


def test_lines_of_the_user_stay_with_their_operations(whatever_it_costs: None) -> None:
    program = late(ft.grad(lambda x: np.sum(np.exp(x) * np.sin(np.exp(x)))), X)
    made = drop_names(rematerialize_values(program))
    lines = {(e.primitive.name, str(e.source)) for e in program.equations}
    assert {(e.primitive.name, str(e.source)) for e in made.equations} <= lines
