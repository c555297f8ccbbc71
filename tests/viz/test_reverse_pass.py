"""Marks of the reverse pass in the positions of operations: they are where derivatives put them, and
survive transforms, caches, pickles and passes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.ir.program import is_reverse_position, resolved, reverse_position
from functrace.passes import optimized
from functrace.viz.roles import held_by, role_inside, roles_of

X = np.linspace(0.1, 1.0, 4)


def function(x: Any) -> Any:
    y = np.sin(x)
    z = np.exp(y) * x
    return np.sum(z)


def marks(program: ft.Program) -> list[tuple[str, bool]]:
    return [
        (e.primitive.name, program.is_reverse(k))
        for e, k in zip(program.equations, program.equation_ids)
    ]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: np.exp(np.sin(x)) * x,
    "reduction": lambda x: np.sum(np.tanh(x) ** 3),
    "selection": lambda x: np.where(x > 0.5, np.sqrt(x), x * x),
    "indexing": lambda x: np.log(x[1:]) * x[:-1],
    "scan": lambda x: scanned(x),
    "jit": lambda x: ft.jit(function)(x) * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_reverse_pass_is_what_depends_on_the_cotangent(name: str) -> None:
    f = FUNCTIONS[name]
    program = ft.trace(lambda x, ct: ft.vjp(f, x)[1](ct))(X, f(X))
    reached = {program.input_ids[1]}
    for k, (_, operands, _) in enumerate(program.ops):
        if any(i in reached for i in operands):
            reached.add(k)
    for k in program.equation_ids:
        if k in reached:
            assert program.is_reverse(k)
        elif program.is_reverse(k):  # what only broadcasts, or gives zeros to add to
            assert program.ops[k][0].name in {"broadcast_to", "zeros", "full"}
    assert not any(flag for _, flag in marks(ft.trace(f)(X)))
    assert not any(flag for _, flag in marks(ft.trace(lambda x: ft.jvp(f, (x,), (x,)))(X)))


def nested(program: ft.Program) -> Iterator[ft.Program]:
    yield program
    for k in program.equation_ids:
        for _, inner, _ in held_by(program, k):
            yield from nested(inner)


def scanned(x: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        return np.sin(c) * a, c

    c, ys = ft.scan(step, x[0], x)
    return np.sum(ys) + c


DERIVATIVES: dict[str, Callable[..., Any]] = {
    "grad": ft.grad(function),
    "value_and_grad": ft.value_and_grad(function),
    "jit of grad": ft.jit(ft.grad(function)),
    "grad of jit": ft.grad(ft.jit(function)),
    "vmap of grad": lambda x: ft.vmap(ft.grad(function))(np.stack([x, x])),
    "jvp of grad": lambda x: ft.jvp(ft.grad(function), (x,), (x,)),
    "hessian": ft.hessian(function),
    "vjp": lambda x: ft.vjp(np.exp, x)[1](x * 2.0),
    "jacrev": ft.jacrev(lambda x: np.exp(np.sin(x))),
    "scan": ft.grad(scanned),
    "checkpoint": ft.grad(ft.checkpoint(function)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_every_transform_keeps_the_marks(name: str) -> None:
    f = DERIVATIVES[name]
    for _ in range(2):  # the second one comes from the caches
        program = ft.trace(f)(X)
        flags = [part.is_reverse(k) for part in nested(program) for k in part.equation_ids]
        assert any(flags)
        assert not all(flags)
        copied = pickle.loads(pickle.dumps(program))
        assert [copied.is_reverse(k) for k in copied.equation_ids] == [
            program.is_reverse(k) for k in program.equation_ids
        ]
        lines = [program.source(k) for k in program.equation_ids]
        places = [copied.source(k) for k in copied.equation_ids]
        assert [line and line.line for line in places] == [line and line.line for line in lines]
        assert all(line is None or line.offset % 2 == 0 for line in lines)


def test_lines_of_marked_operations_are_those_of_the_differentiated_ones() -> None:
    program = ft.trace(ft.grad(function))(X)
    first = function.__code__.co_firstlineno
    for k in program.equation_ids:
        source = program.source(k)
        assert source is not None and source.file == __file__
        assert first < source.line <= first + 3
    reverse = [program.source(k) for k in program.equation_ids if program.is_reverse(k)]
    found = [source.line - first for source in reverse if source]
    assert found[0] == 2 and 1 in found


def test_a_recomputed_part_is_told_from_the_reverse_pass() -> None:
    program = ft.trace(ft.grad(ft.checkpoint(function)))(X)
    calls = [k for k in program.equation_ids if program.ops[k][0].name == "call"]
    call = next(k for k in calls if program.is_reverse(k))
    (inner,) = [part for _, part, _ in held_by(program, call)]
    roles = roles_of(inner, "reverse")
    assert set(roles.values()) == {"reverse", "recomputed"}
    recomputed = [inner.ops[k][0].name for k, role in roles.items() if role == "recomputed"]
    assert "sin" in recomputed and "exp" in recomputed


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2.0 * x


def test_a_users_rule_belongs_to_the_reverse_pass_as_a_whole() -> None:
    program = ft.trace(ft.grad(lambda x: np.sum(Square.apply(np.sin(x)))))(X)
    roles = roles_of(program)
    call = next(
        k
        for k in program.equation_ids
        if roles[k] == "reverse" and program.ops[k][0].name == "call"
    )
    ((_, rule, times),) = list(held_by(program, call))
    assert times == 1
    assert set(roles_of(rule, roles[call]).values()) == {"reverse"}
    line = rule.source(rule.equation_ids[-1])
    assert line is not None and line.expression == "return g * 2.0 * x"


def test_passes_keep_the_marks() -> None:
    program = ft.trace(ft.grad(lambda x: np.sum(np.tanh(x) ** 3)))(X)
    after = optimized(program)
    assert {flag for _, flag in marks(after)} == {False, True}


def test_marks_of_positions() -> None:
    code = function.__code__
    assert reverse_position(None) is None
    assert not is_reverse_position(None)
    for position in [(code, 0), (code, 8), 0, 5]:
        marked = reverse_position(position)
        assert not is_reverse_position(position)
        assert is_reverse_position(marked)
        assert reverse_position(marked) == marked
    lines = [(code, 2), (code, 4), None, 7]
    assert resolved(1, lines) == (code, 4)
    assert resolved(~1, lines) == (code, 5)
    assert resolved(~0, lines) == (code, 3)
    assert resolved(2, lines) is resolved(~2, lines) is resolved(3, lines) is None
    assert resolved(9, lines) is resolved(~9, lines) is None
    assert resolved((code, 6), lines) == (code, 6)


def test_warnings_of_the_reverse_pass_name_its_line() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.sqrt(x))

    line = loss.__code__.co_firstlineno + 1
    for f in (ft.grad(loss), ft.grad(loss), ft.jit(ft.grad(loss))):
        with pytest.warns(RuntimeWarning) as caught:
            f(np.zeros(2))
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, line)}


def test_a_checkpointed_loop_shows_what_it_runs() -> None:
    def loss(x: Any) -> Any:
        return np.sum(
            ft.scan(lambda c, a: (np.sin(c) * a, None), x, np.arange(9.0), checkpoint=3)[0]
        )

    program = ft.trace(ft.grad(loss))(X)
    reverse = [k for k in program.equation_ids if program.is_reverse(k)]
    loops = [k for k in reverse if list(held_by(program, k))]
    assert loops
    for k in loops:
        held = [part for _, part, _ in held_by(program, k)]
        found = [set(roles_of(p, role_inside("reverse", p, held)).values()) for p in held]
        assert {"recomputed"} in found  # a sweep from one kept carry to the next
        assert any("reverse" in roles for roles in found)
        assert all(times >= 0 for _, _, times in held_by(program, k))


def test_rules_that_do_not_run_are_told_from_bodies_that_do() -> None:
    program = ft.trace(lambda x: Square.apply(x))(X)
    (k,) = program.equation_ids
    assert sorted(times for _, _, times in held_by(program, k)) == [-1, -1, 1]
