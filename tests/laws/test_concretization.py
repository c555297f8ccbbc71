"""Reading concrete values changes neither results nor derivatives, whichever values are read and
whichever have been freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.tracing import values
from functrace.tree import flatten
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_same, random_like
from tests.sampling import examples


def asking(recipe: Recipe, seed: int) -> Callable[..., Any]:
    """The recipe, reading some of its values, at once or later."""

    def f(*arrays: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        values = list(arrays)
        for step in recipe.steps:
            values.append(step.run(*(values[k] for k in step.reads)))
            for value in values:
                if rng.uniform() < 0.2:
                    ft.value(value)
        return tuple(values[-recipe.outputs :])

    return f


def transforms(arguments: list[Any], seed: int) -> list[Callable[[Any], Any]]:
    rng = np.random.default_rng(seed)
    directions = tuple([random_like(rng, x) for x in arguments])
    every = tuple(range(len(arguments)))

    def total(f: Any) -> Any:
        return lambda *xs: sum(np.sum(np.sin(y)) for y in f(*xs))

    return [
        lambda f: ft.value_and_grad(total(f), every)(*arguments),
        lambda f: ft.jvp(f, tuple(arguments), directions),
        lambda f: ft.vjp(total(f), *arguments)[1](1.0),
        lambda f: ft.linearize(f, *arguments)[1](*directions),
        lambda f: ft.hvp(total(f), tuple(arguments), directions),
    ]


@examples(10)
@given(programs(), seeds())
def test_concretization_changes_nothing(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    for transform in transforms(arguments, seed):
        expected = flatten(transform(recipe))[0]
        for _ in range(3):
            for found, value in zip(
                flatten(transform(asking(recipe, seed)))[0], expected, strict=True
            ):
                assert_same(found, value)


@examples(10)
@given(programs(), seeds())
def test_freeing_values_changes_nothing(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "MOST_HELD", 0)
        for transform in transforms(arguments, seed):
            expected = flatten(transform(recipe))[0]
            for found, value in zip(
                flatten(transform(asking(recipe, seed)))[0], expected, strict=True
            ):
                assert_same(found, value)
