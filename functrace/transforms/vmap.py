"""vmap: transform a program over single examples into a program over batches.

The walk evaluates the program with operands that may have a batch axis, always at position 0, and
calls the batch rule of every operation with a batched operand; other operations stay as they are.
All elementwise primitives share one rule, here: operands of lower rank get axes of size 1 after the
batch axis, so that they broadcast as before.

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import NoRule, Primitive
from functrace.ir.program import Program
from functrace.ir.walk import interpret
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.binding import bind
from functrace.transforms.building import attribute, finish, operand_of, remembered


def align_ranks(operands: tuple[Any, ...], is_batched: tuple[bool, ...]) -> tuple[Any, ...]:
    """Insert axes of size 1 after the batch axis, so that batched operands broadcast as before."""
    rank = max(len(shape_of(x)) - b for x, b in zip(operands, is_batched, strict=True))
    return tuple(
        reshape(x, (x.shape[0],) + (1,) * (rank - len(shape_of(x)) + 1) + tuple(x.shape[1:]))
        if b and len(shape_of(x)) - 1 < rank
        else x
        for x, b in zip(operands, is_batched, strict=True)
    )


def apply_batched(
    primitive: Primitive,
    operands: tuple[Any, ...],
    is_batched: tuple[bool, ...],
    params: tuple[Any, ...],
) -> Any:
    """Apply a primitive to operands, some of them batched; mapped results have the axis at 0."""
    rule = primitive.batch
    if rule is ELEMENTWISE:
        return bind(primitive, align_ranks(operands, is_batched), params)
    if isinstance(rule, NoRule):
        raise NotDifferentiableError(
            f"{primitive} cannot be batched: {rule.because}", fix=rule.instead
        )
    return rule(operands, is_batched, *params)


def dependent_outputs(program: Program, inputs: Sequence[bool]) -> tuple[bool, ...]:
    """Return which outputs depend on a flagged input, if every result depends on all operands."""
    found = {i for i, flag in zip(program.input_ids, inputs, strict=True) if flag}
    for k, _ in program.schedule:
        if not found.isdisjoint(program.ops[k][1]):
            found.update(range(k, k + program.result_count(k)))
    return tuple([i in found for i in program.output_ids])


def reached_outputs(program: Program, inputs: Sequence[bool]) -> tuple[bool, ...]:
    """Return which outputs depend on a flagged input, also through sub-programs."""
    return remembered(_reached_outputs, program, inputs)


def _reached_outputs(program: Program, inputs: Sequence[bool]) -> tuple[bool, ...]:
    found = {i for i, flag in zip(program.input_ids, inputs, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if found.isdisjoint(operands):
            continue
        results = range(k, k + program.result_count(k))
        if primitive.holds is not None and primitive.holds.depends is not None:
            flags = primitive.holds.depends([i in found for i in operands], *params)
            results = [j for j, flag in zip(results, flags, strict=True) if flag]
        found.update(results)
    return tuple([i in found for i in program.output_ids])


def mapped_outputs(program: Program, batched: Sequence[bool]) -> tuple[bool, ...]:
    """Return which outputs `vmap_program` gives a batch axis by default."""
    return remembered(_mapped_outputs, program, batched)


def _mapped_outputs(program: Program, batched: Sequence[bool]) -> tuple[bool, ...]:
    mapped = {i for i, flag in zip(program.input_ids, batched, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if not mapped.isdisjoint(operands):
            results = range(k, k + program.result_count(k))
            mapped.update(
                mapped_results(primitive, [i in mapped for i in operands], params, results)
            )
    return tuple([i in mapped for i in program.output_ids])


def mapped_results(
    primitive: Primitive,
    is_batched: Sequence[bool],
    params: tuple[Any, ...],
    results: Sequence[int],
) -> Sequence[int]:
    """Return those results of an operation that have a batch axis."""
    if primitive.mapped is None:
        return results
    return [
        j for j, flag in zip(results, primitive.mapped(is_batched, *params), strict=True) if flag
    ]


def batch_size(operands: Sequence[Any], is_batched: Sequence[bool]) -> int:
    """Return the size of the batch axis of operands."""
    return next(shape_of(x)[0] for x, flag in zip(operands, is_batched, strict=True) if flag)


def vmap_program(
    program: Program,
    size: int,
    batched: Sequence[bool] | None = None,
    out_batched: Sequence[bool] | None = None,
) -> Program:
    """Make the program that maps ``program`` over a batch.

    Args:
        program: the program of one example.
        size: number of examples.
        batched: one flag per input: True if it has the batch axis, at position 0 (all by default).
        out_batched: one flag per output: True to give it the batch axis (all by default). An output
            that does not depend on a batched input is broadcast.

    Returns:
        a program with the same inputs and outputs, batched ones with the axis at position 0.

    Raises:
        ShapeError: if an output flagged ``False`` depends on a batched input.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda a, x: a * x)(2.0, 1.0)
        >>> ft.evaluate(ft.transforms.vmap_program(program, 3, [False, True]), 2.0, np.arange(3.0))
        array([0., 2., 4.])

    Cost:
        ``size`` times the program's array work, in one equation (or a few) per equation.
    """
    flags = [True] * len(program.input_ids) if batched is None else list(batched)
    into = ArrayRecording(f"vmap of {program.name}", keeps_source=False)
    env: dict[int, Any] = {}
    mapped: set[int] = set()
    for i, flag in zip(program.input_ids, flags, strict=True):
        aval = program.avals[i]
        env[i] = into.new_input(ShapeDtype((size, *aval.shape), aval.dtype) if flag else aval)
        if flag:
            mapped.add(i)
    for i, value in program.constant_values.items():
        env[i] = into.handle(into.constant(value, program.avals[i]))

    def apply(k: int, values: tuple[Any, ...]) -> Any:
        primitive, operands, params = program.ops[k]
        if mapped.isdisjoint(operands):
            result = bind(primitive, values, params)
        else:
            is_batched = tuple([i in mapped for i in operands])
            result = apply_batched(primitive, values, is_batched, params)
            mapped.update(
                mapped_results(primitive, is_batched, params, range(k, k + program.result_count(k)))
            )
        attribute(into, k)
        return result

    interpret(program, env, apply, program.schedule)
    outs: list[int] = []
    wanted = [True] * len(program.output_ids) if out_batched is None else out_batched
    for i, flag in zip(program.output_ids, wanted, strict=True):
        value, aval = env[i], program.avals[i]
        if flag and i not in mapped:
            value = broadcast_to(value, (size, *aval.shape))
        elif i in mapped and not flag:
            raise ShapeError(
                "vmap: an output with out_axes=None depends on the mapped inputs",
                fix="give it an axis in out_axes, or reduce it over the mapped axis first",
            )
        outs.append(
            operand_of(
                into, value, aval if not flag else ShapeDtype((size, *aval.shape), aval.dtype)
            )
        )
    return finish(into, outs, program, f"vmap_of_{program.name}")
