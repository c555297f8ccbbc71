"""First sight: what runs at once, by templates, is what the rules' program gives to the last bit, and so is what follows."""

from __future__ import annotations

import gc
import importlib
import math
import pkgutil
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
import tests.cases
from functrace.executor import Runner
from functrace.executor.cache import CACHE
from functrace.executor.first_sight import FirstSight, first_sight
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Program
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import (
    grad_program,
    jvp_program,
    linearize_program,
    pullback_programs,
    templates,
    transpose_program,
)
from functrace.transforms.gradient import grad_program_by_rules
from functrace.transforms.linearize import jvp_by_rules, linearize_by_rules
from functrace.transforms.templates import TEMPLATES, choose
from tests.cases.case import Case
from tests.laws.programs import Recipe, programs, seeds

X = np.array([0.3, 0.5, 0.7])


SAMPLED = 3
"""Every third case, for the sake of time; all have been tried by hand."""


def every_case() -> list[Case]:
    found: dict[str, Case] = {}
    for module in pkgutil.iter_modules(tests.cases.__path__):
        for case in getattr(importlib.import_module(f"tests.cases.{module.name}"), "CASES", ()):
            found[case.name] = case
    return [case for case in found.values() if case.diff][::SAMPLED]


def scalar(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of all results that carry a derivative, each with weights of its own."""

    def g(*xs: Any) -> Any:
        total: Any = 0.0
        for leaf in ft.tree.leaves(f(*xs)):
            if leaf.dtype.kind in "fc":
                weights = np.linspace(0.5, 1.5, math.prod(np.shape(leaf))).reshape(np.shape(leaf))
                total = total + np.sum(np.real(leaf) * weights.astype(leaf.real.dtype))
        return total

    return g


def lines(program: Program) -> list[Any]:
    """Where its operations come from. (What an input comes from nobody asks.)"""
    return [program.positions[k] for k, op in enumerate(program.ops) if op[0] is not INPUT and op[0] is not CONSTANT]


def same_tape(found: Program, expected: Program) -> None:
    for k, (op, other) in enumerate(zip(found.ops, expected.ops, strict=True)):
        assert op == other, k
    assert found.avals == expected.avals
    assert list(map(repr, found.literals)) == list(map(repr, expected.literals))
    assert (found.input_ids, found.output_ids) == (expected.input_ids, expected.output_ids)
    assert lines(found) == lines(expected)
    assert list(found.constant_values) == list(expected.constant_values)
    for value, other in zip(found.constant_values.values(), expected.constant_values.values(), strict=True):
        assert type(value) is type(other)
        np.testing.assert_array_equal(value, other, strict=True)


def bits(value: Any) -> Any:
    """What tells two results apart."""
    return type(value), value.dtype, value.shape, np.ascontiguousarray(value).tobytes()


def check(program: Program, arguments: Sequence[Any], flags: Sequence[bool], *, compile: bool = False) -> bool:
    """Hold the tiers of a gradient to the rules' program; returns whether there are templates."""
    for with_value in (True, False):
        first = first_sight(program, flags, with_value)
        if first is None:
            return False
        by_rules = grad_program_by_rules(program, flags, with_value)
        same_tape(grad_program(program, flags, with_value), by_rules)
        runner = Runner(first)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = Runner(by_rules).interpret(arguments)
            results = runner(arguments)
            assert [bits(value) for value in results] == [bits(value) for value in expected]
            own = [value for value in results if isinstance(value, np.ndarray)]
            for k, value in enumerate(own):
                assert value.flags.writeable
                assert not any(np.may_share_memory(value, other) for other in (*own[:k], *arguments))
            if compile:
                for value, other in zip(runner.compile()(*arguments), expected, strict=True):
                    assert bits(np.asarray(value)) == bits(np.asarray(other))
    return True


def check_pullback(f: Callable[..., Any], arguments: Sequence[Any], flags: Sequence[bool]) -> bool:
    """Hold both programs of a pullback to the rules'."""
    program = ft.trace(f)(*arguments)
    if choose(program, flags) is None:
        return False
    count = len(program.output_ids)
    found = pullback_programs(program, flags, count)
    forward, linear = linearize_by_rules(program, flags, count)
    check_pushforward(program, flags, count, (forward, linear))
    rest = len(linear.input_ids) - sum(flags)
    expected = forward, transpose_program(linear, [False] * rest + [True] * sum(flags))
    same_tape(found[0].check(), forward)
    for program, other in zip(found, expected, strict=True):
        assert program.ops == other.ops
        assert list(map(repr, program.literals)) == list(map(repr, other.literals))
        assert (program.avals, program.input_ids, program.output_ids) == (other.avals, other.input_ids, other.output_ids)
        for value, right in zip(program.constant_values.values(), other.constant_values.values(), strict=True):
            np.testing.assert_array_equal(value, right, strict=True)
    found[1].check()
    return True


def check_pushforward(program: Program, flags: Sequence[bool], count: int, expected: tuple[Program, Program]) -> None:
    """Hold forward mode to the rules': the same tapes, but for the numbers of the residuals."""
    same_tape(jvp_program(program, flags, count).check(), jvp_by_rules(program, flags, count))
    forward, linear = linearize_program(program, flags, count)
    same_tape(forward.check(), expected[0])
    assert linear.check() == expected[1]
    assert lines(linear) == lines(expected[1])


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "RULES_PER_TEMPLATE", 0)


