"""Laws that hold for every program, on random well-typed ones. A failing law prints the shrunk
program as Python.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.executor import Runner
from functrace.executor import interpreter as instructions
from functrace.executor.backend import Backend
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.parallel import operations as spread
from functrace.executor.plan.planner import plan, planned
from functrace.ir.walk import interpret
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.passes import PIPELINE
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import jvp_program, linearize_program, transpose_program, vmap_program
from tests.executor.toy_backend import Closures
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_same, differences, emitted, inner, outputs_of, random_like, stacked

BACKENDS: tuple[Backend, ...] = (NUMPY, Closures())


def directions_for(arguments: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed + 1)
    return [random_like(rng, x) for x in arguments]


@given(programs(), seeds())
def test_trace_equals_numpy(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    program = ft.trace(recipe)(*arguments)
    for found, expected in zip(
        outputs_of(ft.evaluate(program, *arguments)), recipe.plain(*arguments), strict=True
    ):
        assert_same(found, expected, rtol=1e-13, atol=1e-13)


@given(programs(), seeds())
def test_check_holds_after_every_transform(recipe: Recipe, seed: int) -> None:
    program = ft.trace(recipe)(*recipe.arguments(seed)).check()
    flags = [True] * len(program.inputs)
    jvp_program(program, flags).check()
    forward, linear = linearize_program(program, flags)
    forward.check()
    linear.check()
    residuals = len(linear.inputs) - len(flags)
    backward = transpose_program(linear, [False] * residuals + flags).check()
    vmap_program(program, 3).check()
    vmap_program(backward, 2).check()


@given(programs(), seeds())
def test_executor_equals_evaluator(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    program = ft.trace(recipe)(*arguments)
    for subject in (program, jvp_program(program, [True] * len(arguments))):
        given_values = (
            arguments if subject is program else [*arguments, *directions_for(arguments, seed)]
        )
        expected = outputs_of(ft.evaluate(subject, *given_values))
        runner = Runner(subject)
        compiled = [backend.compile(plan(runner.program, backend.policy)) for backend in BACKENDS]
        for run in (runner, runner, *[lambda values, run=run: run(*values) for run in compiled]):
            for found, value in zip(run(given_values), expected, strict=True):
                assert_same(found, value)


@given(
    programs(),
    seeds(),
    st.sets(st.sampled_from([row.name for row in PIPELINE])),
    st.sampled_from([1, 3, 8]),
    st.integers(1, 4),
    st.sampled_from([1, 1 << 40]),
)
def test_results_do_not_depend_on_passes_blocks_threads_or_deferred_writes(
    recipe: Recipe, seed: int, off: set[str], block: int, count: int, least: int
) -> None:
    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    arguments = recipe.arguments(seed)
    program = ft.trace(pulled)(*arguments)
    expected = [np.copy(value) for value in evaluate_program(program, arguments)]
    for row in PIPELINE:
        if row.exact and row.name not in off:
            program = row.run(program)
    with (
        ft.config(threads=count, block=block),
        mock.patch.multiple(spread, LEAST_BYTES=least, SPAN=1),
    ):
        run = NUMPY.compile(planned(program))
        listed = instructions.listed(program)
        calls = []
        for interprets in (False, True, False, True):
            given_values = [np.copy(a) for a in arguments]
            calls.append(
                instructions.run(listed, given_values, ()) if interprets else run(*given_values)
            )
            for other in (*given_values, *(value for found in calls[:-1] for value in found)):
                if isinstance(other, np.ndarray):
                    other[...] = np.array(7).astype(other.dtype)
            for found, value in zip(calls[-1], expected, strict=True):
                assert_same(found, value)


@given(programs(), seeds())
def test_the_evaluator_is_the_interpreter(recipe: Recipe, seed: int) -> None:
    """On arrays, and on traced values, of which both make one tape."""
    arguments = recipe.arguments(seed)
    program = ft.trace(recipe)(*arguments)

    def interpreted(values: Any) -> list[Any]:
        env = dict(zip(program.input_ids, values, strict=True)) | dict(program.constant_values)

        def apply(k: int, operands: tuple[Any, ...]) -> Any:
            primitive, _, params = program.ops[k]
            return bind(primitive, operands, params)

        interpret(program, env, apply, program.schedule)
        assert set(env) >= set(program.output_ids)
        return [env[i] for i in program.output_ids]

    for found, expected in zip(
        interpreted(arguments), evaluate_program(program, arguments), strict=True
    ):
        np.testing.assert_array_equal(found, expected, strict=True)
    tapes = []
    for run in (interpreted, lambda values: evaluate_program(program, values)):
        with ArrayRecording("law", keeps_source=False) as recording:
            outs = run([recording.new_input(program.avals[i]) for i in program.input_ids])
            tapes.append(
                (
                    list(recording.ops),
                    list(recording.literals),
                    [recording.operand(x)[0] for x in outs],
                )
            )
    assert tapes[0] == tapes[1]


@given(programs(), seeds())
def test_results_share_no_memory_with_arguments(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    before = [np.copy(a) for a in arguments]
    runner = Runner(ft.trace(recipe)(*arguments))
    for _ in range(3):
        results = [np.asarray(r) for r in runner(list(arguments))]
        for k, result in enumerate(results):
            for other in [*arguments, *results[:k]]:
                assert not (isinstance(other, np.ndarray) and np.shares_memory(result, other))
    for a, b in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(a, b)


@given(programs(), seeds())
def test_jvp_equals_differences(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    directions = directions_for(arguments, seed)
    _, tangents = ft.jvp(recipe, tuple(arguments), tuple(directions))
    expected = differences(recipe.plain, arguments, directions)
    for found, value in zip(tangents, expected, strict=True):
        scale = 1.0 + float(np.max(np.abs(value), initial=0.0))
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6 * scale)


@given(programs(), seeds())
def test_transpose_is_adjoint(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    directions = directions_for(arguments, seed)
    values, tangents = ft.jvp(recipe, tuple(arguments), tuple(directions))
    rng = np.random.default_rng(seed + 2)
    bars = tuple(random_like(rng, y) for y in values)
    _, pullback = ft.vjp(recipe, *arguments)
    cotangents = pullback(bars)
    np.testing.assert_allclose(
        inner(bars, tangents), inner(cotangents, directions), rtol=1e-9, atol=1e-9
    )


@given(programs(), seeds())
def test_linearize_equals_jvp(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    directions = directions_for(arguments, seed)
    values, tangents = ft.jvp(recipe, tuple(arguments), tuple(directions))
    linear_values, f_jvp = ft.linearize(recipe, *arguments)
    for found, expected in zip(
        [*linear_values, *f_jvp(*directions)], [*values, *tangents], strict=True
    ):
        assert_same(found, expected, rtol=1e-12, atol=1e-12)


@given(programs(), seeds())
def test_vmap_equals_loop(recipe: Recipe, seed: int) -> None:
    batch = [
        np.stack(rows) for rows in zip(*(recipe.arguments(seed + k) for k in range(3)), strict=True)
    ]
    for found, expected in zip(ft.vmap(recipe)(*batch), stacked(recipe.plain, batch), strict=True):
        assert_same(found, expected, rtol=1e-12, atol=1e-12)


@given(programs(), seeds())
def test_vmap_of_pullback_equals_loop(recipe: Recipe, seed: int) -> None:
    batch = [
        np.stack(rows) for rows in zip(*(recipe.arguments(seed + k) for k in range(2)), strict=True)
    ]

    def pulled(*arguments: Any) -> Any:
        values, pullback = ft.vjp(recipe, *arguments)
        return pullback(tuple(np.cos(y) for y in values))

    for found, expected in zip(ft.vmap(pulled)(*batch), stacked(pulled, batch), strict=True):
        assert_same(found, expected, rtol=1e-10, atol=1e-10)


@given(programs(most_steps=5), seeds())
def test_forward_over_reverse_equals_reverse_over_reverse(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    directions = directions_for(arguments, seed)

    def loss(*values: Any) -> Any:
        total: Any = 0.0
        for y in recipe(*values):
            total = total + np.sum(np.sin(y))
        return total

    positions = tuple(range(len(arguments)))
    gradient = ft.grad(loss, argnums=positions)
    _, forward = ft.jvp(gradient, tuple(arguments), tuple(directions))

    def along(*values: Any) -> Any:
        total: Any = 0.0
        for g, d in zip(gradient(*values), directions, strict=True):
            total = total + np.sum(g * d)
        return total

    reverse = ft.grad(along, argnums=positions)(*arguments)
    for a, b in zip(forward, reverse, strict=True):
        scale = 1.0 + float(np.max(np.abs(a), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * scale)


@given(programs(), seeds())
def test_print_then_parse_is_identity(recipe: Recipe, seed: int) -> None:
    program = ft.trace(recipe)(*recipe.arguments(seed))
    assert ft.Program.parse(program.text()) == program
    derived = jvp_program(program, [True] * len(program.inputs))
    assert ft.Program.parse(derived.text()) == derived
    assert hash(ft.Program.parse(derived.text())) == hash(derived)


@given(programs(), seeds())
def test_json_round_trip_is_identity(recipe: Recipe, seed: int) -> None:
    program = ft.trace(recipe)(*recipe.arguments(seed))
    assert ft.Program.from_json(program.to_json()) == program


@given(programs(), seeds())
def test_as_python_equals_eval(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    program = ft.trace(recipe)(*arguments)
    expected = outputs_of(ft.evaluate(program, *arguments))
    for found, value in zip(outputs_of(emitted(program)(*arguments)), expected, strict=True):
        assert_same(found, value, rtol=1e-13, atol=1e-13)
    derived = jvp_program(program, [True] * len(program.inputs))
    given_values = [*arguments, *directions_for(arguments, seed)]
    expected = outputs_of(ft.evaluate(derived, *given_values))
    for found, value in zip(outputs_of(emitted(derived)(*given_values)), expected, strict=True):
        assert_same(found, value, rtol=1e-13, atol=1e-13)


@given(programs(), seeds())
def test_checkpoint_changes_no_bit(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    directions = directions_for(arguments, seed)
    values, pullback = ft.vjp(recipe, *arguments)
    bars = tuple(np.cos(y) for y in values)
    expected = outputs_of(
        (values, pullback(bars), ft.jvp(recipe, tuple(arguments), tuple(directions)))
    )
    for policy in (ft.policies.recompute, ft.policies.pack(np.copy, np.copy)):
        kept = ft.checkpoint(recipe, policy=policy)
        values, pullback = ft.vjp(kept, *arguments)
        found = outputs_of(
            (values, pullback(bars), ft.jvp(kept, tuple(arguments), tuple(directions)))
        )
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)


@given(programs(), seeds())
def test_jit_changes_rounding_at_most(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)

    def both(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    jitted = ft.jit(both)
    for _ in range(2):
        for a, b in zip(outputs_of(jitted(*arguments)), outputs_of(both(*arguments)), strict=True):
            assert_same(a, b, rtol=1e-12, atol=1e-12)


@given(programs(), seeds())
def test_transforms_round_trip_and_run_as_python(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    program = ft.trace(recipe)(*arguments)
    forward, linear = linearize_program(program)
    backward = transpose_program(
        linear, [k >= len(linear.inputs) - len(arguments) for k in range(len(linear.inputs))]
    )
    results = outputs_of(ft.evaluate(forward, *arguments))
    kept = results[len(program.outputs) :]
    given_values = [*kept, *[np.cos(y) for y in results[: len(program.outputs)]]]
    for subject, values in (
        (forward, arguments),
        (backward, given_values),
        (vmap_program(program, 2), None),
    ):
        assert ft.Program.parse(subject.text()) == subject
        assert ft.Program.from_json(subject.to_json()) == subject
        if values is None:
            values = [
                np.stack([a, b]) for a, b in zip(arguments, recipe.arguments(seed + 1), strict=True)
            ]
        expected = outputs_of(ft.evaluate(subject, *values))
        for a, b in zip(outputs_of(emitted(subject)(*values)), expected, strict=True):
            assert_same(a, b, rtol=1e-13, atol=1e-13)
