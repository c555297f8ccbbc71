"""``call``: a program as one operation, with a residual policy. `jit` inside of other transforms,
and `checkpoint`, use it.

The policy determines which residuals of the forward part the derivative keeps
(control/residuals.py). With *recompute*, the linear part is a call of a program that rematerializes
primals from the operands: its transpose contains the recomputation. The executor inlines calls
(`inline`), so that their values are freed as early as those of other operations.

Layer: 5.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from functrace.control.choosing import chosen_residuals
from functrace.control.policies import RECOMPUTE, SAVE, Policy, is_policy
from functrace.control.storages import recomputes
from functrace.errors import ArgumentError, ShapeError
from functrace.ir.aval import shape_of
from functrace.ir.parts import Rewrite, holds_kept, inline, output_avals, restrict, without_kept
from functrace.ir.primitive import (
    AccumulatingTranspose,
    Flags,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.ir.tape import Op, Spec
from functrace.ops.naming import name_p
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.transforms.building import remembered
from functrace.transforms.derivatives import as_differentiated, jvp_program, split_program
from functrace.transforms.replay import tangent_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.aval import ShapeDtype
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Operand, Runs
    from functrace.ir.program import Param
    from functrace.typing import Array


def call_program(program: Program, operands: Sequence[Any], policy: Policy = SAVE) -> list[Any]:
    """Apply a closed program to arrays or traced values as one operation; returns its outputs.

    Args:
        program: a program; cache keys are shorter if it has no constants.
        operands: one per input.
        policy: the residual policy.
    """
    program, operands = _without_repeats(program, operands)
    return list(bind(call_p, tuple(operands), (program, policy)))


def _without_repeats(program: Program, operands: Sequence[Any]) -> tuple[Program, Sequence[Any]]:
    """Merge inputs with the same traced value, so that one order of summation gives their
    cotangents.
    """
    places: dict[Any, int] = {}
    chosen = [
        places.setdefault((x.ft_recording, x.ft_variable) if isinstance(x, Tracer) else k, k)
        for k, x in enumerate(operands)
    ]
    if len(places) == len(operands):
        return program, operands
    write, ids = Rewrite(program, places.values()), program.input_ids
    for i, k in zip(ids, chosen, strict=True):
        write.moved[i] = write.moved[ids[k]]
    return write.finish(write.keep_all()).interned(), [operands[k] for k in places.values()]


def evaluate_fresh(program: Program, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Evaluate a program; no result shares memory with an operand or another result."""
    results = evaluate_program(program, operands)
    return tuple(
        [r.copy("K") if shared else r for r, shared in zip(results, program.aliasing, strict=True)]
    )


def check_operands(name: str, program: Program, specs: Sequence[Any]) -> None:
    """Check that operands fit the inputs of a program.

    Raises:
        ShapeError: for an operand of another aval.
    """
    if len(specs) != len(program.input_ids):
        raise ShapeError(
            f"{name} of {program.name}: {len(specs)} operands for {len(program.input_ids)} inputs",
            fix="give one per input",
        )
    for place, (spec, i) in enumerate(zip(specs, program.input_ids, strict=True)):
        if spec is not program.avals[i]:
            raise ShapeError(
                f"{name} of {program.name}: operand {place} is {spec}, but the program takes "
                f"{program.avals[i]}",
                fix="convert the operand",
            )


class TransposedProgram(NamedTuple):
    """Result of `transposed_program`.

    Args:
        program: from values of some operands and cotangents to the cotangents of ``linear``
            operands.
        values: indices of the operands whose values it takes, first.
        cotangents: the cotangents that it takes, after them: of outputs, and those to which it
            adds.
        linear: indices of the operands whose cotangents it returns.
    """

    program: Program
    values: list[int]
    cotangents: list[Any]
    linear: list[int]


