"""`sink_operations` changes the order of operations only, and shortens what is alive."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.passes import inline_calls, sink_operations
from functrace.passes import sink as sinking
from tests.compositions.functions import BATCH, X, scalar

pytestmark = pytest.mark.bits

BIG = np.ones(1 << 17)


def program_of(f: Any, *args: Any) -> ft.Program:
    return inline_calls(ft.trace(f)(*args))


def names(program: ft.Program) -> list[str]:
    return [equation.primitive.name for equation in program.equations]


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinking, "FEWEST_BYTES", 0)


def assert_equal_programs(program: ft.Program, *args: Any) -> None:
    made = sink_operations(program)
    made.check()
    live = Counter(program.ops[k][0].name for k, _ in program.schedule)
    assert Counter(names(made)) == live
    for found, expected in zip(ft.evaluate(made, *args), ft.evaluate(program, *args), strict=True):
        np.testing.assert_array_equal(found, expected)


@scalar
def test_values_stay_the_same_bit_for_bit(f: Any, any_size: None) -> None:
    assert_equal_programs(program_of(lambda x: ft.value_and_grad(f)(x), X), X)
    assert_equal_programs(program_of(lambda x: (ft.hessian(f)(x), f(x)), X), X)
    assert_equal_programs(program_of(lambda b: (ft.vmap(ft.grad(f))(b), b), BATCH), BATCH)
    assert_equal_programs(program_of(lambda x: (*ft.value_and_grad(ft.checkpoint(f))(x), x), X), X)


def test_loops_and_choices(any_size: None) -> None:
    def f(x: Any) -> Any:
        c, ys = ft.scan(lambda c, y: (np.sin(c) * y, c * y), x[1], x)
        return np.sum(ft.cond(c > 0, lambda: np.exp(c * ys), lambda: np.cos(ys) * x))

    assert_equal_programs(program_of(ft.value_and_grad(f), X), X)


def test_operations_of_the_backward_part_sink_below_the_forward_part() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x)
        return np.sum(x)

    program = program_of(ft.grad(f), BIG)
    before, after = names(program), names(sink_operations(program))
    assert before[:9] == ["tanh", "square", "sub"] * 3, "every 1 - y * y stands in the forward part"
    # One of them at a time; the last two are read by the same product, for the cotangent is one.
    assert after[: after.index("mul")].count("sub") == 2
    assert after[:2] == ["tanh"] * 2
    assert all(after[k - 1] == "square" for k, name in enumerate(after) if name == "sub")


def test_operations_whose_sinking_raises_memory_stay() -> None:
    # The sum of a product is small, and its operands die with it.
    def f(x: Any) -> Any:
        small = np.sum(np.sin(x) * np.cos(x))
        return np.exp(np.sum(np.tanh(x)) + 1.0) + small

    after = names(sink_operations(program_of(f, BIG)))
    assert after.index("reduce_sum") < after.index("tanh")


def test_programs_on_small_arrays_stay_as_they_are() -> None:
    program = program_of(ft.grad(lambda x: np.sum(np.tanh(np.tanh(x)))), X)
    assert sink_operations(program) is program


def test_calls_of_the_users_functions_keep_their_order(any_size: None) -> None:
    def functions(seen: list[str]) -> Any:
        def named(name: str) -> Any:
            def pack(x: Any) -> Any:
                seen.append(f"pack {name}")
                return x

            def unpack(x: Any) -> Any:
                seen.append(f"unpack {name}")
                return x

            return ft.policies.pack(pack, unpack)

        a, b = ft.checkpoint(np.sin, policy=named("a")), ft.checkpoint(np.exp, policy=named("b"))
        return lambda x: np.sum(b(a(x)))

    logs = []
    for change in (lambda p: p, sink_operations):
        seen: list[str] = []
        ft.evaluate(change(program_of(ft.grad(functions(seen)), X)), X)
        logs.append(seen)
    assert logs[0] == logs[1] == ["pack a", "pack b", "unpack b", "unpack a"]


def test_lines_of_the_user_stay_with_their_operations(any_size: None) -> None:
    program = program_of(ft.grad(lambda x: np.sum(np.tanh(x))), X)
    made = sink_operations(program)
    lines = {(e.primitive.name, str(e.source)) for e in program.equations}
    assert {(e.primitive.name, str(e.source)) for e in made.equations} <= lines
