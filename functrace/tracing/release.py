"""Free evaluated values that no handle, pending operation or derivative will read.

A value is kept if a live handle names it (it may be read later), if an operation that is not
evaluated yet reads it, or if the derivative will. Weak references to the tracers of large values
(`Handles`) find live handles; small values are kept. This runs whenever the bytes held have doubled
(see tracing/values.py). A freed value that is read after all is recomputed.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

from functrace.caches import MemoTable
from functrace.ir.aval import is_differentiable
from functrace.ir.primitive import CONSTANT, INPUT, LINEAR, RESULT, ZERO, NoRule, ReplacingJvp
from functrace.ir.tape import Op
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.tracing.recording import Recording

_read = MemoTable("what derivatives read", 10_000)
"""Operands and results that the derivative of an operation reads."""


class Handles(list[weakref.ref[Tracer]]):
    """Weak references to the tracers of a recording that have large values.

    The code that makes a tracer adds it.
    """

    __slots__ = ()
    of_all: ClassVar[bool] = False

    def living(self) -> list[Tracer]:
        """Return the live tracers, and drop the dead references."""
        pairs = [(reference, tracer) for reference in self if (tracer := reference()) is not None]
        self[:] = [reference for reference, _ in pairs]
        return [tracer for _, tracer in pairs]


@final
class AllHandles(Handles):
    """The tracers of all values."""

    __slots__ = ()
    of_all = True


def release(
    recording: Recording,
    roots: Sequence[int],
    values: dict[int, Any],
    *,
    is_differentiated: bool = True,
) -> None:
    """Free the values of a recording that will not be read.

    Args:
        recording: the open recording.
        roots: variables that are being read.
        values: values by variable.
        is_differentiated: True if derivatives may be taken, which read values, too.

    Cost:
        about 1 us per operation recorded.
    """
    ops = recording.columns
    handles = recording.handles
    shown = () if handles is None else handles.living()
    live: set[int] = {*roots, *[tracer.ft_variable for tracer in shown]}
    if handles is None or not handles.of_all:
        live.update([i for i in values if not recording.avals[i].is_large])
    reachable: set[int] = set()
    stack = list(live)
    while stack:
        k = stack.pop()
        if k >= 0 and k not in reachable:
            reachable.add(k)
            stack.extend(ops[k][1])
    keep, active = live, set[int]()
    for k in sorted(reachable):
        primitive, operands, _ = ops[k]
        if primitive is INPUT:
            if is_differentiated and is_differentiable(recording.avals[k]):
                active.add(k)
        elif primitive is RESULT:
            if operands[0] in active:
                active.add(k)
        elif primitive is not CONSTANT:
            if k not in values:
                keep.update(operands)
            if primitive.jvp is not ZERO and not active.isdisjoint(operands):
                active.add(k)
                read, results = _read_by_derivative(
                    recording, k, tuple([i in active for i in operands])
                )
                keep.update([operands[j] for j in read])
                keep.update([k + j for j in results])
    kept = {
        ops[i][1][0] if ops[i][0] is RESULT else i for i in keep if i >= 0
    }  # an operation keeps all results or none
    for i in list(values):
        primitive, operands, _ = ops[i]
        is_result = primitive is not INPUT and primitive is not CONSTANT
        if is_result and (operands[0] if primitive is RESULT else i) not in kept:
            del values[i]


def _read_by_derivative(
    recording: Recording, k: int, active: tuple[bool, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of the operands and results that an operation's derivative reads."""
    primitive, operands, params = op = recording.ops[k]
    avals = recording.avals
    count = 1
    while primitive.many and k + count < len(avals) and recording.primitives[k + count] is RESULT:
        count += 1
    if isinstance(primitive.jvp, ReplacingJvp | NoRule):  # the rule itself chooses its residuals
        return tuple(range(len(operands))), tuple(range(count))
    specs = tuple([avals[i] if i >= 0 else recording.literals[~i] for i in operands])
    key = (primitive, specs, params, active)
    found = _read.get(key)
    if found is None:
        found = _read.keep(
            key, _tried(recording, op, specs, [avals[k + j] for j in range(count)], active)
        )
    return found


def _tried(
    recording: Recording,
    op: Op,
    specs: Sequence[Any],
    results: Sequence[Any],
    active: Sequence[bool],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Run the rule on tracers of primals and, on a newer tape, of tangents; find the captures."""
    primitive, operands, params = op
    known, linear = recording.blank("primals"), recording.blank("tangents")
    with known, linear:
        primals = [
            known.new_input(spec) if i >= 0 else spec
            for i, spec in zip(operands, specs, strict=True)
        ]
        outputs = [known.new_input(aval) for aval in results]
        dots = [
            linear.new_input(spec) if flag and is_differentiable(spec) else None
            for spec, flag in zip(specs, active, strict=True)
        ]
        if primitive.jvp is LINEAR:
            bind(
                primitive,
                tuple([x if t is None else t for x, t in zip(primals, dots, strict=True)]),
                params,
            )
        elif any(t is not None for t in dots):
            primitive.jvp(tuple(primals), tuple(outputs), tuple(dots), *params)  # type: ignore[operator]
        seen: set[int] = set()
        stack = [
            value.ft_variable for value in linear.constants.values() if isinstance(value, Tracer)
        ]
        while stack:
            i = stack.pop()
            if i >= 0 and i not in seen:
                seen.add(i)
                stack.extend(known.operands[i])
        return (
            tuple(
                [
                    j
                    for j, x in enumerate(primals)
                    if isinstance(x, Tracer) and x.ft_variable in seen
                ]
            ),
            tuple([j for j, x in enumerate(outputs) if x.ft_variable in seen]),
        )
