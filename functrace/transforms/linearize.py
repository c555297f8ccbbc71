"""jvp and linearize: forward-mode derivatives as a walk over a program.

Both are one walk. The program's tape is continued (variables keep their numbers), and every operation with an
active operand has its jvp rule called on tracers of that tape for the primals and tracers for the tangents. Where the
tangents live decides what the walk means:

* on the same tape: the result computes outputs and tangents together (`jvp_by_rules`);
* on a newer tape: whatever depends on primals only is recorded on the old tape, whatever touches a tangent on the new
  one, which is linear by construction; what it captures are the residuals (`linearize_by_rules`). This is partial
  evaluation, and needs no more code than Note [Newest recording wins].

A primitive that holds programs is replaced on the way (`Joint`): its outputs come from a new operation that gives the
residuals too. From the first such operation on, the tape is therefore not continued in bulk but operation by operation.
So is the tape of a program on large arrays, from its start: what an operation adds, tangents or residuals, then stands
right behind it, so that values die early. (``jvp`` of a loop of 400 steps on 2 MB needs 10 MB so, and 806 with all primals
ahead of the tangents; the forward part of 100 layers of ``maximum(x, 0)``, which keeps bools, 55 MB and 203.)

Activity is static: an operand is active if it depends on an active input through operations with derivatives. Rules
are never called for inactive operations, and no zeros stand in data.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.parts import restrict
from functrace.ir.primitive import CONSTANT, INPUT, LINEAR, ZERO, Absent, Joint
from functrace.ir.program import Program
from functrace.ops.shaping import broadcast_to, convert
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value

LARGEST_IN_BULK = 1 << 16
"""Bytes of the largest value in a program whose tape is continued in bulk: there, time is what counts."""


def is_differentiable(aval: ShapeDtype) -> bool:
    """Whether values of this aval carry derivatives (floats and complex numbers do)."""
    return aval.dtype.kind in "fc"


def match_tangent(tangent: Value, aval: ShapeDtype) -> Any:
    """Broadcast and cast a tangent to the aval of its variable: the one place where forward mode cares."""
    if getattr(tangent, "aval", None) is aval:
        return tangent
    if shape_of(tangent) != aval.shape:
        tangent = broadcast_to(tangent, aval.shape)
    return convert(tangent, aval.dtype)


@final
class Walk:
    """A program that is walked forward, and the tape that continues it.

    Args:
        program: what is walked.
        transform: for messages, e.g. ``"jvp"``.
        count: how many of the outputs are differentiated.
    """

    __slots__ = ("count", "known", "moved", "program", "tangents")

    def __init__(self, program: Program, transform: str, count: int | None = None) -> None:
        self.program, self.count = program, count
        self.known = known = Recording(f"{transform} of {program.name}", keeps_source=False)
        self.tangents: dict[int, Any] = {}
        """Tangent by variable of the program, for the active ones."""
        ops = program.ops
        known.literals = list(program.literals)
        alone = len(ops) - len(program.input_ids) < 2  # one operation: there is no order of operations to choose
        small = alone or all(aval.nbytes <= LARGEST_IN_BULK for aval in set(program.avals))
        first = next((k for k, op in enumerate(ops) if type(op[0].jvp) is Joint), len(ops)) if small else 0
        if first < len(ops):  # inputs may stand behind what reads them; they get other numbers then
            first = next((k for k, op in enumerate(ops[:first]) if max(op[1], default=-1) >= first), first)
        known.begin(program.columns.upto(first), program.avals[:first])
        known.origins = list(range(first))
        known.constants = dict(program.constant_values)
        self.moved: Any = range(len(ops))
        """Where a variable of the program stands on the tape."""
        if first < len(ops):
            self.moved = dict(zip(range(first), range(first), strict=True))
            for k in range(first, len(ops)):
                if ops[k][0] is INPUT or ops[k][0] is CONSTANT:
                    self._place(k)
            known.constants = {self.moved[i]: value for i, value in program.constant_values.items()}
        known.inputs = [self.moved[i] for i in program.input_ids]

    @property
    def outputs(self) -> list[int]:
        """The program's outputs on the tape."""
        return [self.moved[i] for i in self.program.output_ids]

    def push(self, made_on: Recording) -> None:
        """Walk, from tangents of inputs to tangents of all active variables.

        Args:
            made_on: the recording that receives the operations on tangents (``known`` itself for jvp).
        """
        program, known, tangents = self.program, self.known, self.tangents
        moved: Any = self.moved  # a range, until the tape is continued operation by operation
        ops, avals, literals = program.ops, program.avals, program.literals
        handles: dict[int, Any] = {}
        active, unmoved = tangents.get, tangents.keys().isdisjoint
        known_ops, known_origins = known.primitives, known.origins
        linear_ops, linear_origins = made_on.primitives, made_on.origins
        bulk = type(moved) is range
        auxiliary = self._auxiliary()

        def primal(i: int) -> Any:
            if i < 0:
                return literals[~i]
            found = handles.get(i)
            if found is None:
                found = handles[i] = known.handle(moved[i])
            return found

        for k, _ in program.schedule:
            primitive, operands, params = ops[k]
            rule = primitive.jvp
            if rule is ZERO or unmoved(operands) or k in auxiliary:
                if not bulk and k not in moved:
                    self._place(k)
                continue
            if not bulk and k not in moved and type(rule) is not Joint:
                self._place(k)
            count = program.result_count(k) if primitive.many else 1
            if not is_differentiable(avals[k]) and not any(is_differentiable(a) for a in avals[k + 1 : k + count]):
                if not bulk and k not in moved:
                    self._place(k)
                continue
            if isinstance(rule, Absent):
                raise NotDifferentiableError(rule.because, at=program.source(k), fix=rule.instead)
            dots = tuple([active(i) for i in operands])
            if rule is LINEAR:
                values = tuple([primal(i) if t is None else t for i, t in zip(operands, dots, strict=True)])
                results = bind(primitive, values, params)
            elif isinstance(rule, Joint):
                chosen = rule.jvp if made_on is known else rule.linearize
                outputs, results = chosen(tuple([primal(i) for i in operands]), dots, *params)
                for j, value in enumerate(outputs, k):
                    moved[j] = operand_of(known, value, avals[j])  # type: ignore[index]
                results = [t if is_differentiable(avals[j]) else None for j, t in enumerate(results, k)]
            else:
                outputs = (primal(k),) if count == 1 else tuple(primal(j) for j in range(k, k + count))
                results = rule(tuple([primal(i) for i in operands]), outputs, dots, *params)
            for j, tangent in enumerate(results if primitive.many else (results,), k):
                if tangent is not None:
                    aval = avals[j]
                    if getattr(tangent, "aval", None) is aval:
                        tangents[j] = tangent
                    elif is_differentiable(aval) and (isinstance(tangent, Tracer) or np.any(tangent)):
                        found = match_tangent(tangent, aval)  # a rule of the user's may return a plain array
                        tangents[j] = (
                            found if isinstance(found, Tracer) else made_on.handle(operand_of(made_on, found, aval))
                        )
            missing = len(known_ops) - len(known_origins)
            if missing:
                known_origins.extend([k] * missing)
            missing = len(linear_ops) - len(linear_origins)
            if missing:
                linear_origins.extend([k] * missing)

    def _auxiliary(self) -> frozenset[int]:
        """The operations that no differentiated output depends on: they have no tangents."""
        program = self.program
        if self.count is None or self.count == len(program.output_ids):
            return frozenset()
        kept = Program(program.ops, program.avals, program.literals, (), {}, program.output_ids[: self.count])
        return frozenset([k for k, _ in program.schedule]).difference([k for k, _ in kept.schedule])

    def _place(self, k: int) -> None:
        """Copy an operation to the end of the tape."""
        program, known, moved = self.program, self.known, self.moved
        primitive, operands, params = program.ops[k]
        first = len(known.primitives)
        placed = tuple([moved[i] if i >= 0 else i for i in operands])
        if not primitive.many:
            known.write(primitive, placed, params, program.avals[k])
            known.origins.append(k)
            moved[k] = first
            return
        count = program.result_count(k)
        known.entries(primitive, placed, params, program.avals[k : k + count])
        known.origins.extend([k] * count)
        for j in range(count):
            moved[k + j] = first + j


