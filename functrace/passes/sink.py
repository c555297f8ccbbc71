"""Code sinking: move operations towards their readers, if that keeps fewer bytes alive.

A derivative rule computes ``1 - y * y`` next to ``y = tanh(x)``, long before the backward part
reads it. If ``y`` stays alive anyway, its neighbour need not. So every operation is moved to its
first reader, unless the bytes times steps that its operands live longer exceed those that its
result lives shorter. Only the order of evaluation changes.

Measured on 50 layers ``tanh(sin(h @ w) * exp(-h * h))``: the gradient holds 251 arrays at its peak,
302 without.

Layer: 6.
"""

from __future__ import annotations

from collections import Counter

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Program

FEWEST_BYTES = 1 << 20
"""Minimum total bytes of a program's values; smaller programs are unchanged, to save time."""


def sink_operations(program: Program, *, are_inputs_held: bool = True) -> Program:
    """Sink operations towards their uses, to shorten lifetimes.

    Args:
        program: any program.
        are_inputs_held: True if inputs stay alive while the program runs.

    Returns:
        a program with the same inputs, outputs and operations; those that call user code keep their
        order.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(np.sin(x)))(np.ones(3))
        >>> ft.passes.sink_operations(program) == program  # too small to profit
        True

    Cost:
        about 5 us per equation; 0.2 us for programs on small arrays.
    """
    avals = program.avals
    if len(program.schedule) < 3:  # there is no other order
        return program
    counts = Counter([avals[k] for k, _ in program.schedule])
    if sum([count * aval.nbytes for aval, count in counts.items()]) < FEWEST_BYTES:
        return program
    times = _times(program, are_inputs_held)
    order = sorted([k for k, _ in program.schedule], key=times.__getitem__)  # (stable)
    write = Rewrite(program)
    write.keep_each(order)
    return write.finish()


def _times(program: Program, are_inputs_held: bool) -> list[int]:
    """Return the time at which each operation runs: its own, or just before a later operation."""
    ops, avals = program.ops, program.avals
    end = len(ops)
    sizes = {aval: aval.nbytes for aval in set(avals)}
    owners = list(range(end))  # by variable, the owner of its memory
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
        for i in operands:
            if i >= 0 and readers[owners[i]][-1:] != [k]:
                readers[owners[i]].append(k)
    outputs = set(program.output_ids)
    kept = {owners[i] for i in outputs}
    # The caller keeps arguments and constants alive while the program runs.
    held = {INPUT, CONSTANT} if are_inputs_held else {CONSTANT}
    kept.update(k for k in range(end) if ops[k][0] in held)
    times = list(range(end))
    for k, _ in reversed(program.schedule):
        primitive, operands, _ = ops[k]
        if k in direct and k not in outputs:  # the view, and so its array, may be computed later
            times[k] = min([times[j] for j in direct[k]], default=k)
        if primitive.many or primitive.effects or owners[k] != k or k in kept or not readers[k]:
            continue
        first = min([times[j] for j in readers[k]])
        if first == k:  # it stays where it is
            continue
        gain = sizes[avals[k]] * (first - k)
        for i in {owners[i] for i in operands if i >= 0} - kept:
            last = max([times[j] for j in readers[i] if j != k], default=k)
            gain -= sizes[avals[i]] * max(0, first - max(last, k))
        if gain >= 0:
            times[k] = first
    return times
