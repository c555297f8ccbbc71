"""``scan``: a loop of known length as one operation, with its body as a sub-program.

Operands are constants of the loop, the initial carry, and arrays that are sliced along their first
axis; the body takes constants, carry and one slice of each array, and returns the new carry and one
slice of each result. The derivative of a scan is a scan: its forward part stacks the body's
residuals, and its linear part slices them. Loop-invariant residuals (a constant, or computed from
constants only) are not stacked. The transpose runs in reverse, with the cotangents of the carry,
and of the constants, as its carry.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from functrace.control.call import at_places, check_operands, zeros_of
from functrace.control.carries import (
    hoisted,
    invariants,
    settled,
    source_variables,
    split_body,
    zeros_where,
)
from functrace.control.joining import evaluate_lowered
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, holds_kept, output_avals, reordered, restrict
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    ReplacingJvp,
    SubPrograms,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.ir.structures import Loop, Lowering
from functrace.ir.tape import Spec
from functrace.ops.elementwise import add
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.binding import bind
from functrace.transforms.derivatives import jvp_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import (
    batch_size,
    dependent_outputs,
    mapped_outputs,
    reached_outputs,
    vmap_program,
)

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.typing import Array


ApplyScan: TypeAlias = "Callable[[Program, Sequence[Any], int, bool, int, int], list[Any]]"
"""A function with the arguments and results of `scan_program`."""


def scan_program(
    body: Program, operands: Sequence[Any], length: int, reverse: bool, constants: int, carries: int
) -> list[Any]:
    """Apply a loop.

    Args:
        body: from constants, carry and slices to carry and slices; closed.
        operands: constants, initial carry, arrays with a first axis of ``length``.
        length: number of steps.
        reverse: True to run from the last slice to the first.
        constants, carries: numbers of these operands.

    Returns:
        the final carry and the stacked results.
    """
    return list(
        bind(scan_p, tuple(operands), (body.interned(), length, reverse, constants, carries))
    )


def stacked_aval(length: int, aval: ShapeDtype) -> ShapeDtype:
    """Return the aval of ``length`` slices."""
    return ShapeDtype((length, *aval.shape), aval.dtype)


def _eval(*rest: *tuple[*tuple[Array, ...], Program, int, bool, int, int]) -> Any:
    return evaluate_lowered(_lowers((), *rest[-5:]), rest[:-5])


def _lowers(
    _specs: Sequence[Spec], body: Program, length: int, reverse: bool, constants: int, carries: int
) -> Lowering:
    return Lowering((body,), Loop(constants, (carries,), (reverse,), length=length), fresh=False)


def _aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, int, bool, int, int]) -> Any:
    *operands, body, length, _, constants, carries = rest
    sliced: list[ShapeDtype] = []
    for k, spec in enumerate(operands):
        if k >= constants + carries:
            if not spec.shape or spec.shape[0] != length:
                raise ShapeError(
                    f"scan of {length} steps cannot walk along {spec}",
                    fix=f"give it a first axis of {length}",
                )
            spec = ShapeDtype(spec.shape[1:], spec.dtype)
        sliced.append(spec)
    check_operands("scan", body, sliced)
    avals = output_avals(body)
    if carries > len(avals) or constants + carries > len(operands):
        raise ShapeError(
            f"scan: {constants} constants and {carries} carries of {len(operands)} operands and "
            f"{len(avals)} results",
            fix="count operands and results",
        )
    for before, after in zip(sliced[constants : constants + carries], avals, strict=False):
        if before is not after:
            raise ShapeError(
                f"scan: a carry is {before} before and {after} after a step",
                fix="keep its shape and dtype",
            )
    return (*avals[:carries], *[stacked_aval(length, a) for a in avals[carries:]])


# -- derivatives -----------------------------------------------------------------------------------


def pushed_scan(
    primals: Values,
    tangents: Tangents,
    body: Program,
    length: int,
    reverse: bool,
    constants: int,
    carries: int,
    apply: ApplyScan = scan_program,
) -> Any:
    """Apply the loop of values and tangents, by ``apply``; return the outputs and their
    tangents.
    """
    flags, split = split_body(body, [t is not None for t in tangents], constants, carries)
    joint = jvp_program(body, flags)
    count, total = len(body.output_ids), len(body.input_ids)
    # There is one tangent per output; keep those of active outputs.
    outs = [joint.output_ids[count + k] if flag else None for k, flag in enumerate(split.active)]
    ends = (constants, constants + carries, total)
    moved = iter(range(total, total + sum(flags)))
    dots = [next(moved) if flag else None for flag in flags]
    order: list[int] = []
    groups: list[int] = []
    start = 0
    for end in ends:
        group = [*range(start, end), *[d for d in dots[start:end] if d is not None]]
        groups.append(len(group))
        order += group
        start = end
    step = restrict(
        reordered(joint, order),
        [joint.input_ids[k] for k in order],
        [
            *joint.output_ids[:carries], *[i for i in outs[:carries] if i is not None],
            *joint.output_ids[carries:count], *[i for i in outs[carries:] if i is not None],
        ],
        keep=True,
    ).program  # fmt: skip
    values = [
        *primals,
        *zeros_where(flags, tangents, operand_avals(body, length, constants, carries)),
    ]
    results = apply(step, [values[k] for k in order], length, reverse, groups[0], groups[1])
    pushed = sum(flag for flag in split.active[:carries])
    ys = groups[1]
    outputs = [*results[:carries], *results[ys : ys + count - carries]]
    found = iter([*results[carries : carries + pushed], *results[ys + count - carries :]])
    return outputs, [next(found) if flag else None for flag in split.active]


def operand_avals(body: Program, length: int, constants: int, carries: int) -> list[ShapeDtype]:
    """Return the avals of the operands of a loop."""
    avals = [body.avals[i] for i in body.input_ids]
    return [a if k < constants + carries else stacked_aval(length, a) for k, a in enumerate(avals)]


def _linearize(
    primals: Values,
    tangents: Tangents,
    body: Program,
    length: int,
    reverse: bool,
    constants: int,
    carries: int,
) -> Any:
    flags, split = split_body(body, [t is not None for t in tangents], constants, carries)
    invariant, per_step = hoisted(split, body, constants)
    count, total = len(body.output_ids), len(body.input_ids)
    # Residuals that are carries must be stacked: they become results of the forward body.
    forward = split.forward
    extra: list[int] = []
    variables = source_variables(forward, count)
    stacked: dict[int, tuple[str, int]] = {}
    for n in per_step:
        word, place = split.sources[n]
        if word == "input" and place >= constants + carries:
            stacked[n] = ("operand", place)
        elif word == "output" and place >= carries:
            stacked[n] = ("result", place)
        else:
            variable = variables[word][place]
            if variable not in extra:
                extra.append(variable)
            stacked[n] = ("result", count + extra.index(variable))
    step = restrict(
        forward, forward.input_ids, [*forward.output_ids[:count], *extra], keep=True
    ).program
    results = scan_program(step, primals, length, reverse, constants, carries)
    fixed = invariants(forward, split, invariant, primals, constants, count)
    # The linear loop: invariant residuals and tangents of constants; tangents of carries; stacked
    # residuals and tangents of arrays.
    residuals = len(split.sources)
    moved = iter(range(residuals, residuals + sum(flags)))
    dots = [next(moved) if flag else None for flag in flags]
    groups = [
        [*invariant, *[d for d in dots[:constants] if d is not None]],
        [d for d in dots[constants : constants + carries] if d is not None],
        [*per_step, *[d for d in dots[constants + carries : total] if d is not None]],
    ]
    values: dict[int, Any] = dict(zip(invariant, fixed, strict=True))
    values.update(
        {n: primals[k] if word == "operand" else results[k] for n, (word, k) in stacked.items()}
    )
    starts = zeros_where(flags, tangents, operand_avals(body, length, constants, carries))
    values.update(zip([d for d in dots if d is not None], starts, strict=True))
    order = [k for group in groups for k in group]
    linear = reordered(split.linear, order)
    found = iter(
        scan_program(
            linear, [values[k] for k in order], length, reverse, len(groups[0]), len(groups[1])
        )
    )
    return results[:count], [next(found) if flag else None for flag in split.active]


class TransposedBody(NamedTuple):
    """Result of `transposed_body`.

    Args:
        step: from constants that are not linear, sums of the cotangents of linear constants,
            cotangents of the carry, slices that are not linear, and cotangents of the results, to
            the sums, the cotangents of the carry, and those of linear slices.
        fixed, summed, arrays, sliced: indices of the body's inputs: constants that are not linear
            and that are, slices that are not and that are.
    """

    step: Program
    fixed: list[int]
    summed: list[int]
    arrays: list[int]
    sliced: list[int]


def transposed_body(
    body: Program, linear: Sequence[bool], constants: int, carries: int
) -> TransposedBody:
    """Transpose the body of a loop whose carries are all linear."""
    avals = output_avals(body)
    made = transpose_program(body, linear)
    # Inputs of `made`: values of operands that are not linear, cotangents of carries and results.
    others = [k for k, flag in enumerate(linear) if not flag]
    fixed = [k for k in others if k < constants]
    arrays = [k for k in others if k >= constants]
    summed = [k for k in range(constants) if linear[k]]
    sliced = [k for k in range(constants + carries, len(linear)) if linear[k]]
    build = Assembly()
    values = {k: build.input(body.avals[body.input_ids[k]]) for k in fixed}
    sums = [build.input(body.avals[body.input_ids[k]]) for k in summed]
    carry = [build.input(a) for a in avals[:carries]]
    values.update({k: build.input(body.avals[body.input_ids[k]]) for k in arrays})
    slices = [build.input(a) for a in avals[carries:]]
    outputs = build.splice(made, [*[values[k] for k in others], *carry, *slices])
    by_place = dict(zip([k for k, flag in enumerate(linear) if flag], outputs, strict=True))
    totals = [build.place(add, (s, by_place[k]), ()) for s, k in zip(sums, summed, strict=True)]
    carried = [by_place[k] for k in range(constants, constants + carries)]
    step = build.program([*totals, *carried, *[by_place[k] for k in sliced]], made.name)
    return TransposedBody(step, fixed, summed, arrays, sliced)


def _transpose(
    cts: Tangents, *rest: *tuple[*tuple[Operand, ...], Program, int, bool, int, int]
) -> Any:
    *operands, body, length, reverse, constants, carries = rest
    linear, _ = settled(
        dependent_outputs, body, [is_linear(x) for x in operands], constants, carries
    )
    if not all(linear[constants : constants + carries]):
        return _transpose_with_known_carry(
            cts, tuple(operands), linear, body, length, reverse, constants, carries
        )
    # Drop results without a cotangent from the body.
    given = [n for n in range(carries, len(body.output_ids)) if cts[n] is not None]
    wanted = [*body.output_ids[:carries], *[body.output_ids[n] for n in given]]
    body = restrict(body, body.input_ids, wanted, keep=True).program
    step, fixed, summed, arrays, sliced = transposed_body(body, linear, constants, carries)
    avals = output_avals(body)
    starts = [zeros_of(aval_of(operands[k])) for k in summed]
    before = [
        zeros_of(a) if ct is None else ct for a, ct in zip(avals, cts[:carries], strict=False)
    ]
    results = scan_program(
        step,
        [*[operands[k] for k in fixed], *starts, *before, *[operands[k] for k in arrays],
        *[cts[n] for n in given]],
        length, not reverse, len(fixed), len(summed) + carries,
    )  # fmt: skip
    return at_places(
        results, [*summed, *range(constants, constants + carries), *sliced], len(operands)
    )


def _transpose_with_known_carry(
    cts: Tangents,
    operands: tuple[Operand, ...],
    linear: list[bool],
    body: Program,
    length: int,
    reverse: bool,
    constants: int,
    carries: int,
) -> Any:
    """Transpose a loop with nonlinear carries, too: run these first, and scan over their values."""
    total = len(body.input_ids)
    known = [k for k in range(constants, constants + carries) if not linear[k]]
    ins = body.input_ids
    others = [k for k in range(total) if not linear[k] and k not in known]
    fixed = [k for k in others if k < constants]
    arrays = [k for k in others if k >= constants]
    order = [*fixed, *known, *arrays]
    outs = [*[body.output_ids[k - constants] for k in known], *[ins[k] for k in known]]
    ahead = restrict(body, [ins[k] for k in order], outs, keep=True).program
    results = scan_program(
        ahead, [operands[k] for k in order], length, reverse, len(fixed), len(known)
    )
    before = dict(zip(known, results[len(known) :], strict=True))
    # The same loop with those carries as arrays after the others.
    order = [k for k in range(total) if k not in known] + known
    kept = [n for n in range(len(body.output_ids)) if n + constants not in known or n >= carries]
    step = restrict(
        body, [ins[k] for k in order], [body.output_ids[n] for n in kept], keep=True
    ).program
    values = [before[k] if k in known else operands[k] for k in order]
    made = _transpose(
        tuple([cts[n] for n in kept]),
        *values,
        step,
        length,
        reverse,
        constants,
        carries - len(known),
    )
    return at_places(made, order, total)


def batched_scan(
    operands: Values,
    is_batched: Flags,
    body: Program,
    length: int,
    reverse: bool,
    constants: int,
    carries: int,
    apply: ApplyScan = scan_program,
) -> Any:
    """Apply the loop over all examples, by ``apply``."""
    size = batch_size(operands, is_batched)
    flags, outs = settled(mapped_outputs, body, is_batched, constants, carries)
    values: list[Array] = []
    for k, (x, flag, was) in enumerate(zip(operands, flags, is_batched, strict=True)):
        if flag and not was:
            x = broadcast_to(x, (size, *body.avals[body.input_ids[k]].shape))
        elif flag and k >= constants + carries:
            x = moveaxis(x, 0, 1)
        values.append(x)
    results = apply(
        vmap_program(body, size, flags, outs), values, length, reverse, constants, carries
    )
    return tuple(
        [
            moveaxis(x, 1, 0) if flag and k >= carries else x
            for k, (x, flag) in enumerate(zip(results, outs))
        ]
    )


def _written(
    write: SourceWriter,
    specs: Sequence[Spec],
    body: Program,
    length: int,
    reverse: bool,
    constants: int,
    carries: int,
) -> Spelling:
    """Spell the loop: a ``for`` statement over the steps."""
    step, t = write.program(body, "step"), write.local("t")
    empty = [
        write.expression(stacked_aval(length, a), "a stack") for a in output_avals(body)[carries:]
    ]

    def lines(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        carry = outputs[:carries]
        starts = zip(carry, inputs[constants : constants + carries], strict=True)
        stacks = zip(outputs[carries:], empty, strict=True)
        slices = [f"{a}[{t}]" for a in inputs[constants + carries :]]
        results = [*carry, *[f"{stack}[{t}]" for stack in outputs[carries:]]]
        return [
            *[f"{name} = {start}" for name, start in starts],
            *[f"{name} = {made}" for name, made in stacks],
            f"for {t} in {f'reversed(range({length}))' if reverse else f'range({length})'}:",
            (
                f"    {', '.join(results)} = "
                f"{step}({', '.join([*inputs[:constants], *carry, *slices])})"
            ),
        ]

    return lines if carries or empty else lambda inputs, outputs: ["pass"]


def _gives(
    place: int, body: Program, length: int, _reverse: bool, constants: int, carries: int
) -> Any:
    """Return the source of a stacked result: the body's output, at each step."""
    if place < carries:
        return None
    kinds = (
        ["constant"] * constants
        + ["carry"] * carries
        + ["slice"] * (len(body.input_ids) - constants - carries)
    )
    return body, place, kinds, f"each of {length} steps"


