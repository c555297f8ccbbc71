"""Drop links to values that are recomputed (ops/derivative_links.py) from programs that run: only
derivatives read them.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.control.call import call_p
from functrace.control.cond import cond_p
from functrace.control.scan import scan_p
from functrace.ir.aval import ShapeDtype
from functrace.ir.check import sub_programs_of
from functrace.ir.parts import Rewrite, compact, restrict, with_programs
from functrace.ir.primitive import RESULT, Primitive
from functrace.ir.program import Program
from functrace.ops.derivative_links import derivative_only_p, with_derivative_p
from functrace.ops.naming import name_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p
from functrace.passes.dce import drop_dead_results


def _itself(program: Program) -> Program:
    return drop_dead_results(without_links(program)).interned()


def without_links(program: Program, part: Callable[[Program], Program] = _itself) -> Program:
    """Return an equal program without links.

    Results of loops, branches and calls that are links become zeros outside of them.

    Args:
        program: any program.
        part: what to do to sub-programs that have links.
    """
    if not has_links(program):
        return program
    write = Rewrite(program)

    def zeros(i: int) -> int:
        aval = program.avals[i]
        zero = write.constant(aval.dtype.type(0), ShapeDtype((), aval.dtype))
        return write.place(broadcast_to_p, (zero,), (aval.shape,))

    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive is with_derivative_p:
            write.replace(k, (write.operand(operands[0]),))
            continue
        places = range(program.result_count(k) if primitive.many else 1)
        links = [n for n in places if _is_link(program, k + n)]
        has_effects = primitive.kept is not None and primitive.kept(*params)
        if len(links) < len(places) or has_effects:
            if not _holds_links(program, k):
                write.keep(k)
            else:
                changed: Any = tuple([with_programs(param, part) for param in params])
                unread = _unread_operands(program, k, changed)
                kept = list(places)
                if primitive in (call_p, scan_p):
                    kept = [n for n in places if n not in links] or [0]
                    changed, operands = _smaller(primitive, changed, operands, unread, kept)
                    unread.clear()
                given = [
                    zeros(i) if n in unread else write.operand(i) for n, i in enumerate(operands)
                ]
                first = write.place(primitive, tuple(given), changed, write.position(k))
                write.moved.update({k + place: first + n for n, place in enumerate(kept)})
        for n in links:
            write.moved[k + n] = zeros(k + n)
    return compact(write.finish())


def _unread_operands(program: Program, k: int, params: Any) -> set[int]:
    """Return the operands that no step of a loop, no branch and no called program reads: places."""
    primitive, operands, _ = program.ops[k]
    found: set[int] = set()
    if primitive not in (scan_p, call_p, cond_p):
        return found
    carries = range(params[3], params[3] + params[4]) if primitive is scan_p else ()
    feeds = None if primitive.holds is None else primitive.holds.feeds
    for n, i in enumerate(operands):
        if i < 0 or n in carries:
            continue
        fed = [(params[0], n)] if feeds is None else feeds(n, *params)
        if fed and all(not _reads(held, held.input_ids[place]) for held, place in fed):
            found.add(n)
    return found


def _smaller(
    primitive: Primitive,
    params: Any,
    operands: tuple[int, ...],
    unread: set[int],
    kept: Sequence[int],
) -> tuple[Any, tuple[int, ...]]:
    """Return the params and operands of a call or loop without operands that nothing reads, and with
    some of the results.
    """
    body, *others = params
    read = [n for n in range(len(operands)) if n not in unread]
    inputs, outputs = [body.input_ids[n] for n in read], [body.output_ids[n] for n in kept]
    part = restrict(body, inputs, outputs, keep=True).program.interned()
    if primitive is scan_p:
        length, reverse, constants, carries = others
        others = [length, reverse, constants - sum(n < constants for n in unread), carries]
    return (part, *others), tuple([operands[n] for n in read])


def _reads(program: Program, i: int) -> bool:
    return i in program.output_ids or any(i in program.ops[k][1] for k, _ in program.schedule)


def without_unread_residuals(
    forward: Program, linear: Program, count: int
) -> tuple[Program, Program]:
    """Drop residuals that the linear program does not read where it runs.

    Args:
        forward: a program whose last outputs are residuals.
        linear: a program whose first inputs are these residuals.
        count: number of outputs of ``forward`` that are no residuals.
    """
    if not has_links(linear):
        return forward, linear
    run = _itself(linear)
    residuals = len(forward.output_ids) - count
    kept = [n for n, i in enumerate(run.input_ids) if n >= residuals or _reads(run, i)]
    outputs = [
        *forward.output_ids[:count],
        *[forward.output_ids[count + n] for n in kept if n < residuals],
    ]
    return (
        restrict(forward, forward.input_ids, outputs, keep=True).program,
        restrict(run, [run.input_ids[n] for n in kept], run.output_ids, keep=True).program,
    )


def has_links(program: Program) -> bool:
    """Return True if a program, or a sub-program of it, has links; memoized."""
    found = program.derived.get(has_links)
    if found is None:
        kinds = program.kinds
        found = with_derivative_p in kinds or derivative_only_p in kinds
        found = found or any(_holds_links(program, k) for k in range(len(program.ops)))
        program.derived[has_links] = found
    return found


def _holds_links(program: Program, k: int) -> bool:
    """Return True if a sub-program of an operation has links."""
    primitive, _, params = program.ops[k]
    return primitive.holds is not None and any(
        has_links(held) for param in params for _, held in sub_programs_of(param, "")
    )


def _is_link(program: Program, i: int) -> bool:
    """Return True if a value is a link, or the stack of links of a loop's steps."""
    if i < 0:
        return False
    first = i
    while program.ops[first][0] is RESULT:
        first -= 1
    primitive, operands, params = program.ops[first]
    place = i - first
    if primitive is derivative_only_p:
        return True
    if primitive in (permute_p, reshape_p, name_p):
        return _is_link(program, operands[0])
    if primitive is scan_p:
        body, carries = params[0], params[4]
        return place >= carries and _is_link(body, body.output_ids[place])
    if primitive is cond_p:
        outputs = [(branch, branch.output_ids[place]) for branch in params[0]]
        return any(_is_link(*x) for x in outputs) and all(_is_zeros(*x) for x in outputs)
    return primitive is call_p and _is_link(params[0], params[0].output_ids[place])


def _is_zeros(program: Program, i: int) -> bool:
    """Return True if a result of a branch is a link, or the zeros of a branch that has none."""
    if _is_link(program, i):
        return True
    primitive, operands, _ = program.ops[i]
    (i,) = operands if primitive is broadcast_to_p else (i,)
    value = program.literals[~i] if i < 0 else program.constant_values.get(i)
    return isinstance(value, np.ndarray | np.generic | float | int) and not np.any(value)
