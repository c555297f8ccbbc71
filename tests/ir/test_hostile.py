"""Texts of anybody's: nothing in them becomes code, what is wrong is a ParseError, time is linear
in their length.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ParseError, ProgramError
from functrace.executor.codegen.numpy_source import NUMPY, generate
from functrace.executor.plan.planner import planned
from functrace.ir.numpy_source import ascii_name
from functrace.ir.params import KINDS
from functrace.ir.program import is_name
from functrace.ir.serial import DEEPEST
from functrace.source import printable

LINE_ENDS = [*"\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x00\u202e\ud800", "\r\n"]


def nested(x):
    """A program that holds programs."""

    def step(c, t):
        c = ft.cond(t > 0.0, lambda c: np.sin(c) * t, lambda c: c * c, c)
        return c, c

    return ft.scan(step, x[0], ft.checkpoint(np.tanh)(x))[1]


NESTED = ft.trace(nested)(np.ones(3))


def with_file(name: str) -> str:
    """The JSON of a program, all lines of which are said to stand in a file of some name."""

    def changed(data):
        if isinstance(data, dict):
            return {k: [name, *v[1:]] if k == "source" else changed(v) for k, v in data.items()}
        return list(map(changed, data)) if isinstance(data, list) else data

    return json.dumps(changed(json.loads(NESTED.to_json())))


@pytest.mark.parametrize("end", LINE_ENDS)
def test_a_file_name_that_ends_a_line_is_refused_by_the_reader(end):
    with pytest.raises(ParseError, match="not printable"):
        ft.Program.from_json(with_file(f"a{end}    raise SystemExit #.py"))


@pytest.mark.parametrize(
    "end", [end for end in LINE_ENDS if end != "\x00"]
)  # no file's name holds a NUL
def test_a_file_name_that_ends_a_line_is_escaped_by_every_writer(end):
    code = compile(
        "def f(x):\n    return np.cos(np.sin(x))\n", f"/a{end}    CANARY.append(1) #.py", "exec"
    )
    scope = {"np": np, "CANARY": []}
    exec(code, scope)
    program = ft.trace(scope["f"])(np.ones(3))
    vars(program)["name"] = f"f{end}    CANARY.append(2)"
    for source in (
        program.as_python(),
        generate(planned(program))[0],
        str(program),
        program.text(),
        program.to_json(),
    ):
        assert len(source.splitlines()) == source.count("\n") + (not source.endswith("\n"))
    again = ft.Program.parse(program.text())
    assert again == program and ft.Program.from_json(program.to_json()) == program
    for subject in (program, again):
        written = {"CANARY": scope["CANARY"]}
        exec(subject.as_python("g"), written)
        np.testing.assert_allclose(written["g"](np.ones(3)), np.cos(np.sin(1.0)))
        NUMPY.compile(planned(subject))(np.ones(3))
    assert scope["CANARY"] == []


def test_line_ends_and_invisible_characters_are_escaped():
    text = printable("".join(map(chr, range(sys.maxunicode + 1))))
    assert text.isprintable() and len(text.splitlines()) == 1 and ast.parse(f"#{text}").body == []


def test_source_lines_are_not_read_from_files_outside_the_root(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("password\n")
    program = ft.Program.from_json(with_file(str(secret)))
    assert not any(e.source.expression for e in program.equations)
    program = ft.Program.from_json(with_file("secret.txt"), root=tmp_path)
    assert not any(e.source.expression for e in program.equations)
    (tmp_path / "secret.py").write_text("password\n" * 60)
    (tmp_path / "root").mkdir()
    for name in (
        str(tmp_path / "secret.py"),
        "../secret.py",
        "x/../../secret.py",
        "../root/../secret.py",
    ):
        for root in (None, tmp_path / "root"):
            program = ft.Program.from_json(with_file(name), root=root)
            assert not any(e.source.expression for e in program.equations)
            assert not any("/" in e.source.file for e in program.equations)
    program = ft.Program.from_json(with_file("secret.py"), root=tmp_path)
    assert all(e.source.expression == "password" for e in program.equations)


def test_files_are_named_relative_to_a_root_or_by_their_last_part(tmp_path):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    assert (
        os.path.dirname(here) not in NESTED.to_json() and '["test_hostile.py",' in NESTED.to_json()
    )
    text = NESTED.to_json(root=here)
    assert '["ir/test_hostile.py",' in text and here not in text
    assert '["test_hostile.py",' in NESTED.to_json(root=tmp_path)
    again = ft.Program.from_json(text, root=here)
    sources = [
        (e.source.file, e.source.line, e.source.function, e.source.expression)
        for e in NESTED.equations
    ]
    assert [
        (e.source.file, e.source.line, e.source.function, e.source.expression)
        for e in again.equations
    ] == sources
    assert again.to_json(root=here) == text


# -- names -----------------------------------------------------------------------------------------


def named(names: str, name: str = "f") -> ft.Program:
    """A program whose variables have given names."""
    first, second = names.split()
    return ft.Program.parse(
        f"{name}({first}: f64[2]) {{\n  {second}: f64[2] = sin {first}\n  return {second}\n}}"
    )


@pytest.mark.parametrize(
    "names",
    ["θ φ", "é e", "ñ n", "x é", "sum len", "np_ a", "print match", "math scipy", "_ __", "用 x"],
)
def test_emitted_names_are_ascii_and_shadow_nothing(names):
    program = named(names)
    assert ft.Program.parse(program.text()).text() == program.text()
    source = program.as_python()
    assert source.isascii()
    written = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)}
    written |= {n.arg for n in ast.walk(ast.parse(source)) if isinstance(n, ast.arg)}
    assert len(written) == 3 and not (written - {"np"}) & set(dir(__builtins__))
    scope = {}
    exec(source, scope)
    np.testing.assert_array_equal(scope["f"](np.ones(2)), np.sin(np.ones(2)))


@pytest.mark.parametrize(
    "name", ["ﬁ", "ｎｐ", "𝐱", "ª", "\u212b", "ϑ", "a.b", "lambda", "np", "a·b", "inf"]
)
def test_names_that_python_would_read_as_others_are_refused(name):
    assert not is_name(name)
    with pytest.raises(ParseError):
        named(f"{name} y")
    data = json.loads(named("x y").to_json())
    data["inputs"][0]["name"] = name
    with pytest.raises(ParseError, match="name of a variable"):
        ft.Program.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "name",
    ["sum", "len", "print", "np", "math", "functools", "scipy", "match", "ﬁ", "float", "range"],
)
def test_functions_of_emitted_source_shadow_nothing(name):
    program = ft.trace(lambda x: ft.scan(lambda c, t: (c * np.nan, np.linalg.norm(x)), x[0], x)[1])(
        np.ones(2)
    )
    vars(program)["name"] = name
    scope = {}
    exec(program.as_python(), scope)
    (function,) = [
        v
        for k, v in scope.items()
        if ascii_name(name) in k and callable(v) and k not in ("norm", "step")
    ][:1]
    np.testing.assert_allclose(function(np.ones(2)), np.sqrt([2.0, 2.0]))


def test_an_unpack_without_a_pack_is_the_identity_in_source():
    source = ft.Program.parse("f(x: f64[2]) {\n  y: f64[2] = unpack x\n  return y\n}").as_python()
    scope = {}
    exec(source, scope)
    np.testing.assert_array_equal(scope["f"](np.ones(2)), np.ones(2))


def test_names_outside_the_numpy_vocabulary_cannot_be_parsed():
    for name in (
        "load",
        "testing",
        "core",
        "__builtins__",
        "f2py",
        "frompyfunc",
        "ndarray",
        "save",
    ):
        text = f"f(x: f64[2]) {{\n  y: f64[2] = roll x {{shift=np.{name}, axis=0}}\n  return y\n}}"
        with pytest.raises(ParseError, match="no ufunc"):
            ft.Program.parse(text)


# -- what is wrong is a ParseError -----------------------------------------------------------------


def line(equation: str, inputs: str = "x: f64[3]") -> str:
    """A program of one equation for ``y``."""
    return f"f({inputs}) {{\n  {equation}\n  return y\n}}"


TEXTS = {
    "deep tuple": line(f"y: f64[3] = roll x {{shift={'(' * 5000}, axis=0}}"),
    "deep programs": line(
        "y: f64[3] = call x {program=" + "{\nf(x: f64[3]) {\n  y: f64[3] = call x {program=" * 5000
    ),
    "deep elements": f"f() {{\n  const k: f64[1] = {'[' * 5000}\n",
    "long integer": line(f"y: f64[3] = mul x {'9' * 5000}"),
    "long integer in a constant": f"f() {{\n  const k: i64[] = {'9' * 5000}\n  return k\n}}",
    "line number": line(f"y: f64[3] = sin x  # a.py:{'9' * 30}"),
    "slice": line("y: f64[3] = roll x {shift=slice (1, 2, 3, 4), axis=0}"),
    "slice of what cannot be": line("y: f64[3] = index x {index=(slice (1, 2, 3),)}"),
    "bytes": line('y: f64[3] = roll x {shift=bytes "?é", axis=0}'),
    "param twice": line("y: f64[3] = roll x {shift=1, shift=2, axis=0}"),
    "axis": line("y: f64[] = reduce_sum x {axes=(-1,)}"),
    "axis behind the last": line("y: f64[3] = sort x {kind=None, axis=1}"),
    "float axis": line("y: f64[] = reduce_sum x {axes=(0.0,)}"),
    "string axis": line('y: f64[] = reduce_sum x {axes="a"}'),
    "no tuple": line("y: f64[] = reduce_sum x {axes=0}"),
    "negative sizes": line("y: f64[3] = reshape x {shape=(-3, -1)}"),
    "too large": line(
        "y: f64[9223372036854775807] = broadcast_to 1.0 {shape=(9223372036854775807,)}"
    ),
    "too many sizes": line("y: f64[3] = sin x", f"x: f64[{','.join('1' * 65)}]"),
    "huge gather": line(
        'y: f64[1000000,1000000,1000000,1000000] = gather x i {template=("array",)}',
        "x: f64[3], i: i64[1000000,1000000,1000000,1000000]",
    ),
    "too few index arrays": line('y: f64[3] = gather x {template=("array",)}'),
    "mask": line('y: f64[3] = gather x m {template=("array",)}', "x: f64[3], m: bool[3]"),
    "no results": line(
        "y: f64[3] = call x {program={\n  g(x: f64[3]) {\n    return\n  }\n}, policy=()}"
    ),
    "no results, written so": line(
        "() = call x {program={\n  g(x: f64[3]) {\n    return\n  }\n}, policy=()}"
    ),
    "policy": line(
        "y: f64[3] = call x {program={\n  g(x: f64[3]) {\n    return x\n  }\n}, policy=(1,)}"
    ),
    "rule": line(
        "y: f64[3] = custom_jvp x {program={\n  g(x: f64[3]) {\n    return x\n  }\n}, rule=3, explicit=1}"
    ),
    "explicit": line(
        "y: f64[3] = custom_jvp x {program={\n  g(x: f64[3]) {\n    return x\n  }\n}, "
        "rule={\n  g(x: f64[3], t: f64[3]) {\n    return x, t\n  }\n}, explicit=7}"
    ),
    "variable of another program": line(
        "y: f64[3] = call x {program={\n  g(z: f64[3]) {\n    return x\n  }\n}, policy=()}"
    ),
    "carries": line(
        "(y: f64[], z: f64[]) = scan x {body={\n  g(x: f64[3]) {\n    return x\n  }\n}, "
        "length=3, reverse=False, constants=0, carries=2}"
    ),
    "operand None": line("y: f64[3] = add x None"),
    "literals only": line("y: f64[] = softmax 2.0 {axis=0}"),
    "bomb": f"f() {{\n  const k: f64[1000000000000] = <f64[1000000000000] zlib:{'A' * 400}>\n  return k\n}}",
    "subscripts": line('y: f64[3] = einsum x {subscripts="a", optimize=False}'),
    "order": line("y: f64[3] = sinc_derivative x {order=100000000}"),
    "norm": line('y: c128[3] = fft x {n=3, axis=0, norm="unit"}'),
    "a function of scipy.linalg that is none of matrices": line(
        'y: f64[1,1] = matrix_function x {name="test"}', "x: f64[1,1]"
    ),
    "a derivative of one": line('y: f64[1,1] = frechet x x {name="test"}', "x: f64[1,1]"),
    "a ufunc for a foreign function": line(
        'y: f64[3] = callback x {foreign=np.sin, results=(f64[3],), maps=(), method="sequential"}'
    ),
    "a ufunc for an observer": line(
        'y: f64[3] = observe x {foreign=np.sin, results=(f64[3],), maps=(), method="sequential"}'
    ),
    "a ufunc for a rule": line(
        "y: f64[3] = custom_batch x {program={\n  g(x: f64[3]) {\n    return x\n  }\n}, rule=np.sin}"
    ),
    "a ufunc for a policy": line("y: f64[3] = pack x {policy=np.sin}"),
    "no points": line('y: c128[0] = fft x {n=0, axis=0, norm="ortho"}'),
    "rfft of complex numbers": line(
        'y: c128[2] = rfft x {n=3, axis=0, norm="ortho"}', "x: c128[3]"
    ),
    "triangle": line(
        'y: f64[2,1] = solve_triangular a b {lower="L", unit=False}', "a: f64[2,2], b: f64[2,1]"
    ),
    "right-hand sides that do not fit": line(
        "y: f64[3,1] = solve_triangular a b {lower=True, unit=False}", "a: f64[2,2], b: f64[3,1]"
    ),
    "lstsq of a vector": line(
        "(y: f64[2,1], r: i32[]) = lstsq a b {rcond=0.0}", "a: f64[2], b: f64[2,1]"
    ),
    "string without end": line('y: f64[3] = name x {name="' + "\\a" * 20000),
    "lone surrogate": line("y: f64[3] = sin \ud800"),
    "NUL": line("y: f64[3] = sin x\x00"),
    "words for a variable": line("return: f64[3] = sin x"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_texts_are_refused(text):
    with pytest.raises(ParseError):
        ft.Program.parse(text)


AUDITED = """
import sys
import functrace as ft
from functrace.errors import ParseError
from tests.ir.test_hostile import DOCUMENTS, NESTED, TEXTS

