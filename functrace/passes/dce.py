"""Dead code elimination: drop dead operations, and dead results of operations with sub-programs.

A loop does not stack results that are dead; a branch does not compute them.

Layer: 6.
"""

from __future__ import annotations

from typing import Any

from functrace.ir.parts import Rewrite, compact, restrict
from functrace.ir.program import Program


def drop_dead_results(program: Program) -> Program:
    """Remove unused results of loops and branches: dead code inside of sub-programs.

    Args:
        program: any program.

    Returns:
        an equal program, whose loops and branches compute only results that an output depends on.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def total(xs):  # the stacked sums are unused
        ...     return ft.scan(lambda c, x: (c + x, c * x), np.float64(0.0), xs)[0]
        >>> program = ft.trace(total)(np.ones(3))
        >>> len(program.equations[0].outputs), len(ft.passes.drop_dead_results(program).equations[0].outputs)
        (2, 1)

    Cost:
        nothing without loops or branches; otherwise about 2 us per equation.
    """
    if not any(
        primitive.holds is not None and primitive.holds.kept is not None
        for primitive in program.kinds
    ):
        return program
    read = set(program.output_ids)
    for k, _ in program.schedule:
        read.update(program.ops[k][1])
    write: Rewrite | None = None
    waiting: list[int] = []
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive.holds is None or primitive.holds.kept is None:
            waiting.append(k)
            continue
        kept = primitive.holds.kept(
            {j for j in range(program.result_count(k)) if k + j in read}, *params
        )
        if not kept and primitive.kept is not None and primitive.kept(*params):
            kept = [0]  # it runs for its effects, but an operation needs a result
        if len(kept) == program.result_count(k):
            waiting.append(k)
            continue
        write = write or Rewrite(program)
        write.keep_each(waiting)
        waiting = []
        first = write.place(
            primitive,
            tuple(map(write.operand, operands)),
            _with_results(params, kept),
            write.position(k),
        )
        write.moved.update({k + place: first + n for n, place in enumerate(kept)})
    if write is None:
        return compact(program)
    write.keep_each(waiting)
    return write.finish()


def _with_results(params: Any, places: list[int]) -> Any:
    """Return the params, with programs restricted to some of their results."""
    if isinstance(params, Program):
        outputs = [params.output_ids[n] for n in places]
        part = restrict(params, params.input_ids, outputs, keep=True).program
        return drop_dead_results(part).interned()
    parts: Any = params
    return (
        tuple([_with_results(part, places) for part in parts]) if type(params) is tuple else params
    )
