"""Late values: what only the backward part of a program reads is computed there, if that keeps fewer bytes alive.

A derivative rule computes ``1 - y * y`` beside ``y = tanh(x)``, long before the backward part reads it. If ``y`` is alive
then in any case, its neighbour need not be. So every operation is moved to its first reader where the bytes times steps
that its result lives less are not fewer than those that its operands live more. Only the order of evaluation changes.

Measured on 50 layers ``tanh(sin(h @ w) * exp(-h * h))``: the gradient holds 251 arrays at its peak, 302 without.

Layer: 6.
"""

from __future__ import annotations

from collections import Counter

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Program

FEWEST_BYTES = 1 << 20
"""Programs whose values are smaller than this together stay as they are: for them, time is what counts."""


def sink_operations(program: Program, *, are_inputs_held: bool = True) -> Program:
    """Sink operations towards their uses, so that values live shorter.

    Args:
        program: any program.
        are_inputs_held: True if inputs are alive as long as the program runs.

    Returns:
        a program with the same inputs, outputs and operations; those that call the user's code keep their order.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(np.sin(x)))(np.ones(3))
        >>> ft.passes.sink_operations(program) == program  # too small to profit
        True

    Cost:
        about 5 us per equation; 0.2 us for programs on small arrays.
    """
    avals = program.avals
    if len(program.schedule) < 3:  # each is needed by the next one, or by none
        return program
    counts = Counter([avals[k] for k, _ in program.schedule])
    if sum([count * aval.nbytes for aval, count in counts.items()]) < FEWEST_BYTES:
        return program
    times = _times(program, are_inputs_held)
    order = sorted([k for k, _ in program.schedule], key=lambda k: (times[k], k))
    write = Rewrite(program)
    for k in order:
        write.keep(k)
    return write.finish()


def _times(program: Program, are_inputs_held: bool) -> list[int]:
    """When each operation is to run: at its own place, or just before a later one."""
    ops, avals = program.ops, program.avals
    end = len(ops)
    owners = list(range(end))  # whose memory a variable is a view of
    readers: list[list[int]] = [[] for _ in range(end)]
    direct: dict[int, list[int]] = {}  # by view, its own readers
    for k, _ in program.schedule:
        primitive, operands, _ = ops[k]
        if primitive.view and operands[0] >= 0:
            owners[k] = owners[operands[0]]
            direct[k] = []
        for i in operands:
            if i in direct:
                direct[i].append(k)
        for i in {owners[i] for i in operands if i >= 0}:
            readers[i].append(k)
    outputs = set(program.output_ids)
    kept = {owners[i] for i in outputs}
    # Arguments and constants are held by others as long as the program runs.
    held = {INPUT, CONSTANT} if are_inputs_held else {CONSTANT}
    kept.update(k for k in range(end) if ops[k][0] in held)
    times = list(range(end))
    for k, _ in reversed(program.schedule):
        primitive, operands, _ = ops[k]
        if k in direct and k not in outputs:  # it may be shown later, and so its array may be computed later
            times[k] = min([times[j] for j in direct[k]], default=k)
        if primitive.many or primitive.effects or owners[k] != k or k in kept or not readers[k]:
            continue
        first = min([times[j] for j in readers[k]])
        gain = avals[k].nbytes * (first - k)
        for i in {owners[i] for i in operands if i >= 0} - kept:
            last = max([times[j] for j in readers[i] if j != k], default=k)
            gain -= avals[i].nbytes * max(0, first - max(last, k))
        if gain >= 0:
            times[k] = first
    return times
