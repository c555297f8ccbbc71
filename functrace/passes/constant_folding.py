"""Constant folding, together with peephole rewrites and dead code elimination.

Operations on constants are evaluated once. Derivative programs have many: the seed of a gradient is
a 1.0 that is broadcast and multiplied.

Layer: 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.passes.memory_layouts import is_array_of_its_own, layout_dependent_values
from functrace.passes.peephole import equal_operand
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
        about 4 us per equation.
    """
    write = Rewrite(program)
    known: dict[int, Any] = {
        k: v for k, v in program.constant_values.items() if not isinstance(v, Tracer)
    }
    ops, avals, literals = program.ops, program.avals, program.literals
    standing: dict[int, int] = {}  # replacements of eliminated variables
    as_they_lie: set[int] | None = None

    def place(i: int) -> int:
        """Return the operand in the new program for an operand of the old one."""
        if i in known and i not in write.moved:
            write.moved[i] = write.constant(known[i], avals[i])
        return write.operand(i)

    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        foldable = not (primitive.many or primitive.effects) and all(
            i < 0 or i in known for i in operands
        )
        if foldable and avals[k].nbytes <= LARGEST_FOLDED:
            value = _computed(
                primitive,
                tuple(known[i] if i >= 0 else literals[~i] for i in operands),
                params,
                avals[k],
            )
            if value is not None:
                known[k] = value
                continue
        same = equal_operand(program, k, known)
        if same is not None:
            first = standing.get(same, same)
            if not is_array_of_its_own(program, first) and as_they_lie is None:
                as_they_lie = layout_dependent_values(program)
            if as_they_lie is None or k not in as_they_lie or is_array_of_its_own(program, first):
                standing[k] = first
                write.replace(k, [place(same)])
                continue
        for i in operands:
            if i in known:
                place(i)
        write.keep(k)
    return write.finish([place(i) for i in program.output_ids])


def _computed(
    primitive: Primitive, values: tuple[Any, ...], params: tuple[Any, ...], aval: ShapeDtype
) -> Any:
    """Return the value of an operation on constants, or None if NumPy warns or raises."""
    with np.errstate(all="raise"):
        try:
            value: Any = primitive.eval(*values, *params)
        except (ArithmeticError, ValueError):
            return None
    if aval_of(value) is not aval:
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
