"""Programs of the steps of a checkpointed loop, and its forward sweep.

The forward sweep runs the step. The reverse pass (control/checkpointed_sweep.py) runs the step again
for its carry and its residuals (``record``), and the transpose of its linear part (``adjoint``).
Residuals that are slices of the loop's arrays are read again, and loop-invariant ones are computed
once.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from functrace.control.carries import hoisted, source_variables, split_body
from functrace.control.offloading import OffloadPolicy
from functrace.control.residuals import PackedStack, packed
from functrace.control.scan import transposed_body
from functrace.control.schedules import OnlineSlots, Schedule, saved_forward, saved_on_disk
from functrace.control.while_trips import Trip
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, Compiled, Rewrite, output_avals, reordered, restrict
from functrace.ir.program import Program
from functrace.ir.structures import HostCall, Loop, Lowering
from functrace.typing import Array

DISK = OffloadPolicy()
"""Storage of carries that a schedule keeps on disk."""


@final
class CheckpointedLoop(NamedTuple):
    """The params of a checkpointed loop.

    Args:
        body: from constants, carry and slices to carry and slices.
        cond: from constants and carry to a bool; ``None`` for a loop of known length.
        length: number of steps; ``None`` for a loop with a condition.
        reverse: True to run from the last slice to the first.
        constants, carries: numbers of these operands.
        most: largest number of steps, or ``None``.
        schedule: see control/schedules.py.
        active: flags of the body's inputs that carry derivatives, for ``checkpointed_tangents``;
            ``()`` otherwise.
    """

    body: Program
    cond: Program | None
    length: int | None
    reverse: bool
    constants: int
    carries: int
    most: int | None
    schedule: Schedule
    active: tuple[bool, ...]


def trip_of(loop: CheckpointedLoop) -> Trip:
    """Return a loop of unknown length as a trip of one phase."""
    assert loop.cond is not None, "a loop of unknown length has a condition"
    return Trip(loop.cond, (loop.body,), (loop.carries,), (False,), loop.constants, 0, loop.most)


def saved_count(loop: CheckpointedLoop) -> int:
    """Return the number of rows of the stacks of kept carries."""
    if loop.length is None:  # the last row is for the carry before the last step
        return loop.schedule[1]
    return len(saved_forward(loop.schedule, loop.length))


def extra_avals(loop: CheckpointedLoop) -> list[ShapeDtype]:
    """Return the avals of the results of the forward sweep besides those of the loop."""
    rows = saved_count(loop)
    stacks = [
        ShapeDtype((rows, *a.shape), a.dtype) for a in output_avals(loop.body)[: loop.carries]
    ]
    if loop.length is not None:
        return stacks
    integer = np.dtype(np.int64)
    return [ShapeDtype((), integer), ShapeDtype((rows,), integer), *stacks]


@final
class StepPrograms(NamedTuple):
    """Programs of the steps of a loop, for its active inputs.

    Args:
        step: the body, as when it is differentiated.
        invariants: from constants to loop-invariant residuals.
        record: the step with residuals: from constants, invariants, which it does not read, carry
            and slices to carry, results and residuals of the step.
        adjoint: the body of a `scan` over residuals, slices, and cotangents of results, with
            constants and invariants as its constants, and with sums and cotangents of the carry as
            its carry. It returns these, and cotangents of slices.
        sums: avals of the sums: cotangents of active constants.
        active_outputs: indices of the outputs that carry derivatives.
    """

    step: Program
    invariants: Program
    record: Program
    adjoint: Program
    sums: list[ShapeDtype]
    active_outputs: list[int]


def step_programs(loop: CheckpointedLoop, given: tuple[int, ...] | None = None) -> StepPrograms:
    """Return the programs of the steps.

    Args:
        loop: the loop, with ``active``.
        given: indices of the outputs that have a cotangent: those of all active carries, and of
            some results; all active ones by default.
    """
    key = (step_programs, loop.active, loop.constants, loop.carries, given)
    found = loop.body.derived.get(key)
    if found is None:
        found = loop.body.derived[key] = _step_programs(loop, given)
    return found


def _step_programs(loop: CheckpointedLoop, given: tuple[int, ...] | None) -> StepPrograms:
    body, constants, carries = loop.body, loop.constants, loop.carries
    flags, split = split_body(body, loop.active, constants, carries)
    assert tuple(flags) == loop.active, "the active carries are a fixed point"
    forward, count = split.forward, len(body.output_ids)
    ins, outs = forward.input_ids, forward.output_ids
    step = restrict(forward, ins, outs[:count], keep=True).program
    invariant, per_step = hoisted(split, body, constants)
    variables = source_variables(forward, count)
    places = [variables[word][place] for word, place in split.sources]
    # Residuals: constants and slices are operands; invariants are computed once; others per step.
    computed = [i for i in dict.fromkeys(places[n] for n in invariant) if i not in ins]
    made_once = restrict(forward, ins[:constants], computed, keep=True, effects=False).program
    slices = set(ins[constants + carries :])
    kept = [i for i in dict.fromkeys(places[n] for n in per_step) if i not in slices]
    record = restrict(forward, ins, [*outs[:count], *kept], keep=True).program
    unread = [forward.avals[i] for i in computed]
    write = Rewrite(record, [*range(constants), *unread, *range(constants, len(ins))])
    record = write.finish(write.keep_all())
    # The linear part with its inputs in the order of a scan, and its transpose.
    residuals, total = len(split.sources), len(body.input_ids)
    moved = iter(range(residuals, residuals + sum(flags)))
    dots = [next(moved) if flag else None for flag in flags]
    groups = [
        [*invariant, *[d for d in dots[:constants] if d is not None]],
        [d for d in dots[constants : constants + carries] if d is not None],
        [*per_step, *[d for d in dots[constants + carries : total] if d is not None]],
    ]
    active = [k for k, flag in enumerate(split.active) if flag]
    wanted = active if given is None else list(given)
    linear = reordered(split.linear, [k for group in groups for k in group])
    linear = restrict(
        linear, linear.input_ids, [linear.output_ids[active.index(k)] for k in wanted], keep=True
    ).program
    is_linear = [k >= residuals for group in groups for k in group]
    made = transposed_body(linear, is_linear, len(groups[0]), len(groups[1]))
    sums = [linear.avals[linear.input_ids[k]] for k in made.summed]
    cts = output_avals(linear)
    build = Assembly()
    known = {i: build.input(forward.avals[i]) for i in (*ins[:constants], *computed)}
    totals = [build.input(aval) for aval in sums]
    carry = [build.input(aval) for aval in cts[: len(groups[1])]]
    known.update({i: build.input(forward.avals[i]) for i in (*kept, *ins[constants + carries :])})
    results = [build.input(aval) for aval in cts[len(groups[1]) :]]
    order = [
        *[known[places[n]] for n in invariant], *totals, *carry,
        *[known[places[n]] for n in per_step], *results,
    ]  # fmt: skip
    adjoint = build.program(build.splice(made.step, order), made.step.name)
    return StepPrograms(step, made_once, record, adjoint, sums, active)


# -- the forward sweep -----------------------------------------------------------------------------


def _stack(rows: int, aval: ShapeDtype, like: Array | None) -> Array:
    """Return an uninitialized stack, whose rows have the memory order of an array.

    A step that is run again from a row must sum in the same order as before.
    """
    if len(aval.shape) < 2 or not isinstance(like, np.ndarray) or like.flags.c_contiguous:
        return np.empty((rows, *aval.shape), aval.dtype)
    axes = sorted(range(like.ndim), key=lambda k: -abs(like.strides[k]))
    made = np.empty((rows, *[aval.shape[k] for k in axes]), aval.dtype)
    return made.transpose([0, *[1 + axes.index(k) for k in range(like.ndim)]])


def forward_lowering(loop: CheckpointedLoop) -> Lowering:
    """Return the lowering of the forward sweep."""
    if loop.length is None:
        assert loop.cond is not None, "a loop of unknown length has a condition"
        bodies = (loop.cond, loop.body)
        return Lowering(bodies, HostCall(_Online(loop), loop.length), fresh=True)
    return Lowering((loop.body,), HostCall(_Forward(loop), loop.length), fresh=True)


@final
class _Forward:
    """The forward sweep of a loop of known length."""

    __slots__ = ("loop",)

    def __init__(self, loop: CheckpointedLoop) -> None:
        self.loop = loop

    def __call__(self, runs: Sequence[Compiled]) -> Callable[..., tuple[Any, ...]]:
        """Return the function from operands to results."""
        loop, (step,) = self.loop, runs
        length, constants, carries = loop.length, loop.constants, loop.carries
        assert length is not None, "the length is known"
        avals = output_avals(loop.body)
        row_of = {k: row for row, k in enumerate(saved_forward(loop.schedule, length))}
        on_disk = saved_on_disk(loop.schedule, length)
        numbers = range(length - 1, -1, -1) if loop.reverse else range(length)

        def run(*operands: Array) -> tuple[Any, ...]:
            fixed, arrays = operands[:constants], operands[constants + carries :]
            carry = operands[constants : constants + carries]
            stacks: list[Any] = [np.empty((length, *a.shape), a.dtype) for a in avals[carries:]]
            kept: list[Any] = []
            for k, t in enumerate(numbers):
                row = row_of.get(k)
                if row is not None:
                    if not kept and on_disk:
                        kept = [[None] * len(row_of) for _ in carry]
                    elif not kept:
                        kept = [
                            _stack(len(row_of), a, c) for a, c in zip(avals, carry, strict=False)
                        ]
                    for stack, value in zip(kept, carry, strict=True):
                        if on_disk:
                            stack[row] = packed(value, DISK) if k in on_disk else np.copy(value)
                        else:
                            stack[row] = value
                results = step(*fixed, *carry, *[a[t] for a in arrays])
                carry = results[:carries]
                for stack, result in zip(stacks, results[carries:], strict=True):
                    stack[t] = result
            if not kept:
                kept = [_stack(0, a, None) for a in avals[:carries]]
            elif on_disk:
                kept = [PackedStack(rows, a) for rows, a in zip(kept, avals, strict=False)]
            return (*carry, *stacks, *kept)

        return run


@final
class _Online:
    """The forward sweep of a loop of unknown length: a carry is kept in one of the slots, and
    replaced later.
    """

    __slots__ = ("loop",)

    def __init__(self, loop: CheckpointedLoop) -> None:
        self.loop = loop

    def refuse(self) -> NoReturn:
        """Raise for one more step than ``max_steps``."""
        Loop(0, (), (), most=self.loop.most).refuse()

    def __call__(self, runs: Sequence[Compiled]) -> Callable[..., tuple[Any, ...]]:
        """Return the function from operands to results."""
        loop, (condition, step) = self.loop, runs
        constants, most, rows = loop.constants, loop.most, saved_count(loop)
        avals = output_avals(loop.body)

        def run(*operands: Array) -> tuple[Any, ...]:
            fixed, carry = operands[:constants], operands[constants:]
            slots, before, steps = OnlineSlots(rows - 1), carry, 0
            kept: list[Any] = []
            while condition(*fixed, *carry)[0]:
                if steps == most:
                    self.refuse()
                if not kept:
                    kept = [_stack(rows, a, c) for a, c in zip(avals, carry, strict=True)]
                if steps and rows > 1:
                    row = slots.place(steps)
                    for stack, value in zip(kept, carry, strict=True):
                        stack[row] = value
                before, carry = carry, step(*fixed, *carry)
                steps += 1
            if not kept:
                kept = [_stack(rows, a, None) for a in avals]
            if steps:
                for stack, value in zip(kept, before, strict=True):
                    stack[rows - 1] = value
            places = np.full(rows, -1)
            places[slots.slots] = slots.steps
            places[rows - 1] = steps - 1
            own = [np.copy(c)[()] for c in carry] if not steps else carry
            return (*own, np.int64(steps), places, *kept)

        return run
