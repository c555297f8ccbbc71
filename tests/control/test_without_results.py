"""Operations without results: every primitive that holds programs may have none, under every
transform.

A tape has one entry per variable, so an operation without results has none. Each function here is
another one with such operations added, in front, in between and behind; whatever is done with both
must be the same, at first and once caches are warm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control import (
    PRIMITIVES,
    call_p,
    checkpointed_forward_p,
    checkpointed_loop_p,
    checkpointed_reverse_p,
    checkpointed_tangents_p,
    cond_p,
    custom_batch_p,
    custom_derivative_p,
    custom_jvp_p,
    custom_vjp_p,
    linear_solve_p,
    pushforward_p,
    root_p,
    scan_p,
    strong_zero_p,
    while_p,
)
from functrace.control.custom import DeferredBatchRule
from functrace.errors import ParseError, ProgramError
from functrace.ir.aval import aval_of
from functrace.ir.program import Equation, Var
from functrace.ir.tape import Builder
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.binding import bind
from functrace.transforms import (
    grad_program,
    jvp_program,
    linearize_program,
    transpose_program,
    vmap_program,
)
from functrace.tree import leaves
from tests.oracles import assert_same

X = np.array([0.3, -0.7, 1.1])
BATCH = np.stack([X, X[::-1], 2.0 * X, X + 1.0])


@ft.custom_jvp
def _dropped_jvp(x: Any) -> None:
    return None


_dropped_jvp.defjvp(lambda xs, dots: (None, None))


@ft.custom_vjp
def _dropped_vjp(x: Any) -> None:
    return None


_dropped_vjp.defvjp(lambda x: (None, x), lambda kept, _: (kept,))


@ft.custom_vjp
def _rounded(x: Any) -> Any:
    return np.argsort(x)


_rounded.defvjp(lambda x: (np.argsort(x), x), lambda kept, _: (kept,))

WITHOUT: dict[str, Callable[[Any], Any]] = {
    "jit": ft.jit(lambda x: None),
    "jit of a nest": ft.jit(lambda x: {"a": None, "b": ()}),
    "checkpoint": ft.checkpoint(lambda x: None),
    "packing checkpoint": ft.checkpoint(lambda x: None, policy=ft.policies.pack(np.copy, np.copy)),
    "cond": lambda x: ft.cond(x[0] > 0.0, lambda v: None, lambda v: None, x),
    "scan": lambda x: ft.scan(lambda c, v: (None, None), None, x),
    "scan over nothing": lambda x: ft.scan(
        lambda c, v: ((), [None, x.sum() * 0.0][:1]), (), None, 2
    ),
    "custom_jvp": _dropped_jvp,
    "custom_vjp": _dropped_vjp,
}
WITHOUT_DERIVATIVE: dict[str, Callable[[Any], Any]] = {
    "jit of sign": ft.jit(np.sign),
    "checkpoint of floor": ft.checkpoint(lambda x: np.floor(x / 0.5)),
    "cond of signs": lambda x: ft.cond(x[0] > 0.0, np.sign, lambda v: -np.sign(v), x),
    "scan of signs": lambda x: ft.scan(lambda c, v: (c, np.sign(v) + c), np.float64(2.0), x)[1],
    "custom_vjp of order": _rounded,
}


def smooth(x: Any) -> Any:
    return np.sum(np.sin(x) * x[::-1] ** 2) * np.prod(np.cosh(x))


def with_nothing(nothing: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        leaves_of(nothing(x))
        y = np.sin(x)
        leaves_of(nothing(y * 2.0))
        z = np.sum(y * x[::-1] ** 2) * np.prod(np.cosh(x))
        leaves_of(nothing(x * z))
        return z

    return f


def leaves_of(nest: Any) -> None:
    assert leaves(nest) == []


def plain(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of `with_steps` whose steps NumPy alone computes."""
    return lambda x: np.sum(x * g(np.asarray(x))) * np.sin(x[1])


STEPS: dict[str, Any] = {
    "jit of sign": np.sign,
    "checkpoint of floor": lambda x: np.floor(x / 0.5),
    "cond of signs": lambda x: np.sign(x) if x[0] > 0.0 else -np.sign(x),
    "scan of signs": lambda x: np.sign(x) + 2.0,
    "custom_vjp of order": np.argsort,
}


