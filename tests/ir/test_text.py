"""Listings: what they look like, and that they parse back."""

from __future__ import annotations

import numpy as np
import pytest

from functrace.errors import ParseError, ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import LINEAR, Primitive, absent
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops import PRIMITIVES
from functrace.ops.elementwise import modf, mul, sin
from functrace.ops.indexing import index_static
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind
from tests.ir.programs import aval, parse, record

NONE = absent(because="for the tests", instead="nothing")
HOLD = Primitive("hold", lambda x, p: x, lambda x, p: x, LINEAR, NONE, NONE, params=("p",))
PRIMITIVES_HERE = {**PRIMITIVES, "hold": HOLD}


def loss(x, w):
    """A small program with every kind of line."""
    a = mul(sin(x), w)
    whole, part = modf(a)
    b = mul(whole, np.array([1.0, 2.5, -0.0]))
    return reduce_sum(b, (0,)), part


def test_listing_is_typed_with_names_and_lines():
    lines = record(loss, aval(3), aval(3), name="loss", names=("x", "w")).text().splitlines()
    assert lines[0] == "loss(x: f64[3], w: f64[3]) {"
    assert any(
        line.startswith("  const ") and line.endswith(": f64[3] = [1.0, 2.5, -0.0]")
        for line in lines
    )
    assert any(" = modf a  " in line and line.startswith("  (") for line in lines)
    assert any("= reduce_sum b {axes=(0,)}" in line and "# test_text.py:" in line for line in lines)
    assert len({line.index("#") for line in lines if "#" in line}) == 1
    assert lines[-1] == "}" and lines[-2].startswith("  return ")


def test_parse_is_the_inverse_of_text_names_and_lines_included():
    program = record(loss, aval(3), aval(3), name="loss", names=("x", "w"))
    again = parse(program.text())
    assert again == program
    assert again.text() == program.text()
    assert again.equations[0].source.short == program.equations[0].source.short


@pytest.mark.parametrize(
    "literal",
    [True, 0, -7, 10**30, 2.0, 1e-300, float("inf"), -float("inf"), float("nan"), -0.0, 1j, 1 - 2j,
     complex(0.0, -0.0), complex(-0.0, 0.0), complex("nan"), complex(1, float("inf")), 5e22],
)  # fmt: skip
def test_literals_round_trip(literal):
    program = record(
        lambda x: bind(PRIMITIVES["where"], (x, x, literal)), aval(2, dtype=np.complex128)
    )
    again = parse(program.text())
    assert again == program
    (found,) = again.literals
    assert type(found) is type(literal) and repr(found) == repr(literal)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint64",
        "int64",
        "float16",
        "float32",
        "float64",
        "longdouble",
        "complex64",
        "complex128",
        "clongdouble",
    ],
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0, 3), (5, 7)])
def test_constants_round_trip_to_the_last_bit(dtype, shape):
    rng = np.random.default_rng(0)
    values = np.asarray(rng.uniform(0, 100, size=shape)).astype(dtype)
    if values.dtype.kind == "c":
        values = values * values.dtype.type(1 / 3 + 1j)
    program = record(lambda x: (mul(x, 2.0), np.asarray(values)[()]), aval())
    (value,) = parse(program.text()).constant_values.values()
    assert parse(program.text()) == program
    assert (value.dtype, value.shape) == (values.dtype, values.shape)


def test_special_elements_round_trip():
    values = np.array([np.nan, np.inf, -np.inf, -0.0, -np.nan, 5e-324])
    program = record(lambda x: mul(x, values), aval(6))
    assert parse(program.text()) == program


@pytest.mark.parametrize(
    "param",
    [None, True, 3, -2.5, float("nan"), 1 + 2j, "a \"b\"\n{#}", "", (), (1,), (1, (2, ("x", None))), Ellipsis,
     np.dtype("float32"), np.dtype(bool), ((1, None, -1), None, 3, Ellipsis), aval(2, 3),
     b"\x00\xff", np.add, sin,
     np.float32],
)  # fmt: skip
def test_params_round_trip(param):
    program = record(lambda x: bind(HOLD, (x,), (param,)), aval(2))
    again = Program.parse(program.text(), PRIMITIVES_HERE)
    assert again == program
    assert Program.from_json(program.to_json(), PRIMITIVES_HERE) == program


def test_numpy_numbers_in_params_are_written_as_python_numbers():
    assert (
        "{p=(1, 2.0)}"
        in record(lambda x: bind(HOLD, (x,), ((np.int64(1), np.float64(2.0)),)), aval(2)).text()
    )


