"""Scalars of straight-line code as vectors: the same bits, whatever becomes a pack."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import plan, planned
from functrace.ir.program import Program
from tests.laws.programs import Recipe, programs, seeds
from tests.native.laws import given_values, with_derivatives
from tests.oracles import outputs_of

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native import packs
from functrace.native.backend import NATIVE
from functrace.native.engine import NativeFunction
from functrace.native.loop_ir import Function
from functrace.native.lowering import NoNativeForm, lower
from functrace.native.packs import Pack, packs_in
from functrace.native.rows import ROWS


def lowered(program: Program) -> tuple[Function, Program]:
    flat = Runner(program, NATIVE).flat
    return lower(plan(flat, NATIVE.policy), ROWS, "test"), flat


def run(function: Function, flat: Program, arguments: list[Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = NativeFunction(function, lambda: NUMPY.compile(planned(flat)))
        return outputs_of(made.call(*given_values(arguments)))


def with_and_without(program: Program, arguments: list[Any]) -> int:
    """Assert that packs change no bit; returns how many there are."""
    function, flat = lowered(program)
    count = sum(isinstance(s, Pack) for block in packs_in(function).blocks.values() for s in block)
    found = run(function, flat, arguments)
    function.rows = []
    expected = run(function, flat, arguments)
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return count


def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make packs of all that can be packed, though it is not profitable."""
    monkeypatch.setattr(packs, "FEWEST", 1)
    monkeypatch.setattr(packs, "SHARE", -1000.0)
    monkeypatch.setattr(packs._BlockPacks, "drop_unprofitable", lambda self: None)
    monkeypatch.setattr(packs._BlockPacks, "saved", lambda self: self.most())


def lorenz(z: Any) -> Any:
    """Steps of a method of Runge and Kutta, on a ring of coupled numbers."""
    n = z.shape[0] - 3

    def slope(x: Any, p: Any) -> Any:
        return p[0] * (np.roll(x, 1) - x) + x * (p[1] - np.roll(x, 2)) - p[2] * x

    def turn(x: Any, _: Any) -> Any:
        first = slope(x, z[n:])
        second = slope(x + 0.005 * first, z[n:])
        return x + 0.01 * second, first[0]

    return ft.scan(turn, z[:n], np.zeros(20))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", range(1, 8))
def test_jacobians_of_loops_have_the_same_bits(n: int, dtype: str) -> None:
    z = np.random.default_rng(n).normal(size=n + 3).astype(dtype)
    count = with_and_without(ft.trace(ft.jacfwd(lorenz))(z), [z])
    assert count or n > 4  # (more numbers are arrays, not scalars)


WORKS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "products": (lambda a, b: a @ b @ a - b, (np.eye(4) + 0.1, np.arange(16.0).reshape(4, 4))),
    "transposed": (lambda a: a.T * a + a @ a.T, (np.arange(9.0).reshape(3, 3),)),
    "mapped": (ft.vmap(lambda x: x[0] * x - x[1] * x + x * x), (np.ones((4, 3)) * 1.1,)),
    "solve": (lambda a, b: np.linalg.solve(a, b) * b, (np.eye(3) + 0.3, np.arange(3.0))),
    "branch": (
        lambda x: ft.cond(x[0] > 0, lambda x: x * x + x, lambda x: -x * 3.0 - x, x),
        (np.arange(8.0) - 0.5,),
    ),
    "while": (
        lambda x: ft.while_loop(lambda x: np.sum(x) < 100.0, lambda x: x * x + 0.5 - x, x),
        (np.linspace(2.0, 3.0, 6),),
    ),
    "signs": (lambda x: -(x * -0.0) - (-x + 0.0), (np.array([0.0, -0.0, 1.0, -1.0]),)),
}


@pytest.mark.parametrize("name", WORKS)
def test_all_possible_packs_keep_the_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(monkeypatch)
    f, args = WORKS[name]
    assert with_and_without(ft.trace(f)(*args), list(args)) > 0


@given(programs(), seeds())
def test_all_possible_packs_of_random_programs_keep_the_bits(recipe: Recipe, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        everything(patch)
        for program, arguments in with_derivatives(recipe, seed):
            try:
                with_and_without(program, arguments)
            except NoNativeForm:
                continue


def test_unprofitable_packs_are_left_out() -> None:
    def f(a: Any) -> Any:
        for _ in range(4):
            a = a.T.copy() * a[::-1] + a[:, ::-1] * a.T[::-1]
        return a

    function, _ = lowered(ft.trace(f)(np.ones((3, 3))))
    assert function.rows
    assert not packs_in(function).blocks
