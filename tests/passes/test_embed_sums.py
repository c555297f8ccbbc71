"""Parts that make up an array are joined; others are added up as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.runner import Runner
from functrace.passes.embed_sums import join_embeds

X = np.random.default_rng(0).normal(size=(3, 4, 6))
Function = Callable[[Any], Any]


def product_of(parts: list[Any]) -> Any:
    first, second, third = parts
    return np.sin(first) * np.cos(second) * third


JOINED: dict[str, tuple[Function, str]] = {
    "numbers": (lambda x: np.sum(np.sin(x[0]) * np.cos(x[2]) * x[1]), "stack"),
    "numbers from the end": (lambda x: np.sum(np.sin(x[-3]) * np.cos(x[-1]) * x[1]), "stack"),
    "numbers of an inner axis": (
        lambda x: np.sum(np.sin(x[:, 0] * x[:, 3]) * np.cos(x[:, 1] + x[:, 2] ** 2)),
        "stack",
    ),
    "numbers and whole axes": (
        lambda x: np.sum(np.sin(x[0, :, :]) * x[1, :, :] * x[2, :, :]),
        "stack",
    ),
    "slices": (
        lambda x: np.sum(np.sin(x[:, :1])) + np.sum(np.cos(x[:, 1:3])) + np.sum(x[:, 3:] ** 2),
        "concatenate",
    ),
    "a split": (lambda x: np.sum(product_of(np.split(x, 3, axis=-1))), "concatenate"),
}
ADDED: dict[str, Function] = {
    "one is missing": lambda x: np.sum(np.sin(x[0]) * x[2]),
    "one is there twice": lambda x: np.sum(np.sin(x[0]) * x[1] * x[2]) + np.sum(np.sin(x[:1])),
    "they overlap": lambda x: np.sum(np.sin(x[:, :3])) + np.sum(np.cos(x[:, 2:])),
    "a gap": lambda x: np.sum(np.sin(x[:, :1])) + np.sum(np.cos(x[:, 2:])),
    "steps": lambda x: np.sum(np.sin(x[:, ::2])) + np.sum(np.cos(x[:, 1::2])),
    "several axes": lambda x: np.sum(np.sin(x[0, :2]) * np.cos(x[1, 2:])) + np.sum(x[2, :2]),
    "a number and a slice": lambda x: np.sum(np.sin(x[0])) + np.sum(np.cos(x[1:])),
}


def words(program: ft.Program) -> list[str]:
    return [op[0].name for op in program.ops]


def of_gradient(f: Function) -> ft.Program:
    return Runner(ft.trace(ft.grad(f))(X)).flat


@pytest.mark.parametrize("name", JOINED)
def test_parts_of_all_of_an_array_are_joined(name: str) -> None:
    f, joined = JOINED[name]
    program = of_gradient(f)
    made = join_embeds(program).check()
    assert words(program).count("embed") > 1
    assert "embed" not in [made.ops[k][0].name for k, _ in made.schedule]
    assert joined in words(made)
    for found in (ft.evaluate(made, X), ft.jit(ft.grad(f))(X)):
        np.testing.assert_array_equal(found, ft.grad(f)(X))


@pytest.mark.parametrize("name", ADDED)
def test_others_are_added(name: str) -> None:
    program = of_gradient(ADDED[name])
    made = join_embeds(program)
    assert words(made).count("embed") == words(program).count("embed") > 0
    np.testing.assert_allclose(ft.jit(ft.grad(ADDED[name]))(X), ft.grad(ADDED[name])(X), rtol=1e-12)


@pytest.mark.parametrize("outputs", ["c, a", "c, d"])
def test_embeds_with_other_readers_are_not_joined(outputs: str) -> None:
    program = ft.Program.parse(f"""program(x: f64[3], y: f64[3], z: f64[4,3]) {{
  a: f64[2,3] = embed x {{index=(0,), shape=(2, 3)}}
  b: f64[2,3] = embed y {{index=(1,), shape=(2, 3)}}
  c: f64[2,3] = add a b
  d: f64[2,3] = exp a
  return {outputs}
}}""")
    assert join_embeds(program) is program
