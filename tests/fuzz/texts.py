"""Mutated texts and JSON documents of programs: each is a ParseError, or a program that keeps every
promise.

``python -m tests.fuzz.texts --count 100000 --seed 7`` is the long run (tests/fuzz/test_texts.py a
sample of it): it prints what was refused and what was read, and every failure with the number that
makes it again (``--only``).

The texts are those of the programs of tests/cases and tests/control, and of their transforms. A
mutation changes characters, tokens, lines, or nodes of the JSON tree; the words that it brings in
are hostile ones, or come from another program.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import functools
import json
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import functrace as ft
from functrace.errors import FunctraceError, ParseError
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import generate
from functrace.executor.plan.planner import planned
from functrace.ir.check import sub_programs_of
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import jvp_program, linearize_program, transpose_program, vmap_program

CANARY = "functrace_canary"
"""The name in builtins that injected code would set."""
CODE = f"__import__('builtins').{CANARY}.append(1)"
SLOWEST = 3.0
"""Seconds of the processor that everything done with one text may take."""
LONGEST = 5000
"""Characters of a text that is mutated."""
_SHOWN_EVERY = 5000
LARGEST = 100_000
"""Elements of an array, and steps of a loop, up to which a program is also run."""

HOSTILE = [
    f"\n{CODE}\n", f"\u2028{CODE}#", f"\x85    {CODE}#", f'"""\n{CODE}\n"""', f"');{CODE};('", f"# a\r{CODE}:3",
    f"x]); {CODE} #", f'"{CODE}"', f'"\\n{CODE}"', f"# \x0c{CODE}.py:3", f"<{CANARY}>", "__import__", "eval",
    "np.load", "np.add", "np", "@sin", "@call", "...", "None", "True", "nan", "inf", "-inf",
    "infj", "(nan+infj)",
    "(-0.0-0j)", "-0.0", "0", "1", "-1", "2", "3", "65", "1e999", "9" * 40, "9" * 4400, str(2**31),
    str(2**63 - 1),
    str(2**64), "1.5", "0x10", "1_0", "²", "１", "ﬁ", "ｎｐ", "θ", "é", "lambda", "return", "const",
    "slice (1, 2)",
    "slice (None, None, None)", 'bytes "AAA="', 'bytes "?"', "type f64", "f64", "c128", "bool",
    "f80", "i8", "u64",
    "f64[]", "f64[0]", "f64[3]", "f64[2,3]", "f64[9223372036854775807]", "f64[1,1,1,1,1,1,1,1]",
    "()", "(0,)", "(1,)",
    "(0, 1)", "((None, None, None),)", '("array",)', "(" * 60, "{" * 60, "[" * 60, ")", "}", "]",
    ",", ":", "=", "{}",
    '""', '"', "'", "\\", "#", "\x00", "\ufeff", "\ud800", "\u202e", "\t", "  ", "\n", "()", "policy=()", "axes=(0,)",
    "shape=(3,)", "axis=0", "axis=-1", "axis=True", "length=0", "carries=1",
]  # fmt: skip

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 65, 2**31, 2**63, 10**40, 0.0, -0.0, 1.5, 1e300, "", "x",
    "y", "np", "lambda",
    "array", "f64[3]", "i8", "f64[]", "f64[0]", "f64[-1]", "a b", f"\n{CODE}", f"a\u2028{CODE}.py", f"');{CODE}#",
    "\x00", "\ud800", "ﬁ", [], [0], [1], [0, 1], [[]], ["array"], [None], [[None, None, None]], {},
    {"literal": 1},
    {"literal": "x"}, {"float": "nan"}, {"float": "-inf"}, {"float": "x"},
    {"complex": "(nan+infj)"},
    {"dtype": "f32"}, {"dtype_type": "i8"}, {"ellipsis": True}, {"slice": [1, 2, 3]},
    {"slice": [1]},
    {"bytes": "AAA="}, {"bytes": "?"}, {"aval": "f64[2]"}, {"primitive": "sin"}, {"ufunc": "add"},
    {"ufunc": "load"},
    {"program": {}}, {"a": 1, "b": 2}, ["a.py", 3, "f"], [f"a\n{CODE}", 3, "f"], ["a.py", -1, "f"],
    ["a.py", 10**12, "f"],
]  # fmt: skip

_PARAMS = re.compile(r"\{.*=.*\}")
_PART = re.compile(r'-?\d+|None|True|False|\.\.\.|"\w*"')
_TOKEN = re.compile(r'"[^"\n]*"|[\w.]+|[^\S\n]+|\n|.', re.DOTALL)


# -- the texts that are mutated --------------------------------------------------------------------


@functools.lru_cache(1)
def corpus() -> tuple[ft.Program, ...]:
    """Programs of every primitive: those of the cases and of the functions that hold programs, and
    their derivatives.
    """
    from tests.control.programs import WRITTEN, X
    from tests.test_cases import CASES

    found: dict[Any, ft.Program] = {}
    calls = [(case.call, case.args, case.diff) for case in CASES if case.written] + [
        (f, (X,), (0,)) for f in WRITTEN.values()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f, args, diff in calls:
            try:
                program = ft.trace(f)(*args)
                forms = [program, *(_derived(program, diff) if diff else ())]
            except (
                FunctraceError,
                TypeError,
                ValueError,
            ):  # what only values can say, and what has no derivative
                continue
            for form in forms:
                if len(form.text()) <= LONGEST:
                    found.setdefault(form, form)
    return tuple(found.values())


def _derived(program: ft.Program, diff: tuple[int, ...]) -> list[ft.Program]:
    flags = [k in diff for k in range(len(program.inputs))]
    _, linear = linearize_program(program, flags)
    count = len(linear.inputs) - sum(flags)
    backward = transpose_program(linear, [False] * count + [True] * sum(flags))
    return [jvp_program(program, flags), backward, vmap_program(program, 2)]


@functools.lru_cache(1)
def texts() -> tuple[str, ...]:
    """The listings of the corpus."""
    return tuple(program.text() for program in corpus())


@functools.lru_cache(1)
def documents() -> tuple[str, ...]:
    """The JSON documents of the corpus."""
    return tuple(program.to_json() for program in corpus())


# -- mutations -------------------------------------------------------------------------------------


def mutated_text(chance: random.Random) -> str:
    """Return a listing with one to three changes; half of them are such that it may well be read."""
    text = chance.choice(texts())
    if chance.random() < 0.5:
        for _ in range(chance.choice((1, 1, 2))):
            text = chance.choice((_params, _params, _operands, _numbers))(text, chance, texts())
        return _repaired(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = chance.choice((_characters, _tokens, _tokens, _tokens, _lines))(
            text, chance, texts()
        )
    return text


def mutated_document(chance: random.Random) -> str:
    """Return a JSON document with one to three changes of its tree, or of its characters."""
    text = chance.choice(documents())
    if chance.random() < 0.15:
        return _characters(text, chance, documents())
    data = json.loads(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        _change_node(data, chance)
    return json.dumps(data)


def _repaired(text: str) -> str:
    """Let equations state the avals that their primitives give: so changes of params and operands
    are read.
    """
    for _ in range(4):
        try:
            ft.Program.parse(text)
        except ParseError as error:
            found = re.match(r"line (\d+): \w+ gives (.*) here$", error.what.split("\n")[0])
            if found is None:
                return text
            lines = text.split("\n")
            left, equals, right = lines[int(found[1]) - 1].partition(" = ")
            avals = iter(re.findall(r"\w+\[[\d,]*\]", found[2]))
            left = re.sub(r"\w+\[[\d,]*\]", lambda match: next(avals, match[0]), left)
            lines[int(found[1]) - 1] = left + equals + right
            text = "\n".join(lines)
        else:
            return text
    return text


def _characters(text: str, chance: random.Random, _: Any) -> str:
    a, b = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    b = min(b, a + chance.choice((0, 1, 1, 2, 8, 100)))
    match chance.randrange(5):
        case 0:
            return text[:a] + text[b:]
        case 1:
            return text[:a] + chance.choice(HOSTILE) + text[b:]
        case 2:
            return text[:a] + text[a:b] * chance.choice((2, 3, 50)) + text[b:]
        case 3:
            return (
                text[:a]
                + chr(chance.choice((chance.randrange(128), chance.randrange(0x2100), 0x1D431)))
                + text[a + 1 :]
            )
        case _:
            return text[:a]


def _tokens(text: str, chance: random.Random, others: tuple[str, ...]) -> str:
    tokens = _TOKEN.findall(text) or [""]
    a, b = (chance.randrange(len(tokens)) for _ in range(2))
    match chance.randrange(6):
        case 0:
            tokens[a] = chance.choice(HOSTILE)
        case 1:
            tokens[a] = chance.choice(_TOKEN.findall(chance.choice(others)))
        case 2:
            tokens[a], tokens[b] = tokens[b], tokens[a]
        case 3:
            tokens[a] = tokens[b]
        case 4:
            del tokens[a]
        case _:
            tokens.insert(a, tokens[b])
    return "".join(tokens)


def _lines(text: str, chance: random.Random, others: tuple[str, ...]) -> str:
    lines = text.split("\n")
    a, b = (chance.randrange(len(lines)) for _ in range(2))
    match chance.randrange(4):
        case 0:
            lines[a], lines[b] = lines[b], lines[a]
        case 1:
            lines.insert(a, lines[b])
        case 2:
            del lines[a]
        case _:
            lines[a] = chance.choice(chance.choice(others).split("\n"))
    return "\n".join(lines)


def _numbers(text: str, chance: random.Random, _: Any) -> str:
    """Change a number, everywhere or at one place: what is well formed stays so more often."""
    numbers = list(re.finditer(r"(?<![\w.])-?\d+(?![\w.])", text))
    if not numbers:
        return text
    found = chance.choice(numbers)
    new = str(
        chance.choice(
            (int(found[0]) + chance.choice((-1, 1)), 0, 1, -1, 2, 1.0, True, 2**63, "None")
        )
    )
    if chance.random() < 0.5:
        return text[: found.start()] + new + text[found.end() :]
    return re.sub(rf"(?<![\w.]){re.escape(found[0])}(?![\w.])", new, text)


def _params(text: str, chance: random.Random, _: Any) -> str:
    """Change one part of the params of an equation."""
    found = [
        (line.start() + part.start(), line.start() + part.end())
        for line in _PARAMS.finditer(text)
        for part in _PART.finditer(line[0])
    ]
    if not found:
        return text
    a, b = chance.choice(found)
    new = chance.choice(
        (
            "-3",
            "-2",
            "-1",
            "0",
            "1",
            "2",
            "3",
            "4",
            "5",
            "7",
            "None",
            "True",
            "False",
            "...",
            "1.0",
            '"array"',
            "(0, 1)",
        )
    )
    match chance.randrange(4):
        case 0:
            return text[:b] + ", " + new + text[b:]
        case 1:
            return text[:a] + text[b:].removeprefix(", ")
        case _:
            return text[:a] + new + text[b:]


def _operands(text: str, chance: random.Random, _: Any) -> str:
    """Give an equation another variable, or another primitive of the library."""
    lines = text.split("\n")
    places = [k for k, line in enumerate(lines) if " = " in line and "const " not in line]
    variables = re.findall(r"(\w+): \w+\[", text)
    if not places or not variables:
        return text
    k = chance.choice(places)
    left, equals, right = lines[k].partition(" = ")
    words = right.split(" ")
    at = chance.randrange(min(len(words), 4))
    words[at] = (
        chance.choice(sorted(ft.Program.primitives))
        if at == 0
        else chance.choice((*variables, "2.0", "1", "True", "1j", ""))
    )
    lines[k] = left + equals + " ".join(words)
    return "\n".join(lines)


def _change_node(data: Any, chance: random.Random) -> None:
    """Change a node of a tree in place."""
    places: list[tuple[Any, Any]] = []
    stack = [data]
    while stack:
        node = stack.pop()
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                stack.append(node[key])
    if not places:
        return
    node, key = chance.choice(places)
    match chance.randrange(7):
        case 0 | 1:
            node[key] = copy.deepcopy(chance.choice(VALUES))
        case 2:
            other, place = chance.choice(places)
            node[key] = json.loads(json.dumps(other[place]))
        case 3:
            del node[key]
        case 4:
            if isinstance(node, list):
                node.insert(key, json.loads(json.dumps(chance.choice(node))))
            else:
                node[chance.choice(("name", "aval", "more", "source", str(key) + "s"))] = node.pop(
                    key
                )
        case 5:
            value = node[key]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            node[key] = value + chance.choice((-1, 1)) if is_number else [value]
        case _:
            value = copy.deepcopy(chance.choice(VALUES))
            node[key] = json.loads(chance.choice(documents())).get(str(key), value)


# -- the property ----------------------------------------------------------------------------------


def outcome(read: Callable[[str], ft.Program], text: str) -> str:
    """Return what became of a text: ``refused``, ``read`` or ``run``.

    Raises:
        AssertionError: if a promise is broken; any other exception breaks one, too.
    """
    builtins.__dict__[CANARY] = sung = []
    start = time.process_time()
    try:
        program = read(text)
    except ParseError:
        word = "refused"
    else:
        word = _kept(program)
    assert not sung, "foreign code was run"
    seconds = time.process_time() - start
    assert seconds < SLOWEST, f"{seconds:.1f} s"
    return word


def _kept(program: ft.Program) -> str:
    """Check what is promised of every program that was read."""
    program.check()
    str(program), repr(program), hash(program), str(program.cost())
    assert ft.Program.parse(program.text()) == program
    assert ft.Program.from_json(program.to_json()) == program
    ast.parse(generate(planned(program))[0])
    source = program.as_python("emitted")
    assert source.isascii() or all(
        node.id.isascii() for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)
    )
    scope: dict[str, Any] = {}
    exec(compile(source, "<emitted>", "exec"), scope)
    if not is_small(program):
        return "read"
    return _run(program, scope["emitted"])


def is_small(program: ft.Program) -> bool:
    """Return True if a program is cheap to run."""
    if sum(aval.size for aval in program.avals) > LARGEST or any(
        isinstance(x, int) and abs(x) > LARGEST
        for _, _, params in program.ops
        for x in _flat(params)
    ):
        return False
    return all(
        is_small(held) for _, _, params in program.ops for _, held in sub_programs_of(params, "")
    )


def _flat(value: Any) -> list[Any]:
    return [x for part in value for x in _flat(part)] if type(value) is tuple else [value]


def _run(program: ft.Program, emitted: Callable[..., Any]) -> str:
    """Run a program on the evaluator, compiled, and as NumPy: all raise, or all give the same."""
    rng = np.random.default_rng(0)
    arguments = [_argument(rng, var.aval) for var in program.inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = evaluate_program(program, arguments)
        except Exception:  # what NumPy refuses for its values
            return "read"
        for result, var in zip(results, program.outputs, strict=True):
            found = ft.ShapeDtype(np.shape(result), np.asarray(result).dtype)
            assert found is var.aval, f"{var} is {found}"
        written = emitted(*arguments)
        _same(results, written if len(results) != 1 else (written,))
        runner = Runner(program)
        runner.compile()
        _same(results, runner(arguments))
    return "run"


def _argument(rng: np.random.Generator, aval: ft.ShapeDtype) -> Any:
    if aval.dtype.kind in "biu":
        return rng.integers(0, 2, aval.shape).astype(aval.dtype)[()]
    return np.asarray(rng.uniform(0.2, 0.9, aval.shape)).astype(aval.dtype)[()]


def _same(results: Any, others: Any) -> None:
    for a, b in zip(results, others, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (
            f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
        )
        np.testing.assert_allclose(a, b, rtol=1e-2 if a.dtype == np.float16 else 1e-4, atol=1e-6)


# -- runs ------------------------------------------------------------------------------------------


def one(seed: int, number: int) -> tuple[Callable[[str], ft.Program], str]:
    """Return the reader and the text of one run."""
    chance = random.Random(f"{seed}/{number}")
    if number % 2:
        return ft.Program.from_json, mutated_document(chance)
    return ft.Program.parse, mutated_text(chance)


def run(
    seed: int, numbers: range, show: Callable[[str], None] = print
) -> tuple[Counter[str], list[int]]:
    """Make many runs; returns what became of the texts, and the numbers of runs that failed."""
    counts: Counter[str] = Counter()
    failed: list[int] = []
    for number in numbers:
        read, text = one(seed, number)
        try:
            counts[outcome(read, text)] += 1
        except Exception as error:  # every one is a finding
            counts["failed"] += 1
            failed.append(number)
            where = traceback.extract_tb(error.__traceback__)[-1]
            show(
                f"run {number}: {type(error).__name__}: {str(error)[:300]} ({where.name}, {where.filename}:{where.lineno})"
            )
    return counts, failed


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, help="show one run's text, and what becomes of it")
    options = parser.parse_args()
    if options.only is not None:
        read, text = one(options.seed, options.only)
        print(text)
        print(outcome(read, text))
        return
    start, total, failed = time.time(), Counter[str](), list[int]()
    end = options.first + options.count
    for first in range(options.first, end, _SHOWN_EVERY):
        counts, more = run(options.seed, range(first, min(first + _SHOWN_EVERY, end)))
        total += counts
        failed += more
        done = f"{total.total()} texts of {len(corpus())} programs, seed {options.seed}, from {options.first}"
        print(f"{done}: {dict(total)}, {time.time() - start:.0f} s", flush=True)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
