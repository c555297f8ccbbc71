"""Copies and pickles of programs, primitives, positions, errors and derivatives: equal, or one
clear error.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ProgramError, ShapeError, UnsupportedFunctionError
from functrace.ir.primitive import CONSTANT, INPUT, LINEAR, RESULT, Primitive, absent
from functrace.ops.elementwise import sin
from functrace.source import Source, SourceLine
from functrace.tracing.binding import bind
from tests.control.programs import WRITTEN, X, rules_that_call_themselves
from tests.ir.programs import aval, record
from tests.oracles import outputs_of

NONE = absent(because="for the tests", instead="nothing")
HELD = Primitive("held", lambda x, p: x, lambda x, p: x, LINEAR, NONE, NONE, params=("p",))
PARAMS = [
    None, True, 1, 1.0, -0.0, 0.0, float("nan"), complex(-0.0, 0.0), complex("nan"), complex(1,
    float("inf")), 10**30,
    "a\u2028", b"\x00", (), (1, (2.0, "x")), Ellipsis, np.dtype("f4"), np.float32, np.add, sin,
    aval(2, 3),
    ((None, 1, None),), record(sin, aval(2)), (record(sin, aval(2)), 3),
]  # fmt: skip


def ways(value):
    """Every way of copying and pickling."""
    yield copy.copy(value)
    yield copy.deepcopy(value)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(value, protocol))


def loss(x):
    """Constants of several dtypes, literals that compare equal or not at all."""
    y = x * np.array([np.nan, -0.0, 1.0]) + np.arange(3)
    z = np.where(y > 0.0, y, -0.0) * float("nan") + complex(0.0, -0.0)
    return np.sum(z * np.asarray(2.5)), y


@pytest.mark.sampled(2)
@pytest.mark.parametrize("f", [loss, *WRITTEN.values()], ids=lambda f: f.__name__)
def test_copies_of_programs_are_equal_and_print_equally(f):
    program = ft.trace(f)(X)
    for again in ways(program):
        assert again == program and hash(again) == hash(program) and again is not program
        assert again.text() == program.text() and again.to_json() == program.to_json()
        assert again.check().as_python() == program.as_python()
        for a, b in zip(
            outputs_of(ft.evaluate(again, X)), outputs_of(ft.evaluate(program, X)), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("param", PARAMS, ids=repr)
def test_params_of_every_kind_are_copied(param):
    program = record(lambda x: bind(HELD, (x,), (param,)), aval(2))
    for again in ways(program):
        assert again == program and again.equations[0].primitive is HELD


@pytest.mark.parametrize(
    "literal",
    [True, 1, 1.0, -0.0, float("nan"), float("-inf"), complex(-0.0, 0.0), complex("nan+infj")],
)
def test_literals_of_every_kind_are_copied(literal):
    program = ft.trace(lambda x: np.where(x > 0.0, literal, x))(np.ones(2, complex))
    for again in ways(program):
        assert again == program and repr(again.literals) == repr(program.literals)


def test_deep_copies_own_their_constants():
    program = ft.trace(lambda x: x + np.arange(100.0))(np.zeros(100))
    for again in list(ways(program))[1:]:
        (mine,), (theirs,) = program.constant_values.values(), again.constant_values.values()
        assert not np.shares_memory(mine, theirs)


def test_positions_are_pickled_as_lines():
    program = ft.trace(loss)(X)
    again = pickle.loads(pickle.dumps(program))
    for before, after in zip(program.equations, again.equations, strict=True):
        assert isinstance(after.source.code, SourceLine)
        assert (
            str(after.source) == str(before.source) and "z = " in str(program.equations[-1].source)
        ) or after.source.line
        assert (
            pickle.loads(pickle.dumps(before)).source
            == copy.deepcopy(before.source)
            == after.source
        )
    assert pickle.loads(pickle.dumps(again)).text() == program.text()


def test_every_primitive_is_pickled_by_reference():
    for primitive in [*ft.Program.primitives.values(), INPUT, CONSTANT, RESULT, HELD]:
        for again in ways(primitive):
            assert again is primitive


def test_programs_that_cannot_be_pickled_raise():
    program = ft.trace(rules_that_call_themselves)(X)
    with pytest.raises(ProgramError, match=r"custom rule .* cannot be pickled"):
        pickle.dumps(program)
    assert copy.copy(program) == copy.deepcopy(program) == program
    local = ft.checkpoint(np.sin, policy=ft.policies.pack(lambda x: x, lambda x: x))
    program = ft.trace(local)(X)
    with pytest.raises(ProgramError, match="module-level"):
        pickle.dumps(program)
    assert copy.deepcopy(program) == program
    mine = Primitive("mine", *[NONE] * 5)
    with pytest.raises(ProgramError, match="primitive mine cannot be pickled"):
        pickle.dumps(mine)
    assert copy.deepcopy(mine) is mine


def double(x):
    """For a policy of functions that can be found."""
    return 2.0 * x


def half(x):
    """Its inverse."""
    return 0.5 * x


def test_policies_of_module_level_functions_are_pickled():
    program = ft.trace(ft.checkpoint(np.sin, policy=ft.policies.pack(double, half)))(X)
    for again in ways(program):
        assert again == program


def test_traced_constants_are_refused():
    seen = []

    def f(x):
        seen.append(ft.trace(lambda y: y * x)(np.ones(2)))
        return x

    ft.grad(f)(1.0)
    assert copy.copy(seen[0]) == seen[0]
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(ProgramError, match="it is abstract here"):
            way(seen[0])


def test_errors_are_pickled_with_the_message_that_they_have():
    with pytest.raises(ShapeError) as caught:
        ft.trace(lambda x: x @ x[:1])(np.ones((2, 3)))
    for again in list(ways(caught.value))[1:]:
        assert (
            type(again) is ShapeError
            and str(again) == str(caught.value)
            and again.fix == caught.value.fix
        )


@ft.jit
def jitted(x):
    """A jitted function with a name of its own."""
    return np.sum(np.sin(x))


def test_jitted_functions_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(jitted)) is jitted and copy.deepcopy(jitted) is jitted
    with pytest.raises(UnsupportedFunctionError, match="cannot be pickled"):
        pickle.dumps(ft.jit(half))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [loss, *WRITTEN.values()], ids=lambda f: f.__name__)
def test_derivatives_are_copied_and_pickled(f):
    value, pullback = ft.vjp(lambda x: f({"x": x}["x"]), X)
    _, pushforward = ft.linearize(f, X)
    cotangent = ft.tree.map(np.ones_like, value)
    for again, push in zip(ways(pullback), ways(pushforward), strict=True):
        for _ in range(2):
            np.testing.assert_array_equal(again(cotangent), pullback(cotangent))
            ft.tree.map(np.testing.assert_array_equal, push(X), pushforward(X))
    assert repr(pullback).startswith("<pullback of vjp of ")


def test_transposes_are_copied_and_pickled():
    transposed = ft.linear_transpose(lambda x: np.cumsum(x) * 2.0, X)
    for again in ways(transposed):
        np.testing.assert_array_equal(again(X), transposed(X))
    assert repr(transposed).startswith("<linear_transpose of ")


def test_a_program_is_unpickled_in_another_process():
    program = ft.trace(next(iter(WRITTEN.values())))(X)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).check().text())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(program), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == program.text()


def test_an_unpickled_line_of_code_is_a_place():
    source = Source(compile("x\n", "a.py", "exec"), 0)
    again = pickle.loads(pickle.dumps(source))
    assert (
        again.code == SourceLine("a.py", again.line, "<module>")
        and pickle.loads(pickle.dumps(again)) == again
    )
