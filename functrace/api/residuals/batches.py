"""Mapped functions around a call: how many examples each of its values has.

A function under `functrace.vmap` is recorded for one example. What a value depends on says how many
examples there will be of it: recordings know the whole batches of their mapped inputs.

Layer: 8.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.api.residuals.derivative_costs import Batch
from functrace.ir.aval import shape_of
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer

Sizes = dict[int, int]
"""By mapped recording (its serial number), the number of its examples."""


def batches_of(values: Sequence[Any]) -> tuple[Batch, ...]:
    """Return the mapped functions on whose arguments values depend, the innermost first.

    Args:
        values: traced values and arrays.
    """
    seen: dict[tuple[int, int], Sizes] = {}
    found = [_sizes(x, seen) if isinstance(x, Tracer) else {} for x in values]
    every = {serial: size for sizes in found for serial, size in sizes.items()}
    return tuple(
        [
            Batch(every[serial], tuple([serial in sizes for sizes in found]))
            for serial in sorted(every, reverse=True)
        ]
    )


def traced(values: Sequence[Any]) -> list[bool]:
    """Return a flag per value: True if it is traced; no derivative is by any other."""
    return [isinstance(x, Tracer) for x in values]


def _sizes(tracer: Tracer, seen: dict[tuple[int, int], Sizes]) -> Sizes:
    """Return the mapped recordings on whose inputs a traced value depends."""
    return _of_variable(tracer.ft_recording, tracer.ft_variable, seen)


def _of_variable(recording: Recording, variable: int, seen: dict[tuple[int, int], Sizes]) -> Sizes:
    key = recording.serial
    stack = [variable]
    while stack:
        i = stack[-1]
        if (key, i) in seen:
            stack.pop()
            continue
        first = i
        while recording.primitives[first] is RESULT:
            first -= 1
        if recording.primitives[first] in (INPUT, CONSTANT):
            seen[key, i] = _of_input(recording, first, seen)
            continue
        operands = [j for j in recording.operands[first] if j >= 0]
        missing = [j for j in operands if (key, j) not in seen]
        if missing:
            stack.extend(missing)
            continue
        made: Sizes = {}
        for j in operands:
            made |= seen[key, j]
        seen[key, i] = made
    return seen[key, variable]


def _of_input(recording: Recording, i: int, seen: dict[tuple[int, int], Sizes]) -> Sizes:
    """Return those of an input or a captured value."""
    if recording.primitives[i] is CONSTANT:
        value = recording.constants.get(i)
        return _sizes(value, seen) if isinstance(value, Tracer) else {}
    values = recording.values
    if i in values.batches and i not in values.known:
        batch = values.batches[i]
        outer = _sizes(batch, seen) if isinstance(batch, Tracer) else {}
        return {**outer, recording.serial: shape_of(batch)[0]}
    value = values.known.get(i)
    return _sizes(value, seen) if isinstance(value, Tracer) else {}
