"""``strong_zero``: a program as one operation, in whose derivatives a zero tangent or cotangent
times an infinite derivative is zero.

Its linear part (the program from tangents to tangents) has strong products in place of products
(control/strong_products.py). Both parts are again such operations, so higher derivatives have the
property, too. The executor inlines it, with the products spelled out.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import (
    at_places,
    check_operands,
    evaluate_fresh,
    reached_by,
    run_once,
    transposed_program,
)
from functrace.control.strong_products import SPELLED, strengthened
from functrace.ir.parts import Rewrite, holds_kept, output_avals
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
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.binding import bind
from functrace.transforms.building import operand_of, remembered
from functrace.transforms.derivatives import split_program
from functrace.transforms.vmap import batch_size, mapped_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Operand
    from functrace.ir.tape import Spec
    from functrace.typing import Array


def strong_program(program: Program, operands: Sequence[Any]) -> list[Any]:
    """Apply a closed program to arrays or traced values as one such operation.

    Args:
        program: the program.
        operands: one per input.
    """
    return list(bind(strong_zero_p, tuple(operands), (program.interned(),)))


def spelled_out(program: Program) -> Program:
    """Return an equal program in which strong products are comparisons, selections and products."""
    return remembered(_spelled_out, program)


def _spelled_out(program: Program) -> Program:
    if not program.kinds.intersection(SPELLED) and all(p.holds is None for p in program.kinds):
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive not in SPELLED:
            write.keep(k, bodies=None if primitive is strong_zero_p else spelled_out)
            continue
        recording = ArrayRecording("strong_zero", keeps_source=False)
        values = [
            recording.new_input(program.avals[i]) if i >= 0 else program.literals[~i]
            for i in operands
        ]
        result = SPELLED[primitive](*values, *params)
        made = Program.from_builder(
            recording, [operand_of(recording, result, program.avals[k])], name="strong"
        )
        recording.close()
        first = len(write.primitives)
        (found,) = write.splice(made, [write.operand(i) for i in operands if i >= 0])
        end = len(write.primitives)
        write.positions.extend([None] * (end - len(write.positions)))
        write.positions[first:end] = [write.position(k)] * (end - first)
        write.replace(k, [found])
    return write.finish()


# -- rules -----------------------------------------------------------------------------------------


def _aval(*specs: *tuple[*tuple[Spec, ...], Program]) -> Any:
    *operands, program = specs
    check_operands("strong_zero", program, operands)
    return output_avals(program)


def _derivative(primals: Values, tangents: Tangents, program: Program) -> Any:
    active = [t is not None for t in tangents]
    moved = [t for t in tangents if t is not None]
    split = split_program(program, active)
    linear = remembered(_strengthened, split.linear, len(split.sources))
    count = len(program.output_ids)
    results = strong_program(split.forward, primals)
    from_word = {"input": primals, "output": results[:count], "new": results[count:]}
    residuals = [from_word[word][place] for word, place in split.sources]
    found = iter(strong_program(linear, [*residuals, *moved]))
    return results[:count], [next(found) if flag else None for flag in split.active]


def _strengthened(linear: Program, residuals: int) -> Program:
    """Return a linear program with strong products; its first inputs are residuals."""
    return strengthened(linear, [k >= residuals for k in range(len(linear.input_ids))])


def _transpose(
    cts: Tangents,
    before: Sequence[Array | None] | None,
    *rest: *tuple[*tuple[Operand, ...], Program],
) -> Any:
    *operands, program = rest
    found = transposed_program(program, [is_linear(x) for x in operands], cts, before)
    results = strong_program(
        found.program, [*[operands[k] for k in found.values], *found.cotangents]
    )
    made = list(at_places(results, found.linear, len(operands)))
    for k, ct in enumerate(before or ()):
        if made[k] is None:  # an operand on which the transposed part does not depend
            made[k] = ct
    return made


def _batch(operands: Values, is_batched: Flags, program: Program) -> Any:
    mapped = vmap_program(
        program, batch_size(operands, is_batched), is_batched, mapped_outputs(program, is_batched)
    )
    return tuple(strong_program(mapped, operands))


def _mapped(is_batched: Sequence[bool], program: Program) -> Sequence[bool]:
    return mapped_outputs(program, is_batched)


def _moving(flags: Sequence[bool], program: Program) -> list[tuple[Program, Sequence[bool]]]:
    return [(program, flags)]


def _written(write: SourceWriter, _specs: Sequence[Spec], program: Program) -> Spelling:
    return write.call(spelled_out(program))


def _eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(spelled_out(rest[-1]), rest[:-1])


strong_zero_p = Primitive(
    "strong_zero",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_derivative, linearize=_derivative),
    transpose=AccumulatingTranspose(_transpose),
    batch=_batch,
    params=("program",),
    many=True,
    written=_written,
    kept=holds_kept,
    holds=SubPrograms(run_once, called_program=spelled_out, depends=reached_by, moving=_moving),
    mapped=_mapped,
)
"""``strong_zero x y {program={…}}``: the outputs of a program; see the module."""