def _transforms() -> dict[str, Callable[[Any], Any]]:
    v = np.array([0.9, 0.2, -0.4])
    return {
        "grad": lambda f: ft.grad(f)(X),
        "value_and_grad": lambda f: ft.value_and_grad(f)(X),
        "vjp": lambda f: (lambda y, pull: (y, pull(2.0)))(*ft.vjp(f, X)),
        "jvp": lambda f: ft.jvp(f, (X,), (v,)),
        "linearize": lambda f: (lambda y, push: (y, push(v)))(*ft.linearize(f, X)),
        "jacfwd": lambda f: ft.jacfwd(f)(X),
        "jacrev": lambda f: ft.jacrev(f)(X),
        "hessian": lambda f: ft.hessian(f)(X),
        "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) * v))(X),
        "grad of jvp": lambda f: ft.grad(lambda x: ft.jvp(f, (x,), (v,))[1])(X),
        "hvp": lambda f: ft.hvp(f, (X,), (v,)),
        "grad of jit": lambda f: ft.grad(ft.jit(f))(X),
        "jit of grad": lambda f: ft.jit(ft.grad(f))(X),
        "jit of jvp": lambda f: ft.jit(lambda x: ft.jvp(f, (x,), (v,)))(X),
        "grad of checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
        "grad of cond": lambda f: ft.grad(lambda x: ft.cond(x[1] < 0.0, f, lambda x: np.sum(x), x))(
            X
        ),
        "grad of scan": lambda f: ft.grad(
            lambda x: ft.scan(lambda c, _: (c * f(c), f(c)), x, None, 2)[1].sum()
        )(X),
        "evaluated": lambda f: ft.evaluate(ft.trace(f)(X).check(), X),
        "parsed": lambda f: ft.evaluate(ft.Program.parse(ft.trace(f)(X).text()).check(), X),
        "read from JSON": lambda f: ft.evaluate(
            ft.Program.from_json(ft.trace(f)(X).to_json()).check(), X
        ),
        "vmap": lambda f: ft.vmap(f)(BATCH),
        "vmap of grad": lambda f: ft.vmap(ft.grad(f))(BATCH),
        "grad of vmap": lambda f: ft.grad(lambda b: np.sum(ft.vmap(f)(b)))(BATCH),
        "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(BATCH),
        "vmap of jit": lambda f: ft.vmap(ft.jit(f))(BATCH),
    }


