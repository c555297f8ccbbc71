"""``linear_solve``: the solution of linear equations as one operation, independent of the solver.

The operation has a linear map and a solver for it; and, for reverse mode, the transposed map and
its solver. The derivative does not go through the solver: ``A x = b`` implies
``A x_dot = b_dot - A_dot x``, which the operation itself solves, and the transposed pair solves for
the cotangent of ``b``.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import SAVE, call_p, check_operands, evaluate_fresh, written, zeros_of
from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.parts import holds_kept, output_avals
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.ops.elementwise import neg, sub
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.transforms.vmap import batch_size, vmap_program

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import JointRule, Runs


Pair = tuple[Program, Program]
"""A linear map and its solver: programs of the captured values, then of a vector (its leaves)."""


def linear_solve_program(
    forward: Pair, transposed: Pair | tuple[()], captured: Sequence[Any], right: Sequence[Any]
) -> list[Any]:
    """Solve linear equations as one operation; returns the solution's leaves, then other results of
    the solver.

    Args:
        forward: the map and its solver.
        transposed: the transposed map and its solver; ``()`` if unknown.
        captured: the first inputs of all programs.
        right: the leaves of the right-hand side.
    """
    pairs = [tuple([p.interned() for p in pair]) for pair in (forward, transposed)]
    return list(bind(linear_solve_p, (*captured, *right), (*pairs, len(captured))))


def _aval(*rest: *tuple[*tuple[ShapeDtype, ...], Pair, Pair | tuple[()], int]) -> Any:
    *operands, forward, transposed, captured = rest
    right = tuple(operands[captured:])
    for pair in (forward, transposed):
        if not pair:
            continue
        apply, solve = pair
        check_operands("linear_solve", apply, operands)
        check_operands("linear_solve", solve, operands)
        if output_avals(apply) != right or output_avals(solve)[: len(right)] != right:
            raise ShapeError(
                "linear_solve: map or solution differs in avals from the right-hand side",
                fix="make them equal",
            )
    return output_avals(forward[1])


def _differentiated(through: JointRule) -> JointRule:
    def rule(
        primals: Values,
        tangents: Tangents,
        forward: Pair,
        transposed: Pair | tuple[()],
        captured: int,
    ) -> tuple[Any, Any]:
        known, right = primals[:captured], tangents[captured:]
        outputs = linear_solve_program(forward, transposed, known, primals[captured:])
        solution = outputs[: len(right)]
        moved: Sequence[Any] = [None] * len(right)
        if any(t is not None for t in tangents[:captured]):
            _, moved = through(
                (*known, *solution), (*tangents[:captured], *[None] * len(right)), forward[0], SAVE
            )
        rest = [_difference(b, a) for b, a in zip(right, moved, strict=True)]
        pushed = solved_tangents(forward, transposed, known, rest, solution)
        return outputs, [*pushed, *[None] * (len(outputs) - len(right))]

    return rule


def solved_tangents(
    forward: Pair,
    transposed: Pair | tuple[()],
    known: Sequence[Any],
    right: Sequence[Any],
    like: Sequence[Any],
) -> list[Any]:
    """Solve for tangents; right-hand sides may be missing."""
    if all(x is None for x in right):
        return [None] * len(right)
    filled = [zeros_of(y) if x is None else x for x, y in zip(right, like, strict=True)]
    return linear_solve_program(forward, transposed, known, filled)[: len(right)]


def _difference(b: Value | None, a: Value | None) -> Any:
    if a is None:
        return b
    return neg(a) if b is None else sub(b, a)


def _transpose(
    cts: Tangents, *rest: *tuple[*tuple[Operand, ...], Pair, Pair | tuple[()], int]
) -> Any:
    *operands, forward, transposed, captured = rest
    if any(map(is_linear, operands[:captured])):
        raise NotDifferentiableError(
            "custom_linear_solve is not linear in values that its matvec closes over: no transpose",
            fix="differentiate it with respect to them",
        )
    if not transposed:
        raise NotDifferentiableError(
            "custom_linear_solve has no transpose_solve, which reverse mode needs",
            fix="pass transpose_solve=, or symmetric=True if the linear map is symmetric; or use "
            "forward mode",
        )
    like = output_avals(forward[0])
    pulled = solved_tangents(transposed, forward, operands[:captured], cts[: len(like)], like)
    flags = map(is_linear, operands[captured:])
    return (
        *[None] * captured,
        *[x if flag else None for x, flag in zip(pulled, flags, strict=True)],
    )


def _batch(
    operands: Values, is_batched: Flags, forward: Pair, transposed: Pair | tuple[()], captured: int
) -> Any:
    size = batch_size(operands, is_batched)
    flags = (*is_batched[:captured], *[True] * (len(operands) - captured))
    right = with_axis(operands[captured:], is_batched[captured:], size)
    mapped: list[Any] = [
        tuple([vmap_program(p, size, flags) for p in pair]) for pair in (forward, transposed)
    ]
    return tuple(linear_solve_program(mapped[0], mapped[1], operands[:captured], right))


def with_axis(operands: Sequence[Any], is_batched: Sequence[bool], size: int) -> list[Any]:
    """Return the operands, all with the batch axis."""
    return [
        x if flag else broadcast_to(x, (size, *shape_of(x)))
        for x, flag in zip(operands, is_batched, strict=True)
    ]


def _written(write: SourceWriter, specs: Sequence[Spec], forward: Pair, *_: object) -> Spelling:
    return written(write, specs, forward[1])


def _runs(_inputs: object, forward: Pair, *_: object) -> Runs:
    return (((1, forward[1]),),)


def _solving(forward: Pair, *_: object) -> Program:
    return forward[1]


_of_call: Any = call_p.jvp


def _eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(rest[-3][1], rest[:-3])


linear_solve_p = Primitive(
    "linear_solve",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(
        jvp=_differentiated(_of_call.jvp), linearize=_differentiated(_of_call.linearize)
    ),
    transpose=_transpose,
    batch=_batch,
    params=("forward", "transposed", "captured"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_runs, called_program=_solving),
    written=_written,
)
"""``linear_solve a b {forward=({…}, {…}), transposed=({…}, {…}), captured=1}``: the x that the map
sends to b, then other results of the solver.
"""
