"""Memory laid out by a plan: views are NumPy's, arrays that are alive at once do not overlap,
donated ones serve.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.arena import LINE, memory_roots
from functrace.executor.plan.planner import Plan, Step, plan, planned
from functrace.ir.structures import FusionGroup
from functrace.passes import optimized
from functrace.tracing.evaluate import evaluate_program
from tests.executor.codegen.test_inlined_loops import drawn, example, same
from tests.executor.toy_backend import Closures
from tests.laws.programs import Recipe, programs, seeds

pytestmark = pytest.mark.bits

RNG = np.random.default_rng(0)


def pulled(recipe: Recipe, arguments: Sequence[Any]) -> list[ft.Program]:
    def backwards(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    return [ft.trace(f)(*arguments) for f in (recipe, backwards)]


# -- views -----------------------------------------------------------------------------------------


class Shown(Closures):
    """Compares every view with the memory of its root."""

    def compile(self, plan: Plan) -> Any:
        program = plan.program

        def run(*arguments: Any) -> tuple[Any, ...]:
            values: dict[int, Any] = {
                **program.constant_values,
                **dict(zip(program.input_ids, arguments, strict=True)),
            }
            values = {i: np.require(x, requirements="C") for i, x in values.items()}
            for step in plan.steps:
                given = [
                    values[i] if i >= 0 else program.literals[~i]
                    for i in program.ops[step.first][1]
                ]
                made = self.function(plan, step)(*given)
                values.update(zip(plan.results(step), made, strict=True))
                view = plan.views.get(step.first)
                if view is None:
                    values[step.first] = np.require(values[step.first], requirements="C")
                    continue
                root, aval = values[view.root], program.avals[step.first]
                found = np.ndarray(aval.shape, aval.dtype, root, view.offset, view.strides)
                np.testing.assert_array_equal(found, made[0])
                if (
                    found.size and found.ndim and isinstance(root, np.ndarray)
                ):  # (scalars have no memory)
                    assert np.shares_memory(found, root)
                values[step.first] = found
            return tuple([np.copy(values[i]) for i in program.output_ids])

        return run


@given(programs(), seeds())
def test_views_are_offsets_and_strides(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    for program in pulled(recipe, arguments):
        Shown().compile(planned(program))(*arguments)


X = np.arange(120.0).reshape(4, 5, 6)
VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x.T,
    lambda x: x[1:3, ::-2, None, 2],
    lambda x: x[..., -1][::2].T,
    lambda x: x.reshape(20, 6)[::3].reshape(-1),  # a copy: its own root
    lambda x: x.reshape(20, 6)[3:7].reshape(2, 12),
    lambda x: np.broadcast_to(x[:, :1], (3, 4, 5, 6))[..., 1:],
    lambda x: np.diagonal(x, 1, 0, 2)[1:],
    lambda x: x.T.reshape(30, 4).T,
    lambda x: x[4:].reshape(0, 3),
    lambda x: x[1, 2, 3],
    lambda x: x.swapaxes(0, 2)[2:5].reshape(3, 5, 2, 2),
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_views_of_every_kind_are_offsets_and_strides(number: int, dtype: type) -> None:
    def f(x: Any) -> Any:
        shown = VIEWS[number](x)
        parts = (np.real(shown) * 1.0, shown.imag * 1.0) if dtype is np.complex64 else ()
        return shown * 1.0, *parts

    made = planned(ft.trace(f)(X.astype(dtype)))
    Shown().compile(made)(X.astype(dtype))
    assert [view for view in made.views.values() if view is not None]


def test_operations_without_a_static_view_have_none() -> None:
    copied = planned(ft.trace(lambda x: x.T.reshape(120) + 1.0)(X))
    assert [view is None for view in copied.views.values()] == [False, True]
    gathered = planned(ft.trace(lambda x, k: x[k] + x.imag[0])(X, np.array([0, 2])))
    assert None in gathered.views.values()
    assert set(
        planned(ft.trace(lambda x: x.T * 2.0)(ft.ShapeDtype((3, 2), "f8"))).views.values()
    ) != {None}


# -- one arena -------------------------------------------------------------------------------------


class InArena(Closures):
    """Runs in one piece of memory: that of a program, and behind it that of the programs that its
    operations hold.
    """

    def __init__(self, buffer: Any = None) -> None:
        self.buffer = buffer

    def compile(self, plan: Plan) -> Any:
        if self.buffer is None:
            return InArena(np.empty(plan.arena.nbytes, np.uint8)).compile(plan)
        return super().compile(plan)

    def function(self, plan: Plan, step: Step) -> Callable[..., Any]:
        start = plan.arena.bodies.get(step.first)
        inner = Closures() if start is None else InArena(self.buffer[start:])
        return Closures.function(inner, plan, step)

    def memory(self, plan: Plan, arguments: Sequence[Any]) -> dict[int, Any]:
        avals, found = plan.program.avals, super().memory(plan, arguments)
        for j, start in plan.arena.offsets.items():
            found[j] = np.ndarray(avals[j].shape, avals[j].dtype, self.buffer, start)
        return found


def check_arena(made: Plan) -> None:
    """No two arrays that are alive at the same time overlap."""
    program, roots, arena = made.program, memory_roots(made), made.arena
    alive: dict[int, list[int]] = {}
    for n, step in enumerate(made.steps):
        for i in (*program.ops[step.first][1], *made.results(step)):
            if roots.get(i, i) in arena.offsets:
                alive.setdefault(roots.get(i, i), []).append(n)
    for i in program.output_ids:
        if roots.get(i, i) in arena.offsets:
            alive[roots.get(i, i)].append(len(made.steps))
    assert all(start % LINE == 0 for start in arena.offsets.values())
    ends = {i: start + program.avals[i].nbytes for i, start in arena.offsets.items()}
    for i, j in itertools.combinations(arena.offsets, 2):
        if alive[i][0] <= alive[j][-1] and alive[j][0] <= alive[i][-1]:
            assert ends[i] <= arena.offsets[j] or ends[j] <= arena.offsets[i], (i, j)
    assert max(ends.values(), default=0) <= arena.nbytes
    rounding = LINE * (len(arena.offsets) + sum([len(step.bodies) for step in made.steps]))
    assert arena.nbytes <= 1.5 * made.peak_bytes + rounding, (arena.nbytes, made.peak_bytes)
    for step in made.steps:
        for body in step.bodies:
            check_arena(body)
            if not isinstance(step.structure, FusionGroup):
                assert arena.bodies[step.first] + body.arena.nbytes <= arena.nbytes


@given(programs(), seeds())
def test_random_programs_run_in_an_arena(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    for program in pulled(recipe, arguments):
        made = plan(program)
        check_arena(made)
        run = InArena().compile(made)
        expected = evaluate_program(program, arguments)
        first = run(*arguments)
        run(*[x * 0.5 for x in arguments])  # what was returned is not in the arena
        for found, value in zip(first, expected, strict=True):
            np.testing.assert_array_equal(found, value)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(60))
def test_random_loops_run_in_an_arena(seed: int) -> None:
    loop, kinds, rng = drawn(seed)
    values = tuple(example(kind, rng) for kind in kinds)
    floats = [k for k, kind in enumerate(kinds) if kind not in ("int", "bool")]

    def total(*given: Any) -> Any:
        return sum([np.sum(np.sin(loop(ft, given)[k])) for k in floats], 0.0)

    program = ft.trace(ft.grad(total, argnums=tuple(floats)) if floats else lambda *s: loop(ft, s))(
        *values
    )
    with np.errstate(all="ignore"):
        made = plan(Runner(program).flat)
        check_arena(made)
        ordered = [np.require(x, requirements="C")[()] for x in values]
        run = InArena().compile(made)
        same(run(*ordered), evaluate_program(program, ordered))


def chain(x: Any) -> Any:
    for k in range(12):
        x = np.tanh(x[: len(x) - 8 * k] * 1.5) + np.sin(x[8 * k :])
    return np.sum(x)


def test_an_arena_is_about_as_large_as_the_peak() -> None:
    for f in (
        chain,
        ft.grad(chain),
        ft.value_and_grad(lambda x: np.sum(np.exp(x) @ np.ones((x.size, 64)))),
    ):
        made = plan(ft.trace(f)(np.linspace(0.0, 1.0, 4096)))
        check_arena(made)
        assert made.arena.nbytes <= 1.1 * made.peak_bytes


def test_arguments_of_user_callbacks_are_not_in_the_arena() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        ft.debug.callback(kept.append, y)
        return np.sum(np.exp(y) * np.cos(y))

    program = ft.trace(f)(X)
    made = plan(program)
    InArena().compile(made)(X)
    np.testing.assert_array_equal(kept[-1], np.sin(X) * 2.0)
    assert made.arena.offsets


def test_packed_values_are_in_no_arena() -> None:
    policy = ft.policies.pack(lambda x: x.tolist(), np.asarray)
    f = ft.checkpoint(lambda x: np.sum(np.sin(np.exp(x)) ** 2), policy=policy)
    program = ft.trace(ft.grad(f))(X)
    made = plan(Runner(program).flat)
    assert not made.arena.offsets
    np.testing.assert_array_equal(InArena().compile(made)(X)[0], evaluate_program(program, [X])[0])


# -- donated inputs --------------------------------------------------------------------------------


def donating(f: Any, *args: Any) -> tuple[Plan, list[Any], list[Any]]:
    """A plan that may write into all inputs; what two backends return, and the arguments that they
    were given.
    """
    program = ft.trace(f)(*args)
    made = planned(optimized(program), donated=range(len(args)))
    expected = evaluate_program(program, [np.copy(x) for x in args])
    for backend in (NUMPY, Closures()):
        given = [np.copy(x) for x in args]
        found = backend.compile(made)(*given)
        same(found, expected)
    return made, list(found), given


def test_a_step_that_writes_into_a_donated_input_is_named() -> None:
    made, (found,), (x,) = donating(lambda x: np.exp(np.sin(x) * 2.0), X)
    (donation,) = made.donations
    assert donation == (0, tuple([step.first for step in made.steps]), 0)
    assert np.shares_memory(found, x)


def test_an_output_reuses_a_donated_input_after_its_last_use() -> None:
    a, b = RNG.normal(size=(8, 8)), RNG.normal(size=(8, 8))

    def f(a: Any, b: Any) -> Any:
        c = a @ b  # no operation that writes into an operand
        return np.tanh(c) @ c

    made, (found,), given = donating(f, a, b)
    (donation,) = made.donations
    assert donation.output == 0 and donation.variables == (made.program.output_ids[0],)
    assert np.shares_memory(found, given[donation.place])


def test_a_live_donated_input_is_not_overwritten() -> None:
    a = RNG.normal(size=(8, 8))
    made, _, _ = donating(lambda a: a @ a, a)
    assert not made.donations
    made, _, _ = donating(lambda a, b: (a @ b, a.T), a, a)
    assert [donation.place for donation in made.donations] == []
    made, _, _ = donating(lambda a, b: (a[:4] @ b) @ b, a, a[:, :3] @ a[:3])
    assert not made.donations
