"""check: every way of being malformed is found, and shown among its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, RESULT
from functrace.ir.program import Program
from functrace.ops.elementwise import modf, mul, sin
from functrace.ops.reductions import reduce_sum, reduce_sum_p
from tests.ir.programs import aval, parse, record


def sample():
    """x, constant, mul, sin, modf (two results), reduce_sum."""

    def f(x):
        y = mul(x, np.array([1.0, 2.0, 3.0]))
        z = sin(mul(y, 2.0))
        whole, part = modf(z)
        return reduce_sum(whole, (0,)), part

    return record(f, aval(3), names=("x",))


def changed(**parts):
    """The sample with parts of its tape replaced; a function is applied to a list copy."""
    p = sample()
    fields = {
        "ops": list(p.ops), "avals": list(p.avals), "literals": list(p.literals),
        "inputs": list(p.input_ids),
        "constants": dict(p.constant_values), "outputs": list(p.output_ids),
    }  # fmt: skip
    for name, change in parts.items():
        change(fields[name])
    return Program(**fields, positions=p.positions)


def position(program, primitive):
    """Where a primitive first stands on the tape."""
    return next(k for k, op in enumerate(program.ops) if op[0] is primitive)


def test_recorded_programs_pass_and_are_returned():
    program = sample()
    assert program.check() is program


def replace(primitive, operands=None, params=None):
    """Replace operands or params of a primitive's first entry."""

    def change(ops):
        k = next(k for k, op in enumerate(ops) if op[0] is primitive)
        ops[k] = (
            primitive,
            ops[k][1] if operands is None else operands,
            ops[k][2] if params is None else params,
        )

    return change


def set_item(k, value):
    """Assign an item."""
    return lambda items: items.__setitem__(k, value)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"ops": replace(sin, operands=(7,))}, "before it is written"),
        ({"ops": replace(sin, operands=(-9,))}, "uses literal 8"),
        ({"ops": replace(sin, operands=(1.0,))}, "not an int"),
        ({"ops": replace(sin, operands=(0, 0))}, "refuses its operands"),
        ({"ops": replace(reduce_sum_p, params=())}, "takes 1 params"),
        ({"ops": replace(reduce_sum_p, params=([0],))}, "cannot be hashed"),
        ({"ops": replace(RESULT, params=(2,))}, "stands 1 behind"),
        ({"ops": replace(CONSTANT, params=(ShapeDtype((4,)),))}, "the entry of this constant"),
        ({"avals": set_item(2, ShapeDtype((3,), "float32"))}, r"mul gives f64\[3\]"),
        ({"avals": lambda a: a.pop()}, "avals"),
        ({"constants": set_item(1, np.ones(3, np.float32))}, r"is f32\[3\], not f64\[3\]"),
        ({"constants": set_item(1, [1.0, 2.0, 3.0])}, "a list"),
        ({"constants": lambda c: c.clear()}, "constants"),
        ({"inputs": lambda i: i.append(0)}, "inputs"),
        ({"outputs": set_item(0, 99)}, "output 0"),
        ({"outputs": set_item(0, -1)}, "output 0"),
        ({"literals": set_item(0, np.float64(2.0))}, "not a Python number"),
    ],
)
def test_malformed_programs_are_refused(parts, message):
    with pytest.raises(ProgramError, match=message) as caught:
        changed(**parts).check()
    assert "fix:" in str(caught.value)


def test_the_message_marks_the_equation_among_its_neighbours():
    program = changed(ops=replace(sin, operands=(7,)))
    with pytest.raises(ProgramError) as caught:
        program.check()
    lines = str(caught.value).splitlines()
    (marked,) = [line for line in lines if line.startswith("  > ")]
    assert "z: f64[3] = sin" in marked
    around = [line for line in lines if line.startswith("    ")]
    assert (
        len(around) == 4
        and any("mul" in line for line in around)
        and any("modf" in line for line in around)
    )
    assert "test_check.py" in str(caught.value)


def test_a_constant_may_become_an_input():
    p = sample()
    promoted = Program(p.ops, p.avals, p.literals, (0, 1), {}, p.output_ids, positions=p.positions)
    promoted.check()
    assert parse(promoted.text()) == promoted != p