def attribute(recording: Recording, origin: int) -> None:
    """Note that the operations added since the last call came from variable ``origin`` of the walked program."""
    origins = recording.origins
    missing = len(recording.primitives) - len(origins)
    if missing:
        origins.extend([origin] * missing)


def finish(recording: Recording, outputs: Sequence[int], program: Program, name: str) -> Program:
    """Freeze a transform's recording; operations point at the lines that they came from."""
    origins = recording.origins
    positions = program.positions
    made = Program.from_builder(
        recording,
        outputs,
        name=name,
        input_names=program.input_names,
        positions=[positions[o] if 0 <= o < len(positions) else None for o in origins],
    )
    recording.close()
    return made


def operand_of(recording: Recording, value: Value | None, aval: ShapeDtype) -> int:
    """The variable that an output stands in; a plain number becomes a constant."""
    variable, _ = recording.operand(match_tangent(value, aval) if value is not None else np.zeros(aval.shape, aval.dtype))
    return variable if variable >= 0 else recording.capture(np.asarray(recording.literals[~variable], aval.dtype))


def remembered(transform: Callable[..., Any], program: Program, *flags: Sequence[bool] | int | None) -> Any:
    """Return what a transform makes of a program, made once.

    A rule may need the same form of a program that it holds more than once; if every level of nested programs made it
    anew, the time would be exponential in their depth.
    """
    key = (transform, *[f if f is None or isinstance(f, int) else tuple(f) for f in flags])
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = transform(program, *flags)
    return found