def read_all():
    read = [(ft.Program.parse, text) for text in (*TEXTS.values(), NESTED.text())]
    read += [(ft.Program.from_json, text) for text in (*DOCUMENTS.values(), NESTED.to_json())]
    for reader, text in read:
        try:
            reader(text)
        except ParseError:
            pass

read_all()  # imports modules of functrace, and of SciPy
events = set()
sys.addaudithook(lambda event, _: events.add(event))
read_all()
print(*sorted(set(events)))
"""


def test_reading_runs_no_code_imports_nothing_and_opens_no_file():
    """By Python's own audit events, of which there is one for each of these."""
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", AUDITED], capture_output=True, text=True, check=True, cwd=root
    )
    assert set(found.stdout.split()) <= {
        "builtins.id",
        "object.__getattr__",
        "sys._getframe",
    }  # (where an error stands)


@pytest.mark.parametrize("text", [None, 3, b"f() {\n}", ["f"]], ids=repr)
def test_arguments_that_are_no_text_raise(text):
    with pytest.raises(ParseError, match="not a"):
        ft.Program.parse(text)
    with pytest.raises(ParseError, match="not a"):
        ft.Program.from_json(text)


EQUATION = json.loads(named("x y").to_json())["equations"][0]


def document(**changes) -> str:
    """A JSON document with one equation, changed."""
    data = json.loads(named("x y").to_json())
    data["equations"][0].update({k: v for k, v in changes.items() if k in (*EQUATION, "source")})
    data.update({k: v for k, v in changes.items() if k in data})
    return json.dumps(data)


