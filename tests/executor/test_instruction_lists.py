"""Templates give the tape that the rules give, operation by operation; instruction lists give its
results, bit for bit.
"""

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
from functrace.executor import interpreter as instructions
from functrace.executor.cache import CACHE
from functrace.executor.interpreter import InstructionList, ListSink
from functrace.ir.parts import Assembly, Rewrite
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Program
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import (
    grad_program,
    jvp_program,
    linearize_program,
    pullback_programs,
    templates,
)
from functrace.transforms.derivatives import gradient
from functrace.transforms.templates import TEMPLATES
from functrace.transforms.walk import NeedsTape
from tests.cases.case import Case
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_bits

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
    """The source positions of a program's operations, without inputs and constants."""
    return [
        program.positions[k]
        for k, op in enumerate(program.ops)
        if op[0] is not INPUT and op[0] is not CONSTANT
    ]


def same_tape(found: Program, expected: Program) -> None:
    for k, (op, other) in enumerate(zip(found.ops, expected.ops, strict=True)):
        assert op == other, k
    assert found.avals == expected.avals
    assert list(map(repr, found.literals)) == list(map(repr, expected.literals))
    assert (found.input_ids, found.output_ids) == (expected.input_ids, expected.output_ids)
    assert lines(found) == lines(expected)
    assert list(found.constant_values) == list(expected.constant_values)
    for value, other in zip(
        found.constant_values.values(), expected.constant_values.values(), strict=True
    ):
        assert type(value) is type(other)
        np.testing.assert_array_equal(value, other, strict=True)


def in_order(program: Program) -> Program:
    """A program without dead code, and with its constants just before they are read."""
    write = Rewrite(program)
    return write.finish(write.keep_all())


def whole(forward: Program, backward: Program, count: int) -> Program:
    """Both programs of a pullback as one: in which order residuals are handed over is of no
    consequence.
    """
    build = Assembly()
    inputs = [build.input(forward.avals[i]) for i in forward.check().input_ids]
    outputs = build.splice(forward, inputs)
    cotangents = backward.check().input_ids[len(outputs) - count :]
    given = [build.input(backward.avals[i]) for i in cotangents]
    return in_order(
        build.program(
            [*outputs[:count], *build.splice(backward, [*outputs[count:], *given])], "whole"
        )
    )


def bits(value: Any) -> Any:
    """The type, dtype, shape and bits of a result. (NaNs are made equal: NumPy's scalars and ufuncs
    do not agree on their signs.)
    """
    array = np.ascontiguousarray(value)
    if array.dtype.kind in "fc":
        parts = array.view(array.real.dtype)
        array = np.where(np.isnan(parts), np.nan, parts)
    return type(value), value.dtype, value.shape, array.tobytes()


def by_list(
    program: Program, flags: Sequence[bool], with_value: bool = True
) -> InstructionList | None:
    """The gradient of a program as a list, if all of its operations have templates."""
    sink = ListSink(program)
    try:
        return sink.finish(gradient(program, flags, with_value, sink))
    except NeedsTape:
        return None


def check(
    program: Program, arguments: Sequence[Any], flags: Sequence[bool], *, compile: bool = False
) -> bool:
    """Hold both ways to a gradient to the rules' program; returns whether all operations have
    templates.
    """
    for with_value in (True, False):
        by_rules = grad_program(program, flags, with_value, by_rules=True)
        same_tape(grad_program(program, flags, with_value), by_rules)
        listed = by_list(program, flags, with_value)
        if listed is None:
            return False
        runner = Runner.of_gradient(program, flags, with_value)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = Runner(by_rules).interpret(arguments)
            assert [bits(np.asarray(value)) for value in expected] == [
                bits(np.asarray(value)) for value in evaluate_program(by_rules, arguments)
            ]
            results = instructions.run(listed, arguments, ())
            assert [bits(value) for value in results] == [bits(value) for value in expected]
            own = [value for value in results if isinstance(value, np.ndarray)]
            for k, value in enumerate(own):
                assert value.flags.writeable
                assert not any(
                    np.may_share_memory(value, other) for other in (*own[:k], *arguments)
                )
            if compile:
                for value, other in zip(runner.compile()(*arguments), expected, strict=True):
                    assert bits(np.asarray(value)) == bits(np.asarray(other))
    return True


def check_pullback(f: Callable[..., Any], arguments: Sequence[Any], flags: Sequence[bool]) -> bool:
    """Hold both programs of a pullback to the rules'."""
    program = ft.trace(f)(*arguments)
    count = len(program.output_ids)
    same_tape(
        *[
            whole(*pullback_programs(program, flags, count, by_rules=flag), count)
            for flag in (False, True)
        ]
    )
    check_pushforward(program, flags, count)
    return by_list(program, flags) is not None


