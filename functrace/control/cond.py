"""``cond``: a choice between programs as one operation.

The first operand is the branch index; all branches take the other operands and return results of
the same avals. The derivative of a choice is a choice between the branches' derivatives, whose
residuals share slots.

Note [A choice per example]
    Under vmap, a choice with an unbatched index stays one. A batched one runs every branch that
    some example takes, on all examples, and selects per example. It remains this primitive
    (``batched`` holds one flag per operand, the branches remain programs of one example), so that
    its derivative also selects per example, among tangents and cotangents: a NaN in a branch that
    an example did not take does not propagate, in whatever order grad and vmap were applied.

Layer: 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.control.call import at_places, check_operands, transposed_program
from functrace.control.joining import choose, evaluate_lowered
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.parts import Assembly, holds_kept, output_avals, restrict
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
from functrace.ir.structures import Branch, Lowering
from functrace.ir.tape import Spec
from functrace.ops.shaping import broadcast_to, broadcast_to_p, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.transforms.building import remembered
from functrace.transforms.derivatives import SplitProgram, jvp_program, split_program
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling


def cond_program(
    which: Value, operands: Sequence[Any], branches: Sequence[Program], batched: Flags = ()
) -> list[Any]:
    """Apply a choice.

    Args:
        which: the branch index, a bool or an integer; with ``batched``, one per example.
        operands: one per input of the branches.
        branches: closed programs with the same inputs and outputs.
        batched: for a choice per example, one flag per operand: True if it has the batch axis.
    """
    return list(
        bind(cond_p, (which, *operands), (tuple([b.interned() for b in branches]), batched))
    )


def _eval(*rest: *tuple[Array, *tuple[Array, ...], tuple[Program, ...], Flags]) -> Any:
    *operands, branches, batched = rest
    return evaluate_lowered(_lowers(operands, branches, batched), operands)


def stacked(size: int, aval: ShapeDtype) -> ShapeDtype:
    """Return the aval of a batch."""
    return ShapeDtype((size, *aval.shape), aval.dtype)


def mapped_branch(branch: Program, size: int, batched: Flags) -> Program:
    """Return a branch over the whole batch, memoized."""
    return remembered(vmap_program, branch, size, batched)


def _lowers(specs: Sequence[Any], branches: tuple[Program, ...], batched: Flags) -> Lowering:
    if not batched:
        return Lowering(branches, Branch(), fresh=True)
    mapped = tuple([mapped_branch(branch, specs[0].shape[0], batched) for branch in branches])
    return Lowering(mapped, Branch(by_example=True), fresh=False)


def _aval(which: Spec, *rest: *tuple[*tuple[ShapeDtype, ...], tuple[Program, ...], Flags]) -> Any:
    *operands, branches, batched = rest
    outs = output_avals(branches[0])
    if any(output_avals(b) != outs for b in branches):
        raise ShapeError(
            "cond: the branches return different avals",
            fix="make them return the same shapes and dtypes",
        )
    _check_which(which, 1 if batched else 0)
    size = which.shape[0] if batched else 0
    single = (
        [_example(x, size) if flag else x for x, flag in zip(operands, batched, strict=True)]
        if batched
        else operands
    )
    for branch in branches:
        check_operands("cond", branch, single)
    return tuple([stacked(size, a) for a in outs]) if batched else outs


def _check_which(which: Spec, rank: int) -> None:
    if _kind(which) not in "biu" or len(() if isinstance(which, type) else which.shape) != rank:
        wanted = "one bool or integer per example" if rank else "one bool or integer"
        raise ShapeError(
            f"cond: the branch index is {which}, not {wanted}", fix="compare with a number"
        )


def _kind(which: Spec) -> str:
    return np.dtype(which).kind if isinstance(which, type) else which.dtype.kind


def _example(x: ShapeDtype, size: int) -> ShapeDtype:
    if not x.shape or x.shape[0] != size:
        raise ShapeError(
            f"cond: an operand of {size} examples is {x}", fix=f"give it a first axis of {size}"
        )
    return ShapeDtype(x.shape[1:], x.dtype)


# -- derivatives -----------------------------------------------------------------------------------


def _spread(
    tangents: Sequence[Array | None], which: Array, branch: Program, batched: Flags
) -> list[Any]:
    """Give every tangent of a choice per example the batch axis, so that it is selected per example
    too.
    """
    if not batched:
        return list(tangents)
    size = shape_of(which)[0]
    avals = [branch.avals[i] for i in branch.input_ids]
    return [
        t if t is None or flag else broadcast_to(t, (size, *aval.shape))
        for t, flag, aval in zip(tangents, batched, avals, strict=True)
    ]


def _flags(batched: Flags, places: Sequence[int], more: int) -> Flags:
    """Return the flags of some operands, and of ``more`` operands that have the batch axis."""
    return (*[batched[k] for k in places], *[True] * more) if batched else ()


def _jvp(primals: Values, tangents: Tangents, branches: tuple[Program, ...], batched: Flags) -> Any:
    which, *operands = primals
    dots = _spread(tangents[1:], which, branches[0], batched)
    active = [t is not None for t in dots]
    moved = [t for t in dots if t is not None]
    made = [jvp_program(b, active) for b in branches]
    count = len(branches[0].output_ids)
    moving = [False] * len(operands) + [True] * len(moved)
    needed = [
        any(flags) for flags in zip(*[mapped_outputs(p, moving)[count:] for p in made], strict=True)
    ]
    if not all(needed):  # zeros would count as tangents
        chosen = [*range(count), *[count + k for k, flag in enumerate(needed) if flag]]
        made = [
            restrict(p, p.input_ids, [p.output_ids[k] for k in chosen], keep=True).program
            for p in made
        ]
    results = cond_program(
        which, [*operands, *moved], made, _flags(batched, range(len(operands)), len(moved))
    )
    found = iter(results[count:])
    return results[:count], [next(found) if flag else None for flag in needed]


def _linearize(
    primals: Values, tangents: Tangents, branches: tuple[Program, ...], batched: Flags
) -> Any:
    which, *operands = primals
    dots = _spread(tangents[1:], which, branches[0], batched)
    active = [t is not None for t in dots]
    moved = [t for t in dots if t is not None]
    first = [split_program(b, active).active for b in branches]
    needed = [any(flags) for flags in zip(*first, strict=True)]
    splits = [split_program(b, active, needed) for b in branches]
    forwards, linears, places = _join(splits, len(branches[0].output_ids))
    results = cond_program(which, operands, forwards, batched)
    count = len(branches[0].output_ids)
    residuals = [*results[count:], *[operands[k] for k in places]]
    flags = (
        (*[True] * len(results[count:]), *_flags(batched, places, len(moved))) if batched else ()
    )
    found = iter(cond_program(which, [*residuals, *moved], linears, flags))
    return results[:count], [next(found) if flag else None for flag in needed]


def _join(
    splits: Sequence[SplitProgram], count: int
) -> tuple[list[Program], list[Program], list[int]]:
    """Assign the branches' residuals to common slots; residuals of equal avals share one.

    Returns:
        forward programs that return the outputs, then the residuals in their slots (zeros if a
        branch has none); linear programs that take all slots, then the operands that some branch
        keeps, then tangents; and the indices of those operands.
    """
    slots: list[ShapeDtype] = []
    chosen: list[dict[tuple[str, int], int]] = []
    for split in splits:
        free = list(range(len(slots)))
        mine: dict[tuple[str, int], int] = {}
        for word, place in split.sources:
            if word == "input" or (word, place) in mine:
                continue
            aval = split.forward.avals[_variable(split, word, place, count)]
            slot = next((n for n in free if slots[n] is aval), None)
            if slot is None:
                slot = len(slots)
                slots.append(aval)
            else:
                free.remove(slot)
            mine[word, place] = slot
        chosen.append(mine)
    kept = sorted({place for split in splits for word, place in split.sources if word == "input"})
    forwards: list[Program] = []
    linears: list[Program] = []
    for split, mine in zip(splits, chosen, strict=True):
        forward = split.forward
        build = Assembly()
        inputs = [build.input(forward.avals[i]) for i in forward.input_ids]
        filled = {
            slot: _variable(split, word, place, count) for (word, place), slot in mine.items()
        }
        part = restrict(
            forward, forward.input_ids, [*forward.output_ids[:count], *filled.values()], keep=True
        ).program
        outputs = build.splice(part, inputs)
        by_slot = dict(zip(filled, outputs[count:], strict=True))
        for n, aval in enumerate(slots):
            if n not in by_slot:
                zero = build.constant(np.zeros((), aval.dtype)[()], ShapeDtype((), aval.dtype))
                by_slot[n] = (
                    build.place(broadcast_to_p, (zero,), (aval.shape,)) if aval.shape else zero
                )
        forwards.append(
            build.program(
                [*outputs[:count], *[by_slot[n] for n in range(len(slots))]], forward.name
            )
        )
        linear = split.linear
        build = Assembly()
        values: dict[tuple[str, int], int] = {}
        for n, aval in enumerate(slots):
            values["slot", n] = build.input(aval)
        for place in kept:
            values["input", place] = build.input(forward.avals[forward.input_ids[place]])
        dots = [build.input(linear.avals[i]) for i in linear.input_ids[len(split.sources) :]]
        residuals = [
            values[key] if key[0] == "input" else values["slot", mine[key]] for key in split.sources
        ]
        linears.append(build.program(build.splice(linear, [*residuals, *dots]), linear.name))
    return forwards, linears, kept


def _variable(split: SplitProgram, word: str, place: int, count: int) -> int:
    return split.forward.output_ids[place + (count if word == "new" else 0)]


def _transpose(
    cts: Tangents, which: Array, *rest: *tuple[*tuple[Operand, ...], tuple[Program, ...], Flags]
) -> Any:
    *operands, branches, batched = rest
    linear = [is_linear(x) for x in operands]
    found = [transposed_program(b, linear, cts) for b in branches]
    values = sorted({k for f in found for k in f.values})
    places = sorted({k for f in found for k in f.linear})
    given = [ct for ct in cts if ct is not None]
    made: list[Program] = []
    for branch, f in zip(branches, found, strict=True):
        build = Assembly()
        avals = [branch.avals[i] for i in branch.input_ids]
        inputs: dict[Any, int] = {k: build.input(avals[k]) for k in values}
        outs = [a for a, ct in zip(output_avals(branch), cts, strict=True) if ct is not None]
        for ct, aval in zip(given, outs, strict=True):
            inputs[id(ct)] = build.input(aval)
        outputs = build.splice(
            f.program, [*[inputs[k] for k in f.values], *[inputs[id(ct)] for ct in f.cotangents]]
        )
        by_place = dict(zip(f.linear, outputs, strict=True))
        for k in places:
            if k not in by_place:
                by_place[k] = build.constant(np.zeros(avals[k].shape, avals[k].dtype)[()], avals[k])
        made.append(build.program([by_place[k] for k in places], branch.name))
    flags = _flags(batched, values, len(given))
    results = cond_program(which, [*[operands[k] for k in values], *given], made, flags)
    return (None, *at_places(results, places, len(operands)))


def _batch(
    operands: Values, is_batched: Flags, branches: tuple[Program, ...], batched: Flags
) -> Any:
    which, *values = operands
    size = batch_size(operands, is_batched)
    if not is_batched[0] and not batched:
        outs = _mapped(is_batched, branches, batched)
        mapped = [vmap_program(b, size, is_batched[1:], outs) for b in branches]
        return tuple(cond_program(which, values, mapped))
    if not batched:
        return tuple(cond_program(which, values, branches, tuple(is_batched[1:])))
    # A choice per example under a second vmap: merge both axes.
    inner = (shape_of(which)[1:] if is_batched[0] else shape_of(which))[0]
    avals = [branches[0].avals[i].shape for i in branches[0].input_ids]
    both = [_flattened(x, (size, inner), outer, True, ()) for x, outer in [(which, is_batched[0])]]
    flags = tuple([outer or flag for outer, flag in zip(is_batched[1:], batched, strict=True)])
    both += [
        _flattened(x, (size, inner), outer, flag, shape) if outer or flag else x
        for x, outer, flag, shape in zip(values, is_batched[1:], batched, avals, strict=True)
    ]
    results = cond_program(both[0], both[1:], branches, flags)
    return tuple([reshape(r, (size, inner, *shape_of(r)[1:])) for r in results])


def _mapped(
    is_batched: Sequence[bool], branches: tuple[Program, ...], batched: Flags
) -> list[bool]:
    """Return the results that have a batch axis: all, if the choice is per example."""
    if is_batched[0] or batched:
        return [True] * len(branches[0].output_ids)
    return [
        any(flags)
        for flags in zip(*[mapped_outputs(b, is_batched[1:]) for b in branches], strict=True)
    ]


def _depends(flags: Sequence[bool], branches: tuple[Program, ...], _batched: Flags) -> list[bool]:
    if flags[0]:
        return [True] * len(branches[0].output_ids)
    return [
        any(found) for found in zip(*[reached_outputs(b, flags[1:]) for b in branches], strict=True)
    ]


def _moving(
    flags: Sequence[bool], branches: tuple[Program, ...], _batched: Flags
) -> list[tuple[Program, Sequence[bool]]]:
    return [(branch, flags[1:]) for branch in branches]


def _flattened(
    x: Array, sizes: tuple[int, int], outer: bool, flag: bool, shape: tuple[int, ...]
) -> Any:
    """Merge both batch axes of ``x``."""
    present = (sizes[0] if outer else 1, sizes[1] if flag else 1)
    full = broadcast_to(reshape(x, (*present, *shape)), (*sizes, *shape))
    return reshape(full, (math.prod(sizes), *shape))


def _written(
    write: SourceWriter, specs: Sequence[Spec], branches: Sequence[Program], batched: Flags
) -> Spelling:
    """Spell the choice: a conditional expression, or a call of `choose` if per example."""
    size = specs[0].shape[0] if batched else 0
    words = (
        ["when_false", "when_true"]
        if len(branches) == 2
        else [f"case_{n}" for n in range(len(branches))]
    )
    runs = [
        write.program(mapped_branch(branch, size, batched) if batched else branch, word)
        for branch, word in zip(branches, words, strict=True)
    ]
    shapes = (
        write.expression(tuple([stacked(size, a) for a in output_avals(branches[0])]), "an aval")
        if batched
        else ""
    )
    helper = write.callable_source(choose, "choose") if batched else ""

    def lines(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        which, *operands = inputs
        given, left = ", ".join(operands), ", ".join(outputs)
        listed = f"({', '.join(runs)}{',' if len(runs) == 1 else ''})"
        if batched:
            if len(outputs) == 1:  # `choose` takes functions that return tuples
                listed, left = (
                    f"[{', '.join(f'lambda *xs: ({run}(*xs),)' for run in runs)}]",
                    f"({left},)",
                )
            return [f"{left} = {helper}({which}, [{given}], {listed}, {shapes})"]
        if len(runs) == 2 and _kind(specs[0]) == "b":
            return [f"{left} = {runs[1]}({given}) if {which} else {runs[0]}({given})"]
        return [f"{left} = {listed}[min(max(int({which}), 0), {len(runs) - 1})]({given})"]

    return lines if len(output_avals(branches[0])) else lambda inputs, outputs: ["pass"]


def _runs(inputs: Sequence[Any], branches: tuple[Program, ...], batched: Flags) -> Any:
    """Return the runs: one of the branches, or all of them on every example for a choice per
    example.
    """
    if batched:
        return (tuple([(inputs[0].size, branch) for branch in branches]),)
    return tuple([((1, branch),) for branch in branches])


def _feeds(place: int, branches: tuple[Program, ...], _batched: Flags) -> list[tuple[Program, int]]:
    """Map an operand to the inputs of every branch; the first operand is the index."""
    return [(branch, place - 1) for branch in branches] if place else []


cond_p = Primitive(
    "cond",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_jvp, linearize=_linearize),
    transpose=_transpose,
    batch=_batch,
    params=("branches", "batched"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(
        _runs,
        kept=lambda read, *_: sorted(read),
        lowers=_lowers,
        feeds=_feeds,
        depends=_depends,
        moving=_moving,
    ),
    written=_written,
    mapped=_mapped,
)
"""``cond which x {branches=({…}, {…}), batched=()}``: the outputs of branch number ``which``."""
