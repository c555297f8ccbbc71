"""Layouts of arrays in NumPy's run of a program are those that `Layouts` predicts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from functrace.executor.plan.layouts import Layouts
from functrace.executor.plan.planner import plan
from functrace.executor.policy import Policy
from functrace.executor.runner import Runner
from functrace.ir.program import Program
from tests.test_cases import CASES


def _is_as_predicted(x: np.ndarray[Any, Any], strides: tuple[int, ...]) -> bool:
    """Return True if strides are those of an array, or all the same multiple of them: its elements
    are walked through in the same order.
    """
    pairs = [
        (mine * x.itemsize, other)
        for n, mine, other in zip(x.shape, strides, x.strides, strict=True)
        if n > 1
    ]
    factors = {other / mine for mine, other in pairs if mine}
    return len(factors) < 2 and min(factors, default=1) > 0 and all(bool(a) == bool(b) for a, b in pairs)  # fmt: skip


def check(program: Program, arguments: Any) -> int:
    """Compare predictions with a run of a program, operation by operation; returns their number."""
    made = plan(Runner(program).flat, Policy())
    found, layouts, count = made.program, Layouts(made.program), 0
    given = [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)[()] for x in arguments]
    values = dict(zip(found.input_ids, given, strict=True)) | dict(found.constant_values)
    for step in made.steps:
        primitive, operands, params = found.ops[step.first]
        results = primitive.eval(
            *[values[i] if i >= 0 else found.literals[~i] for i in operands], *params
        )
        layouts.add(step)
        results = results if primitive.many else (results,)
        for j, x in zip(made.results(step), results, strict=True):
            values[j] = x
            strides = layouts.strides(j)
            if isinstance(x, np.ndarray) and x.size and strides is not None:
                assert _is_as_predicted(x, strides), (primitive.name, x.shape, x.strides, strides)
                count += 1
    return count


@pytest.mark.sampled(32)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_layouts_of_cases(case: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            program = ft.trace(case.call)(*case.args)
        except FunctraceError:
            pytest.skip("the case needs concrete values")
        check(program, ft.tree.flatten(case.args)[0])


def test_layouts_of_views_and_copies() -> None:
    x = np.arange(210.0).reshape(5, 6, 7)

    def f(x: Any) -> Any:
        turned = x.transpose(2, 0, 1) * 2.0
        spread = np.broadcast_to(x[:, :1], (5, 6, 7))
        return (
            turned, spread.astype("f4"), spread + x.transpose(0, 2, 1)[:, :6, :1], turned[::-1, 1:],
            np.sum(turned, axis=1), np.max(turned, axis=0), turned.reshape(7, 30), np.roll(turned, 2, 1),
            np.cumsum(x, axis=1), x[:, [3, 1, 2]], np.stack([x[0], x[1]], axis=-1), turned[1] @ x[1],
            ft.scan(lambda c, y: (c + y, c.T), x[0], x, reverse=True), np.where(x > 3.0, spread, x),
        )  # fmt: skip

    assert check(ft.trace(f)(x), [x]) > 15
