"""Dtypes of operations: whoever converts operands as a plan says, and computes in one dtype,
computes what NumPy does.
"""

from __future__ import annotations

import inspect
import itertools
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.scipy  # whose special functions are primitives, too
from functrace.executor.plan.planner import plan, planned
from functrace.executor.plan.promotion import DTYPES, typed
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, output_avals
from functrace.ir.primitive import Primitive
from functrace.ops.broadcasting import Elementwise
from functrace.ops.elementwise import complex_of
from functrace.ops.special.rows import TABLE as SPECIAL
from functrace.tracing.evaluate import evaluate_program
from tests.executor.toy_backend import Closures

pytestmark = pytest.mark.bits

KINDS = [
    np.dtype(d)
    for d in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]
NUMBERS = (
    True,
    False,
    2,
    -1,
    0,
    300,
    1 << 40,
    -(1 << 70),
    1 << 64,
    0.5,
    2.0,
    -1e300,
    float("inf"),
    0.5 - 2j,
)
OWN = [
    p
    for p in ft.Program.primitives.values()
    if isinstance(p, Elementwise) and p.name not in SPECIAL
]
PRIMITIVES = [*OWN, *SPECIAL.values()]


def arity(primitive: Primitive) -> int:
    evaluate: Any = primitive.eval
    return (
        evaluate.nin
        if isinstance(evaluate, np.ufunc)
        else 3
        if evaluate is np.where
        else arguments(evaluate)
    )


def arguments(function: Any) -> int:
    return len([p for p in inspect.signature(function).parameters.values() if p.default is p.empty])


def drawn(kinds: Sequence[np.dtype[Any] | Any], rng: np.random.Generator) -> list[Any]:
    return [
        (rng.uniform(0.2, 4.0, 5) + (0.3j if d.kind == "c" else 0)).astype(d)
        for d in kinds
        if isinstance(d, np.dtype)
    ]


def combinations(primitive: Primitive) -> Iterator[tuple[Any, ...]]:
    """Dtypes of operands; Python numbers stand for themselves."""
    count, draw = arity(primitive), random.Random(primitive.name)
    if primitive is complex_of:
        yield from itertools.product(KINDS[:-2], repeat=2)
        return
    if count == 1:
        yield from [(kind,) for kind in KINDS]
    elif count == 2 and primitive in OWN:
        yield from itertools.product(KINDS, repeat=2)
        yield from [
            pair
            for kind in KINDS
            for number in NUMBERS
            for pair in ((kind, number), (number, kind))
        ]
    else:
        numbers = (
            NUMBERS if primitive in OWN else (True, 2, 0.5, 1j)
        )  # some of SciPy's functions never end on large numbers
        yield from [
            tuple(draw.choices(kinds, k=count))
            for kinds in (KINDS[9:], KINDS, [*KINDS, *numbers])
            for _ in range(15)
        ]


def program_of(primitive: Primitive, kinds: Sequence[Any]) -> ft.Program | None:
    """The program of one operation; ``None`` where NumPy has none for such operands."""
    build = Assembly()
    operands = [
        build.input(ShapeDtype((5,), d)) if isinstance(d, np.dtype) else build.literal(d)
        for d in kinds
    ]
    try:
        first = build.place(primitive, tuple(operands), ())
    except (TypeError, ft.errors.FunctraceError):
        return None
    return build.program(range(first, len(build.primitives)), primitive.name)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=repr)
def test_planned_conversions_of_operands_give_the_reference_result(
    primitive: Primitive,
) -> None:
    rng, checked = np.random.default_rng(0), 0
    is_concrete = isinstance(primitive.eval, np.ufunc) or primitive in DTYPES
    for kinds in combinations(primitive):
        program = program_of(primitive, kinds)
        if program is None:
            continue
        values = drawn(kinds, rng)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = evaluate_program(program, values)
            except Exception:
                continue  # integers beyond a dtype, or negative powers of them
            if any(
                x.dtype != aval.dtype
                for x, aval in zip(expected, output_avals(program), strict=True)
            ):
                continue  # beyond the dtypes that it is defined for
            found = typed(program, program.output_ids[0])
            given = dict(zip(program.input_ids, values, strict=True))
            read = program.ops[program.output_ids[0]][1]
            operands = [
                given[i] if x is None else x for i, x in zip(read, found.numbers, strict=True)
            ]
            if is_concrete:
                operands = [
                    np.asarray(x).astype(d)[()] for x, d in zip(operands, found.dtypes, strict=True)
                ]
            results = primitive.eval(*operands)
        for a, b, dtype in zip(
            results if primitive.many else [results], expected, found.results, strict=True
        ):
            assert a.dtype == b.dtype == dtype
            assert a.tobytes() == b.tobytes(), (kinds, values, found, a, b)
        checked += 1
    assert checked


def test_a_backend_without_promotion_runs_mixed_programs() -> None:
    def f(x: Any, n: Any, z: Any) -> Any:
        a = np.where(n > 300, x, 2) + n * 0.5
        return (
            np.stack([a, n]),
            np.sum(n.astype(np.int8)),
            np.concatenate([x, z]) * 1j,
            x @ a,
            np.cumsum(n > 1),
            7 - n,
        )

    values = (
        np.linspace(0.0, 1.0, 4, dtype=np.float32),
        np.arange(4, dtype=np.uint8),
        np.ones(2, np.complex64),
    )
    program = ft.trace(f)(*values)
    for found, expected in zip(
        Closures().compile(plan(program))(*values), evaluate_program(program, values), strict=True
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_integers_out_of_range_are_compared_as_infinities() -> None:
    program = ft.trace(lambda n: (n < 300, n >= -1, n + 3))(np.arange(3, dtype=np.uint8))
    less, more, add = planned(program).typed.values()
    assert (
        less.numbers == (None, np.inf)
        and more.numbers == (None, -np.inf)
        and set(less.dtypes) == {np.dtype(np.float64)}
    )
    assert add.numbers == (None, 3) and type(add.numbers[1]) is np.uint8
