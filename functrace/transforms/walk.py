"""The walks of differentiation: `forward` over a program, and `backward` over its result.

    walked = forward(program, active, sink)        # writes operations and residuals, in order
    cotangents = backward(walked, seeds, sink)     # writes transposes, in reverse order

They write to a sink: a tape, which becomes a program (`functrace.transforms.tape_sink.TapeSink`),
or an instruction list, which runs immediately (`functrace.executor.interpreter.ListSink`). A
*place* is the index of a value in the sink.

Note [Template or rule]
    The derivative of most operations is a `Template`, which the walks replay. An operation without
    one calls its jvp rule on tracers: what the rule adds to a linear tape is a range of that tape
    (`RuleRange`), which `backward` transposes. The program is the same either way, operation by
    operation. Only a tape takes tracers, so an instruction list raises `NeedsTape`.

Note [Activity]
    Activity is static: an operand is active if it depends on an active input through operations
    with derivatives. Rules are never called for inactive operations, and there are no symbolic
    zeros. Where the tangent of a result *is* that of an operand (``x + 1``), both have one
    cotangent; `ForwardWalk.roots` says whose.

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

from functrace.ir.primitive import ZERO, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Operands, Params
from functrace.ir.walk import reachable
from functrace.keys import number_key
from functrace.transforms.templates import TEMPLATES, MissingTemplates, Template, key_of, note_use


class NeedsTape(Exception):
    """An operation has no template: its rule takes tracers of a tape."""


@final
class RuleRange(NamedTuple):
    """Range of the linear tape that the rule of one operation has recorded.

    Args:
        begin, end: the range.
        ends: by result of the operation that has a tangent of its own, the variable of that on the
            linear tape.
        starts: by variable of the linear tape that is the tangent of an operand, the root of the
            operand.
    """

    begin: int
    end: int
    ends: Mapping[int, int]
    starts: Mapping[int, int]


class Sink(Protocol):
    """The output of the walks."""

    @property
    def takes_tracers(self) -> bool:
        """True if rules can record to it."""
        ...

    @property
    def splits(self) -> bool:
        """True if tangents, or cotangents, are recorded on a second tape, which captures
        residuals.
        """
        ...

    def begin(self, walked: ForwardWalk) -> None:
        """Prepare for a forward walk."""
        ...

    def order(self, program: Program) -> Sequence[int]:
        """Return the operations to visit, in order, by their first result."""
        ...

    def own(self, k: int, primitive: Primitive, operands: Operands, params: Params) -> None:
        """Write an operation of the program."""
        ...

    def derived(self, k: int, template: Template, walked: ForwardWalk) -> list[int]:
        """Write an operation that has a template, with its residuals; in forward mode, push its
        tangent, too.

        Returns:
            the places of the template's slots so far: operands, result, -1 for the cotangent,
            residuals; see `functrace.transforms.templates.TemplateOperation`.
        """
        ...

    def by_rule(self, k: int, walked: ForwardWalk) -> RuleRange | None:
        """Write an operation and its derivative by its rule; ``None`` if no result of it has a
        tangent.

        Raises:
            NeedsTape: if this is no tape.
        """
        ...

    def capture(self, template: Template, slots: list[int]) -> None:
        """Capture the residuals of a template on the tape of cotangents; called if `splits` is
        true.
        """
        ...

    def replay(self, template: Template, first: int, end: int, slots: list[int], k: int) -> None:
        """Write some pieces of a template, and add their places to the slots."""
        ...

    def add(self, a: int, b: int, k: int) -> int:
        """Write the sum of two cotangents; returns its place."""
        ...

    def transpose(self, part: RuleRange, cotangents: list[int | None], k: int) -> None:
        """Transpose a range of the linear tape: from cotangents of its ends to those of
        its starts.
        """
        ...


@final
class ForwardWalk:
    """Result of `forward`, the input of `backward`.

    Args:
        program: what was walked.
        active: one flag per input: True if it carries derivatives.
    """

    __slots__ = ("active", "program", "roots", "slots", "steps", "tangents")

    def __init__(self, program: Program, active: Sequence[bool]) -> None:
        count = len(program.avals)
        self.program = program
        self.active = bytearray(
            count + len(program.literals)
        )  # literals are at the end, in reverse order
        """Flags by variable: 1 if it is active."""
        for i, flag in zip(program.input_ids, active, strict=True):
            self.active[i] = flag
        self.roots = list(range(count))
        """Variable that has the same cotangent, by variable; see Note [Activity]."""
        self.steps: list[Template | RuleRange | None] = [None] * count
        """Derivatives by operation."""
        self.slots: list[list[int]] = [[]] * count
        """Places of the slots, by operation with a template."""
        self.tangents: dict[int, int] = {}
        """Variables of tangents by root: in forward mode, and for operands that rules have read."""


def auxiliary_operations(program: Program, count: int | None) -> frozenset[int]:
    """Return the operations that none of the first ``count`` outputs depends on: these carry no
    derivatives.
    """
    if count is None or count >= len(program.output_ids):
        return frozenset()
    needed = [k for k, _ in reachable(program.columns, program.output_ids[:count])]
    return frozenset([k for k, _ in program.schedule]).difference(needed)


def forward(
    program: Program,
    active: Sequence[bool],
    sink: Sink,
    count: int | None = None,
    *,
    by_rules: bool = False,
) -> ForwardWalk:
    """Walk a program forwards; see the module.

    Args:
        program: the program.
        active: one flag per input: True if it carries derivatives.
        sink: where to write.
        count: how many of the outputs, from the first on, are differentiated; by default all.
        by_rules: True to call all rules, and use no templates.

    Raises:
        NotDifferentiableError: if an operation has no derivative.
        NeedsTape: from an instruction list.

    Cost:
        about 1.5 us per operation; 7 where the rule is called.
    """
    walked = ForwardWalk(program, active)
    sink.begin(walked)
    columns, avals, literals = program.columns, program.avals, program.literals
    primitives, operands_of, params_of = columns.primitives, columns.operands, columns.params
    flags, roots, steps, slots = walked.active, walked.roots, walked.steps, walked.slots
    own, derived, known = (
        sink.own,
        sink.derived,
        dict[Any, Template]() if by_rules else TEMPLATES.entries,
    )
    auxiliary = auxiliary_operations(program, count)
    missing = MissingTemplates(len(avals), by_rules=by_rules, calls_rules=sink.takes_tracers)
    used: set[Template] = set()
    for k in sink.order(program):
        primitive, operands, params = primitives[k], operands_of[k], params_of[k]
        arity = len(operands)
        if arity == 1:
            (i,) = operands
            if not flags[i] or k in auxiliary:
                own(k, primitive, operands, params)
                continue
            key: Any = (primitive, (avals[i],), params, 1)
        elif arity == 2:
            i, j = operands
            mask = flags[i] + 2 * flags[j]
            if not mask or k in auxiliary:
                own(k, primitive, operands, params)
                continue
            if i < 0 or j < 0:
                if primitive.jvp is ZERO:
                    own(k, primitive, operands, params)
                    continue
                number = literals[~i if i < 0 else ~j]
                kind = number.__class__
                key = (primitive, (kind, avals[j]) if i < 0 else (avals[i], kind), params, mask)
                if not primitive.blind or kind is bool:
                    key = (*key, number_key(number))
            else:
                key = (primitive, (avals[i], avals[j]), params, mask if i != j else 7)
        else:
            mask = tuple([flags[i] for i in operands])
            if 1 not in mask or primitive.jvp is ZERO or k in auxiliary:
                own(k, primitive, operands, params)
                continue
            key = key_of(primitive, operands, params, mask, program)
        template = known.get(key) or missing.template(key)
        if template is None or not template.exists:
            steps[k] = sink.by_rule(k, walked)
            continue
        used.add(template)
        if not template.moves:
            own(k, primitive, operands, params)
            continue
        flags[k] = 1
        if template.alias >= 0:
            own(k, primitive, operands, params)
            roots[k] = roots[operands[template.alias]]
        else:
            steps[k], slots[k] = template, derived(k, template, walked)
    note_use(used)
    return walked


def backward(walked: ForwardWalk, seeds: Sequence[tuple[int, int]], sink: Sink) -> list[int | None]:
    """Walk backwards; see the module.

    Args:
        walked: what `forward` has left.
        seeds: variables and their cotangents, to begin with.
        sink: where to write.

    Returns:
        the cotangents that have not been consumed, by variable: those of inputs.

    Cost:
        about 1 us per operation with a derivative; 4 where it has no template.
    """
    roots, steps, slots_of, operands_of = (
        walked.roots,
        walked.steps,
        walked.slots,
        walked.program.columns.operands,
    )
    cotangents: list[int | None] = [None] * len(steps)
    for i, seed in seeds:
        before = cotangents[roots[i]]
        cotangents[roots[i]] = seed if before is None else sink.add(before, seed, -1)
    replay, add, splits = sink.replay, sink.add, sink.splits
    for k in range(len(steps) - 1, -1, -1):
        step = steps[k]
        if step is None:
            continue
        if type(step) is RuleRange:
            sink.transpose(step, cotangents, k)
            continue
        cotangent = cotangents[k]
        if cotangent is None:
            continue
        operands, slots = operands_of[k], slots_of[k]
        cotangents[k] = steps[k] = None
        if splits:
            sink.capture(step, slots)
        slots[len(operands) + 1] = cotangent
        written = step.ahead
        for place, slot, length in step.contributions:
            if length > written:
                replay(step, written, length, slots, k)
                written = length
            i, found = roots[operands[place]], slots[slot]
            before = cotangents[i]
            cotangents[i] = found if before is None else add(before, found, k)
        if written < len(step.pieces):
            replay(step, written, len(step.pieces), slots, k)
    return cotangents