TRANSFORMS = _transforms()
transforms = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def agree(found: Any, expected: Any) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert_same(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.sampled(5)
@transforms
@pytest.mark.parametrize("nothing", WITHOUT.values(), ids=WITHOUT)
def test_functions_without_results_change_nothing(nothing: Any, transform: Any) -> None:
    expected = transform(smooth)
    f = with_nothing(nothing)
    for _ in range(3):
        agree(transform(f), expected)


@pytest.mark.sampled(3)
@transforms
@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_steps_without_a_derivative_do_not_change_other_derivatives(
    name: str, transform: Any
) -> None:
    """Its linear part is an operation without results."""
    step = WITHOUT_DERIVATIVE[name]
    expected = transform(lambda x: np.sum(x * ft.stop_gradient(step(x))) * np.sin(x[1]))
    for _ in range(3):
        agree(transform(lambda x: np.sum(x * step(x)) * np.sin(x[1])), expected)
    f = lambda x: np.sum(x * step(x)) * np.sin(x[1])
    factor = np.asarray(STEPS[name](X))
    np.testing.assert_allclose(f(X), plain(STEPS[name])(X), rtol=1e-13)
    by_hand = factor * np.sin(X[1]) + np.sum(X * factor) * np.cos(X[1]) * np.array([0.0, 1.0, 0.0])
    np.testing.assert_allclose(ft.grad(f)(X), by_hand, rtol=1e-12)


def _empty(count: int) -> ft.Program:
    """A program that takes three numbers, ``count`` times, and returns nothing."""
    build = Builder()
    for _ in range(count):
        build.input(aval_of(X))
    return ft.Program.from_builder(build, (), name="nothing").interned()


def _never() -> ft.Program:
    """A condition that no three numbers meet."""
    return ft.trace(lambda x: np.any(x != x))(X).interned()


_LOOP = (_empty(1), None, 2, False, 1, 0, None, ("every", 1))
EMPTY: dict[str, tuple[int, tuple[Any, ...]]] = {
    "call": (2, (_empty(2), ())),
    "checkpointed_forward": (1, (*_LOOP, (False,))),
    "checkpointed_loop": (1, (*_LOOP, ())),
    "checkpointed_reverse": (1, (*(_empty(1),) * 2, *_LOOP[1:6], 0, 0, (0,), _LOOP[7], (), False)),
    "checkpointed_tangents": (1, (*_LOOP, (False,))),
    "cond": (2, ((_empty(1), _empty(1)), ())),
    "custom_batch": (0, (_empty(0), DeferredBatchRule(lambda size, flags: _empty(0)))),
    "custom_derivative": (0, (_empty(0), _empty(0), _empty(0), _empty(0), 0)),
    "custom_jvp": (1, (_empty(1), _empty(2), 1)),
    "custom_vjp": (0, (_empty(0), _empty(0), _empty(0), 0)),
    "linear_solve": (1, ((_empty(1), _empty(1)), (_empty(1), _empty(1)), 1)),
    "pushforward": (0, (_empty(0), 0)),
    "root": (1, (_empty(1), _empty(1), _empty(1), 1)),
    "strong_zero": (2, (_empty(2),)),
    "scan": (1, (_empty(1), 2, False, 1, 0)),
    "while_loop": (1, (_never(), (_empty(1),), (0,), (False,), 1, 0, None)),
}
_PRIMITIVES = (
    call_p, cond_p, custom_batch_p, custom_derivative_p, custom_jvp_p, custom_vjp_p,
    checkpointed_forward_p, checkpointed_loop_p, checkpointed_reverse_p, checkpointed_tangents_p,
    linear_solve_p, pushforward_p, root_p,
    scan_p, strong_zero_p, while_p,
)  # fmt: skip
HOLDING = {p.name: p for p in _PRIMITIVES}


def test_every_primitive_that_can_have_no_results_is_tried() -> None:
    assert {name for name, p in PRIMITIVES.items() if p.many} == set(EMPTY) == set(HOLDING)


@pytest.mark.parametrize("name", EMPTY)
def test_a_tape_has_one_entry_per_variable(name: str) -> None:
    """Whatever appends: recordings, builders, and every transform of what they made."""
    primitive, (count, params) = HOLDING[name], EMPTY[name]

    def bound(x: Any) -> Any:
        operands = [x] * count
        if name == "cond":
            operands = [x[0] > 0.0, x]
        assert bind(primitive, tuple(operands), params) == ()
        return np.sin(x)

    program = ft.trace(bound)(X).check()
    assert [e.primitive.name for e in program.equations][-1] == "sin"
    assert name not in {e.primitive.name for e in program.equations}
    jvp_program(program).check()
    forward, linear = linearize_program(program)
    forward.check(), linear.check()
    transpose_program(linear, [False] * (len(linear.input_ids) - 1) + [True]).check()
    vmap_program(program, 4).check()
    total = ft.trace(lambda x: np.sum(bound(x)))(X)
    grad_program(total, [True]).check()
    build = Builder()
    x = build.input(aval_of(X))
    which = build.append(ft.Program.primitives["index"], (x,), (aval_of(X),), ((0,),))
    operands = (
        build.append(ft.Program.primitives["greater"], (which, which), (build.avals[which],) * 2),
        x,
    )
    given = operands if name == "cond" else (x,) * count
    before = len(build.ops)
    assert build.append(primitive, given, tuple(map(build.spec, given)), params) == before
    assert len(build.ops) == len(build.avals) == before


def test_literals_of_operations_without_results_are_dropped() -> None:
    with ArrayRecording("test") as recording:
        x = recording.new_input(aval_of(X), X)
        x * 2.0
        assert recording.record(call_p, (x, x), (_empty(2), ())) == ()
        assert recording.record(scan_p, (x,), (_empty(1), 2, False, 1, 0)) == ()
        assert recording.literals == [2.0]
        assert len(recording.ops) == len(recording.avals) == len(recording.positions or ()) == 2


def test_equations_write_as_many_variables_as_there_are_results() -> None:
    x, y, z = (Var(aval_of(X), name) for name in "xyz")
    sin = ft.Program.primitives["sin"]
    nothing = Equation(call_p, (x, x), (), {"program": _empty(2), "policy": ()})
    made = ft.Program.build([x], [nothing, Equation(sin, (x,), (y,))], [y]).check()
    assert_same(ft.evaluate(made, X), np.sin(X))
    for outputs in ((), (y, z)):
        with pytest.raises(ProgramError, match="1 results here, but its equation writes"):
            ft.Program.build([x], [Equation(sin, (x,), outputs)], [x])
    with pytest.raises(ProgramError, match="0 results here"):
        ft.Program.build(
            [x], [Equation(call_p, (x, x), (y,), {"program": _empty(2), "policy": ()})], [y]
        )
    nothing_held = "call x x {program={n(x: f64[3], y: f64[3]) {\n return\n}}, policy=()}"
    text = str(ft.trace(lambda x: np.sin(x))(X)).replace("sin x", nothing_held)
    with pytest.raises(ParseError, match="call has no results here"):
        ft.Program.parse(text)