def transposed_program(
    program: Program,
    linear: Sequence[bool],
    cotangents: Sequence[Any],
    before: Sequence[Any] | None = None,
) -> TransposedProgram:
    """Transpose a program for the given cotangents, without dead inputs and outputs.

    Args:
        program: the program to transpose.
        linear: one flag per input.
        cotangents: a cotangent or ``None`` per output.
        before: a cotangent or ``None`` per input, to which to add.
    """
    reached = [k for k, ct in enumerate(cotangents) if ct is not None]
    part = restrict(program, program.input_ids, [program.output_ids[k] for k in reached])
    places = [k for k, i in enumerate(program.input_ids) if i in part.used]
    onto = [None if before is None else before[k] for k in places if linear[k]]
    made = transpose_program(
        part.program, [linear[k] for k in places], [ct is not None for ct in onto]
    )
    others = [k for k in places if not linear[k]]
    needed = restrict(made, made.input_ids, made.output_ids)
    used = [i in needed.used for i in made.input_ids]
    given = [*[cotangents[k] for k in reached], *[ct for ct in onto if ct is not None]]
    return TransposedProgram(
        needed.program,
        [k for k, flag in zip(others, used, strict=False) if flag],
        [ct for ct, flag in zip(given, used[len(others) :], strict=True) if flag],
        [k for k in places if linear[k]],
    )


# -- rules -----------------------------------------------------------------------------------------


def _aval(*specs: *tuple[*tuple[Spec, ...], Program, Param | Policy]) -> Any:
    *operands, program, policy = specs
    if not is_policy(policy):
        raise ArgumentError(
            "call: the policy is none",
            fix="use (), ('recompute', *names), or one of functrace.policies",
        )
    check_operands("call", program, operands)
    return output_avals(program)


def _jvp(primals: Values, tangents: Tangents, program: Program, policy: Policy) -> Any:
    made, flags = remembered(_pushed, program, [t is not None for t in tangents])
    results = call_program(made, [*primals, *[t for t in tangents if t is not None]], policy)
    found = iter(results[len(flags) :])
    return results[: len(flags)], [next(found) if flag else None for flag in flags]


def _pushed(program: Program, active: Sequence[bool]) -> tuple[Program, tuple[bool, ...]]:
    """Return the program of the outputs and of their nonzero tangents, with a flag per output: True
    if it has a tangent.
    """
    made = jvp_program(program, active)
    count = len(program.output_ids)
    flags = mapped_outputs(made, [False] * len(program.input_ids) + [True] * sum(active))[count:]
    kept = [i for i, flag in zip(made.output_ids[count:], flags, strict=True) if flag]
    part = (
        made
        if all(flags)
        else restrict(made, made.input_ids, [*made.output_ids[:count], *kept], keep=True).program
    )
    return part.interned(), flags


def _linearize(primals: Values, tangents: Tangents, program: Program, policy: Policy) -> Any:
    active = [t is not None for t in tangents]
    moved = [t for t in tangents if t is not None]
    if isinstance(policy, tuple) and policy[:1] == RECOMPUTE:
        return _recomputing(primals, moved, active, program, policy)
    if recomputes(policy):
        program = inline(program, plain_call)
    split = split_program(program, active)
    count = len(program.output_ids)
    if policy != SAVE:
        split = chosen_residuals(split, count, policy)
    results = call_program(split.forward.interned(), primals, policy)
    from_word = {"input": primals, "output": results[:count], "new": results[count:]}
    residuals = [from_word[word][place] for word, place in split.sources]
    found = iter(call_program(split.linear.interned(), [*residuals, *moved], policy))
    return results[:count], [next(found) if flag else None for flag in split.active]


def _recomputing(
    primals: Values, moved: list[Any], active: list[bool], program: Program, policy: tuple[Any, ...]
) -> Any:
    """Keep the operands and named values; the linear part rematerializes all others."""
    program = inline(program, plain_call)
    names = policy[1:]
    named = [
        k
        for k, _ in program.schedule
        if program.ops[k][0] is name_p and program.ops[k][2][0] in names
    ]
    pushed, needed = _tangents(program, active, named)
    kept = [i for i in needed if i not in program.input_ids]
    build = restrict(program, program.input_ids, [*program.output_ids, *kept], effects=True)
    place = {i: k for k, i in enumerate(program.input_ids)}
    count = len(program.output_ids)
    forward = as_differentiated(build.program, [active[place[i]] for i in build.used])
    results = call_program(forward.interned(), [primals[place[i]] for i in build.used], policy)
    saved = dict(zip(kept, results[count:], strict=True))
    residuals = [saved[i] if i in saved else primals[place[i]] for i in needed]
    moving = [False] * len(needed) + [True] * len(moved)
    flags = mapped_outputs(pushed, moving)  # the others have zeros, which would count as tangents
    part = restrict(
        pushed,
        pushed.input_ids,
        [i for i, flag in zip(pushed.output_ids, flags, strict=True) if flag],
        keep=True,
    )
    found = iter(call_program(without_kept(part.program).interned(), [*residuals, *moved], policy))
    return results[:count], [next(found) if flag else None for flag in flags]