def _runs(_inputs: object, body: Program, length: int, *_: object) -> Runs:
    return (((length, body),),)


def _feeds(place: int, body: Program, *_: object) -> list[tuple[Program, int]]:
    return [(body, place)]


def _mapped(
    is_batched: Sequence[bool],
    body: Program,
    _length: int,
    _reverse: bool,
    constants: int,
    carries: int,
) -> list[bool]:
    return settled(mapped_outputs, body, is_batched, constants, carries)[1]


def _depends(
    flags: Sequence[bool], body: Program, _length: int, _reverse: bool, constants: int, carries: int
) -> list[bool]:
    return settled(reached_outputs, body, flags, constants, carries)[1]


def _moving(
    flags: Sequence[bool], body: Program, _length: int, _reverse: bool, constants: int, carries: int
) -> list[tuple[Program, Sequence[bool]]]:
    return [(body, settled(reached_outputs, body, flags, constants, carries)[0])]


scan_p = Primitive(
    "scan",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=pushed_scan, linearize=_linearize),
    transpose=_transpose,
    batch=batched_scan,
    params=("body", "length", "reverse", "constants", "carries"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(
        _runs,
        # the next step may need the carries
        kept=lambda read, *params: sorted({*read, *range(params[4])}),
        feeds=_feeds,
        gives=_gives,
        depends=_depends,
        moving=_moving,
        lowers=_lowers,
    ),
    written=_written,
    mapped=_mapped,
)
"""``scan c0 h0 xs {body={…}, length=5, reverse=False, constants=1, carries=1}``: final carry,
stacked results.
"""