def check_pushforward(program: Program, flags: Sequence[bool], count: int) -> None:
    """Hold forward mode to the rules': the same operations, of which those of one derivative may be
    interleaved.
    """
    made, by_rules = (
        jvp_program(program, flags, count, by_rules=flag).check() for flag in (False, True)
    )
    assert sorted(map(str, made.kinds)) == sorted(map(str, by_rules.kinds))
    assert len(made.schedule) == len(by_rules.schedule)
    found, expected = (
        linearize_program(program, flags, count, by_rules=flag) for flag in (False, True)
    )
    for one, other in zip(found, expected, strict=True):
        same_tape(in_order(one.check()), in_order(other))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "RULES_PER_TEMPLATE", 1)


_WITHOUT: list[str] = []


@pytest.mark.sampled(48)
@pytest.mark.parametrize("case", every_case(), ids=lambda case: case.name)
def test_templates_are_the_rules_tape_and_its_results(case: Case) -> None:
    done = []
    for args in (case.args, *case.edge):
        places = [
            k
            for k in case.diff
            if k < len(args) and getattr(args[k], "dtype", np.dtype("O")).kind in "fc"
        ]
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
                grad_program(program, [True] * len(chosen), by_rules=True)
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
def test_random_programs_by_some_of_their_inputs(
    recipe: Recipe, seed: int, data: st.DataObject
) -> None:
    arguments = recipe.arguments(seed)
    flags = [data.draw(st.booleans()) for _ in arguments]
    assert check(ft.trace(scalar(recipe))(*arguments), arguments, flags)
    assert check_pullback(recipe, arguments, flags)
    assert check_pullback(
        lambda *xs: (xs[0], *recipe(*xs), xs[0] + 1.0, *recipe(*xs)), arguments, flags
    )


NUMBERS = [
    0.0,
    -0.0,
    1.0,
    2.0,
    0.5,
    -1.5,
    math.nan,
    math.inf,
    1e300,
    5e-324,
    2,
    0,
    -1,
    10**6,
    1 << 62,
    True,
    False,
]
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


@pytest.mark.sampled(20)
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
                grad_program(program, [True], by_rules=True)
            except (TypeError, OverflowError, ft.errors.FunctraceError):
                continue  # complex numbers have no order
            assert check(program, [x], [True])


def test_blind_rules_do_not_depend_on_the_number() -> None:
    """A blind rule gives the same pieces whatever the number; those of all others are told apart."""
    TEMPLATES.clear()
    for number in NUMBERS:
        for form in (
            "x + c",
            "c - x",
            "x * c",
            "c / x",
            "x / c",
            "where",
            "maximum",
            "minimum",
            "clip",
        ):
            if type(number) is bool:
                continue
            f = WITH_NUMBERS[form]
            program = ft.trace(lambda x, number=number, f=f: np.sum(f(np.sin(x), number)))(X)
            assert by_list(program, [True]) is not None
    blind = [key for key in TEMPLATES.entries if any(isinstance(spec, type) for spec in key[1])]
    assert blind
    assert all(key[0].blind for key in blind)
    assert all(len(key) == 4 or key[4:] == ((),) for key in blind), blind  # no number among them
    count = len(TEMPLATES)
    for k in range(100):  # as a loop counter does
        assert (
            by_list(ft.trace(lambda x, k=k: np.sum(np.sin(x) * k + 0.1 * k))(X), [True]) is not None
        )
    assert len(TEMPLATES) == count


SHARED: dict[str, Callable[[Any], Any]] = {
    "x + 1 read twice, and x": lambda x: np.sum((x + 1.0) * (x + 1.0) * x * np.sin(x + 1.0)),
    "chain of sums": lambda x: np.sum(((x + 0.1) * 1.3 + x + 0.7) * np.exp(x + 0.3) * x),
    "x * x": lambda x: np.sum(x * x + np.hypot(x, x) + np.where(x > 0, x, x)),
    "the argument itself": lambda x: x[0],
    "not of the argument": lambda x: np.sum(np.sign(x)) * 1.0,
    "one value in many terms": lambda x: np.sum(
        np.sin(x) * 0.1 + np.sin(x) ** 2 - np.cos(x) * x + x[::-1] * x
    ),
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


@pytest.mark.numpy_source
def test_a_gradient_makes_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a program was made")

    CACHE.clear()
    f = loop(25)
    expected = grad_program(ft.trace(f)(X), [True], True, by_rules=True)
    with monkeypatch.context() as patch:
        patch.setattr("functrace.executor.runner.grad_program", never)
        value, gradient = ft.value_and_grad(f)(X)
        assert ft.grad(f)(X).tobytes() == gradient.tobytes()
    assert [value, gradient.tobytes()] == [
        evaluate_program(expected, [X])[0],
        evaluate_program(expected, [X])[1].tobytes(),
    ]


def test_callers_may_write_into_arguments_and_results() -> None:
    table = np.array([1.0, 2.0, 3.0])

    def f(x: Any, y: Any) -> Any:
        return np.sum(x * table + y), x

    x, y = np.array([0.1, 0.2, 0.3]), np.array([1.0, 1.0, 1.0])
    for _ in range(4):
        value, gradients = ft.value_and_grad(f, argnums=(0, 1), has_aux=True)(x, y)
        (total, aux), kept = value, [np.copy(g) for g in gradients]
        before = np.copy(x)
        x += 1.0
        table[:] = table * 1.5
        np.testing.assert_array_equal(aux, before)
        for one, copy in zip(gradients, kept, strict=True):
            np.testing.assert_array_equal(one, copy)
            one[:] = 99.0
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
    assert [str(warning.message).rpartition(" ")[2] for warning in caught] == [
        "log",
        "reciprocal",
        "multiply",
    ][: len(caught)]
    assert len(caught) >= 2
    CACHE.clear()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as raised:
        ft.grad(f)(np.array([0.0, 1.0]))
    assert f"test_instruction_lists.py:{line}" in "\n".join(raised.value.__notes__)
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


def test_an_error_of_a_rule_raises_at_the_users_line() -> None:
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
            expected = grad_program(ft.trace(f)(x), [True], False, by_rules=True)
            for _ in range(3):
                try:
                    assert_bits(ft.grad(f)(x), evaluate_program(expected, [x])[0])
                except AssertionError as error:
                    wrong.append((seed, turns, error))

    for _ in range(3):
        ft.clear_caches()
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_templates_are_made_when_they_are_amortized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "RULES_PER_TEMPLATE", 20)
    ft.clear_caches()
    short, long = ft.trace(loop(1))(X), ft.trace(loop(100))(X)
    assert by_list(short, [True]) is None
    assert len(TEMPLATES) == 0
    assert by_list(long, [True]) is not None
    assert by_list(short, [True]) is not None
    ft.clear_caches()
    grad_program(short, [True])  # by the rules
    assert len(TEMPLATES) == 0
    grad_program(short, [True])  # the second time, templates are made
    assert len(TEMPLATES) == 3
    assert by_list(short, [True]) is not None


