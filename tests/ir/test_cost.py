"""Costs, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

import functrace as ft
from functrace.ir.primitive import LINEAR, Primitive, absent
from functrace.ops import PRIMITIVES
from functrace.ops.elementwise import add, exp, mul, where
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.binding import bind
from tests.ir.programs import aval, record


def apply(name, *params):
    """A function that applies a primitive by name."""
    return lambda *operands: bind(PRIMITIVES[name], operands, params)


def test_totals_and_equations():
    cost = record(lambda x, w: reduce_sum(mul(exp(x), w), (1,)), aval(4, 5), aval(5)).cost()
    assert [e.flops for e in cost.equations] == [20, 20, 20]
    assert [e.bytes for e in cost.equations] == [8 * 40, 8 * 45, 8 * 24]
    assert (cost.flops, cost.bytes) == (60, 8 * 109)
    assert cost.intensity == 60 / (8 * 109)
    assert "reduce_sum" in cost.equations[2].text and cost.equations[0].source is not None


def test_literals_move_no_bytes_and_broadcasts_count_results():
    assert record(lambda x: add(x, 1.0), aval(10, dtype=np.float32)).cost().bytes == 80
    assert record(lambda x, y: add(x, y), aval(3, 1), aval(4)).cost().flops == 12


def test_moving_data_is_free_of_flops():
    cost = record(
        lambda x: where(True, broadcast_to(reshape(x, (6, 1)), (6, 7)), 0.0), aval(2, 3)
    ).cost()
    assert cost.flops == 0 and cost.bytes == 8 * (6 + 6 + 6 + 42 + 42 + 42)


@pytest.mark.parametrize(
    ("function", "avals", "flops"),
    [
        (apply("matmul"), (aval(3, 4), aval(4, 5)), 2 * 3 * 4 * 5),
        (apply("matmul"), (aval(7, 3, 4), aval(4, 5)), 2 * 7 * 3 * 4 * 5),
        (apply("matmul"), (aval(4), aval(4)), 8),
        (apply("einsum", "abc,cd->abd", False), (aval(2, 3, 4), aval(4, 5)), 2 * 2 * 3 * 4 * 5),
        (apply("einsum", "ab->a", False), (aval(2, 3),), 6),
        (apply("inv"), (aval(2, 6, 6),), 2 * 2 * 6**3),
        (apply("cholesky"), (aval(6, 6),), 6**3 // 3),
        (apply("det"), (aval(3, 3),), 2 * 27 // 3),
        (apply("solve"), (aval(3, 3), aval(3, 2)), 18 + 2 * 9 * 2),
        (apply("qr"), (aval(6, 3),), 4 * 6 * 9 - 4 * 27 // 3),
        (apply("convolve"), (aval(5), aval(3)), 2 * 15),
    ],
)
def test_table(function, avals, flops):
    assert record(function, *avals).cost().flops == flops


def test_unknown_primitives_count_their_result():
    none = absent(because="for the test", instead="nothing")
    mine = Primitive("mine", lambda x: x, lambda x: x, LINEAR, none, none)
    assert record(lambda x: bind(mine, (x,)), aval(9)).cost().flops == 9


def test_text_has_a_row_per_equation():
    text = str(record(lambda x: mul(exp(x), 2.0), aval(1000)).cost()).splitlines()
    assert text[0] == "2 kflop, 32 kB, 2 equations"
    assert len(text) == 3 and "1 kflop  16 kB" in text[1] and "# test_cost.py:" in text[1]


def test_the_repr_of_a_cost_is_one_line():
    cost = ft.trace(lambda x: np.sin(x) @ x)(np.ones(3)).cost()
    assert repr(cost) == "<Cost: 9 flop, 104 B, 2 equations>"


def test_an_empty_program_costs_nothing():
    cost = record(lambda x: x, aval(3)).cost()
    assert (cost.flops, cost.bytes, cost.intensity, str(cost)) == (
        0,
        0,
        0.0,
        "0 flop, 0 B, 0 equations",
    )
