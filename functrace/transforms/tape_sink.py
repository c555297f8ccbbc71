"""`TapeSink`: the differentiation walks write a tape, from which programs are made.

Residuals of an operation, and its tangents where primals and tangents share a tape, directly follow
the operation, so that values are freed early. (``jvp`` of a loop of 400 steps on 2 MB then needs 10
MB, and 806 MB with all primals before all tangents.)

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from functrace.ir.aval import Constant, ShapeDtype
from functrace.ir.primitive import CONSTANT, ZERO, Primitive, ReplacingJvp
from functrace.ir.program import Program
from functrace.ir.tape import Operands, Params
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import add as add_p
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.building import (
    attribute,
    is_differentiable,
    operand_of,
    reverse_origin,
)
from functrace.transforms.rules import tangent_variable, tangents_by_rule
from functrace.transforms.templates import Template, TemplateOperation
from functrace.transforms.transpose import linear_variables, match_cotangent, pull_cotangents
from functrace.transforms.walk import ForwardWalk, RuleRange


@final
class TapeSink:
    """A sink that is a tape; see the module docstring.

    Args:
        program: the program that is walked.
        transform: name for messages, e.g. ``"jvp"``.
        pushes: True to push tangents forward; otherwise only the inputs of the reverse pass are
            written. splits: True to record tangents, or cotangents, on a second tape, which
            captures residuals.

    Attributes:
        known: the tape of the program's operations.
        second: the tape of tangents, or cotangents.
        splits: see above.
        moved: by variable of the program, its place.
    """

    takes_tracers = True
    __slots__ = (
        "_handles",
        "_linear",
        "_linear_set",
        "_pushes",
        "known",
        "moved",
        "program",
        "second",
        "splits",
    )

    def __init__(self, program: Program, transform: str, *, pushes: bool, splits: bool) -> None:
        self.program, self._pushes, self.splits = program, pushes, splits
        self.known = known = ArrayRecording(f"{transform} of {program.name}", keeps_source=False)
        known.literals = list(program.literals)
        self.moved: list[int] = [-1] * len(program.avals)
        for i in program.input_ids:
            self.moved[i] = known.input(program.avals[i])
        for i, value in program.constant_values.items():
            self.moved[i] = known.constant(value, program.avals[i])
        known.origins.extend([-1] * len(known.primitives))
        self.second = (
            ArrayRecording(f"{transform} of {program.name}", keeps_source=False)
            if splits
            else known
        )
        self._linear = (
            self.second
            if pushes
            else ArrayRecording(f"linear part of {program.name}", keeps_source=False)
        )
        """The tape on which rules record tangents."""
        self._linear_set: set[int] | None = None
        self._handles: dict[int, Tracer] = {}

    @property
    def outputs(self) -> list[int]:
        """The places of the program's outputs."""
        return [self.moved[i] for i in self.program.output_ids]

    def place(self, i: int) -> int:
        """Return the place of a variable of the program."""
        return self.moved[i]

    def input(self, aval: ShapeDtype) -> int:
        """Add an input for a tangent or cotangent; return its place."""
        place = self.second.input(aval)
        self.second.origins.append(-1)
        return place

    def constant(self, value: Constant, aval: ShapeDtype) -> int:
        """Add a constant among tangents or cotangents; returns its place."""
        place = self.second.constant(value, aval)
        self.second.origins.append(-1)
        return place

    def zeros(self, aval: ShapeDtype) -> int:
        """Add zeros among tangents or cotangents; returns their place."""
        return self.constant(np.zeros(aval.shape, aval.dtype)[()], aval)

    def close(self) -> None:
        """End the tapes from which no program is made."""
        if self._linear is not self.second:
            self._linear.close()

    # -- forward -------------------------------------------------------------------------------

    def begin(self, walked: ForwardWalk) -> None:
        """Add an input for the tangent of each active input, in forward mode."""
        if self._pushes:
            for i in self.program.input_ids:
                if walked.active[i]:
                    walked.tangents[i] = self.input(self.program.avals[i])

    def order(self, program: Program) -> Sequence[int]:
        """Return the live operations, in order."""
        return [k for k, _ in program.schedule]

    def own(self, k: int, primitive: Primitive, operands: Operands, params: Params) -> None:
        """Write an operation of the program."""
        known, moved, avals = self.known, self.moved, self.program.avals
        first = len(known.primitives)
        placed = tuple([moved[i] if i >= 0 else i for i in operands])
        if not primitive.many:
            moved[k] = first
            known.primitives.append(primitive)  # `Builder.write`, inlined
            known.operands.append(placed)
            known.params.append(params)
            known.avals.append(avals[k])
            known.origins.append(k)
            return
        count = self.program.result_count(k)
        known.entries(primitive, placed, params, avals[k : k + count])
        known.origins.extend([k] * count)
        moved[k : k + count] = range(first, first + count)

    def derived(self, k: int, template: Template, walked: ForwardWalk) -> list[int]:
        """Write an operation with a template, its residuals and, in forward mode, its tangent."""
        columns, moved = self.program.columns, self.moved
        operands = columns.operands[k]
        self.own(k, columns.primitives[k], operands, columns.params[k])
        slots = [*[moved[i] if i >= 0 else i for i in operands], moved[k], -1]
        if template.ahead:
            self._replay(self.known, template, template.pieces[: template.ahead], 0, slots, k)
        if not self._pushes:
            return slots
        read = [*slots]
        if self.splits:
            for slot in template.captured:
                read[slot] = self._captured(slots[slot])
        read += [walked.tangents.get(walked.roots[i], -1) if i >= 0 else -1 for i in operands]
        self._replay(self.second, template, template.pushing, 0, read, k)
        walked.tangents[k] = read[template.tangent]
        return slots

    def by_rule(self, k: int, walked: ForwardWalk) -> RuleRange | None:
        """Write an operation and its derivative by its rule."""
        program, known, linear, moved = self.program, self.known, self._linear, self.moved
        primitive, operands, params = program.ops[k]
        count = program.result_count(k) if primitive.many else 1
        avals = program.avals[k : k + count]
        has_derivative = primitive.jvp is not ZERO and any(map(is_differentiable, avals))
        if type(primitive.jvp) is not ReplacingJvp or not has_derivative:
            self.own(k, primitive, operands, params)
        if not has_derivative:
            return None
        begin = len(linear.primitives)
        replaced, tangents = tangents_by_rule(
            primitive,
            tuple(map(self._primal, operands)),
            lambda: tuple([known.handle(moved[j]) for j in range(k, k + count)]),
            tuple([self._tangent(i, walked) for i in operands]),
            params,
            together=linear is known,
            at=lambda: program.source(k),
        )
        if replaced is not None:
            for j, value in enumerate(replaced, k):
                moved[j] = operand_of(known, value, program.avals[j])
        roots = {walked.roots[i] for i in operands if i >= 0 and walked.active[i]}
        roots_of = {walked.tangents[root]: root for root in roots}
        starts = dict(roots_of)
        ends: dict[int, int] = {}
        for j, tangent in enumerate(tangents, k):
            found = tangent_variable(linear, tangent, program.avals[j])
            if found is None:
                continue
            walked.active[j] = 1
            if self._pushes:
                walked.tangents[j] = found
            elif found in roots_of:  # the tangent of an operand, or of another result
                walked.roots[j] = roots_of[found]
            else:
                roots_of[found] = j
                ends[j] = walked.tangents[j] = found
        attribute(known, k)
        attribute(linear, k)
        return RuleRange(begin, len(linear.primitives), ends, starts) if ends else None

    def _primal(self, i: int) -> Any:
        """Return an operand for a rule; equal values have the same tracer."""
        if i < 0:
            return self.program.literals[~i]
        found = self._handles.get(i)
        if found is None:
            found = self._handles[i] = self.known.handle(self.moved[i])
        return found

    def _tangent(self, i: int, walked: ForwardWalk) -> Tracer | None:
        """Return an operand's tangent for a rule; in reverse mode an input of the linear tape."""
        if i < 0 or not walked.active[i]:
            return None
        root = walked.roots[i]
        found = walked.tangents.get(root)
        if found is None:
            found = walked.tangents[root] = self._linear.input(self.program.avals[root])
            self._linear.origins.append(-1)
        return self._linear.handle(found)

    # -- backward ------------------------------------------------------------------------------

    def capture(self, template: Template, slots: list[int]) -> None:
        """Make the residuals of a template readable on the second tape."""
        for slot in template.read_behind:
            slots[slot] = self._captured(slots[slot])

    def replay(self, template: Template, first: int, end: int, slots: list[int], k: int) -> None:
        """Write some pieces of a template."""
        pieces = template.pieces[first:end]
        self._replay(self.second, template, pieces, first, slots, reverse_origin(k))

    def add(self, a: int, b: int, k: int) -> int:
        """Write the sum of two cotangents."""
        second = self.second
        second.write(add_p, (a, b), (), second.avals[a])
        second.origins.append(reverse_origin(k))
        return len(second.primitives) - 1

    def transpose(self, part: RuleRange, cotangents: list[int | None], k: int) -> None:
        """Transpose a range of the linear tape."""
        second, linear, avals = self.second, self._linear, self.program.avals
        given: dict[int, Any] = {}
        for j, variable in part.ends.items():
            cotangent = cotangents[j]
            if cotangent is not None:
                given[variable] = second.handle(cotangent)
                cotangents[j] = None
        if not given:
            return
        if self._linear_set is None:
            self._linear_set = linear_variables(linear.columns, linear.inputs)
        for variable, root in part.starts.items():
            cotangent = cotangents[root]
            if cotangent is not None:  # rules may add to it
                given[variable] = second.handle(cotangent)
                cotangents[root] = None
        captured, literals = linear.constants, linear.literals

        def value(i: int) -> Any:
            """Return a non-linear operand as a value on the tape of cotangents."""
            if i < 0:
                return literals[~i]
            found = captured[i]
            if self.splits and isinstance(found, Tracer) and found.ft_recording is self.known:
                return second.handle(self._captured(found.ft_variable))
            return found

        pull_cotangents(
            linear.columns,
            linear.avals,
            self._linear_set,
            value,
            given,
            second,
            linear.origins,
            begin=part.begin,
            end=part.end,
        )
        for variable, root in part.starts.items():
            if variable in given:
                cotangents[root] = operand_of(
                    second, match_cotangent(given[variable], avals[root]), avals[root]
                )
        attribute(second, reverse_origin(k))

    # -- pieces --------------------------------------------------------------------------------

    def _captured(self, place: int) -> int:
        """Return the variable that captures a value of the first tape on the second one."""
        if place < 0:
            return place
        found = self.second.capture(self.known.handle(place))
        attribute(self.second, -1)
        return found

    def _replay(
        self,
        tape: Recording,
        template: Template,
        pieces: Sequence[TemplateOperation],
        first: int,
        slots: list[int],
        origin: int,
    ) -> None:
        """Write pieces of a template to a tape."""
        literals, numbers = tape.literals, template.numbers
        for place, (primitive, operands, params, aval) in enumerate(pieces, first):
            variable = len(tape.primitives)
            slots.append(variable)
            if primitive is CONSTANT:
                tape.constants[variable] = template.constants[place]
            ids: list[int] = []
            for i in operands:
                if i >= 0:
                    ids.append(slots[i])
                else:
                    number = numbers[~i]
                    literals.append(
                        self.program.literals[~slots[number[0]]]
                        if isinstance(number, tuple)
                        else number
                    )
                    ids.append(-len(literals))
            tape.primitives.append(primitive)
            tape.operands.append(tuple(ids))
            tape.params.append(params)
            tape.avals.append(aval)
            tape.origins.append(origin)
