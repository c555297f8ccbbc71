"""`transpose_program`: the adjoint of a program that is linear in some of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import NotDifferentiableError
from functrace.transforms import transpose_program
from tests.oracles import inner, random_like
from tests.transforms.programs import TABLE, X, assert_close

LINEAR: dict[str, Callable[[Any], Any]] = {
    "a factor": lambda x: 2.0 * x,
    "a product": lambda x: TABLE @ x,
    "a sum": lambda x: np.sum(x),
    "read twice": lambda x: x + x[::-1],
    "a part": lambda x: x[1:],
    "joined": lambda x: np.concatenate([x, 3.0 * x]),
    "broadcast": lambda x: np.broadcast_to(x, (2, 3)),
    "running": lambda x: np.cumsum(x),
    "several results": lambda x: (x[0], -x),
    "the input itself": lambda x: x,
    "a loop": lambda x: ft.scan(lambda c, t: (0.5 * c + t, c), 0.0 * x[0], x)[1],
    "a choice": lambda x: ft.cond(np.asarray(True), lambda x: 2.0 * x, lambda x: x, x),
    "a call": lambda x: ft.jit(lambda x: x / 4.0)(x),
}


@pytest.mark.parametrize("f", LINEAR.values(), ids=LINEAR)
def test_the_transpose_is_the_adjoint(f: Callable[[Any], Any]) -> None:
    program = ft.trace(f)(X)
    made = transpose_program(program).check()
    rng = np.random.default_rng(0)
    x = random_like(rng, X)
    ys = ft.tree.leaves(f(x))
    bars = [random_like(rng, y) for y in ys]
    (x_bar,) = ft.tree.leaves(ft.evaluate(made, *bars))
    assert x_bar.shape == X.shape
    np.testing.assert_allclose(inner(bars, ys), inner([x_bar], [x]), rtol=1e-12)


@pytest.mark.parametrize("f", LINEAR.values(), ids=LINEAR)
def test_transposing_twice_gives_the_program(f: Callable[[Any], Any]) -> None:
    again = transpose_program(transpose_program(ft.trace(f)(X)))
    assert_close(
        ft.tree.leaves(ft.evaluate(again, X)), [np.asarray(y)[()] for y in ft.tree.leaves(f(X))]
    )


def test_other_inputs_come_first() -> None:
    made = transpose_program(ft.trace(lambda a, x: np.sin(a) * x)(2.0, X), [False, True])
    assert_close(ft.evaluate(made, 0.5, np.ones(3)), np.full(3, np.sin(0.5)))


def test_a_cotangent_that_exists_is_added_to() -> None:
    made = transpose_program(ft.trace(lambda x: 3.0 * x)(X), onto=[True])
    assert_close(ft.evaluate(made, X, np.ones(3)), 3.0 * X + 1.0)


def test_an_input_that_no_output_depends_on_has_zeros() -> None:
    made = transpose_program(ft.trace(lambda x, y: 2.0 * x)(X, X))
    assert_close(ft.evaluate(made, X), [2.0 * X, np.zeros(3)])


@pytest.mark.parametrize(
    "f", [np.sin, lambda x: x * x, lambda x: 1.0 / x], ids=["sin", "square", "quotient"]
)
def test_nonlinear_programs_raise(f: Callable[[Any], Any]) -> None:
    with pytest.raises(NotDifferentiableError):
        transpose_program(ft.trace(f)(X))