def held_so_deep(depth: int) -> str:
    """A document in which programs hold each other."""
    data = json.loads(named("x y").to_json())
    del data["functrace_program"]
    for _ in range(depth):
        outer = json.loads(json.dumps(data | {"equations": [], "outputs": [1]}))
        params = {"program": {"program": data}, "policy": []}
        outer["equations"] = [EQUATION | {"primitive": "call", "params": params}]
        data = outer
    return json.dumps({"functrace_program": 1, **data})


DOCUMENTS = {
    "deep": "[" * 100_000,
    "deep value": document(params={"a": json.loads("[" * 500 + "]" * 500)}),
    "long integer": '{"functrace_program": ' + "9" * 5000 + "}",
    "key twice": '{"functrace_program": 1, "functrace_program": 1}',
    "NaN": '{"functrace_program": NaN}',
    "version": document().replace('"functrace_program": 2', '"functrace_program": true'),
    "more keys": document().replace('"functrace_program": 2', '"functrace_program": 2, "more": 1'),
    "inputs of an equation that are a text": document(inputs="00"),
    "inputs of an equation that are an object": document(inputs={"0": 0}),
    "a bool for a variable": document(inputs=[True]),
    "a literal that is no number": document(inputs=[{"literal": "x"}]),
    "a literal that is a tuple": document(inputs=[{"literal": [1]}]),
    "source of two": document(source=["a.py", 1]),
    "source of no numbers": document(source=["a.py", "1", "f"]),
    "line number": document(source=["a.py", 10**12, "f"]),
    "negative line": document(source=["a.py", -1, "f"]),
    "function": document(source=["a.py", 1, "f\n"]),
    "name": document(name="f\n"),
    "name of no text": document(name=3),
    "no outputs": document(outputs=[]).replace('"outputs": []', '"outputs": {}', 1),
    "aval": document(outputs=[{"name": "y", "aval": "f64[-2]"}]),
    "kind of value": document(primitive="roll", params={"shift": {"float": [1]}, "axis": 0}),
    "too deep": held_so_deep(DEEPEST + 1),
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_hostile_documents_are_refused(text):
    with pytest.raises(ParseError):
        ft.Program.from_json(text)


def test_nesting_of_sub_programs_is_limited():
    program = ft.Program.from_json(held_so_deep(DEEPEST))
    assert ft.Program.parse(program.check().text()) == program
    np.testing.assert_array_equal(ft.evaluate(program, np.ones(2)), np.sin(np.ones(2)))
    outer = ft.trace(lambda x: ft.checkpoint(lambda x: ft.evaluate(program, x))(x))(np.ones(2))
    with pytest.raises(ProgramError, match="in each other"):
        outer.to_json()
    with pytest.raises(ProgramError, match="in each other"):
        outer.text()
    assert "call" in str(outer)


def test_numbers_with_too_many_digits_are_not_serialized():
    program = ft.trace(lambda x: x * 10**5000)(np.ones(2))
    with pytest.raises(ProgramError, match="digits"):
        program.to_json()
    with pytest.raises(ProgramError, match="digits"):
        program.text()
    assert "<int>" in str(program)


def test_a_comment_is_a_position_on_its_own_line_only():
    text = "# b.py:7\nf(x: f64[3]) {  # c.py:8\n  # d.py:9\n  y: f64[3] = sin x  # not a position\n  return y\n}"
    assert ft.Program.parse(text).equations[0].source is None
    text = text.replace("not a position", "a b.py:12")
    assert ft.Program.parse(text).equations[0].source.short == "a b.py:12"


# -- time ------------------------------------------------------------------------------------------

LONG = {
    "comment": lambda n: f"f(x: f64[3]) {{\n  y: f64[3] = sin x  #{' ' * n}\n  return y\n}}",
    "comment of colons": lambda n: (
        f"f(x: f64[3]) {{\n  y: f64[3] = sin x  #{':1' * n} \n  return y\n}}"
    ),
    "spaces": lambda n: f"f(x: f64[3]) {{{' ' * n}",
    "lines": lambda n: "\n" * n,
    "digits": lambda n: f"f(x: f64[3]) {{\n  y: f64[3] = mul x {'1' * n}x",
    "fraction": lambda n: f"f(x: f64[3]) {{\n  y: f64[3] = mul x 0.{'1' * n}\n  return y\n}}",
    "complex": lambda n: f"f(x: f64[3]) {{\n  y: f64[3] = mul x ({'1' * n}-{'1' * n}",
    "string": lambda n: f'f(x: f64[3]) {{\n  y: f64[3] = name x {{name="{"a" * n}',
    "escapes": lambda n: f'f(x: f64[3]) {{\n  y: f64[3] = name x {{name="{chr(92) * n}',
    "name": lambda n: f"{'a.' * n}",
    "angles": lambda n: "f() {\n  const k: f64[1] = " + "<f64[1] " * n,
    "sizes": lambda n: f"f(x: f64[{'1,' * n}",
    "axes": lambda n: (
        f"f(x: f64[3]) {{\n  y: f64[] = reduce_sum x {{axes=({'0, ' * n})}}\n  return y\n}}"
    ),
    "operands": lambda n: (
        f"f(x: f64[3]) {{\n  y: f64[3] = concatenate {'x ' * n} {{axis=1}}\n  return y\n}}"
    ),
    "elements": lambda n: f"f() {{\n  const k: f64[{n}] = [{'0.5, ' * n}]\n  return k\n}}",
    "equations": lambda n: (
        "f(x: f64[3]) {\n"
        + "".join(f"y{k}: f64[3] = sin x\n" for k in range(n // 9))
        + "return x\n}"
    ),
}


def seconds(text: str) -> float:
    """Measure the time to parse or refuse a text."""
    start = time.process_time()
    try:
        ft.Program.parse(text)
    except ParseError:
        return time.process_time() - start
    return time.process_time() - start


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
def test_time_is_linear_in_the_text(make):
    small = min(seconds(make(4_000)) for _ in range(3))
    large = seconds(make(64_000))
    assert large < max(64 * small, 0.25)  # 16 times as long: were it quadratic, 256 times


def test_every_param_of_the_library_has_a_kind():
    pytest.importorskip("scipy")
    assert (
        ft.Program.primitives["erf"].name == "erf"
    )  # looking it up loads the primitives of SciPy's functions
    wanted = {name for primitive in ft.Program.primitives.values() for name in primitive.params}
    assert wanted == {name for name in KINDS if "." not in name}
    owners = {name.partition(".")[::2] for name in KINDS if "." in name}
    assert all(name in ft.Program.primitives[owner].params for owner, name in owners)
