"""Policies: a backend gets the passes that it names, and those that are for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.plan.planner import Plan
from functrace.executor.policy import NUMPY_POLICY, Policy
from functrace.executor.runner import compile_at_once
from functrace.passes import PIPELINE, REORDERING
from functrace.tracing.evaluate import evaluate_program
from tests.executor.toy_backend import Closures

X = np.linspace(-1.0, 2.0, 9).reshape(3, 3)


def primitives_of(made: Plan) -> set[str]:
    found = {made.program.ops[step.first][0].name for step in made.steps}
    return found.union(*[primitives_of(body) for step in made.steps for body in step.bodies])


def test_a_backend_gets_the_passes_that_it_names() -> None:
    rows = [*PIPELINE, *REORDERING]
    assert {row.name for row in NUMPY_POLICY.passes(rows)} == {row.name for row in rows}
    assert NUMPY_POLICY.tuned == {row.name for row in rows if row.tuned}
    some = Policy(frozenset(["small matmul"]))
    assert {row.name for row in rows} - {
        row.name for row in some.passes(rows)
    } == NUMPY_POLICY.tuned - {"small matmul"}


@pytest.mark.parametrize(("tuned", "product"), [((), "matmul"), (("small matmul",), "dot")])
def test_programs_are_compiled_by_the_policy_of_the_backend(
    tuned: tuple[str, ...], product: str
) -> None:
    made: list[Plan] = []

    class Watching(Closures):
        policy = Policy(frozenset(tuned))

        def compile(self, plan: Plan) -> Any:
            made.append(plan)
            return super().compile(plan)

    def f(x: Any) -> Any:
        unread = np.exp(x)  # what every backend leaves out
        del unread
        return ft.scan(lambda c, _: (np.tanh(c @ x), None), np.ones(3), None, length=4)[0] @ x

    program = ft.trace(f)(X)
    (found,) = compile_at_once(program, backend=Watching())(X)
    np.testing.assert_allclose(found, evaluate_program(program, [X])[0], rtol=1e-12)
    names = set[str]().union(*map(primitives_of, made))
    assert product in names and "exp" not in names and names <= {"scan", "matmul", "dot", "tanh"}