_WITHOUT: list[str] = []


@pytest.mark.parametrize("case", every_case(), ids=lambda case: case.name)
def test_templates_are_the_rules_tape_and_its_results(case: Case) -> None:
    done = []
    for args in (case.args, *case.edge):
        places = [k for k in case.diff if k < len(args) and getattr(args[k], "dtype", np.dtype("O")).kind in "fc"]
        if not places:
            continue
        chosen = [np.asarray(args[k])[()] for k in places]

        def f(*xs: Any, args: Any = args, places: Any = places) -> Any:
            whole = list(args)
            for k, x in zip(places, xs, strict=True):
                whole[k] = x
            return case.call(*whole)

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                program = ft.trace(scalar(f))(*chosen)
                grad_program_by_rules(program, [True] * len(chosen))
            except Exception:
                continue  # an edge that NumPy, or the rule, refuses
        done.append(check(program, chosen, [True] * len(chosen)))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check_pullback(f, chosen, [True] * len(chosen))
    if not any(done):
        _WITHOUT.append(case.name)


def test_most_cases_have_templates() -> None:
    assert len(_WITHOUT) < 0.25 * len(every_case()), _WITHOUT


@given(programs(held=False), seeds())
def test_random_programs(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    program = ft.trace(scalar(recipe))(*arguments)
    assert check(program, arguments, [True] * len(arguments), compile=True)


@given(programs(held=False), seeds(), st.data())
def test_random_programs_by_some_of_their_inputs(recipe: Recipe, seed: int, data: st.DataObject) -> None:
    arguments = recipe.arguments(seed)
    flags = [data.draw(st.booleans()) for _ in arguments]
    assert check(ft.trace(scalar(recipe))(*arguments), arguments, flags)
    assert check_pullback(recipe, arguments, flags)
    assert check_pullback(lambda *xs: (xs[0], *recipe(*xs), xs[0] + 1.0, *recipe(*xs)), arguments, flags)


NUMBERS = [0.0, -0.0, 1.0, 2.0, 0.5, -1.5, math.nan, math.inf, 1e300, 5e-324, 2, 0, -1, 10**6, 1 << 62, True, False]
LAYOUTS = {
    "f64": X,
    "f32": X.astype(np.float32),
    "c128": X + 0.25j,
    "strided": np.linspace(0.1, 0.9, 12).reshape(3, 4)[::2, ::-1],
    "fortran": np.asfortranarray(np.linspace(0.1, 0.9, 12).reshape(3, 4)),
    "0-d": np.array(0.4),
    "scalar": np.float64(0.4),
    "empty": np.zeros((0, 2)),
}
WITH_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "x + c": lambda x, c: x + c,
    "c - x": lambda x, c: c - x,
    "x * c": lambda x, c: x * c,
    "c / x": lambda x, c: c / x,
    "x / c": lambda x, c: x / c,
    "x ** c": lambda x, c: x**c,
    "c ** x": lambda x, c: c**x,
    "where": lambda x, c: np.where(np.real(x) > c, x, c),
    "maximum": np.maximum,
    "minimum": lambda x, c: np.minimum(c, x),
    "clip": lambda x, c: np.clip(x, c, None),
    "fmax": np.fmax,
    "remainder": np.remainder,
    "hypot": np.hypot,
    "arctan2": np.arctan2,
    "logaddexp": np.logaddexp,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", WITH_NUMBERS)
def test_numbers_that_change(form: str, layout: str) -> None:
    """A template that was made for one number is right for all others, in whatever order they come."""
    f, x = WITH_NUMBERS[form], LAYOUTS[layout]
    for number in NUMBERS:

        def g(x: Any, number: Any = number) -> Any:
            return f(np.sin(x) + x, number) * number + x

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                program = ft.trace(scalar(g))(x)
                grad_program_by_rules(program, [True])
            except (TypeError, OverflowError, ft.errors.FunctraceError):
                continue  # complex numbers have no order
            assert check(program, [x], [True])


def test_who_says_that_it_is_blind_is() -> None:
    """A blind rule gives the same pieces whatever the number; those of all others are told apart."""
    TEMPLATES.clear()
    for number in NUMBERS:
        for form in ("x + c", "c - x", "x * c", "c / x", "x / c", "where", "maximum", "minimum", "clip"):
            if type(number) is bool:
                continue
            f = WITH_NUMBERS[form]
            program = ft.trace(lambda x, number=number, f=f: np.sum(f(np.sin(x), number)))(X)
            assert choose(program, [True]) is not None
    blind = [key for key in TEMPLATES.entries if any(isinstance(spec, type) for spec in key[1])]
    assert blind
    assert all(key[0].blind for key in blind)
    assert all(len(key) == 4 or key[4:] == ((),) for key in blind), blind  # no number among them
    count = len(TEMPLATES)
    for k in range(100):  # as a loop counter does
        assert choose(ft.trace(lambda x, k=k: np.sum(np.sin(x) * k + 0.1 * k))(X), [True]) is not None
    assert len(TEMPLATES) == count


SHARED: dict[str, Callable[[Any], Any]] = {
    "x + 1 read twice, and x": lambda x: np.sum((x + 1.0) * (x + 1.0) * x * np.sin(x + 1.0)),
    "chain of sums": lambda x: np.sum(((x + 0.1) * 1.3 + x + 0.7) * np.exp(x + 0.3) * x),
    "x * x": lambda x: np.sum(x * x + np.hypot(x, x) + np.where(x > 0, x, x)),
    "the argument itself": lambda x: x[0],
    "not of the argument": lambda x: np.sum(np.sign(x)) * 1.0,
    "one value in many terms": lambda x: np.sum(np.sin(x) * 0.1 + np.sin(x) ** 2 - np.cos(x) * x + x[::-1] * x),
}


@pytest.mark.parametrize("name", SHARED)
def test_sums_of_cotangents_are_in_the_rules_order(name: str) -> None:
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e-9, 1e9):
        x = rng.normal(size=7) * scale
        assert check(ft.trace(SHARED[name])(x), [x], [True], compile=True)


