"""The tape while it is written: what is kept of an operation, and what Python's cycle collector
sees of it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ir.aval import ShapeDtype
from functrace.ir.tape import Columns
from functrace.numpy.arrays.recording import ArrayRecording
from tests.ir.programs import aval, record

COUNT = 2_000


def tracked() -> int:
    """Count the containers tracked by the garbage collector, after it untracks those of numbers
    only.
    """
    gc.collect()
    return len(gc.get_objects())


STEPS: dict[str, Callable[[Any, int], Any]] = {
    "operators": lambda x, k: -(x * 1.5 + x) - 2.0,
    "ufuncs": lambda x, k: np.sin(np.add(x, 1.0)),
    "slices": lambda x, k: x[::-1] * x[:1],
    "elements": lambda x, k: x * x[k % 3],
    "reductions": lambda x, k: x * np.sum(x),
    "shapes": lambda x, k: np.reshape(np.reshape(x, (3, 1)), (3,)) + 1.0,
    "products": lambda x, k: x * (x @ x),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_collector_has_nothing_to_walk_of_an_operation(name: str) -> None:
    recording = ArrayRecording("test")
    x = recording.new_input(ShapeDtype(3), np.ones(3))
    for k in range(8):
        x = STEPS[name](x, k)
    before, first = tracked(), len(recording.avals)
    for k in range(COUNT):
        x = STEPS[name](x, k)
    grown, operations = tracked() - before, len(recording.avals) - first
    assert operations >= COUNT
    assert grown < operations / 20, f"{grown} containers for {operations} operations"
    recording.close()


@pytest.mark.numpy_source
@pytest.mark.parametrize("transform", [ft.grad, ft.value_and_grad])
def test_nor_of_a_gradient_in_the_baseline_tier(transform: Any) -> None:
    def f(x: Any) -> Any:
        for _ in range(COUNT):
            x = np.sin(x) * 1.01 + x
        return np.sum(x)

    gradient = transform(f)
    x = np.array([0.3, 0.5, 0.7])
    before = tracked()
    gradient(x)
    grown = tracked() - before
    assert grown < 3 * COUNT / 20, f"{grown} containers for {3 * COUNT} operations"


@pytest.mark.parametrize("name", STEPS)
def test_columns_are_rows(name: str) -> None:
    program = record(lambda x: STEPS[name](STEPS[name](x, 0) + np.ones(3), 1), aval(3))
    columns = Columns.of(program.ops)
    assert tuple(columns) == program.ops == tuple(columns[k] for k in range(len(columns)))
    assert columns[1:-1] == list(program.ops[1:-1]) and len(columns) == len(program.ops)
    again = ft.Program(
        columns,
        program.avals,
        program.literals,
        program.input_ids,
        program.constant_values,
        program.output_ids,
    )
    assert again == program and again.ops == program.ops and again.kinds == program.kinds
