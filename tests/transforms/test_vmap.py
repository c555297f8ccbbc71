"""`vmap_program` is the loop over examples; which outputs it maps is said in advance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ShapeError
from functrace.transforms import vmap_program
from functrace.transforms.vmap import dependent_outputs, mapped_outputs, reached_outputs
from tests.oracles import outputs_of
from tests.transforms.programs import Example, X, assert_close, every

SIZE = 3


def batch_of(example: Example, flags: tuple[bool, ...]) -> list[Any]:
    """The arguments, those that are flagged with a batch axis of examples that differ."""
    scales = np.array([1.0, 0.5, 1.25])
    return [
        np.stack([x * s if np.asarray(x).dtype.kind == "f" else x for s in scales]) if flag else x
        for x, flag in zip(example.args, flags, strict=True)
    ]


def looped(example: Example, flags: tuple[bool, ...], batch: list[Any]) -> list[Any]:
    rows = [
        outputs_of(example.f(*[x[k] if flag else x for x, flag in zip(batch, flags, strict=True)]))
        for k in range(SIZE)
    ]  # fmt: skip
    return [np.stack(column) for column in zip(*rows, strict=True)]


@every
def test_batches_are_the_loop(example: Example) -> None:
    for flags in itertools.product([False, True], repeat=len(example.args)):
        batch = batch_of(example, flags)
        made = vmap_program(example.program, SIZE, flags).check()
        assert_close(ft.evaluate(made, *batch), looped(example, flags, batch))


@every
def test_mapped_twice_it_is_a_loop_in_a_loop(example: Example) -> None:
    flags = (True,) * len(example.args)
    batch = batch_of(example, flags)
    made = vmap_program(vmap_program(example.program, SIZE), 2)
    expected = looped(example, flags, batch)
    doubled = [np.stack([x, x]) for x in batch]
    assert_close(ft.evaluate(made, *doubled), [np.stack([y, y]) for y in expected])


@every
def test_outputs_without_a_batch_axis_are_those_that_are_not_mapped(example: Example) -> None:
    for flags in itertools.product([False, True], repeat=len(example.args)):
        program = example.program
        mapped = mapped_outputs(program, flags)
        made = vmap_program(program, SIZE, flags, mapped)
        for i, j, flag in zip(program.output_ids, made.output_ids, mapped, strict=True):
            assert made.avals[j].shape == ((SIZE,) if flag else ()) + program.avals[i].shape


def test_an_output_that_is_mapped_cannot_be_left_single() -> None:
    with pytest.raises(ShapeError, match="out_axes=None"):
        vmap_program(ft.trace(np.sin)(X), SIZE, [True], [False])


def test_which_outputs_depend_on_which_inputs() -> None:
    program = ft.trace(lambda a, x: (a * 2.0, ft.jit(lambda u, v: (u, np.sin(v)))(a, x)))(1.0, X)
    assert dependent_outputs(program, [False, True])[0] is False
    assert reached_outputs(program, [True, False]) == (True, True, False)
    assert reached_outputs(program, [False, True]) == (False, False, True)
