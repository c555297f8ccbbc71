"""``policies.budget``: checkpoints chosen so that a derivative fits into a number of bytes.

The recorded program is cut where few bytes cross the cut. Its last part keeps its residuals; the
parts before become calls that recompute (`functrace.checkpoint`). Gradients run from the end
backwards: the last part's residuals are freed before an earlier part is rematerialized, so parts
may be as large as the last. Their size is tried on plans of the derivative
(`functrace.executor.Plan.peak_bytes`), and the largest parts that fit are used: they recompute
least.

Layer: 8.
"""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass
from typing import final

from functrace.caches import MemoTable
from functrace.control.call import call_p, plain_call
from functrace.control.residuals import RECOMPUTE
from functrace.errors import ArgumentError
from functrace.executor.allocator import FREED
from functrace.executor.plan.planner import planned
from functrace.ir.check import sub_programs_of
from functrace.ir.parts import Assembly, Rewrite, inline, output_avals, restrict
from functrace.ir.program import Program
from functrace.passes import EARLY, LAST, LATE, REORDERING, optimized
from functrace.transforms import is_differentiable, linearize_program, transpose_program

UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}

PARTS = tuple([0.85**n for n in range(1, 21)])
"""Kept bytes to try, as fractions of the bytes kept without a budget, until the derivative fits."""

PATIENCE = 4
"""Number of smaller parts tried without success before a barely fitting one is used."""

SMALLEST = 0.2
"""Minimum bytes of every part, as a fraction of the first part's, regardless of existing
gradients."""

FILLED = 0.8
"""Fraction of a budget for arrays, if possible; the rest is for gaps between them, and for
Python."""

ROW, VALUE = 64, 128
"""Bytes of the tuple that holds one step's values of a `while_loop`, and of each header of an array
or number in it."""


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """Policy that limits the bytes of a derivative; see `functrace.policies.budget`."""

    nbytes: int


def parsed_bytes(size: int | str) -> int:
    """Parse a number of bytes: an int, or a string like ``"300 MB"`` or ``"1.5 GiB"``.

    Raises:
        ArgumentError: if it is neither, or not positive.
    """
    found = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMG]?i?B)\s*", size, re.IGNORECASE)
        if isinstance(size, str)
        else None
    )
    if found is not None:
        nbytes = int(float(found[1]) * UNITS[found[2].upper()])
    elif isinstance(size, int) and not isinstance(size, bool):
        nbytes = size
    else:
        raise ArgumentError(
            f"policies.budget takes a number of bytes, not {size!r}",
            fix='"300 MB", "1.5 GiB", or an int',
        )
    if nbytes <= 0:
        raise ArgumentError(
            f"policies.budget: {size!r} is not positive", fix='"300 MB", "1.5 GiB", or an int'
        )
    return nbytes


def within(program: Program, nbytes: int) -> Program:
    """Return an equal program whose reverse-mode derivative needs at most ``nbytes``, including the
    operands.

    Raises:
        ArgumentError: if no trial fits; the message has the smallest number found.

    Cost:
        about 5 times the derivation and planning of the gradient, once per program.
    """
    FREED.has_budget = True
    key = (program, nbytes)
    found = _found.get(key)
    if found is None:
        found = _found.keep(key, _within(program, nbytes))
    return found


_found = MemoTable("functions under a budget", 64)


def _within(program: Program, nbytes: int) -> Program:
    flat = inline(program, plain_call)
    given = sum([flat.avals[i].nbytes for i in flat.input_ids])
    computed = sum([flat.avals[k].nbytes for k, _ in flat.schedule])
    most = int(FILLED * nbytes)
    needed = peak(flat)
    if needed <= most:
        return program
    kept = needed - given
    best, least, since = program, needed, 0
    for part in PARTS:
        made = _cut(flat, part * kept, kept / max(1, computed))
        needed = peak(made)
        since += 1
        if needed < least:
            best, least, since = made, needed, 0
        if needed <= most or (since > PATIENCE and least <= nbytes):
            break
    if least <= nbytes:
        return best.interned()
    name = "the function" if program.name == "program" else program.name  # (of a lambda)
    raise ArgumentError(
        f"policies.budget: the derivative of {name} needs {least:,} bytes, not {nbytes:,}",
        fix="raise the budget, or make the largest arrays smaller (smaller batches, a scan)",
    )


