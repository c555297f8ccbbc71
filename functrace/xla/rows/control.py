"""Lowerings of `functrace.control`: operations that hold programs.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.control.call import call_p
from functrace.control.checkpointed_forms import (
    derived_program,
    loop_of,
    plain_loop,
    plain_tangents,
)
from functrace.control.checkpointed_loop import checkpointed_loop_p, checkpointed_tangents_p
from functrace.control.cond import cond_p
from functrace.control.custom import (
    custom_batch_p,
    custom_derivative_p,
    custom_jvp_p,
    custom_vjp_p,
    pushed,
    pushforward_p,
)
from functrace.control.linear_solve import linear_solve_p
from functrace.control.residuals import pack_p
from functrace.control.root import root_p
from functrace.control.scan import scan_p
from functrace.control.storages import storages_of
from functrace.control.strong_zero import spelled_out, strong_zero_p
from functrace.control.while_loop import while_p
from functrace.control.while_trips import Trip
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.ir.program import Program
from functrace.xla.checks import Failures
from functrace.xla.lowering import Operation, Value, cast, refuse, register, walk


def typed_inputs(values: Sequence[Any], program: Program, first: int = 0) -> list[Any]:
    """Return values as arrays of the dtypes of a program's inputs, from input ``first`` on."""
    ids = program.input_ids[first:]
    return [jnp.asarray(cast(v, program.avals[i].dtype)) for v, i in zip(values, ids, strict=False)]


def _merge(op: Operation, number: Value, before: int) -> None:
    """Note the error of sub-programs, if they have checks.

    Args:
        op: the operation.
        number: of the first error.
        before: the number of the program's errors before the sub-programs were lowered.
    """
    if len(op.failures.errors) > before:
        op.failures.merge(number)


@register(call_p)
def _call(op: Operation, *rest: Value) -> Any:
    *values, program, policy = rest
    if any(storages_of(policy)):
        refuse(op, pack_p)
    values = typed_inputs(values, program)
    if policy:  # recomputed: XLA must not share its values with the forward part
        values = lax.optimization_barrier(tuple(values))
    return op.apply(program, values)


register(custom_jvp_p)(lambda op, *rest: op.apply(rest[-3], rest[:-3]))
register(custom_vjp_p)(lambda op, *rest: op.apply(rest[-4], rest[:-4]))
register(custom_derivative_p)(lambda op, *rest: op.apply(rest[-5], rest[:-5]))
register(custom_batch_p)(lambda op, *rest: op.apply(rest[-2], rest[:-2]))
register(pushforward_p)(lambda op, *rest: op.apply(pushed(rest[-2], rest[-1]), rest[:-2]))
register(linear_solve_p)(lambda op, *rest: op.apply(rest[-3][1], rest[:-3]))
register(strong_zero_p)(lambda op, *rest: op.apply(spelled_out(rest[-1]), rest[:-1]))
register(root_p)(lambda op, *rest: op.apply(rest[-3], rest[:-4]))


@register(checkpointed_loop_p)
def _checkpointed_loop(op: Operation, *rest: Value) -> Any:
    loop, operands = loop_of(rest)
    return op.apply(plain_loop(loop), operands)


@register(checkpointed_tangents_p)
def _checkpointed_tangents(op: Operation, *rest: Value) -> Any:
    loop, operands = loop_of(rest)
    return op.apply(derived_program(plain_tangents, loop), operands)


@register(cond_p)
def _cond(op: Operation, which: Value, *rest: Value) -> Any:
    *values, branches, batched = rest
    arrays = [jnp.asarray(v) for v in values]
    before = len(op.failures.errors)

    def runner(branch: Program) -> Any:
        def run(*given: Value) -> list[Any]:
            return op.failures.inside(
                lambda own: walk(branch, typed_inputs(given, branch), own, op.options)
            )

        return run

    runs = [runner(branch) for branch in branches]
    if not batched:
        number = jnp.asarray(which).astype(np.int32)
        *results, failed = lax.switch(number, runs, *arrays)
        _merge(op, failed, before)
        return results
    axes = tuple([0 if flag else None for flag in batched])
    count = which.shape[0]
    number = jnp.clip(which.astype(np.int32), 0, len(runs) - 1)
    by_branch = []
    for k, run in enumerate(runs):

        def mapped(*given: Value, run: Value = run) -> Any:
            return jax.vmap(run, in_axes=axes, axis_size=count)(*given)

        # (a branch that no example chose is not run)
        shapes = jax.eval_shape(mapped, *arrays)
        zeros = lambda *_, shapes=shapes: [jnp.zeros(s.shape, s.dtype) for s in shapes]  # noqa: E731
        by_branch.append(lax.cond(jnp.any(number == k), mapped, zeros, *arrays))
    chosen = [
        jax.vmap(lambda n, *xs: lax.select_n(n, *xs))(number, *found)
        for found in zip(*by_branch, strict=True)
    ]
    *results, errors = chosen
    _merge(op, errors[jnp.argmax(errors != 0)] if count else np.int32(0), before)
    return results


