"""Cost of a program's reverse-mode derivative: peak bytes by the planner, flops or seconds of each
operation, and the values that the derivative of each operation reads.

Layer: 8.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.errors import ArgumentError
from functrace.executor.plan.planner import planned
from functrace.ir.check import sub_programs_of
from functrace.ir.cost import operation_flops
from functrace.ir.parts import Assembly, output_avals, restrict
from functrace.ir.primitive import RESULT
from functrace.ir.program import Program
from functrace.ir.structures import Loop
from functrace.passes import EARLY, LAST, LATE, REORDERING, optimized
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.transforms import (
    is_differentiable,
    linearize_program,
    transpose_program,
    vmap_program,
)
from functrace.transforms.building import finish, take_residuals
from functrace.transforms.tape_sink import TapeSink
from functrace.transforms.walk import forward

ROW, VALUE = 64, 128
"""Bytes of the tuple that holds one step's values of a `while_loop`, and of each header of an array
or number in it."""

TIMES = 3
"""Runs of an operation that are timed; the fastest counts."""


class Batch(NamedTuple):
    """A `vmap` outside of the program: its number of examples, and a flag per input: True if it
    differs between examples.
    """

    size: int
    flags: tuple[bool, ...]


def activity(program: Program, active: Sequence[bool] | None) -> list[bool]:
    """Return a flag per input: True if the derivative is by it; see `derivative_program`."""
    able = [is_differentiable(program.avals[i]) for i in program.input_ids]
    return able if active is None else [a and b for a, b in zip(able, active, strict=True)]


def derivative_program(
    program: Program, batches: Sequence[Batch] = (), active: Sequence[bool] | None = None
) -> Program:
    """Return the program of the outputs and of the cotangents of all active inputs.

    Args:
        program: the program to differentiate; its inputs, then the cotangents of its outputs, are
            the inputs of the result.
        batches: the mapped functions around it, the innermost first.
        active: a flag per input: True if the derivative is by it, where it is differentiable; by
            default all of these.
    """
    active = activity(program, active)
    forward, linear = linearize_program(program, active)
    count = len(program.output_ids)
    residuals = len(linear.input_ids) - sum(active)
    backward = transpose_program(linear, [False] * residuals + [True] * sum(active))
    build = Assembly()
    inputs = [build.input(program.avals[i]) for i in program.input_ids]
    results = build.splice(forward, inputs)
    cotangents = [build.input(backward.avals[i]) for i in backward.input_ids[residuals:]]
    gradients = build.splice(backward, [*results[count:], *cotangents])
    made = build.program([*results[:count], *gradients], program.name)
    for size, flags in batches:
        given = len(made.input_ids) - len(flags)
        made = vmap_program(made, size, [*flags, *[any(flags)] * given])
    return made


class Peak(NamedTuple):
    """Peak bytes of a derivative.

    Args:
        nbytes: the bytes; at least so many, if not ``is_exact``.
        is_exact: False if only one of its two executions was planned, which exceeds the limit.
    """

    nbytes: int
    is_exact: bool


def peak(
    program: Program, batches: Sequence[Batch] = (), active: Sequence[bool] | None = None
) -> int:
    """Return the peak bytes of a program's reverse-mode derivative, with operands and cotangents.

    The maximum of two executions: by un-jitted transforms, and by ``jit``. Arguments as those of
    `derivative_program`.

    Raises:
        ArgumentError: if it keeps values of each step of a loop with an unbounded number of steps.
    """
    return peak_within(program, math.inf, batches, active).nbytes


def peak_within(
    program: Program,
    limit: float,
    batches: Sequence[Batch] = (),
    active: Sequence[bool] | None = None,
) -> Peak:
    """Return the `peak`; if un-jitted execution exceeds a limit already, the peak of that."""
    made = derivative_program(program, batches, active)
    given = sum([made.avals[i].nbytes for i in made.input_ids])
    early = optimized(made, EARLY)
    given += _kept_of_steps(early) + _carried(early)
    nbytes = given + planned(optimized(early, LATE + LAST)).peak_bytes
    jitted = optimized(early, REORDERING)
    if jitted is early:
        return Peak(nbytes, is_exact=True)
    if nbytes > limit:
        return Peak(nbytes, is_exact=False)
    other = given + planned(optimized(jitted, LATE + LAST)).peak_bytes
    return Peak(max(nbytes, other), is_exact=True)


def _carried(program: Program) -> int:
    """Return the most bytes of a loop's carries: compiled loops copy the first ones."""
    found = [0]
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive.holds is None or primitive.holds.lowers is None:
            continue
        structure = primitive.holds.lowers(tuple(map(program.spec, operands)), *params).structure
        if isinstance(structure, Loop):
            count = structure.carries[-1]
            found.append(sum([program.avals[j].nbytes for j in results_of(program, k)[:count]]))
    return max(found)