def jvp_by_rules(program: Program, active: Sequence[bool] | None, count: int | None) -> Program:
    """Return what `functrace.transforms.pushforward.jvp_program` does, by the rules."""
    walk = Walk(program, "jvp", count)
    known = walk.known
    for variable in active_inputs(program, active):
        walk.tangents[variable] = known.new_input(program.avals[variable])
    walk.push(known)
    outs = [operand_of(known, walk.tangents.get(i), program.avals[i]) for i in program.output_ids[:count]]
    return finish(known, (*walk.outputs, *outs), program, f"jvp_of_{program.name}")


def linearize_by_rules(
    program: Program, active: Sequence[bool] | None = None, count: int | None = None
) -> tuple[Program, Program]:
    """Return what `functrace.transforms.pushforward.linearize_program` does, by the rules."""
    walk, linear = split_linear(program, active, count)
    outs = [operand_of(linear, walk.tangents.get(i), program.avals[i]) for i in program.output_ids[:count]]
    residuals = take_residuals(linear)
    forward = finish(walk.known, (*walk.outputs, *residuals), program, f"forward_of_{program.name}")
    return forward, finish(linear, outs, program, f"linear_of_{program.name}")


def split_linear(program: Program, active: Sequence[bool] | None, count: int | None = None) -> tuple[Walk, Recording]:
    """Run the walk with tangents on a newer recording; returns the walk and that recording."""
    walk = Walk(program, "linearize", count)
    linear = Recording(f"linearize of {program.name}", keeps_source=False)
    for variable in active_inputs(program, active):
        walk.tangents[variable] = linear.new_input(program.avals[variable])
    walk.push(linear)
    return walk, linear


class Split(NamedTuple):
    """What `split_program` returns, for rules of primitives that hold programs.

    Args:
        forward: the program with more outputs: the residuals that are not inputs or outputs of it already.
        linear: from residuals and tangents of active inputs to the tangents of the active outputs.
        sources: where each residual comes from: ``("input", place)``, ``("output", place)``, ``("new", place)``.
        active: which outputs have tangents.
    """

    forward: Program
    linear: Program
    sources: tuple[tuple[str, int], ...]
    active: tuple[bool, ...]


def split_program(program: Program, active: Sequence[bool], needed: Sequence[bool] | None = None) -> Split:
    """Split a program into a forward program and a linear one, without what passes straight through.

    Args:
        program: the program.
        active: one flag per input.
        needed: one flag per output: whether it has a tangent in any case, if only zeros.
    """
    return remembered(_split_program, program, active, needed)


def _split_program(program: Program, active: Sequence[bool], needed: Sequence[bool] | None) -> Split:
    walk, linear = split_linear(program, active)
    wanted = [False] * len(program.output_ids) if needed is None else needed
    flags = tuple([i in walk.tangents or flag for i, flag in zip(program.output_ids, wanted, strict=True)])
    moved = [i for i, flag in zip(program.output_ids, flags, strict=True) if flag]
    outs = [operand_of(linear, walk.tangents.get(i), program.avals[i]) for i in moved]
    places: dict[int, tuple[str, int]] = {}
    for word, variables in (("input", [walk.moved[i] for i in program.input_ids]), ("output", walk.outputs)):
        for place, i in enumerate(variables):
            places.setdefault(i, (word, place))
    new: list[int] = []
    sources: list[tuple[str, int]] = []
    for i in take_residuals(linear):
        if i not in places:
            places[i] = ("new", len(new))
            new.append(i)
        sources.append(places[i])
    forward = finish(walk.known, (*walk.outputs, *new), program, f"forward_of_{program.name}")
    return Split(forward, finish(linear, outs, program, f"linear_of_{program.name}"), tuple(sources), flags)


def as_differentiated(program: Program, active: Sequence[bool]) -> Program:
    """Return the program that computes the outputs as they are computed where it is differentiated.

    That is another one if it holds functions with rules of their own: their results are then those of the rules, whose
    derivatives may be others than the rules say of the function.

    Args:
        program: the program.
        active: one flag per input.
    """
    return remembered(_as_differentiated, program, active) if program.has_rules else program


def _as_differentiated(program: Program, active: Sequence[bool]) -> Program:
    forward = split_program(program, active).forward
    return restrict(forward, forward.input_ids, forward.output_ids[: len(program.output_ids)], keep=True).program


def take_residuals(linear: Recording) -> list[int]:
    """Make what the linear recording captured of the other one its first inputs; returns the variables captured."""
    captured = [k for k, value in linear.constants.items() if isinstance(value, Tracer)]
    residuals = [linear.constants.pop(k)._id for k in captured]
    linear.inputs = [*captured, *linear.inputs]
    return residuals


def active_inputs(program: Program, active: Sequence[bool] | None) -> list[int]:
    """The input variables that carry derivatives."""
    if active is None:
        return [i for i in program.input_ids if is_differentiable(program.avals[i])]
    return [i for i, flag in zip(program.input_ids, active, strict=True) if flag]