@register(scan_p)
def _scan(op: Operation, *rest: Value) -> Any:
    *values, body, length, reverse, constants, carries = rest
    fixed = values[:constants]
    first = typed_inputs(values[constants : constants + carries], body, constants)
    slices = [jnp.asarray(v) for v in values[constants + carries :]]
    before = len(op.failures.errors)

    def step(state: Value, xs: Value) -> Any:
        carry, error = state
        own = Failures(op.failures.errors)
        results = walk(body, [*fixed, *carry, *xs], own, op.options)
        if not own.is_empty:
            error = jnp.where(error == 0, own.number(), error)
        return (results[:carries], error), results[carries:]

    (last, error), stacked = lax.scan(step, (first, np.int32(0)), slices, length, reverse)
    _merge(op, error, before)
    return [*last, *stacked]


@register(while_p)
def _while(op: Operation, *rest: Value) -> Any:
    """The loop, and further phases over the same steps.

    Those read what each step kept: a stack of as many rows as the loop may have steps.
    """
    trip = Trip._make(rest[-7:])
    fixed, groups = trip.groups(rest[:-7])
    groups = [typed_inputs(g, b, trip.constants) for g, b in zip(groups, trip.bodies, strict=True)]
    errors = op.failures.errors
    before = len(errors)

    def goes_on(carry: Value) -> Any:
        own = Failures(errors)
        found = walk(trip.cond, [*fixed, *carry], own, op.options)[0]
        return found, own.number()

    def run(phase: int, carry: Value, rows: Value) -> tuple[list[Any], Any]:
        own = Failures(errors)
        found = walk(trip.bodies[phase], [*fixed, *carry, *rows], own, op.options)
        return found, own.number()

    most = trip.most if trip.most is not None else op.options.most_steps
    if len(trip.bodies) > 1 and most is None:
        raise UnsupportedFunctionError(
            "the reverse of a while loop needs a bound of its steps under XLA, whose arrays have one "
            "size",
            fix="while_loop(..., max_steps=n), or functrace.scan",
        )

    def empty(phase: int) -> list[Any]:
        body, first = trip.bodies[phase], trip.carries[phase]
        return [
            jnp.zeros((most or 0, *body.avals[i].shape), body.avals[i].dtype)
            for i in body.output_ids[first:]
        ]

    def put(stacks: Value, t: Value, rows: Value) -> list[Any]:
        return [
            lax.dynamic_update_index_in_dim(s, r, t, 0) for s, r in zip(stacks, rows, strict=True)
        ]

    def test(state: Value) -> Any:
        t, _, _, is_on, error = state
        is_on = is_on & (error == 0)
        return is_on if most is None else is_on & (t < most)

    def step(state: Value) -> Any:
        t, carry, stacks, _, error = state
        results, failed = run(0, carry, [])
        carry = results[: trip.carries[0]]
        stacks = put(stacks, t, results[trip.carries[0] :])
        is_on, other = goes_on(carry)
        error = jnp.where(error == 0, jnp.where(failed == 0, other, failed), error)
        return t + 1, carry, stacks, is_on, error

    is_on, failed = goes_on(groups[0])
    zero, failed = jnp.zeros((), int), jnp.asarray(failed, np.int32)
    state = zero, groups[0], empty(0), is_on, failed
    steps, carry, kept, is_on, error = lax.while_loop(test, step, state)
    _merge(op, error, before)
    if most is not None:
        word = "max_steps" if trip.most is not None else "most_steps"
        op.require(
            ~is_on | (error != 0),
            ArgumentError,
            f"a while loop is not done after {word}={most}",
            "allow more steps",
        )
    ends = [carry]
    for phase in range(1, len(trip.bodies)):
        count, back = trip.carries[phase], trip.reverse[phase]

        def turn(
            n: Value, state: Value, phase: int = phase, count: int = count, back: bool = back,
            kept: Value = kept,
        ) -> Any:  # fmt: skip
            carry, stacks, error = state
            t = steps - 1 - n if back else n
            rows = [lax.dynamic_index_in_dim(s, t, 0, False) for s in kept]
            results, failed = run(phase, carry, rows)
            error = jnp.where(error == 0, failed, error)
            return results[:count], put(stacks, t, results[count:]), error

        carry, more, error = lax.fori_loop(
            0, steps, turn, (groups[phase], empty(phase), jnp.int32(0))
        )
        _merge(op, error, before)
        ends.append(carry)
        kept = kept + more
    return [x for carry in ends[trip.hidden :] for x in carry]
