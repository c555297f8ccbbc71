"""`drop_dead_results`: loops and branches compute only live results; the numbers stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from functrace.passes import drop_dead_results

XS = np.linspace(0.0, 1.0, 5)


def _held(program: ft.Program, name: str) -> Any:
    (equation,) = [e for e in program.equations if e.primitive.name == name]
    return equation.params


def test_unused_results_of_a_loop_are_not_stacked() -> None:
    def f(x: Any) -> Any:
        carry, (_, squares) = ft.scan(lambda h, t: (np.sin(h) + t, (np.exp(h), h * h)), x, XS)
        return carry + np.sum(squares)

    program = ft.trace(f)(np.float64(0.3))
    smaller = drop_dead_results(program).check()
    assert len(_held(program, "scan")["body"].output_ids) == 3
    body = _held(smaller, "scan")["body"]
    assert len(body.output_ids) == 2
    assert "exp" not in [e.primitive.name for e in body.equations]
    assert ft.evaluate(smaller, 0.3) == ft.evaluate(program, 0.3) == f(np.float64(0.3))


def test_carries_stay_though_only_the_stacks_are_read() -> None:
    def f(x: Any) -> Any:
        _, ys = ft.scan(lambda h, t: ((h[0] + h[1], h[1] * 1.5), h[0] * t), (x, 2.0 * x), XS)
        return ys

    program = drop_dead_results(ft.trace(f)(np.float64(0.3))).check()
    assert _held(program, "scan")["carries"] == 2
    np.testing.assert_array_equal(ft.evaluate(program, 0.3), f(np.float64(0.3)))


def test_unused_results_of_a_choice_are_not_computed() -> None:
    def f(x: Any) -> Any:
        return ft.cond(
            x > 0, lambda x: (np.sin(x), np.exp(x)), lambda x: (np.cos(x), np.tanh(x)), x
        )[0]

    program = drop_dead_results(ft.trace(f)(np.float64(0.3))).check()
    names = {
        e.primitive.name for branch in _held(program, "cond")["branches"] for e in branch.equations
    }
    assert names == {"sin", "cos"}
    assert ft.evaluate(program, 0.3) == np.sin(0.3)
    assert ft.evaluate(program, -0.3) == np.cos(-0.3)


def test_programs_without_loops_are_returned_as_they_are() -> None:
    program = ft.trace(np.sin)(XS)
    assert drop_dead_results(program) is program
