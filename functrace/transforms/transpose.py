"""Transposition of linear programs: reverse mode is the transpose of the linear program.

The walk goes backwards. Each operation that is linear in an operand computes, by its transpose
rule, that operand's cotangent from the cotangent of its output. Rules ignore broadcasting and
dtypes: the walk sums each cotangent to its operand's aval where it accumulates it
(`match_cotangent`).

Layer: 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import RESULT, AccumulatingTranspose, LinearOperand, NoRule
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.ir.walk import interpret, steps_to
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.derivative_links import with_derivative_p
from functrace.ops.elementwise import add
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Value
from functrace.transforms.building import attribute, finish, operand_of, reverse_origin

_NONE: Mapping[int, Any] = MappingProxyType({})


def match_cotangent(ct: Value, aval: ShapeDtype) -> Any:
    """Sum a cotangent to its operand's shape and cast it: reverse mode does this only here."""
    if getattr(ct, "aval", None) is aval:
        return ct
    shape, target = shape_of(ct), aval.shape
    if shape != target:
        extra = len(shape) - len(target)
        if extra >= 0:
            axes = tuple(
                k for k, n in enumerate(shape) if k < extra or (n != 1 and target[k - extra] == 1)
            )
            ct = reduce_sum(ct, axes)
            if shape_of(ct) != target:
                ct = (
                    reshape(ct, target)
                    if math.prod(shape_of(ct)) == aval.size
                    else broadcast_to(ct, target)
                )
        else:
            ct = broadcast_to(ct, target)
    return convert(ct, aval.dtype)


def pull_cotangents(
    ops: Sequence[Op],
    avals: Sequence[ShapeDtype],
    linear: set[int],
    values: Callable[[int], Any],
    cotangents: dict[int, Any],
    into: Recording,
    origins: Sequence[int] = (),
    reached: Mapping[int, list[tuple[int, Any, int]]] = _NONE,
    begin: int = 0,
    end: int | None = None,
) -> dict[int, Any]:
    """Walk linear operations backwards, from cotangents of outputs to cotangents of linear inputs.

    Args:
        ops: the tape of the linear program.
        avals: its avals.
        linear: the variables that are linear in the inputs to transpose to.
        values: ``operand -> value`` for operands that are not linear.
        cotangents: cotangent by variable; consumed. The remaining ones are those of inputs.
        into: the recording that receives the operations.
        origins: variable of the user's program for each variable; its own number by default.
        reached: by variable, a list of contributions that are not summed: variable, contribution,
            and length of the tape then.
        begin, end: the range of the tape that is transposed; by default all of it.

    Returns:
        ``cotangents``, with those of linear inputs, and of variables before the range.
    """
    last = len(ops) if end is None else end
    links = linked_variables(ops, linear, begin, last)
    stand_ins: dict[ShapeDtype, LinearOperand] = {}

    def stand_in(aval: ShapeDtype) -> LinearOperand:
        found = stand_ins.get(aval)
        if found is None:
            found = stand_ins[aval] = LinearOperand(aval)
        return found

    for k in range(last - 1, begin - 1, -1):
        primitive, operands, params = ops[k]
        if not operands or primitive is RESULT:
            continue
        if primitive.many:
            count = 1
            while k + count < len(ops) and ops[k + count][0] is RESULT:
                count += 1
            ct: Any = tuple(cotangents.pop(j, None) for j in range(k, k + count))
            if all(c is None for c in ct):
                continue
        else:
            ct = cotangents.pop(k, None)
            if ct is None:
                continue
        if links:
            operands = tuple([links.get(i, i) for i in operands])
        rule = primitive.transpose
        if isinstance(rule, AccumulatingTranspose) and rule.merged is not None:
            operands, params = rule.merged(operands, *params)
        if isinstance(rule, NoRule):
            raise NotDifferentiableError(
                f"{primitive} cannot be transposed: {rule.because}", fix=rule.instead
            )
        seen: list[Any] = [stand_in(avals[i]) if i in linear else values(i) for i in operands]
        if isinstance(rule, AccumulatingTranspose) and len(set(operands)) == len(operands):
            parts = rule.rule(
                ct,
                [cotangents.pop(i, None) if i in linear else None for i in operands],
                *seen,
                *params,
            )
        else:
            parts = rule(ct, *seen, *params)
        for i, part in zip(operands, parts, strict=True):
            if part is None or i not in linear:
                continue
            aval = avals[i]
            if getattr(part, "aval", None) is not aval:
                part = match_cotangent(part, aval)
            if i in reached:
                reached[i].append((i, part, len(into.primitives)))
                continue
            before = cotangents.get(i)
            cotangents[i] = part if before is None else add(before, part)
        missing = len(into.primitives) - len(into.origins)
        if missing:
            into.origins.extend([reverse_origin(origins[k] if origins else k)] * missing)
    return cotangents


