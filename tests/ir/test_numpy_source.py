"""as_python: the source runs in an empty namespace and gives what the evaluator gives."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from functrace.errors import ProgramError
from functrace.ir.numpy_source import SourceWriter
from functrace.ir.primitive import LINEAR, Primitive, absent
from functrace.ops import PRIMITIVES
from functrace.ops.elementwise import add, equal, modf, mul, sin, where
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from tests.ir.programs import aval, record, same

NONE = absent(because="for the tests", instead="nothing")
SCALE = 2.5
TABLE = {"a": (1, 2.0)}


def primitive(name, function, *params, **options):
    """A primitive that only evaluates."""
    return Primitive(name, function, lambda x, *_: x, LINEAR, NONE, NONE, params=params, **options)


def run(program, *arguments, name=None):
    """Execute the source, compare with the evaluator; returns the source."""
    source = program.as_python(name)
    space: dict = {}
    exec(compile(source, "<as_python>", "exec"), space)
    found = space[name or program.name](*arguments)
    expected = evaluate_program(program, arguments)
    found = found if len(expected) != 1 else (found,)
    for a, b in zip(found, expected, strict=True):
        same(a, b)
    return source


def test_source_keeps_names_lines_and_signature():
    def loss(x, w):
        scaled = mul(sin(x), w)
        return reduce_sum(scaled, (0,))

    source = run(
        record(loss, aval(3), aval(3), name="loss", names=("x", "w")), np.ones(3), np.arange(3.0)
    )
    assert source.startswith("import numpy as np\n\n\ndef loss(x, w):\n")
    assert '"""(x: f64[3], w: f64[3]) -> f64[]"""' in source
    assert "scaled = np.multiply(" in source and "# test_numpy_source.py:" in source
    assert "np.sum(scaled, axis=(0,))" in source


def test_index_dtype_and_several_results():
    def f(x):
        part = index_static(x, ((1, None, None), (None, None, -1), None, Ellipsis))
        whole, fraction = modf(part)
        return convert(whole, np.float32), fraction, reshape(x, (6,))

    source = run(record(f, aval(2, 3)), np.linspace(0, 9, 6).reshape(2, 3))
    assert "x[1:, ::-1, None, ...]" in source.replace("a[", "x[")
    assert ".astype(np.float32)" in source


@pytest.mark.parametrize(
    "literal", [True, 3, -2, float("inf"), float("nan"), -0.0, 1j, complex(-0.0, np.inf), 10**18]
)
def test_literals(literal):
    run(
        record(lambda x: (where(equal(x, 0), literal, x), add(x, literal)), aval(2)),
        np.array([0.0, 1.0]),
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "float16", "float32", "longdouble", "complex64", "clongdouble"]
)
@pytest.mark.parametrize("shape", [(), (2, 2), (0, 3), (5, 7)])
def test_constants(dtype, shape):
    constant = np.asarray(np.random.default_rng(1).uniform(0, 9, shape)).astype(dtype)[()]
    source = run(record(lambda x: (add(x, 1.0), constant), aval()), np.float64(2.0))
    assert ("base64" in source) == (np.size(constant) > 16) or dtype == "clongdouble"


def test_nan_and_infinity_in_constants():
    run(record(lambda x: mul(x, np.array([np.nan, np.inf, -np.inf, -0.0])), aval(4)), np.ones(4))


def test_names_step_aside_for_keywords_modules_and_helpers():
    def f(x, y):
        return bind(embed_p, (add(x, y),), (((1, 3, None),), (4,)))

    program = record(f, aval(2), aval(2), name="lambda", names=("np", "_embed_eval"))
    run(program, np.ones(2), np.ones(2), name="g")
    assert "def function(" in record(f, aval(2), aval(2), name="<lambda>").as_python()
    run(record(lambda x: add(x, 1.0), aval(2), name="f", names=("f",)), np.ones(2))


def test_equations_that_nothing_needs_are_left_out():
    def f(x):
        sin(x)
        return add(x, 1.0)

    assert "sin" not in run(record(f, aval(2)), np.ones(2))


def _twice(x):
    """Doc."""
    return x * 2


def _helper_eval(x: np.ndarray, k: int) -> np.ndarray:
    scale: float = SCALE  # annotations go, names of the module stay
    return _twice(x) * scale * k * math.floor(TABLE["a"][1])


def _closure(ufunc, number):
    def _helper_eval(x):
        return ufunc(x, number)

    return _helper_eval


def test_helpers_include_their_references_and_do_not_clash():
    one = primitive("one", _helper_eval, "k")
    two, three = (
        primitive("two", _closure(np.add, 1.0)),
        primitive("three", _closure(np.multiply, 3.0)),
    )
    four, five = (
        primitive("four", lambda x: x - 1.0),
        primitive("five", (lambda x: x + 1.0, lambda x: x / SCALE)[1]),
    )

    def f(x):
        x = bind(one, (x,), (3,))
        for p in (two, three, four, five, two):
            x = bind(p, (x,))
        return x

    source = run(record(f, aval(3)), np.arange(3.0))
    assert "import math" in source and source.count("def _twice") == 1 and "Doc." not in source


def test_programs_in_params_become_functions():
    body = record(lambda x: sin(x), aval(3), name="body")
    call = primitive("call", lambda x, body: np.sin(x), "body", written="{body}({0})")
    source = run(
        record(lambda x: bind(call, (bind(call, (x,), (body,)),), (body,)), aval(3)), np.ones(3)
    )
    assert source.count("def body(") == 1


def test_templates_take_literals_in_parentheses():
    less = Primitive(
        "less", lambda x, y: x - y, lambda x, y: x, LINEAR, NONE, NONE, written="{0} - {1}"
    )
    assert "x - (-2.0)" in run(
        record(lambda x: bind(less, (x, -2.0)), aval(), names=("x",)), np.float64(2.0)
    )


def test_primitives_without_source_raise():
    program = record(lambda x: bind(primitive("opaque", object()), (x,)), aval(2))
    with pytest.raises(
        ProgramError, match=r"(?s)eval rule of opaque.*fix: give the primitive written="
    ):
        program.as_python()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_primitive_can_be_emitted(name):
    found = PRIMITIVES[name]
    writer = SourceWriter()
    evaluator = writer.evaluator(found)
    assert (evaluator is None) == (found.written is not None)
    source = "\n".join(["import numpy as np", *sorted(writer.imports), *writer.blocks])
    assert "functrace" not in source
    space: dict = {}
    exec(compile(source, f"<{name}>", "exec"), space)
    if evaluator is not None:
        assert callable(eval(evaluator, space))
    for word in re.findall(r"\{(\w+)\}", found.written if isinstance(found.written, str) else ""):
        assert word.isdigit() or word in found.params