def loop(turns: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(turns):
            x = np.sin(x) * 1.01
        return np.sum(x)

    return f


def test_the_first_gradient_makes_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a program was made")

    CACHE.clear()
    f = loop(25)
    expected = grad_program_by_rules(ft.trace(f)(X), [True], True)
    with monkeypatch.context() as patch:
        patch.setattr(FirstSight, "splicing", never)
        patch.setattr("functrace.api.differentiate.grad_program", never)
        value, gradient = ft.value_and_grad(f)(X)
        assert ft.grad(f)(X).tobytes() == gradient.tobytes()
    assert [value, gradient.tobytes()] == [evaluate_program(expected, [X])[0], evaluate_program(expected, [X])[1].tobytes()]


def test_callers_may_write_into_what_they_gave_and_got() -> None:
    table = np.array([1.0, 2.0, 3.0])

    def f(x: Any, y: Any) -> Any:
        return np.sum(x * table + y), x

    x, y = np.array([0.1, 0.2, 0.3]), np.array([1.0, 1.0, 1.0])
    for _ in range(4):  # in every tier
        value, gradients = ft.value_and_grad(f, argnums=(0, 1), has_aux=True)(x, y)
        (total, aux), kept = value, [np.copy(g) for g in gradients]
        before = np.copy(x)
        x += 1.0
        table[:] = table * 1.5
        np.testing.assert_array_equal(aux, before)
        for gradient, copy in zip(gradients, kept, strict=True):
            np.testing.assert_array_equal(gradient, copy)
            gradient[:] = 99.0
        np.testing.assert_array_equal(kept[0], table / 1.5)
        np.testing.assert_array_equal(kept[1], 1.0)
        assert np.isfinite(total)


def test_warnings_and_errors_name_the_users_line() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        z = np.log(y)  # here
        return np.sum(z)

    line = f.__code__.co_firstlineno + 2
    CACHE.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ft.value_and_grad(f)(np.array([0.0, 1.0]))
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}
    assert [str(warning.message).rpartition(" ")[2] for warning in caught] == ["log", "reciprocal", "multiply"][
        : len(caught)
    ]
    assert len(caught) >= 2
    CACHE.clear()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as raised:
        ft.grad(f)(np.array([0.0, 1.0]))
    assert f"test_first_sight.py:{line}" in "\n".join(raised.value.__notes__)
    np.testing.assert_allclose(ft.grad(f)(X), np.cos(X) / np.sin(X))