def _kept_of_steps(program: Program) -> int:
    """Return the bytes that the loops of a derivative keep for all their steps, for the reverse
    loops.

    A plan counts one step of a `while_loop`: a program has no number of steps, except for
    ``max_steps``. The values of consecutive loops coexist; those of an inner loop, for one step of
    the outer one.
    """
    if "functrace.control.while_loop" not in sys.modules:  # imported with the first while_loop
        return 0
    from functrace.control.while_loop import while_p
    from functrace.control.while_trips import Trip

    total = 0
    for k, _ in program.schedule:
        primitive, _, params = program.ops[k]
        total += sum(
            [_kept_of_steps(held) for param in params for _, held in sub_programs_of(param, "")]
        )
        if primitive is not while_p:
            continue
        trip = Trip._make(params)
        kept = [
            aval
            for body, count in zip(trip.bodies, trip.carries, strict=True)
            for aval in output_avals(body)[count:]
        ]
        if not kept:
            continue
        each = ROW + sum([VALUE + aval.nbytes for aval in kept])
        if trip.most is None:
            raise ArgumentError(
                f"policies.budget: the derivative keeps {each:,} bytes of each step of an "
                "unbounded loop",
                made=program.source(k),
                fix="pass while_loop(max_steps=…), or use scan, or fori_loop with concrete bounds",
            )
        total += trip.most * each
    return total


# -- of operations ---------------------------------------------------------------------------------


def results_of(program: Program, k: int) -> range:
    """Return the variables of an operation's results."""
    return range(k, k + (program.result_count(k) if program.ops[k][0].many else 1))


def seconds_of(program: Program, k: int) -> float:
    """Measure the seconds of an operation, on arrays of ones."""
    operands = [i for i in dict.fromkeys(program.ops[k][1]) if i >= 0]
    made = restrict(program, operands, results_of(program, k), keep=True).program
    arguments = [np.ones(a.shape, a.dtype)[()] for a in (made.avals[i] for i in made.input_ids)]
    found: list[float] = []
    with np.errstate(all="ignore"):
        for _ in range(TIMES):
            begin = time.perf_counter()
            evaluate_program(made, arguments)
            found.append(time.perf_counter() - begin)
    return min(found)


def costs_of(program: Program, cost: str) -> dict[int, float]:
    """Return the cost of each operation: flops, or seconds if ``cost`` is ``"time"``."""
    if cost == "flops":
        return {k: float(operation_flops(program, k)) for k, _ in program.schedule}
    found: dict[Any, float] = {}
    costs: dict[int, float] = {}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        key = (
            primitive,
            tuple([program.avals[i] if i >= 0 else program.literals[~i] for i in operands]),
            params,
        )
        if primitive.kept is not None and primitive.kept(*params):
            costs[k] = 0.0  # an effect runs once
            continue
        if key not in found:
            found[key] = seconds_of(program, k)
        costs[k] = found[key]
    return costs


class DerivativeReads(NamedTuple):
    """Values that the reverse pass needs.

    Args:
        values: by operation, the variables of the program that its derivative reads, inputs among
            them.
        kept: by operation, the bytes of the residuals that it makes, if everything is saved.
        other: by loop, the bytes of those that are no values of the program: its stacks.
        repeated: operations whose derivative reads more results of theirs than the program has (the
            stacks of a loop): unless they are kept, the operation runs again.
    """

    values: dict[int, set[int]]
    kept: dict[int, float]
    other: dict[int, float]
    repeated: set[int]


def derivative_reads(
    program: Program, size: Callable[[int], float], active: Sequence[bool]
) -> DerivativeReads:
    """Find the values that the derivative of each operation reads.

    Args:
        program: a program without plain calls.
        size: returns the bytes of a variable.
        active: a flag per input: True if the derivative is by it.
    """
    sink = TapeSink(program, "linearize", pushes=True, splits=True)
    forward(program, list(active), sink, by_rules=True)
    second, origins = sink.second, list(sink.known.origins)
    captured = {
        k: value.ft_variable for k, value in second.constants.items() if isinstance(value, Tracer)
    }
    values: dict[int, set[int]] = {k: set() for k, _ in program.schedule}
    readers: list[tuple[int, int]] = []
    for k, operands in enumerate(second.operands):
        origin = second.origins[k] if k < len(second.origins) else -1
        readers += [(origin, captured[i]) for i in operands if origin in values and i in captured]
    residuals = take_residuals(second)
    known = finish(sink.known, residuals, program, program.name)
    second.close()
    primals = {j: i for i, j in enumerate(sink.moved) if j >= 0}
    sources: dict[int, frozenset[int]] = {}
    makers: dict[int, int] = {}
    roots = list(range(len(known.ops)))
    nested = {k for k, _ in program.schedule if program.ops[k][0].holds is not None}
    first = 0
    for j, (primitive, operands, _) in enumerate(known.ops):
        if primitive is not RESULT:
            first = j
            if primitive.view and operands[0] >= 0:
                roots[j] = roots[operands[0]]
        if j in primals:
            sources[j] = frozenset((primals[j],))
        elif first < len(origins) and origins[first] in nested:
            makers[j] = origins[first]  # a result of a loop that only the derivative reads
            read = [sources[i] for i in known.ops[first][1] if i >= 0]
            sources[j] = frozenset[int]().union(*read)
        else:
            read = [sources[i] for i in known.ops[first][1] if i >= 0]
            sources[j] = frozenset[int]().union(*read)
    repeated: set[int] = set()
    for origin, j in readers:
        values[origin].update(sources[j])
        if j in makers:
            repeated.add(makers[j])
    kept, other = dict.fromkeys(values, 0.0), dict.fromkeys(nested, 0.0)
    for j in {roots[j] for j in residuals}:
        origin = origins[j] if j < len(origins) else -1
        if origin in kept:
            own = program.avals[origin].nbytes
            scale = size(origin) / own if own else 1.0
            if j not in primals and origin in nested:
                other[origin] += scale * known.avals[j].nbytes
            kept[origin] += size(primals[j]) if j in primals else scale * known.avals[j].nbytes
    return DerivativeReads(values, kept, other, repeated)
