"""Loops and branches: their bodies are lowered into blocks of the same function.

Tiny carries are mutable scalars, others are memory that each step overwrites.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from functrace.control.cond import cond_p
from functrace.control.loop_sharing import along_p, walk_p
from functrace.control.scan import scan_p
from functrace.control.while_loop import while_p
from functrace.executor.plan.planner import Plan
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.structures import Branch, Loop, Stack
from functrace.native.loop_ir import (
    DTYPES,
    INT64,
    ZERO,
    Affine,
    Atom,
    Const,
    If,
    Scalar,
    While,
    affine,
)
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.values import Packed, Scalars, Stored, Value, project, scalars

BOOL = np.dtype(bool)
Carry: TypeAlias = "list[Scalar] | Stored"
"""A carried value: mutable scalars, or memory."""


def _carry(low: Lowering, value: Value, aval: ShapeDtype) -> Carry:
    """Make a carried value, with its first value."""
    shape = tuple(aval.shape)
    if aval.dtype not in DTYPES:
        raise NoNativeForm(f"a carry of {aval.dtype}")
    if math.prod(shape) <= TINY:
        atoms = np.broadcast_to(low.elements(value), shape).ravel()
        variables = [low.builder.declare(low.cast(x, aval.dtype)) for x in atoms]
        low.builder.note_rows(scalars(variables, shape, aval.dtype).atoms)
        return variables
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
    if not isinstance(loop, Loop) or loop.length == 0:
        raise NoNativeForm("a loop of no steps")
    if loop.gives and low.is_probe:
        raise NoNativeForm("a loop whose stacks leave a segment")
    packed = op.operands[0] if loop.takes is not None else None
    if loop.takes is not None and not isinstance(packed, Packed):
        raise NoNativeForm("a loop over packed residuals")
    operands = [low.computed(x) for x in op.operands[loop.takes is not None :]]
    plans = op.step.bodies[loop.has_condition :]
    kept = loop.stacks([plan.program for plan in op.step.bodies])
    fixed, place = operands[: loop.constants], loop.constants
    for x in fixed:
        low.to_memory(x)
    memory = _memory(low, op, loop, kept, packed)
    count: int | Atom = packed.steps if isinstance(packed, Packed) else loop.length or 0
    ends: list[Value] = []
    arrays = [low.stored(x) for x in operands[place + sum(loop.carries) :]]
    for phase, (plan, number) in enumerate(zip(plans, loop.carries, strict=True)):
        avals = _avals(plan, plan.program.input_ids[loop.constants :][:number])
        first, place = operands[place : place + number], place + number
        carries = [_carry(low, x, aval) for x, aval in zip(first, avals, strict=True)]
        run = _Phase(low, loop, phase, plan, fixed, carries, avals, arrays, kept, memory)
        if loop.has_condition and not phase:
            count = run.until(op.step.bodies[0])
        else:
            run.counted(count)
        if phase >= loop.hidden:
            ends += _ends(low, carries, avals)
    if loop.gives:
        assert not isinstance(count, int)
        own = [m for m, stack in zip(memory, kept, strict=True) if stack.phase == 0]
        return [*ends, Packed(count, own)]
    return [*ends, *[m for m, x in zip(memory, kept, strict=True) if x.result is not None]]


STACKS: Final = 1 << 22
"""Bytes of the stacks of a loop whose number of steps depends on values; NumPy runs longer ones."""


def _memory(
    low: Lowering, op: Operation, loop: Loop, kept: Sequence[Stack], packed: Value | None
) -> list[Stored]:
    """Return the memory of the stacks of a loop."""
    found: list[Stored] = []
    own = [stack.aval for stack in kept if stack.phase is not None]
    row = sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in own)
    steps = STACKS // max(row, 1)
    if loop.most is not None:
        steps = min(steps, loop.most)
    if own and loop.length is None and steps < 1:
        raise NoNativeForm("large stacks of a loop whose number of steps depends on values")
    for stack in kept:
        if stack.aval.dtype not in DTYPES:
            raise NoNativeForm(f"a result of {stack.aval.dtype}")
        if stack.phase is None:
            assert isinstance(packed, Packed)
            found.append(packed.stacks[stack.output])
        elif loop.length is not None and stack.result is not None:
            found.append(low.target(op, stack.result))
        elif isinstance(packed, Packed):  # (as many steps as its stacks have)
            if not packed.stacks:
                raise NoNativeForm("a loop over packed residuals, of which there are none")
            length = packed.stacks[0].shape[0]
            found.append(low.array((length, *stack.aval.shape), stack.aval.dtype))
        else:
            found.append(low.array((steps, *stack.aval.shape), stack.aval.dtype))
    return found


@final
class _Phase(NamedTuple):
    """One phase of a loop.

    Args:
        low: lowering of the program that has the loop.
        loop: the loop.
        number: of the phase.
        plan: of the body.
        fixed: values of the constants.
        carries, avals: carried values.
        arrays: what the first phase scans.
        kept, memory: stacks of the loop.
    """

    low: Lowering
    loop: Loop
    number: int
    plan: Plan
    fixed: Sequence[Value]
    carries: Sequence[Carry]
    avals: Sequence[ShapeDtype]
    arrays: Sequence[Stored]
    kept: Sequence[Stack]
    memory: Sequence[Stored]

    def counted(self, count: int | Atom) -> None:
        """Write a loop of so many steps."""
        reverse = self.loop.reverse[self.number]
        with self.low.builder.loop(count, reverse=reverse) as counter:
            self._step(Affine(((counter.name, 1),)), 0)

    def until(self, condition_plan: Plan) -> Atom:
        """Write a loop with a condition; returns the number of its steps."""
        low, builder = self.low, self.low.builder
        (begins,) = _body(low, condition_plan).run([*self.fixed, *self._current()], [None])
        goes_on = builder.declare(low.elements(begins).ravel()[0])
        own = [m for m, x in zip(self.memory, self.kept, strict=True) if x.phase is not None]
        limits = [m.shape[0] for m in own]
        if self.loop.most is not None:
            limits.append(self.loop.most)
        is_counted = bool(limits) or len(self.loop.carries) > 1 or self.loop.gives
        steps = builder.declare(Const(0, INT64)) if is_counted else None
        with builder.block() as condition:
            value = builder.get(goes_on)
        with builder.block() as inside:
            step = ZERO
            done: Atom = Const(0, INT64)
            if steps is not None:
                done = builder.get(steps)
                step = affine(done)
            if limits:
                limit = Const(min(limits), INT64)
                builder.fail(builder.let("greater_equal", BOOL, done, limit), 1)
            again = self._step(step, 1)
            if steps is not None:
                builder.assign(steps, builder.let("add", INT64, done, Const(1, INT64)))
            builder.assign(goes_on, again)
        builder.body.append(While(condition, value, inside))
        return Const(0, INT64) if steps is None else builder.get(steps)

    def _current(self) -> list[Value]:
        return _ends(self.low, self.carries, self.avals)

    def _step(self, step: Affine, skipped: int) -> Any:
        """Write a step; returns the first output if the body has one before its carry."""
        loop, plan = self.loop, self.plan
        body = _body(self.low, plan)
        places = [
            carry
            if isinstance(carry, Stored) and _is_updated(plan, loop.constants + k, skipped + k)
            else None
            for k, carry in enumerate(self.carries)
        ]
        slices = [x.item(step) for x in self.arrays] if not self.number else []
        pairs = list(zip(self.memory, self.kept, strict=True))
        read = [m.item(step) for m, x in pairs if self.number in dict(x.readers)]
        targets = [m.item(step) for m, x in pairs if x.phase == self.number]
        results = body.run(
            [*self.fixed, *self._current(), *slices, *read],
            [*[None] * skipped, *places, *targets],
        )
        again = body.elements(results[0]).ravel()[0] if skipped else None
        _write(body, self.carries, results[skipped:][: len(self.carries)])
        return again


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


def _ends(low: Lowering, carries: Sequence[Carry], avals: Sequence[ShapeDtype]) -> list[Value]:
    return [_read(low, carry, aval) for carry, aval in zip(carries, avals, strict=True)]


def _branch(low: Lowering, op: Operation) -> Sequence[Value]:
    branch = op.step.structure
    if not isinstance(branch, Branch):
        raise NoNativeForm("a branch")
    if branch.by_example:
        return _branch_by_example(low, op)
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


def _branch_by_example(low: Lowering, op: Operation) -> Sequence[Value]:
    """Write a branch per example: a body that an example has chosen computes all examples, and its
    results are stored where it was chosen.
    """
    builder = low.builder
    operands = [low.computed(x) for x in op.operands]
    for x in operands:
        low.to_memory(x)
    which, last = operands[0], len(op.step.bodies) - 1
    (count,) = which.shape
    if not count:
        raise NoNativeForm("a branch of no examples")
    targets: list[Stored] = []
    for place, aval in enumerate(op.avals):
        if aval.dtype not in DTYPES:
            raise NoNativeForm(f"a result of {aval.dtype}")
        targets.append(low.target(op, place))
        low.fill(targets[-1], Const(aval.dtype.type(0).item(), aval.dtype))

    def takes(example: Affine, number: int) -> Atom:
        chosen = low.cast(low.atom(which, [example]), INT64)
        word = "less_equal" if number == 0 else "greater_equal" if number == last else "equal"
        return builder.let(word, BOOL, chosen, Const(number, INT64))

    for number, plan in enumerate(op.step.bodies):
        any_ = builder.declare(Const(last == 0, BOOL))
        with builder.loops((count,)) as (example,):
            builder.assign(any_, builder.let("or", BOOL, builder.get(any_), takes(example, number)))
        is_run = builder.get(any_)
        with builder.block() as then:
            body = _body(low, plan)
            results = body.run(operands[1:], [None] * len(targets))
            for target, result in zip(targets, results, strict=True):
                body.to_memory(result)
                with builder.loops(target.shape) as index:
                    place = target.place(index)
                    new = body.cast(body.atom(result, project(index, result.shape)), target.dtype)
                    if last:
                        old = builder.load(target.buffer, place)
                        chosen = takes(index[0], number)
                        new = builder.let("select", target.dtype, chosen, new, old)
                    builder.store(target.buffer, place, new)
        builder.body.append(If(is_run, then, []))
    return [Scalars(low.elements(x), x.dtype) if math.prod(x.shape) <= TINY else x for x in targets]


ROWS: dict[Primitive, Row] = {
    scan_p: _loop, while_p: _loop, walk_p: _loop, along_p: _loop, cond_p: _branch,
}  # fmt: skip
"""Lowering by primitive."""
