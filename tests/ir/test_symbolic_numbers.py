"""Symbolic numbers: comparisons are recorded as guards, and uses that need the concrete number
raise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ir.aval import ShapeDtype, broadcast_shapes
from functrace.ir.filling import ProgramTemplate, filling
from functrace.ir.symbolic_numbers import (
    MOST_COMPARISONS,
    Comparisons,
    NeedsConcreteNumber,
    computed,
    reading,
)
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import mul, power
from functrace.ops.shaping import broadcast_to
from functrace.transforms import backward_program


@pytest.mark.parametrize(
    "relation", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
)
@pytest.mark.parametrize("other", [3, 4, 4.5])
def test_a_guard_accepts_numbers_with_the_same_comparison_result(
    relation: Callable[[Any, Any], bool], other: float
) -> None:
    comparisons = Comparisons()
    n = comparisons.number(0, 4)
    outcome = relation(n, other)
    assert outcome is relation(4, other)
    for m in (2, 3, 4, 5, 4.5, math.inf):
        assert comparisons.fit([m]) is (relation(m, other) is outcome)


def test_sizes_are_not_0_or_1_and_no_two_are_equal() -> None:
    comparisons = Comparisons()
    n, m = comparisons.size(0, 4), comparisons.size(1, 5)
    assert n != 1 and n != 0 and n != m and n == n and bool(n)
    assert comparisons.fit([7, 8]), "nothing was compared"
    assert (n, 1) == (n, 1) != (m, 1)


def test_expressions_are_evaluated_for_other_sizes() -> None:
    comparisons = Comparisons()
    n, m = comparisons.size(0, 4), comparisons.size(1, 6)
    total = math.prod((n, m)) // 3 + 1 - n
    assert isinstance(total, int) and reading(total)([4, 6]) == 5 and reading(total)([9, 5]) == 7
    assert n * m is n * m and 1 * n is n and n + 0 is n
    assert computed(max, n, 5, m).__class__ is int
    assert reading(computed(max, n, 5, m))([2, 3]) == 5


def test_parameters_are_filled() -> None:
    comparisons = Comparisons()
    n, m = comparisons.size(0, 4), comparisons.size(1, 6)
    assert filling((1, None, (2, "array"), slice(0, 3), ShapeDtype((2,)))) is None
    cases: list[tuple[Any, Any]] = [
        ((n, m), (7, 9)), ((m,), (9,)), (m, 9), ((n, 1, m), (7, 1, 9)), (((n, m), (m, n), ...),
        ((7, 9), (9, 7), ...)),
        (slice(None, n + m), slice(None, 16)), (ShapeDtype((n, n)), ShapeDtype((7, 7))), ((n * 2,
        3), (14, 3)),
    ]  # fmt: skip
    for param, expected in cases:
        fill = filling(param)
        assert fill is not None and fill([7, 9]) == expected


@pytest.mark.parametrize(
    "use",
    [
        int, float, complex, round, operator.index, range, np.asarray, np.float32, math.sqrt,
        lambda n: [1, 2, 3][n], lambda n: np.zeros((n,)), lambda n: np.add(n, 1),
        lambda n: n * np.ones(2), lambda n: n.real,
        lambda n: np.broadcast_shapes((n,), (1,)), lambda n: n + 1j, lambda n: n.to_bytes(),
    ],
)  # fmt: skip
def test_uses_that_need_the_concrete_number_raise(use: Callable[[Any], object]) -> None:
    with pytest.raises(NeedsConcreteNumber):
        use(Comparisons().size(0, 3))


def test_number_of_comparisons_is_limited() -> None:
    comparisons = Comparisons()
    n = comparisons.number(0, 100)
    for k in range(MOST_COMPARISONS):
        assert n > k
    with pytest.raises(NeedsConcreteNumber):
        n > 1_000
    comparisons.is_closed = True
    assert n > 1, "what was asked before is known"


@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [()],
        [(), (3,)],
        [(3, 1), (4,)],
        [(1, 4), (3, 1), ()],
        [(0,), (1,)],
        [(2, 0, 1), (1, 5)],
        [(7, 3), (7, 3)],
    ],
)
def test_shapes_broadcast_as_numpys(shapes: list[tuple[int, ...]]) -> None:
    assert broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)


@pytest.mark.parametrize(
    "shapes", [[(3,), (4,)], [(0,), (2,)], [(2, 3), (3, 2)], [(5, 1), (4, 5, 6), (2, 1)]]
)
def test_shapes_that_do_not_broadcast(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="cannot be broadcast"):
        np.broadcast_shapes(*shapes)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        broadcast_shapes(*shapes)


def backward_of(shape: Any, exponent: float) -> ft.Program:
    with ArrayRecording("example", keeps_source=False) as recording:
        x = recording.new_input(ShapeDtype(shape, np.float64))
        y = broadcast_to(mul(power(x, exponent), 2.0), (3, *shape))
        program = recording.program((y.ft_variable,), name="example")
    return backward_program(program)[0]


def test_a_derivative_with_symbolic_sizes_equals_that_with_concrete_ones() -> None:
    comparisons = Comparisons()
    unknown = backward_of(
        (comparisons.size(0, 4), 1, comparisons.size(1, 6)), comparisons.number(2, 2.5)
    )  # type: ignore[arg-type]
    template = ProgramTemplate(unknown)
    assert not template.is_concrete
    for given in ([4, 6, 2.5], [7, 2, -0.5], [2, 30, 4.0]):
        assert comparisons.fit(given)
        assert template.fill(given) == backward_of((given[0], 1, given[1]), given[2])
    assert not comparisons.fit([4, 6, 2]) and not comparisons.fit([4, 6, 1.0]), (
        "these derivatives are other ones"
    )
