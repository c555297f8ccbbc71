"""``root``: a solution of equations as one operation, independent of the solver.

The operation has the equations ``f(x) = 0``, their solver, and a solver of linear equations with
their derivative. The derivative does not go through the solver: ``f(x, a) = 0`` implies
``f_x x_dot = -f_a a_dot``, at the solution.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import SAVE, call_p, check_operands, evaluate_fresh, written, zeros_of
from functrace.control.linear_solve import with_axis
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import holds_kept, output_avals
from functrace.ir.primitive import (
    Flags,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
    absent,
)
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.ops.elementwise import neg
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms.linear_part import apply_linear
from functrace.transforms.vmap import batch_size, vmap_program

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import JointRule, Runs


def root_program(
    equations: Program,
    solve: Program,
    tangent_solve: Program,
    captured: Sequence[Any],
    guess: Sequence[Any],
) -> list[Any]:
    """Solve equations as one operation; returns the solution's leaves, then other results of the
    solver.

    Args:
        equations: from captured values and a point (its leaves) to residuals that are zero at the
            solution.
        solve: from captured values and a guess to the solution, and other results, which carry no
            derivative.
        tangent_solve: from captured values, a point and a right-hand side to the solution of the
            linear equations given by the derivative at the point.
        captured: the first inputs of all programs.
        guess: leaves of the initial guess.
    """
    programs = [p.interned() for p in (equations, solve, tangent_solve)]
    return list(bind(root_p, (*captured, *guess), (*programs, len(captured))))


def _aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, Program, Program, int]) -> Any:
    *operands, equations, solve, tangent_solve, captured = rest
    at = operands[captured:]
    check_operands("root", equations, operands)
    check_operands("root", solve, operands)
    check_operands("root", tangent_solve, [*operands, *at])
    found = output_avals(equations), output_avals(solve)[: len(at)], output_avals(tangent_solve)
    if any(avals != tuple(at) for avals in found):
        raise ShapeError(
            "root: equations, solution or tangent differ in avals from the guess",
            fix="make them equal",
        )
    return output_avals(solve)


def _differentiated(
    through: JointRule, solved: Callable[[Program, Sequence[Any], Sequence[Any]], list[Any]]
) -> JointRule:
    def rule(
        primals: Values,
        tangents: Tangents,
        equations: Program,
        solve: Program,
        tangent_solve: Program,
        captured: int,
    ) -> tuple[Any, Any]:
        known = primals[:captured]
        outputs = root_program(equations, solve, tangent_solve, known, primals[captured:])
        at = outputs[: len(primals) - captured]
        none = [None] * len(at)
        if all(t is None for t in tangents[:captured]):
            return outputs, [None] * len(outputs)
        _, moved = through((*known, *at), (*tangents[:captured], *none), equations, SAVE)
        if all(t is None for t in moved):
            return outputs, [None] * len(outputs)
        right = [zeros_of(x) if t is None else neg(t) for t, x in zip(moved, at, strict=True)]
        pushed = solved(tangent_solve, (*known, *at), right)
        return outputs, [*pushed, *[None] * (len(outputs) - len(at))]

    return rule


def _run(program: Program, known: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    return list(evaluate_program(program, [*known, *moved]))


def _batch(
    operands: Values,
    is_batched: Flags,
    equations: Program,
    solve: Program,
    tangent_solve: Program,
    captured: int,
) -> Any:
    size = batch_size(operands, is_batched)
    at = [True] * (len(operands) - captured)
    known = is_batched[:captured]
    guess = with_axis(operands[captured:], is_batched[captured:], size)
    return tuple(
        root_program(
            vmap_program(equations, size, [*known, *at]),
            vmap_program(solve, size, [*known, *at]),
            vmap_program(tangent_solve, size, [*known, *at, *at]),
            operands[:captured],
            guess,
        )
    )


def _written(
    write: SourceWriter,
    specs: Sequence[Spec],
    _equations: Program,
    solve: Program,
    _tangent_solve: Program,
    _captured: int,
) -> Spelling:
    return written(write, specs, solve)


def _runs(_inputs: object, _equations: Program, solve: Program, *_: object) -> Runs:
    return (((1, solve),),)


def _solving(_equations: Program, solve: Program, *_: object) -> Program:
    return solve


_of_call: Any = call_p.jvp


def _eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(rest[-3], rest[:-4])


root_p = Primitive(
    "root",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(
        jvp=_differentiated(_of_call.jvp, _run),
        linearize=_differentiated(_of_call.linearize, apply_linear),
    ),
    transpose=absent(
        because="the root of equations is not linear in what they depend on",
        instead="differentiate it",
    ),
    batch=_batch,
    params=("equations", "solve", "tangent_solve", "captured"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_runs, called_program=_solving),
    written=_written,
)
"""``root a x {equations={…}, solve={…}, tangent_solve={…}, captured=1}``: the solution, then other
results of the solver.
"""
