"""The user's lines and variables in listings: the same on every version of Python, whatever the
source looks like.
"""

from __future__ import annotations

import linecache
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.source import Source, user_source

X = np.array([1.0, 2.0])
S = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.fixture
def cell() -> Iterator[Any]:
    """Define ``f`` in a source that only linecache knows, as notebooks do."""
    made: list[str] = []

    def define(source: str, *, kept: bool = True) -> Any:
        name = f"<cell {len(made)}>"
        source = textwrap.dedent(source)
        made.append(name)
        if kept:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        scope: dict[str, Any] = {"np": np, "ft": ft}
        exec(compile(source, name, "exec"), scope)
        return scope["f"]

    yield define
    for name in made:
        linecache.cache.pop(name, None)


def names(f: Any, *args: Any) -> list[str]:
    """The names of all results of a function's program, in order."""
    return [var.name for equation in ft.trace(f)(*args).equations for var in equation.outputs]


ASSIGNMENTS = {
    "a call": ("total = x.sum()", ["total"]),
    "a function": ("y = np.sin(x)", ["y"]),
    "an operator": ("y = x * 2", ["y"]),
    "a comparison": ("y = x > 2", ["y"]),
    "a subscript": ("y = x[1:]", ["y"]),
    "an attribute": ("y = s.T", ["y"]),
    "parentheses": ("y = (\n    np.sin(\n        x)\n)", ["y"]),
    "methods on lines of their own": ("y = (s\n    .reshape(-1)\n    .sum())", ["a", "y"]),
    "an attribute on a line of its own": ("y = (s\n    .T)", ["y"]),
    "a method called with keywords, on a line of its own": (
        "y = (s\n    .sum(\n        axis=0))",
        ["y"],
    ),
    "a method called with a mapping": ("y = (s\n    .sum(**{'axis': 0}))", ["y"]),
    "the last of several operations": ("y = np.exp(x) + 1", ["a", "y"]),
    "one function that is several operations": ("y = np.mean(x)", ["a", "y"]),
    "an annotation": ("y: object = np.sin(x)", ["y"]),
    "in place": ("y = np.sin(x); z = y; z += np.cos(\n    x)", ["y", "a", "z"]),
    "a walrus": ("if (y := np.sin(x)) is not None: pass", ["y"]),
    "a walrus inside an assignment": ("z = (y := np.sin(x))", ["y"]),
    "two names": ("y = z = np.sin(x)", ["y"]),
    "a name among other targets": ("box = {}; box[0] = y = np.sin(x)", ["y"]),
    "a pair": ("y, z = np.sin(x), np.cos(x)", ["y", "z"]),
    "a nested pair": (
        "(y, [z, v]), w = (np.sin(x), (np.cos(x), np.tan(x))), -x",
        ["y", "z", "v", "w"],
    ),
    "several results": ("q, r = np.linalg.qr(s)", ["q", "r"]),
    "one of several results": ("box = {}; box[0], r = np.linalg.qr(s)", ["a", "r"]),
    "an array that is unpacked": ("first, second = x", ["first", "second"]),
    "a starred target": ("first, *others = x", ["a", "b"]),
    "a choice": ("y = np.sin(x) if len(x) else np.cos(x)", ["y"]),
    "the other choice": ("y = np.sin(x) if not len(x) else np.cos(x)", ["y"]),
    "no variable": ("box = {}; box['y'] = np.sin(x)", ["a"]),
    "an argument of something else": ("y = str(np.sin(x).shape)", ["a"]),
    "a comprehension": ("ys = [np.sin(v) for v in (x, x)]", ["a", "b"]),
    "the body of a lambda": ("g = lambda v: np.sin(v); y = g(x)", ["a"]),
    "a variable in a lambda": ("g = lambda v: (y := np.sin(v)) * 2; g(x)", ["y", "a"]),
    "a loop": ("y = x\nfor _ in range(3): y = np.sin(y)", ["a", "b", "y"]),
    "wide characters before it": ("é = 'ßß→'; y = np.sin(x); z = [é, np.cos(x)]", ["y", "a"]),
    "a wide name on a line of its own": ("y = (s\n    .T)", ["y"]),
    "a try": ("try: y = np.sin(x)\nfinally: z = np.cos(x)", ["y", "z"]),
}