def test_an_error_leaves_nothing_behind() -> None:
    f, x = loop(30), np.zeros((2, 3))
    expected = ft.grad(f)(x)
    CACHE.clear()
    with pytest.raises(ft.errors.ShapeError):
        ft.grad(lambda x: np.sin(x) * np.ones(7))(x)
    assert np.geterr()["divide"] == "warn"
    assert gc.isenabled()
    np.testing.assert_array_equal(ft.grad(f)(x), expected)


def test_a_rule_that_raises_does_so_in_the_users_line() -> None:
    refusing = ft.ir.primitive.Primitive(
        "refusing",
        eval=np.sin,
        aval=lambda x: x,
        jvp=ft.ir.primitive.absent(because="refusing has no derivative", instead="use np.sin"),
        transpose=ft.ir.primitive.absent(because="it is not linear", instead="use np.sin"),
        batch=ft.ir.primitive.absent(because="it has no axes", instead="use np.sin"),
    )
    from functrace.tracing.binding import bind

    for _ in range(2):
        with pytest.raises(ft.errors.NotDifferentiableError, match="refusing has no derivative"):
            ft.grad(lambda x: np.sum(bind(refusing, (np.sin(x) * 2.0,))))(X)


def test_threads_make_templates_at_the_same_time() -> None:
    wrong: list[Any] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=3 + seed % 2)
        start.wait()
        for turns in (5, 20, 40):
            f = loop(turns)
            expected = grad_program_by_rules(ft.trace(f)(x), [True], False)
            for _ in range(3):
                if ft.grad(f)(x).tobytes() != evaluate_program(expected, [x])[0].tobytes():
                    wrong.append((seed, turns))

    for _ in range(3):
        ft.clear_caches()
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_templates_are_made_when_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "RULES_PER_TEMPLATE", 20)
    ft.clear_caches()
    short, long = ft.trace(loop(2))(X), ft.trace(loop(100))(X)
    assert choose(short, [True]) is None
    assert len(TEMPLATES) == 0
    assert choose(long, [True]) is not None
    assert choose(short, [True]) is not None
    ft.clear_caches()
    met = 0
    while choose(short, [True]) is None:
        met += 1
    assert 5 <= met <= 20


def test_what_holds_programs_is_left_to_the_rules() -> None:
    for f in (
        lambda x: np.sum(ft.checkpoint(np.sin)(x) * 2.0),
        lambda x: ft.scan(lambda c, _: (np.sin(c), None), x, None, 3)[0][0],
        lambda x: np.sum(np.modf(x)[0]),
        lambda x: np.sum(np.sin(x) + np.zeros(1 << 17)),
    ):
        program = ft.trace(f)(np.float64(0.3) if f.__code__.co_name == "never" else X[:1])
        assert choose(program, [True]) is None


def test_a_template_is_dropped_and_made_again() -> None:
    f = loop(25)
    expected = ft.grad(f)(X)
    ft.clear_caches()
    assert len(TEMPLATES) == 0
    np.testing.assert_array_equal(ft.grad(f)(X), expected)
    assert len(TEMPLATES) > 0