def test_the_first_gradient_of_an_operation_makes_no_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instruction list that needs one gives up; the walk by rules that follows counts as the
    first meeting.
    """
    monkeypatch.setattr(templates, "RULES_PER_TEMPLATE", 20)
    ft.clear_caches()
    ft.grad(lambda x: np.sum(np.sin(x) * np.cos(x)))(X)
    assert len(TEMPLATES) == 0
    ft.grad(lambda x: np.sum(np.cos(x) * np.sin(x)))(X)
    assert len(TEMPLATES) > 0


@pytest.mark.parametrize("size", [3, 1 << 18], ids=["list", "compiled"])
def test_threads_run_a_new_derivative_at_once(size: int) -> None:
    """Each may make it, or compile it; what they return is the same."""
    x = np.linspace(0.0, 1.0, size)
    f = ft.grad(lambda x: np.sum(np.sin(x) * np.cos(x)))
    expected = f(x)
    for function in (f, ft.jit(f)):
        ft.clear_caches()
        wrong: list[object] = []
        barrier = threading.Barrier(4)

        def work(
            function: Any = function,
            wrong: list[object] = wrong,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait()
            try:
                assert_bits(function(x), expected)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_programs_with_rules_and_templates_are_the_rules_program() -> None:
    """Operations with sub-programs, several results, or users' code are differentiated by rules
    beside templates.
    """

    @ft.custom_vjp
    def cubed(x: Any) -> Any:
        return x**3

    cubed.defvjp(lambda x: (x**3, x), lambda x, g: (g * 3.5 * x * x,))
    for f in (
        lambda x: np.sum(np.cos(ft.checkpoint(np.sin)(x * x) * 2.0) * x),
        lambda x: np.sin(ft.scan(lambda c, _: (np.sin(c) * x, None), x, None, 3)[0][0]) * x[1],
        lambda x: np.sum(np.modf(x * 2.5)[0] * np.exp(x)),
        lambda x: np.sum(ft.cond(x[0] > 0, np.sin, np.cos, x * x) * x) * x[0],
        lambda x: np.sum(cubed(np.sin(x)) * cubed(x) + x),
        lambda x: np.sum(ft.fori_loop(0, 4, lambda i, c: np.sin(c) * x, x * 2.0) + x),
        lambda x: np.sum(
            np.linalg.svd(np.outer(x, np.sin(x)) + np.diag(np.arange(1.0, 4.0)))[1] * x
        ),
    ):
        program = ft.trace(f)(X)
        assert by_list(program, [True]) is None
        made, by_rules = (
            grad_program(program, [True], by_rules=flag).check() for flag in (False, True)
        )
        assert made == by_rules
        for found, expected in zip(
            Runner(made).interpret([X]), evaluate_program(by_rules, [X]), strict=True
        ):
            assert bits(np.asarray(found)) == bits(np.asarray(expected))
        made, by_rules = (
            whole(*pullback_programs(program, [True], by_rules=flag), 1) for flag in (False, True)
        )
        assert made == by_rules


def test_a_dropped_template_is_rebuilt() -> None:
    f = loop(25)
    expected = ft.grad(f)(X)
    ft.clear_caches()
    assert len(TEMPLATES) == 0
    np.testing.assert_array_equal(ft.grad(f)(X), expected)
    assert len(TEMPLATES) > 0