def peak(program: Program) -> int:
    """Return the peak bytes of a program's reverse-mode derivative, with operands and cotangents.

    The maximum of two executions: by un-jitted transforms, and by ``jit``.

    Raises:
        ArgumentError: if it keeps values of each step of a loop with an unbounded number of steps.
    """
    active = [is_differentiable(program.avals[i]) for i in program.input_ids]
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
    given = sum([made.avals[i].nbytes for i in made.input_ids])
    early = optimized(made, EARLY)
    jitted = optimized(early, REORDERING)
    plans = [
        planned(optimized(p, LATE + LAST))
        for p in ([early] if jitted is early else [early, jitted])
    ]
    return given + _kept_of_steps(early) + max([p.peak_bytes for p in plans])


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


def _cut(program: Program, room: float, share: float) -> Program:
    """Replace all parts of a program but the last one by calls that recompute.

    Args:
        program: without calls.
        ``room``: bytes for a part's residuals, and for the gradients alive when it is
            rematerialized.
        share: bytes kept per byte computed.
    """
    steps = [k for k, _ in program.schedule]
    crossing = _crossing(program, steps)
    waiting = {i for i in program.input_ids if is_differentiable(program.avals[i])}
    ends, least = [len(steps)], SMALLEST * room
    while ends[-1] > 0:
        start, kept = ends[-1], 0.0
        while start > 0 and (kept < max(room, least) or start == ends[-1]):
            start -= 1
            kept += share * program.avals[steps[start]].nbytes
            for i in waiting.intersection(program.ops[steps[start]][1]):
                waiting.remove(i)
                room -= program.avals[i].nbytes
        if start:  # cut where the fewest bytes cross
            latest = max(start + 1, ends[-1] - max(1, (ends[-1] - start) // 2))
            start = min(range(start, latest), key=lambda n: (crossing[n], n))
        ends.append(start)
    bounds = ends[::-1]
    write = Rewrite(program)
    for start, end in itertools.pairwise(bounds[:-1]):
        _place(write, steps[start:end], steps[end:])
    for k in steps[bounds[-2] :]:
        write.keep(k)
    return write.finish()


def _results(program: Program, k: int) -> range:
    return range(k, k + (program.result_count(k) if program.ops[k][0].many else 1))


def _crossing(program: Program, steps: list[int]) -> list[int]:
    """Return, per cut, the bytes computed before it and read after it."""
    last: dict[int, int] = dict.fromkeys(program.output_ids, len(steps))
    for place in range(len(steps) - 1, -1, -1):
        for i in program.ops[steps[place]][1]:
            last.setdefault(i, place)
    changes = [0] * (len(steps) + 2)
    for place, k in enumerate(steps):
        for j in _results(program, k):
            if j in last:
                changes[place + 1] += program.avals[j].nbytes
                changes[last[j] + 1] -= program.avals[j].nbytes
    found: list[int] = []
    for change in changes:
        found.append(change + (found[-1] if found else 0))
    return found


def _place(write: Rewrite, part: list[int], rest: list[int]) -> None:
    """Write a part as a call that recomputes, followed by operations that must run only once."""
    program = write.source
    seen = [
        k for k in part if (kept := program.ops[k][0].kept) is not None and kept(*program.ops[k][2])
    ]
    part = [k for k in part if k not in seen]
    made = {j for k in part for j in _results(program, k)}
    read = {i for k in (*seen, *rest) for i in program.ops[k][1]} | set(program.output_ids)
    inputs = dict.fromkeys([i for k in part for i in program.ops[k][1] if i >= 0 and i not in made])
    outputs = sorted(made & read)
    if outputs:
        found = restrict(program, [i for i in inputs if i not in program.constant_values], outputs)
        operands = tuple([write.operand(i) for i in found.used])
        first = write.place(
            call_p, operands, (found.program.interned(), RECOMPUTE), write.position(part[-1])
        )
        write.moved.update({j: first + n for n, j in enumerate(outputs)})
    for k in seen:
        write.keep(k)