def linked_variables(ops: Sequence[Op], linear: set[int], begin: int, end: int) -> dict[int, int]:
    """Return, by variable that has the derivative of a link, that link: its cotangents are the
    link's, and have one sum (ops/derivative_links.py).
    """
    links: dict[int, int] = {}
    for k in range(begin, end):
        primitive, operands, _ = ops[k]
        if primitive is with_derivative_p and operands[1] in linear:
            links[k] = links.get(operands[1], operands[1])
    return links


def linear_variables(ops: Sequence[Any], inputs: Sequence[int]) -> set[int]:
    """Return the variables that depend on ``inputs``."""
    linear = set(inputs)
    for k, (_, operands, _) in enumerate(ops):
        for i in operands:
            if i in linear:
                linear.add(k)
                break
    return linear


def transpose_program(
    program: Program,
    linear_inputs: Sequence[bool] | None = None,
    onto: Sequence[bool] | None = None,
) -> Program:
    """Transpose a program that is linear in some of its inputs.

    Args:
        program: a program, linear in the inputs flagged by ``linear_inputs``.
        linear_inputs: one flag per input; all are linear by default.
        onto: one flag per linear input: True to add the result to an existing cotangent.

    Returns:
        a program whose inputs are the other inputs, then one cotangent per output, then the
        cotangents flagged by ``onto``, and whose outputs are the cotangents of the linear inputs.

    Raises:
        NotDifferentiableError: if the program is not linear in those inputs.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda a, x: a * x)(2.0, 1.0)
        >>> ft.evaluate(ft.transforms.transpose_program(program, [False, True]), 2.0, 5.0)
        np.float64(10.0)

    Cost:
        about the program itself.
    """
    flags = [True] * len(program.input_ids) if linear_inputs is None else list(linear_inputs)
    chosen = [i for i, flag in zip(program.input_ids, flags, strict=True) if flag]
    linear = linear_variables(program.ops, chosen)
    into = ArrayRecording(f"transpose of {program.name}", keeps_source=False)
    env: dict[int, Any] = {}
    for i, flag in zip(program.input_ids, flags, strict=True):
        if not flag:
            env[i] = into.new_input(program.avals[i])
    env.update(program.constant_values)

    def value(wanted: int) -> Any:
        """Return the value of a non-linear operand, computed on first use."""
        if wanted < 0:
            return program.literals[~wanted]
        if wanted not in env:
            interpret(program, env, apply, steps_to(program, (wanted,), env))
        return env[wanted]

    def apply(k: int, values: tuple[Any, ...]) -> Any:
        primitive, _, params = program.ops[k]
        result = bind(primitive, values, params)
        attribute(into, k)
        return result

    cotangents: dict[int, Any] = {}
    given = [(i, into.new_input(program.avals[i])) for i in program.output_ids]
    for i, flag in zip(chosen, onto or [], strict=False):
        if flag:
            cotangents[i] = into.new_input(program.avals[i])
    links = linked_variables(program.ops, linear, 0, len(program.ops))
    for i, ct in given:
        if i in linear:
            i = links.get(i, i)
            cotangents[i] = add(cotangents[i], ct) if i in cotangents else ct
    pull_cotangents(program.ops, program.avals, linear, value, cotangents, into)
    outs = [operand_of(into, cotangents.get(i), program.avals[i]) for i in chosen]
    return finish(into, outs, program, f"transpose_of_{program.name}")