def _tangents(
    program: Program, active: list[bool], named: list[int]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program of the tangents, and the saved variables that it needs.

    The derivative of an operation may read its result, of which ``name`` is a copy: then the result
    itself is saved.
    """
    inputs = program.input_ids
    results = {k: program.ops[k][1][0] for k in named}
    saved = [*named, *[i for i in results.values() if i >= 0 and i not in inputs], *inputs]
    pushed, needed = tangent_program(program, active, list(dict.fromkeys(saved)))
    twice = {k for k in named if k in needed and results[k] in needed and results[k] not in inputs}
    if not twice:
        return pushed, needed
    return tangent_program(program, active, [i for i in dict.fromkeys(saved) if i not in twice])


def _transpose(
    cts: Tangents,
    before: Sequence[Array | None] | None,
    *rest: *tuple[*tuple[Operand, ...], Program, Policy],
) -> Any:
    *operands, program, policy = rest
    found = transposed_program(program, [is_linear(x) for x in operands], cts, before)
    results = call_program(
        found.program.interned(), [*[operands[k] for k in found.values], *found.cotangents], policy
    )
    made = list(at_places(results, found.linear, len(operands)))
    for k, ct in enumerate(before or ()):
        if made[k] is None:  # an operand on which the transposed part does not depend
            made[k] = ct
    return made


def at_places(values: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    """Return ``values`` at ``places`` of a tuple, ``None`` elsewhere."""
    found: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return tuple(found)


def zeros_of(like: Array | ShapeDtype) -> Any:
    """Return zeros for a missing tangent."""
    return np.zeros(shape_of(like), like.dtype)[()]


def _batch(operands: Values, is_batched: Flags, program: Program, policy: Policy) -> Any:
    mapped = vmap_program(
        program, batch_size(operands, is_batched), is_batched, mapped_outputs(program, is_batched)
    )
    return tuple(call_program(mapped.interned(), operands, policy))


def _mapped(is_batched: Sequence[bool], program: Program, _policy: Policy) -> Sequence[bool]:
    return mapped_outputs(program, is_batched)


def run_once(_inputs: object, program: Program, *_: object) -> Runs:
    """Return the runs of an operation that runs its program once."""
    return (((1, program),),)


def reached_by(flags: Sequence[bool], program: Program, *_: object) -> Sequence[bool]:
    """Return the results of a program, run once, that depend on flagged operands."""
    return reached_outputs(program, flags)


def _moving(
    flags: Sequence[bool], program: Program, *_: object
) -> list[tuple[Program, Sequence[bool]]]:
    return [(program, flags)]


def itself(program: Program, *_: object) -> Program:
    """Return the called program of an operation: its first param."""
    return program


def written(write: SourceWriter, _specs: Sequence[Spec], program: Program, *_: object) -> Spelling:
    """Spell a call in NumPy source: a call of the program's function."""
    return write.call(program)


def _eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(rest[-2], rest[:-2])


call_p = Primitive(
    "call",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_jvp, linearize=_linearize),
    transpose=AccumulatingTranspose(_transpose),
    batch=_batch,
    params=("program", "policy"),
    many=True,
    written=written,
    kept=holds_kept,
    holds=SubPrograms(run_once, called_program=itself, depends=reached_by, moving=_moving),
    mapped=_mapped,
)
"""``call x y {program={…}, policy=()}``: the outputs of a program."""


def plain_call(op: Op) -> Program | None:
    """Return the program of a call without a policy; None for other operations."""
    primitive, _, params = op
    return params[0] if primitive is call_p and params[1] == SAVE else None
