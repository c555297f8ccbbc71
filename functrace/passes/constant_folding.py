"""Constant folding, together with peephole rewrites and dead code elimination.

Operations on constants are evaluated once. Derivative programs have many: the seed of a gradient is
a 1.0 that is broadcast and multiplied.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from functrace.control.call import call_p
from functrace.ir.aval import aval_of
from functrace.ir.parts import Rewrite, compact
from functrace.ir.program import Program
from functrace.ops.shaping import broadcast_to_p
from functrace.passes.memory_layouts import (
    is_array_of_its_own,
    layout_dependent_values,
    own_inputs,
    read_outputs,
)
from functrace.passes.peephole import RULES, equal_operand
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

LARGEST_FOLDED = 1 << 15
"""Maximum bytes of a folded constant."""


def fold_constants(program: Program) -> Program:
    """Evaluate operations on constants.

    Args:
        program: any program.

    Returns:
        a program with the same inputs and outputs, bit for bit.

    Example:
        >>> import functrace as ft
        >>> program = ft.Program.parse('''program(x: f64[]) {
        ...   a: f64[] = mul 2.0 3.0
        ...   b: f64[] = mul x a
        ...   return b
        ... }''')
        >>> print(ft.passes.fold_constants(program))
        program(x: f64[]) {
          const a: f64[] = 6.0
          b: f64[] = mul x a
          return b
        }

    Cost:
        about 0.5 us per equation; 1.5 if there is something to fold.
    """
    return _folded(program, {}, frozenset(), None).program


class _Folded(NamedTuple):
    """Result of `_folded`.

    Args:
        program: the program.
        known: values of outputs that are constant, by place.
        passed: by place of an output that equals an input, the place of that input.
    """

    program: Program
    known: Mapping[int, Any]
    passed: Mapping[int, int]


def _folded(
    program: Program, given: Mapping[int, Any], own: Set[int], read: Collection[int] | None
) -> _Folded:
    """Evaluate operations on constants, in called programs, too: as where the calls are inlined.

    Args:
        program: the program.
        given: values of inputs that are constant where the program is called.
        own: inputs that have no gaps in memory.
        read: outputs of which the caller reads the layout; by default all.
    """
    known: dict[int, Any] = {
        k: v for k, v in program.constant_values.items() if not isinstance(v, Tracer)
    }
    known.update(given)
    count = len(known)
    ops, avals = program.ops, program.avals
    same: dict[int, int] = {}  # by eliminated variable, the operand that replaces it
    standing: dict[int, int] = {}  # likewise, a variable that stays
    calls: dict[int, Program] = {}
    as_they_lie: set[int] | None = None
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        if primitive is call_p:
            called: Program = params[0]
            if as_they_lie is None:
                as_they_lie = layout_dependent_values(program, read)
            inner = _folded(
                called,
                _constant_operands(program, k, called, known),
                own_inputs(program, k, own),
                read_outputs(program, k, as_they_lie),
            )
            if inner.program is not called:
                calls[k] = inner.program.interned()
            for place, value in inner.known.items():
                known[k + place] = value
            for place, source in inner.passed.items():
                i = operands[source]
                if i >= 0:  # (a number is no output)
                    same[k + place], standing[k + place] = i, standing.get(i, i)
            continue
        for i in operands:
            if i >= 0 and i not in known:
                break
        else:
            if (
                not (primitive.many or primitive.effects)
                and avals[k].nbytes <= LARGEST_FOLDED
                and (value := _computed(program, k, known)) is not None
            ):
                known[k] = value
                continue
        operand = equal_operand(program, k, known) if primitive in RULES else None
        if operand is not None:
            first = standing.get(operand, operand)
            is_own = is_array_of_its_own(program, first, own)
            if not is_own and as_they_lie is None:
                as_they_lie = layout_dependent_values(program, read)
            if as_they_lie is None or k not in as_they_lie or is_own:
                standing[k], same[k] = first, operand
    if len(known) == count and not same and not calls:
        made = compact(program)
    else:
        made = _written(program, known, same, calls, given)
    places = {i: n for n, i in enumerate(program.input_ids)}
    ends = {n: _end(same, i) for n, i in enumerate(program.output_ids)}
    return _Folded(
        made,
        {n: known[i] for n, i in ends.items() if i in known},
        {n: places[i] for n, i in ends.items() if i in places and i not in known},
    )


def _end(same: Mapping[int, int], i: int) -> int:
    while i in same:
        i = same[i]
    return i


def _constant_operands(
    program: Program, k: int, called: Program, known: Mapping[int, Any]
) -> dict[int, Any]:
    """Return the values of constant operands of a call, by input of the called program."""
    found: dict[int, Any] = {}
    for i, j in zip(program.ops[k][1], called.input_ids, strict=True):
        value = program.literals[~i] if i < 0 else known.get(i)
        if value is None and i >= 0 and program.ops[i][0] is broadcast_to_p:  # a large constant
            (source,) = program.ops[i][1]
            number = program.literals[~source] if source < 0 else known.get(source)
            value = None if number is None else np.broadcast_to(number, program.avals[i].shape)
        if value is not None and aval_of(value) is called.avals[j]:
            found[j] = value
    return found


def _written(
    program: Program,
    known: Mapping[int, Any],
    same: Mapping[int, int],
    calls: Mapping[int, Program],
    given: Mapping[int, Any],
) -> Program:
    """Write the program without the operations that are constant, or equal an operand."""
    write = Rewrite(program)

    def place(i: int) -> int:
        """Return the operand in the new program for an operand of the old one."""
        if i in known and i not in write.moved:
            write.moved[i] = write.constant(known[i], program.avals[i])
        return write.operand(i)

    kept: list[int] = []
    for k, _ in program.schedule:
        if k in known and not program.ops[k][0].many:
            continue
        if k not in same and k not in calls and known.keys().isdisjoint(program.ops[k][1]):
            kept.append(k)
            continue
        write.keep_each(kept)
        kept = []
        if k in same and not program.ops[k][0].many:
            write.replace(k, [place(same[k])])
            continue
        for i in program.ops[k][1]:
            if i in known:
                place(i)
        if k not in calls:
            kept.append(k)
            continue
        primitive, operands, params = program.ops[k]
        first = write.place(
            primitive,
            tuple(map(place, operands)),
            (calls[k], *params[1:]),
            write.position(k),
        )
        for n in range(program.result_count(k)):
            write.moved[k + n] = place(same[k + n]) if k + n in same else first + n
    write.keep_each(kept)
    return write.finish([place(i) for i in program.output_ids])


def _computed(program: Program, k: int, known: Mapping[int, Any]) -> Any:
    """Return the value of an operation on constants, or None if NumPy warns or raises."""
    primitive, operands, params = program.ops[k]
    values = [known[i] if i >= 0 else program.literals[~i] for i in operands]
    with np.errstate(all="raise"):
        try:
            value: Any = primitive.eval(*values, *params)
        except (ArithmeticError, ValueError):
            return None
    if aval_of(value) is not program.avals[k]:
        return None
    kept = np.copy(value)
    if _strides(kept) != _strides(value):  # strides can affect the rounding of readers
        kept = _broadcast_copy(value)
    kept.flags.writeable = False  # so no copy is necessary
    return kept[()] if not kept.shape else kept if _kept_bytes(kept) <= LARGEST_FOLDED else None


def _broadcast_copy(x: Array) -> Array:
    """Return a copy with the strides of ``x`` if only broadcast axes have others; else a view."""
    parts = tuple([slice(None) if step else slice(1) for step in x.strides])
    copied = np.copy(x[parts])
    copied.flags.writeable = False  # (a view of writeable memory would be watched for changes)
    made = np.broadcast_to(copied, x.shape)
    return made if _strides(made) == _strides(x) else x[...]


def _strides(x: Array) -> list[int]:
    """Return the strides of axes of size other than 1."""
    return (
        [step for step, size in zip(x.strides, x.shape, strict=True) if size != 1] if x.size else []
    )


def _kept_bytes(view: Array) -> int:
    """Return the bytes that a view keeps alive."""
    return view.nbytes if view.base is None else np.asarray(view.base).nbytes
