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

from functrace.control.choosing import ChosenResiduals, chosen_residuals
from functrace.control.policies import RECOMPUTE, SAVE, Policy, is_policy
from functrace.errors import ArgumentError, ShapeError
from functrace.ir.aval import shape_of
from functrace.ir.parts import Assembly, Rewrite, holds_kept, inline, output_avals, restrict
from functrace.ir.primitive import (
    RESULT,
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
from functrace.ops.derivative_links import derivative_only_p, link, with_derivative_p
from functrace.ops.naming import name_p
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.transforms.building import remembered
from functrace.transforms.derivatives import jvp_program, split_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.aval import ShapeDtype
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Operand, Runs
    from functrace.ir.program import Param
    from functrace.tracing.recording import Recording
    from functrace.typing import Array


LINK = ("link",)
"""Name of tangents of links in the linear part of a call."""


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
    keys = [
        (x.ft_recording, x.ft_variable) if isinstance(x, Tracer) else k
        for k, x in enumerate(operands)
    ]
    program, places = _with_merged_inputs(program, keys)
    return program, operands if len(places) == len(operands) else [operands[k] for k in places]


def _with_merged_inputs(program: Program, keys: Sequence[Any]) -> tuple[Program, list[int]]:
    """Merge the inputs with equal keys; return the program, and the places of those that stay."""
    places: dict[Any, int] = {}
    chosen = [places.setdefault(key, k) for k, key in enumerate(keys)]
    if len(places) == len(keys):
        return program, list(places.values())
    write, ids = Rewrite(program, places.values()), program.input_ids
    for i, k in zip(ids, chosen, strict=True):
        write.moved[i] = write.moved[ids[k]]
    return write.finish(write.keep_all()).interned(), list(places.values())


def _merged(operands: Sequence[int], program: Program, policy: Policy) -> tuple[Any, Any]:
    """Merge repeated operands of a call: variables."""
    program, places = _with_merged_inputs(program, operands)
    return tuple([operands[k] for k in places]), (program, policy)


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
    program = inline(program, plain_call)
    split = split_program(program, active)
    count = len(program.output_ids)
    made = split if policy == SAVE else _chosen(program, active, policy)
    results = call_program(made.forward.interned(), primals, policy)
    from_word = {"input": primals, "output": results[:count], "new": results[count:]}
    residuals = [
        from_word[word][place]
        if word in from_word
        else link((primals if word == "input link" else results)[place])
        for word, place in made.sources
    ]
    given, linear = [*residuals, *moved], made.linear
    reached = [i for i, flag in zip(program.output_ids, split.active, strict=True) if flag]
    # A tangent that is that of an operand, or of another result, has one sum of cotangents with it.
    pushed: dict[int, Any] = dict(zip(linear.input_ids, given, strict=True))
    are_links: dict[int, bool] = {}
    for i, j in zip(linear.output_ids, reached, strict=True):
        if i not in pushed:
            is_link = program.ops[j][0] is derivative_only_p
            are_links[i] = are_links.get(i, policy != SAVE) and is_link
    if are_links:
        own = list(are_links)
        part = restrict(linear, linear.input_ids, own, keep=True).program
        part = _named_links(part, list(are_links.values()))
        pushed.update(zip(own, call_program(part.interned(), given, policy), strict=True))
    found = iter([pushed[i] for i in linear.output_ids])
    return results[:count], [next(found) if flag else None for flag in split.active]


def _named_links(linear: Program, are_links: Sequence[bool]) -> Program:
    """Name the outputs of a linear program that are tangents of links."""
    if not any(are_links):
        return linear
    write = Rewrite(linear)
    outputs = [
        write.place(name_p, (i,), LINK) if flag else i
        for i, flag in zip(write.keep_all(), are_links, strict=True)
    ]
    return write.finish(outputs)


def _chosen(program: Program, active: Sequence[bool], policy: Policy) -> ChosenResiduals:
    split = split_program(program, active)
    return chosen_residuals(split, len(program.output_ids), policy)


def _transpose(
    cts: Tangents,
    before: Sequence[Array | None] | None,
    *rest: *tuple[*tuple[Operand, ...], Program, Policy],
) -> Any:
    *operands, program, policy = rest
    found = transposed_program(program, [is_linear(x) for x in operands], cts, before)
    transposed, given = found.program, [*[operands[k] for k in found.values], *found.cotangents]
    if isinstance(policy, tuple) and policy[:1] == RECOMPUTE:
        links = [
            ct
            for ct, i in zip(cts, program.output_ids, strict=True)
            if program.ops[i][0] is name_p and program.ops[i][2] == LINK
        ]
        transposed, given = _recomputed(transposed, given, links)
    results = call_program(transposed.interned(), given, policy)
    made = list(at_places(results, found.linear, len(operands)))
    for k, ct in enumerate(before or ()):
        if made[k] is None:  # an operand on which the transposed part does not depend
            made[k] = ct
    return made


def _recomputed(
    program: Program, operands: list[Any], links: Sequence[Any]
) -> tuple[Program, list[Any]]:
    """Recompute cotangents of links, too: the reverse pass that computes them runs again.

    They would else be kept from where a recomputed value was read to where it was first computed:
    as much memory as all residuals take.

    Args:
        program, operands: the transposed program of the first computation, and its operands.
        links: operands that are cotangents of links.
    """
    makers: dict[tuple[Recording, int], list[int]] = {}  # by call, places of its results
    for place, x in enumerate(operands):
        if isinstance(x, Tracer) and any(x is ct for ct in links):
            recording, k = x.ft_recording, x.ft_variable
            while recording.primitives[k] is RESULT:
                k -= 1
            policy = recording.params[k][1] if recording.primitives[k] is call_p else None
            if isinstance(policy, tuple) and policy[:1] == RECOMPUTE:
                makers.setdefault((recording, k), []).append(place)
    if not makers:
        return program, operands
    build = Assembly()
    inside = [build.input(program.avals[i]) for i in program.input_ids]
    given = list(operands)
    for (recording, k), places in makers.items():
        called: Program = recording.params[k][0]
        outputs: list[int] = [
            called.output_ids[operands[place].ft_variable - k] for place in places
        ]
        part = restrict(called, called.input_ids, outputs)
        read = [
            i
            for i, j in zip(recording.operands[k], called.input_ids, strict=True)
            if j in part.used
        ]
        again = build.splice(part.program, [build.input(called.avals[j]) for j in part.used])
        given += [recording.handle(i) if i >= 0 else recording.literals[~i] for i in read]
        for place, value in zip(places, again, strict=True):
            inside[place] = build.place(with_derivative_p, (value, inside[place]), ())
            given[place] = link(operands[place])
    return build.program(build.splice(program, inside), program.name), given


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
    transpose=AccumulatingTranspose(_transpose, _merged),
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
