"""Derivation of an operation: its backward program, its residuals, and the source of every
gradient.

A `Case` is one `Op` for certain shapes, dtypes, static parameters and operands that require
gradients. Its `Derivation` is frozen. The backward program is the core's
(`functrace.transforms.backward_program`), under the policy that only the values that the op names
are residuals, and everything else is rematerialized.

Note [Numbers are operands, not constants]
    A Python number among the operands is an input of the backward program, saved separately from
    the tensors: a changing learning rate does not make a new plan, and saved-tensor hooks never see
    it. If the derivative itself depends on the number (the exponent of ``pow``), the op declares it
    as static.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from functrace.executor.kernels import broadcasted
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops import elementwise as ew
from functrace.ops.shaping import broadcast_to_p, convert, permute_p, reshape_p
from functrace.torch.dispatch.narrow import (
    between_conversions,
    concerns,
    rounded_results,
    wide,
    widened,
)
from functrace.torch.tensors.dtypes import bfloat16
from functrace.tracing import Recording, Tracer, bind
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import backward_program

if TYPE_CHECKING:
    from functrace.torch.dispatch.applying import Op


class Case:
    """An op and the specs of its operands.

    Args:
        op: the op to apply.
        specs: aval of each operand, or the type of a Python number; ``(type, number)`` if the
            number is static.
        params: static parameters.
        active: for each operand, True if it requires a gradient.
    """

    __slots__ = ("active", "is_wide", "op", "params", "rounds", "specs")

    def __init__(
        self, op: Op, specs: tuple[Any, ...], params: tuple[Any, ...], active: tuple[bool, ...]
    ) -> None:
        self.op = op
        self.specs = specs
        self.params = params
        self.active = active
        self.is_wide = not concerns(specs, params)
        """False with bfloat16: see Note [bfloat16 is computed in float32]."""
        self.rounds: tuple[bool, ...] | None = None

    @property
    def rounded_results(self) -> tuple[bool, ...]:
        """For each result, whether it is bfloat16, in a case that is not wide."""
        if self.rounds is None:
            self.rounds = rounded_results(self)
        return self.rounds

    @property
    def edges(self) -> tuple[int | None, ...]:
        """Operand of each edge; ``None`` for an edge without a node."""
        edges = self.op.edges
        return tuple(range(len(self.specs))) if edges is None else edges

    def saveable(self, operands: int, results: int) -> list[tuple[str, int]]:
        """Return the values that may be saved, by name: operands and results of the op, and
        numbers.
        """
        named = [(name, p) for name, p in self.op.saves if p < operands and ~p < results]
        return named + self.numbers({p for _, p in named})

    def numbers(self, others: set[int]) -> list[tuple[str, int]]:
        """Return the numbers that may be saved, except the operands in ``others``."""
        return [
            (f"operand{p}", p)
            for p, spec in enumerate(self.specs)
            if isinstance(spec, type) and p not in others
        ]

    def record(self) -> RecordedCase:
        """Trace the function to differentiate."""
        with ArrayRecording(self.op.node, keeps_source=False) as recording:
            given, variables = self.inputs(recording, self.specs)
            result = (self.op.derived or self.function)(*given, *self.params)
            many = isinstance(result, tuple)
            results: tuple[Any, ...] = result if many else (result,)
            outputs = tuple(
                [r.ft_variable if isinstance(r, Tracer) else recording.capture(r) for r in results]
            )
            return RecordedCase(recording.program(outputs, name=self.op.node), variables, many)

    @property
    def function(self) -> Any:
        """Function from arrays or traced values to results."""
        if not self.is_wide:
            return self.op.function if self.op.is_view else between_conversions(self)
        return (
            self.op.function
            if self.op.promote is None
            else self.op.promote(self.op.function, self.specs)
        )

    def inputs(
        self, recording: Recording, specs: Sequence[Any]
    ) -> tuple[list[Any], list[int | None]]:
        """Return a value for each operand, traced unless it is a static number, and its
        variable.
        """
        given: list[Any] = []
        variables: list[int | None] = []
        for spec in specs:
            if isinstance(spec, tuple):
                given.append(spec[1])
                variables.append(None)
            else:
                given.append(
                    recording.new_input(
                        spec if isinstance(spec, ShapeDtype) else self._number_aval(spec)
                    )
                )
                variables.append(given[-1].ft_variable)
        return given, variables

    def _number_aval(self, kind: type) -> ShapeDtype:
        dtypes = [spec.dtype for spec in self.specs if isinstance(spec, ShapeDtype)]
        return ShapeDtype((), np.result_type(*dtypes, kind(0)))


class RecordedCase(NamedTuple):
    """Result of `Case.record`.

    Args:
        program: program from operands to results.
        operands: variable of each operand, ``None`` for a static number; then those of other values
            that may be saved.
        many: True if the results are a tuple.
    """

    program: Program
    operands: list[int | None]
    many: bool


Views = tuple[tuple[Primitive, tuple[Any, ...]], ...]
Move: TypeAlias = tuple[int, "Views | None"]
"""Source of an edge's gradient: a computed result, or a cotangent and the views to take of it,
first to last.
"""
VIEWS = (reshape_p, permute_p, broadcast_to_p)


@final
class Derivation(NamedTuple):
    """The derivative of a case.

    Args:
        outputs: avals of the results.
        differentiated: number of results up to and including the last one that has a derivative.
        many: True if the results are a tuple.
        edge_to: operand of each edge; -1 for an edge without a node.
        saves: values that a node saves: field name, and index of the operand (0, 1 …) or result
            (-1, -2 …).
        unpacks: for each saved value, True if it is a tensor, False if it is a number.
        selected: indices of the saved values that the program reads, in its order; ``None`` if it
            reads all.
        backward: program from saved values and one cotangent per result to the gradients of active
            operands.
        moves: source of each edge's gradient.
        computing: the part of the program that computes; ``None`` if all gradients are cotangents,
            or views of them.
    """

    outputs: tuple[ShapeDtype, ...]
    differentiated: int
    many: bool
    edge_to: tuple[int, ...]
    saves: tuple[tuple[str, int], ...]
    unpacks: tuple[bool, ...]
    selected: tuple[int, ...] | None
    backward: Program
    moves: tuple[Move | None, ...]
    computing: Program | None

    @property
    def results(self) -> tuple[int, ...] | None:
        """Computed result of each edge, -1 without gradient; ``None`` if there are views,
        selections or several results.
        """
        if self.computing is None or self.selected is not None or len(self.outputs) != 1:
            return None
        if any(move is not None and move[1] is not None for move in self.moves):
            return None
        return tuple([-1 if move is None else move[0] for move in self.moves])


def derive(case: Case) -> Derivation | None:
    """Derive the backward program of a case; ``None`` if no result is differentiable."""
    if not any(case.active):
        return None
    op, specs, edges = case.op, case.specs, case.edges
    program, operands, many = (case if case.is_wide else wide(case)).record()
    outputs = tuple([program.avals[i] for i in program.output_ids])
    if not any(aval.dtype.kind in "fcV" for aval in outputs):
        return None
    last = [
        k for k, aval in enumerate(outputs) if aval.dtype.kind in "fcV" and k not in op.constants
    ]
    saveable = case.saveable(len(operands), len(outputs))
    candidates: dict[int, int] = {}
    for _, position in saveable:
        variable = program.output_ids[~position] if position < 0 else operands[position]
        if variable is not None:
            candidates.setdefault(variable, position)
    flags = [
        case.active[k] for k, variable in enumerate(operands[: len(specs)]) if variable is not None
    ]
    with np.errstate(all="ignore"):  # a number may not fit the dtype
        backward, needed = backward_program(program, flags, tuple(candidates))
    backward = conjugated(backward, len(needed))
    read = [candidates[i] for i in needed]
    saves = tuple([(name, p) for name, p in saveable if p in read or name in op.keeps])
    saved = [p for _, p in saves]
    if case.is_wide:
        run = backward
    else:
        outputs = _narrow_avals(outputs, case.rounded_results)
        avals = [outputs[~p] if p < 0 else specs[p] if p < len(specs) else None for p in read]
        run = between(backward, [*avals, *outputs], [specs[k] for k in _active(case)])
    moves, computing = _moves(case, run, len(needed))
    return Derivation(
        outputs=outputs,
        differentiated=last[-1] + 1 if last else 0,
        many=many,
        edge_to=tuple([-1 if k is None or not case.active[k] else k for k in edges]),
        saves=saves,
        unpacks=tuple(
            [p < 0 or p >= len(specs) or isinstance(specs[p], ShapeDtype) for p in saved]
        ),
        selected=None if saved == read else tuple([saved.index(p) for p in read]),
        backward=backward,
        moves=moves,
        computing=computing,
    )


def _active(case: Case) -> list[int]:
    """Return the operands that require gradients, which the backward program returns."""
    return [k for k, on in enumerate(case.active) if on]


def _narrow_avals(
    avals: tuple[ShapeDtype, ...], rounds: tuple[bool, ...]
) -> tuple[ShapeDtype, ...]:
    return tuple([
        ShapeDtype(aval.shape, bfloat16.numpy) if narrow else aval
        for aval, narrow in zip(avals, rounds, strict=True)
    ])  # fmt: skip


def between(
    backward: Program, given: Sequence[ShapeDtype | None], wanted: Sequence[ShapeDtype]
) -> Program:
    """Return a backward program of float32 between conversions from and to bfloat16.

    Args:
        backward: the program.
        given: aval of each input, ``None`` for that of the program's.
        wanted: avals of the gradients.
    """
    with ArrayRecording(backward.name, keeps_source=False) as recording:
        inputs = [
            recording.new_input(
                backward.avals[i] if aval is None else _narrower(aval, backward.avals[i])
            )
            for i, aval in zip(backward.input_ids, given, strict=True)
        ]
        results = evaluate_program(backward, [widened(x) for x in inputs])
        places = dict(zip(backward.input_ids, inputs, strict=True))
        made: list[Any] = []
        for output, result, aval in zip(backward.output_ids, results, wanted, strict=True):
            found = through_views(backward, output, places)
            if found is not None and found[0] in places and places[found[0]].dtype == aval.dtype:
                made.append(shown_by(places[found[0]], found[1] or ()))  # exact, without a copy
            else:
                made.append(convert(result, aval.dtype) if result.dtype != aval.dtype else result)
        ids = [r.ft_variable if isinstance(r, Tracer) else recording.capture(r) for r in made]
        return recording.program(tuple(ids), name=backward.name)


def _narrower(aval: ShapeDtype, own: ShapeDtype) -> ShapeDtype:
    return ShapeDtype(own.shape, aval.dtype) if isinstance(aval, ShapeDtype) else own


def _moves(
    case: Case, backward: Program, needed: int
) -> tuple[tuple[Move | None, ...], Program | None]:
    """Split off the outputs that are an unchanged cotangent, or a view of one: they are
    not copied.
    """
    arriving = {
        variable: k - needed for k, variable in enumerate(backward.input_ids) if k >= needed
    }
    shown = [views_of_cotangent(backward, i, arriving) for i in backward.output_ids]
    rest = [i for i, view in zip(backward.output_ids, shown, strict=True) if view is None]
    computed = iter(range(len(rest)))
    moves: Iterator[Move] = iter(
        [(next(computed), None) if view is None else view for view in shown]
    )
    by_edge = tuple([next(moves) if p is not None and case.active[p] else None for p in case.edges])
    assert next(moves, None) is None, "an active operand has no edge"
    return by_edge, restrict(
        backward, backward.input_ids, rest, keep=True
    ).program if rest else None


def views_of_cotangent(program: Program, output: int, arriving: dict[int, int]) -> Move | None:
    """Return the cotangent that an output is a view of, and the views; ``None`` if it is computed,
    or a view of a number.
    """
    found = through_views(program, output, arriving)
    return None if found is None or found[0] < 0 else (arriving[found[0]], found[1])


def through_views(program: Program, output: int, ends: Container[int]) -> Move | None:
    """Follow views from an output back to one of some variables, or to a number; ``None`` if it is
    computed.
    """
    views: list[tuple[Primitive, tuple[Any, ...]]] = []
    while output >= 0 and output not in ends:
        primitive, operands, params = program.ops[output]
        if primitive not in VIEWS:
            return None
        views.append((primitive, params))
        output = operands[0]
    return output, tuple(reversed(views))


def shown_by(array: Any, views: Views) -> Any:
    """Apply views to an array; an expanded result is read-only."""
    for primitive, params in views:
        if isinstance(array, Tracer):
            array = bind(primitive, (array,), params)
        elif primitive is broadcast_to_p:
            array = broadcasted(array, *params)
        else:
            array = primitive.eval(array, *params)
    return array


def conjugated(backward: Program, needed: int) -> Program:
    """Return a backward program in PyTorch's convention: its gradients are the conjugates of the
    core's cotangents.

    Args:
        backward: the core's program.
        needed: number of inputs that are saved values; the others are cotangents.
    """
    cotangents, outputs = set(backward.input_ids[needed:]), backward.output_ids
    if all(backward.avals[i].dtype.kind != "c" for i in (*cotangents, *outputs)):
        return backward
    with ArrayRecording(backward.name, keeps_source=False) as recording:
        given = [recording.new_input(backward.avals[i]) for i in backward.input_ids]
        turned = [ew.conj(x) if i in cotangents and x.dtype.kind == "c" else x
                  for i, x in zip(backward.input_ids, given, strict=True)]  # fmt: skip
        results = evaluate_program(backward, turned)
        passed = dict(zip(backward.input_ids, given, strict=True))
        made = [passed[i] if i in cotangents else ew.conj(r) if r.dtype.kind == "c" else r
                for i, r in zip(outputs, results, strict=True)]  # fmt: skip
        ids = [r.ft_variable if isinstance(r, Tracer) else recording.capture(r) for r in made]
        return recording.program(tuple(ids), name=backward.name)