def test_programs_are_params():
    inner = record(loss, aval(3), aval(3), name="body", names=("x", "w"))
    nested = record(lambda x: bind(HOLD, (x,), (inner,)), aval(2), name="middle")
    program = record(lambda x: bind(HOLD, (x,), ((nested, 1),)), aval(2), name="outer")
    text = program.text()
    assert "{p=({\n" in text and "\n    middle(" in text
    assert Program.parse(text, PRIMITIVES_HERE) == program
    assert Program.parse(text, PRIMITIVES_HERE).text() == text
    assert Program.from_json(program.to_json(), PRIMITIVES_HERE) == program


def test_large_constants_are_abbreviated_and_refused_by_parse():
    program = record(lambda x: mul(x, np.arange(100.0)), aval(100))
    assert "zlib" not in str(program) and len(str(program)) < 200
    with pytest.raises(ParseError, match=r"(?s)line 2.*program\.text\(\)"):
        parse(str(program))
    assert parse(program.text()) == program


def test_a_damaged_or_oversized_constant_is_refused():
    text = record(lambda x: mul(x, np.arange(100.0)), aval(100)).text()
    with pytest.raises(ParseError, match="damaged"):
        parse(text.replace("zlib:eJ", "zlib:eK"))
    with pytest.raises(ParseError, match="line 2"):
        parse(
            text.replace("<f64[100] zlib", "<f64[99] zlib").replace(
                ": f64[100] = <", ": f64[99] = <"
            )
        )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("f(x: f64[3]) {\n  y: f64[3] = sine x\n  return y\n}", 2, "no primitive named 'sine'"),
        (
            "f(x: f64[3]) {\n\n  y: f64[3] = sin z\n  return y\n}",
            3,
            "'z' is used before it is written",
        ),
        ("f(x: f64[3]) {\n  y: f64[4] = sin x\n  return y\n}", 2, r"sin gives f64\[3\]"),
        ("f(x: f64[3]) {\n  x: f64[3] = sin x\n  return x\n}", 2, "written twice"),
        ("f(x: f99[3]) {\n  return x\n}", 1, "not an aval"),
        ("f(x: f64[3]) {\n  return x", 2, "expected '}'"),
        ("f(x: f64[3]) {\n  return x\n}\nmore", 4, "nothing can follow"),
        (
            "f(x: f64[3]) {\n  y: f64[] = reduce_sum x {axis=(0,)}\n  return y\n}",
            2,
            "takes the params",
        ),
        ("f(x: f64[3]) {\n  y: f64[3] = add x x x\n  return y\n}", 2, "add"),
        ("f(x: f64[3], y: f64[4]) {\n  z: f64[3] = add x y\n  return z\n}", 2, "cannot broadcast"),
        ("f(x: f64[3]) {\n  y: f64[3] = sin x $\n  return y\n}", 2, "cannot be read"),
        ("f() {\n  const k: f64[2] = [1.0, 2.0, 3.0]\n  return k\n}", 2, "shape"),
        ("f() {\n  const k: i8[1] = [1000]\n  return k\n}", 2, "fit"),
        ("", 1, "name"),
    ],
)
def test_parse_errors_name_the_line(text, line, message):
    with pytest.raises(ParseError, match=message) as caught:
        parse(text)
    assert f"line {line}:" in str(caught.value) and "fix:" in str(caught.value)


def test_params_that_cannot_be_serialized_raise():
    program = record(lambda x: bind(HOLD, (x,), (len,)), aval(2))
    for write in (program.text, program.to_json):
        with pytest.raises(ProgramError, match=r"(?s)builtin_function_or_method.*fix:"):
            write()
    assert "hold" in str(program)


def test_a_traced_constant_cannot_be_serialized():
    with ArrayRecording("outer") as outer:
        y = outer.new_input(aval(2))
        program = record(lambda x: mul(x, y), aval(2))
        assert "traced" in str(program) and program != record(lambda x: mul(x, 1.0), aval(2))
        for write in (program.text, program.to_json, program.as_python):
            with pytest.raises(ProgramError, match=r"(?s)cannot be written.*fix:"):
                write()


def test_index_and_dtype_params_of_the_library():
    program = record(
        lambda x: convert(index_static(x, (Ellipsis, (1, None, None), None, 0)), np.float32),
        aval(2, 3, 4),
    )
    assert (
        "{index=(..., (1, None, None), None, 0)}" in program.text()
        and "{dtype=f32}" in program.text()
    )
    assert parse(program.text()) == program


def test_a_program_without_inputs_or_outputs_round_trips():
    program = record(lambda: (), name="<lambda>")
    assert program.text() == "<lambda>() {\n  return\n}"
    assert parse(program.text()) == program
    assert parse("f(x: f64[]) {return x}") == record(lambda x: x, ShapeDtype(()))
