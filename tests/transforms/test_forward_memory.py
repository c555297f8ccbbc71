"""Forward mode, and forward parts, hold no more than they need: what an operation adds stands right
behind it.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.cache import CACHE
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.transforms import jvp_program
from tests.compositions.functions import SCALAR, X
from tests.control.programs import FUNCTIONS

ALL = {**SCALAR, **FUNCTIONS}
ELEMENTS = 1 << 15
ARRAY = 8 * ELEMENTS
START, DIRECTION = np.linspace(0.1, 1.0, ELEMENTS), np.ones(ELEMENTS)
STEPS = 60


def loop(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.sin(x) * 1.01
    return x


def rectified(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.maximum(x * 1.01 - 0.001, 0.0)
    return x


def along(f: Any) -> Any:
    return lambda x: ft.jvp(f, (x,), (DIRECTION,))[1]


FEW: dict[str, tuple[Callable[[], Any], float]] = {
    "jvp": (lambda: ft.jvp(loop, (START,), (DIRECTION,)), 8),
    "jvp of jvp": (lambda: ft.jvp(along(loop), (START,), (DIRECTION,)), 24),
    "jit of jvp": (lambda: ft.jit(along(loop))(START), 10),
    "jacfwd by one number": (lambda: ft.jacfwd(lambda s: loop(s * START))(1.0), 8),
    "jvp of vmap": (
        lambda: ft.jvp(ft.vmap(loop), (START.reshape(8, -1),), (DIRECTION.reshape(8, -1),)),
        8,
    ),
    "vmap of jvp": (
        lambda: ft.vmap(lambda x: ft.jvp(loop, (x,), (x,))[1])(START.reshape(8, -1)),
        8,
    ),
    "vjp that keeps bools": (lambda: ft.vjp(rectified, START), 2 * STEPS / 8 + 8),
    "grad that keeps bools": (
        lambda: ft.grad(lambda x: np.sum(rectified(x)))(START),
        2 * STEPS / 8 + 10,
    ),
    "forward over reverse": (
        lambda: ft.hvp(lambda x: np.sum(loop(x)), (START,), (DIRECTION,)),
        2 * STEPS + 12,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FEW)
def test_peak_memory(name: str) -> None:
    run, arrays = FEW[name]
    CACHE.clear()
    run()  # recordings and programs are not what is measured
    tracemalloc.start()
    try:
        run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (arrays + 4) * ARRAY, f"{peak / ARRAY:.1f} arrays"


@pytest.mark.parametrize("by_rules", [False, True])
@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_tangents_stand_behind_their_primals(f: Any, by_rules: bool) -> None:
    traced = ft.trace(f)(X)
    tape = (
        traced.ops,
        traced.avals,
        traced.literals,
        traced.input_ids,
        traced.constant_values,
        traced.output_ids,
    )
    program = ft.Program(
        *tape, positions=range(len(traced.ops))
    )  # numbers of variables, as cached programs have them
    made = jvp_program(program, by_rules=by_rules)
    operations = zip(made.positions, made.ops, strict=True)
    origins: Any = [o for o, op in operations if op[0] is not INPUT and op[0] is not CONSTANT]
    assert origins == sorted(origins)