@pytest.mark.parametrize(("body", "expected"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_variables_are_named_as_the_user_names_them(
    cell: Any, body: str, expected: list[str]
) -> None:
    f = cell("def f(x, s):\n" + textwrap.indent(body, "    ") + "\n    return x\n")
    assert names(f, X, S) == expected


def test_the_scopes_of_classes_globals_and_closures(cell: Any) -> None:
    f = cell(
        """
        def f(x):
            global g
            y = None

            class C:
                z = np.cos(x)

            def inner():
                nonlocal y
                y = np.sin(x)

            inner()
            g = np.tan(x)
            return y, g, C.z
        """
    )
    assert names(f, X) == ["z", "y", "g"]


def test_the_variable_of_a_program_is_not_one_of_its_values(cell: Any) -> None:
    f = cell(
        """
        def f(x):
            program = ft.trace(ft.jacrev(np.tanh))(x)
            return program
        """
    )
    assert "program" not in [var.name for equation in f(X).equations for var in equation.outputs]
    g = cell("def f(x):\n    slopes = ft.jacrev(np.tanh)(x)\n    return slopes\n")
    assert names(g, X)[-1] == "slopes"


def test_without_source_there_are_no_names(cell: Any) -> None:
    f = cell("def f(x):\n    y = np.sin(x)\n    return y\n", kept=False)
    program = ft.trace(f)(X)
    assert [var.name for var in program.outputs] == ["a"]
    assert "<cell 0>:2" in str(program)


def test_a_source_that_is_no_longer_python_gives_no_names(cell: Any) -> None:
    f = cell("def f(x):\n    y = np.sin(x)\n    return y\n")
    linecache.cache["<cell 0>"] = (3, None, ["def f(x:\n", "    y = np.sin(x)\n"], "<cell 0>")
    assert names(f, X) == ["a"]


def test_a_rerun_cell_is_parsed_anew(cell: Any) -> None:
    f = cell("def f(x):\n    y = np.sin(x)\n    return y\n")
    assert names(f, X) == ["y"]
    source = "def f(x):\n    z = np.sin(x)\n    return z\n"
    linecache.cache["<cell 0>"] = (len(source), None, source.splitlines(keepends=True), "<cell 0>")
    scope: dict[str, Any] = {"np": np}
    exec(compile(source, "<cell 0>", "exec"), scope)
    assert names(scope["f"], X) == ["z"]


def test_equal_code_in_two_files_is_distinguished(cell: Any) -> None:
    """Code objects compare without their files (and, before Python 3.12, without their columns)."""
    wide = cell("def f(x):\n    return (np.sin(x),\n        np.cos(x))\n")
    narrow = cell("def f(x):\n    return (np.sin(x), np.cos(x))\n")
    lines = [
        [equation.source.line for equation in ft.trace(f)(X).equations] for f in (wide, narrow)
    ]
    assert lines == [[2, 3], [2, 2]]


def test_reading_a_source_warns_of_nothing(cell: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = cell("def f(x):\n    y, pattern = np.sin(x), '\\d'\n    return y\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert names(f, X) == ["y"]


def test_code_without_columns_has_lines_and_no_names(cell: Any) -> None:
    f = cell("def f(x):\n    y = np.sin(x)\n    return y\n")
    code = f.__code__
    bare = code.replace(
        co_linetable=bytes([0b1_1101_000 | 7, 0]) * ((len(code.co_code) // 2 + 7) // 8)
    )
    f.__code__ = bare
    assert names(f, X) == ["a"]


def test_a_position_has_file_function_and_expression() -> None:
    here = user_source()
    assert here is not None
    assert (here.file, here.function) == (
        __file__,
        "test_a_position_has_file_function_and_expression",
    )
    assert here.expression == "here = user_source()"
    assert here.assigned == ("here",)
    assert str(here) == f"{here.short} in {here.function}:   here = user_source()"


def test_every_instruction_of_this_file_has_a_position() -> None:
    codes = [compile(Path(__file__).read_text(encoding="utf-8"), __file__, "exec")]
    count = 0
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for offset in range(0, len(code.co_code), 2):
            source = Source(code, offset)
            assert source.line >= 0
            assert all(name is None or name.isidentifier() for name in source.assigned)
            count += len(source.assigned)
    assert count > 100


def test_positions_use_no_names_of_instructions() -> None:
    assert "dis" not in vars(sys.modules["functrace.source"])
