"""Loops and branches: their bodies are lowered into blocks of the same function.

Tiny carries are mutable scalars, others are memory that each step overwrites.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from functrace.control.cond import cond_p
from functrace.control.scan import scan_p
from functrace.control.while_loop import while_p
from functrace.executor.plan.planner import Plan
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.structures import Branch, Loop
from functrace.native.loop_ir import INT64, Affine, Const, If, Scalar, While
from functrace.native.lowering import DTYPES, TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.values import Stored, Value, scalars

BOOL = np.dtype(bool)
Carry: TypeAlias = "list[Scalar] | Stored"
"""A carried value: mutable scalars, or memory."""

LONG = 4096
"""Steps from which a loop looks for signals."""


def _carry(low: Lowering, value: Value, aval: ShapeDtype) -> Carry:
    """Make a carried value, with its first value."""
    shape = tuple(aval.shape)
    if aval.dtype not in DTYPES:
        raise NoNativeForm(f"a carry of {aval.dtype}")
    if math.prod(shape) <= TINY:
        atoms = np.broadcast_to(low.elements(value), shape).ravel()
        return [low.builder.declare(low.cast(x, aval.dtype)) for x in atoms]
    made = low.array(shape, aval.dtype)
    low.copy(made, value)
    return made


def _read(low: Lowering, carry: Carry, aval: ShapeDtype) -> Value:
    """Return the current value of a carry."""
    if isinstance(carry, Stored):
        return carry
    return scalars([low.builder.get(x) for x in carry], tuple(aval.shape), aval.dtype)


def _write(low: Lowering, carries: Sequence[Carry], values: Sequence[Value]) -> None:
    """Overwrite carries: all new values are read before one is written."""
    buffers = {id(carry.buffer) for carry in carries if isinstance(carry, Stored)}
    ready: list[tuple[Carry, Any]] = []
    for carry, value in zip(carries, values, strict=True):
        found = low.computed(value)
        if not isinstance(carry, Stored):
            ready.append((carry, low.elements(found).ravel()))
            continue
        if carry.same_place(found):
            continue
        if isinstance(found, Stored) and id(found.buffer) in buffers:
            copied = low.array(found.shape, found.dtype)
            low.copy(copied, found)
            found = copied
        ready.append((carry, found))
    for carry, found in ready:
        if isinstance(carry, Stored):
            low.copy(carry, found)
        else:
            for variable, atom in zip(carry, found, strict=True):
                low.builder.assign(variable, atom)


def _body(low: Lowering, plan: Plan) -> Lowering:
    return Lowering(low.builder, plan, low.rows)


def _avals(plan: Plan, ids: Sequence[int]) -> list[ShapeDtype]:
    return [plan.program.avals[i] for i in ids]


def _loop(low: Lowering, op: Operation) -> Sequence[Value]:
    loop = op.step.structure
    if not isinstance(loop, Loop) or len(loop.carries) != 1 or loop.hidden or loop.gives:
        raise NoNativeForm(f"{op.primitive.name} of several phases")
    if loop.takes is not None:
        raise NoNativeForm("a loop over packed residuals")
    operands = [low.computed(x) for x in op.operands]
    return _counted(low, op, loop, operands) if loop.length is not None else _while(low, op, loop, operands)  # fmt: skip


def _counted(low: Lowering, op: Operation, loop: Loop, operands: list[Any]) -> Sequence[Value]:
    (plan,) = op.step.bodies
    program, length, count = plan.program, loop.length, loop.carries[0]
    assert length is not None
    if length == 0:
        raise NoNativeForm("a loop of no steps")
    fixed, first = operands[: loop.constants], operands[loop.constants :][:count]
    arrays = [low.stored(x) for x in operands[loop.constants + count :]]
    avals = _avals(plan, program.input_ids[loop.constants :][:count])
    carries = [_carry(low, x, aval) for x, aval in zip(first, avals, strict=True)]
    stacks: list[Stored] = []
    for place, i in enumerate(program.output_ids[count:], count):
        aval = program.avals[i]
        if aval.dtype not in DTYPES:
            raise NoNativeForm(f"a result of {aval.dtype}")
        stacks.append(low.target(op, place))
    for x in fixed:
        low.to_memory(x)
    with low.builder.loop(length, reverse=loop.reverse[0], long=length >= LONG) as counter:
        step = Affine(((counter.name, 1),))
        body = _body(low, plan)
        given = [_read(body, carry, aval) for carry, aval in zip(carries, avals, strict=True)]
        slices = [_slice(body, x, step) for x in arrays]
        targets = [stack.item(step) for stack in stacks]
        places = [
            carry
            if isinstance(carry, Stored) and _is_updated(plan, loop.constants + k, k)
            else None
            for k, carry in enumerate(carries)
        ]
        results = body.run([*fixed, *given, *slices], [*places, *targets])
        _write(body, carries, results[:count])
    return [*_ends(low, carries, avals), *stacks]


def _is_updated(plan: Plan, place: int, output: int) -> bool:
    """Return True if the only reader of an input computes an output from it, element by element."""
    from functrace.native.rows import elementwise

    program = plan.program
    i, o = program.input_ids[place], program.output_ids[output]
    readers = [step.first for step in plan.steps if i in program.ops[step.first][1]]
    return (
        readers == [o]
        and program.ops[o][0] in elementwise.ROWS
        and program.ops[o][1].count(i) == 1
        and program.avals[o].shape == program.avals[i].shape
        and program.avals[o].dtype == program.avals[i].dtype
        and (program.output_ids.count(o), program.output_ids.count(i)) == (1, 0)
    )


def _slice(low: Lowering, x: Stored, step: Affine) -> Value:
    return x.item(step)


def _ends(low: Lowering, carries: Sequence[Carry], avals: Sequence[ShapeDtype]) -> list[Value]:
    return [_read(low, carry, aval) for carry, aval in zip(carries, avals, strict=True)]


def _while(low: Lowering, op: Operation, loop: Loop, operands: list[Any]) -> Sequence[Value]:
    condition_plan, plan = op.step.bodies
    program, count = plan.program, loop.carries[0]
    fixed, first = operands[: loop.constants], operands[loop.constants :]
    avals = _avals(plan, program.input_ids[loop.constants :])
    if len(first) != count or len(program.output_ids) != 1 + count:
        raise NoNativeForm("a while loop with stacked results")
    for x in fixed:
        low.to_memory(x)
    carries = [_carry(low, x, aval) for x, aval in zip(first, avals, strict=True)]
    builder = low.builder
    start = _body(low, condition_plan)
    (begins,) = start.run(
        [*fixed, *[_read(low, c, aval) for c, aval in zip(carries, avals, strict=True)]], [None]
    )
    goes_on = builder.declare(low.elements(begins).ravel()[0])
    steps = None if loop.most is None else builder.declare(Const(0, INT64))
    with builder.block() as condition:
        value = builder.get(goes_on)
    with builder.block() as inside:
        if steps is not None:
            done = builder.get(steps)
            limit = Const(loop.most, INT64)
            builder.fail(builder.let("greater_equal", BOOL, done, limit), 1)
            builder.assign(steps, builder.let("add", INT64, done, Const(1, INT64)))
        body = _body(low, plan)
        given = [_read(body, carry, aval) for carry, aval in zip(carries, avals, strict=True)]
        results = body.run([*fixed, *given], [None] * (1 + count))
        again = body.elements(results[0]).ravel()[0]
        _write(body, carries, results[1:])
        builder.assign(goes_on, again)
    builder.body.append(While(condition, value, inside))
    return _ends(low, carries, avals)


def _branch(low: Lowering, op: Operation) -> Sequence[Value]:
    branch = op.step.structure
    if not isinstance(branch, Branch) or branch.by_example:
        raise NoNativeForm("a branch per example")
    builder = low.builder
    operands = [low.computed(x) for x in op.operands]
    for x in operands:
        low.to_memory(x)
    which = low.cast(low.elements(operands[0]).ravel()[0], INT64)
    results: list[Carry] = []
    for place, aval in enumerate(op.avals):
        if aval.dtype not in DTYPES:
            raise NoNativeForm(f"a result of {aval.dtype}")
        if math.prod(aval.shape) <= TINY:
            zero = Const(aval.dtype.type(0).item(), aval.dtype)
            results.append([builder.declare(zero) for _ in range(math.prod(aval.shape))])
        else:
            results.append(low.target(op, place))

    def choose(numbers: Sequence[int]) -> None:
        if len(numbers) == 1:
            body = _body(low, op.step.bodies[numbers[0]])
            targets = [x if isinstance(x, Stored) else None for x in results]
            found = body.run(operands[1:], targets)
            for result, value in zip(results, found, strict=True):
                if not isinstance(result, Stored):
                    for variable, atom in zip(result, body.elements(value).ravel(), strict=True):
                        builder.assign(variable, atom)
            return
        first = builder.let("less_equal", BOOL, which, Const(numbers[0], INT64))
        with builder.block() as then:
            choose(numbers[:1])
        with builder.block() as otherwise:
            choose(numbers[1:])
        builder.body.append(If(first, then, otherwise))

    choose(range(len(op.step.bodies)))
    return _ends(low, results, op.avals)


ROWS: dict[Primitive, Row] = {scan_p: _loop, while_p: _loop, cond_p: _branch}
"""Lowering by primitive."""
