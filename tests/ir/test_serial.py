"""JSON: round trip, versions, damage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from functrace.errors import ParseError
from functrace.ir.program import Program
from functrace.ops import PRIMITIVES
from functrace.ops.elementwise import modf, mul
from functrace.ops.reductions import reduce_sum
from tests.ir.programs import aval, record


def load(text):
    """Read with every primitive of the library."""
    return Program.from_json(text, PRIMITIVES)


def two(x):
    """Constants, literals, two results."""
    whole, part = modf(mul(x, float("inf")))
    return reduce_sum(mul(whole, np.arange(40.0)), (0,)), part


def test_json_round_trips_with_names_and_lines():
    program = record(two, aval(40), names=("x",))
    again = load(program.to_json())
    assert again == program and again.text() == program.text()
    assert again.equations[0].source.function == "two"


def test_json_is_versioned_and_strict():
    data = json.loads(record(two, aval(40)).to_json(), parse_constant=pytest.fail)
    assert data["functrace_program"] == 2
    data["functrace_program"] = 3
    with pytest.raises(ParseError, match="version 3"):
        load(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "{", '{"functrace_program": 1}', '{"functrace_program": 1, "inputs": 3}'],
)
def test_json_that_is_no_program_raises(text):
    with pytest.raises(ParseError, match="fix:"):
        load(text)


def damaged(change):
    """A program's JSON with one thing changed."""
    data = json.loads(record(two, aval(40)).to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["equations"][0].update(primitive="os.system"), "no primitive named"),
        (lambda d: d["equations"][0].update(inputs=[99, 0]), "before it is written"),
        (lambda d: d["equations"][0].update(inputs=[-1, 0]), "before it is written"),
        (lambda d: d["equations"][0]["outputs"][0].update(aval="f32[40]"), "gives"),
        (lambda d: d["equations"][0].update(params={"p": {"call": "os"}}), "takes the params"),
        (
            lambda d: d["equations"][-1].update(params={"axes": {"call": "os"}}),
            "'call' is not a kind",
        ),
        (lambda d: d["constants"][0].update(data="AAAA"), "needs 320 bytes"),
        (lambda d: d["constants"][0].update(data="?"), "base64"),
        (lambda d: d.update(outputs=[77]), "before it is written"),
    ],
)
def test_damage_is_named(change, message):
    with pytest.raises(ParseError, match=message):
        load(damaged(change))
