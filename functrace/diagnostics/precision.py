"""Measure the digits that each operation of a program loses, against a reference with more digits.

Floating-point values are evaluated three times side by side: in their own dtype, and in the two
arithmetics of a `Reference`. Such a value is a structured array with the fields ``value``,
``first``, ``second`` and ``error``, which loops and branches move like any other array. Decisions
(comparisons, integers, rounding to integers) are those of the program's own dtype, so that all
three take the same branches and steps.

An operation that a reference does not have is linearized: its reference is the operation's own
result plus its derivative times the errors of its operands. The rounding of the operation itself is
then not measured.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from functrace.diagnostics.arithmetic import Arithmetic
from functrace.diagnostics.digits import digits_lost, digits_of, is_inexact, rounding, smallest
from functrace.diagnostics.frames import Frame, Mask, bodies_of, evaluate_frame, run_steps
from functrace.diagnostics.origins import trace_back
from functrace.diagnostics.reasons import partial_at
from functrace.diagnostics.references import Reference, reference_of
from functrace.errors import FunctraceError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly
from functrace.ir.primitive import ZERO, ReplacingJvp, RuleMarker
from functrace.ir.program import Position, Program
from functrace.ops.broadcasting import Elementwise
from functrace.ops.elementwise import sign
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import convert_p
from functrace.passes.stable_forms import StableForm, stable_forms
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms.derivatives import jvp_program
from functrace.typing import Array

FOLLOWED = 4.0
"""Errors of as many roundings are followed from a result to the operation that made them."""


def is_compared(x: object) -> bool:
    """Return True for a value with its references."""
    return isinstance(x, np.ndarray | np.void) and x.dtype.names is not None


class Stored(NamedTuple):
    """Shape and dtype of arrays that hold values with their references."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@final
@dataclass(eq=False, slots=True)
class Measurement:
    """The run of an operation in which an element lost most digits.

    Args:
        frame: the run of its program.
        k: the operation.
        result: variable of the result.
        lost: decimal digits that the element lost in the operation.
        error: relative error of the element.
        before: largest relative error of the elements that it was made from.
        index: its index.
        value: the element.
        reference: the element of the reference, as text.
        condition: condition number of the operation there; NaN if it is not known.
        runs: how many times the operation ran.
        is_doubtful: True if the two arithmetics of the reference disagree: all digits may be lost.
    """

    frame: Frame
    k: int
    result: int
    lost: float
    error: float
    before: float
    index: tuple[int, ...]
    value: Any
    reference: str
    condition: float
    runs: int = 1
    is_doubtful: bool = False


@final
class Comparison:
    """A run of a program, compared with a reference.

    Args:
        reference: the reference.

    Attributes:
        frame: the run of the program.
        measured: by program and operation, the run that lost most digits.
        unmeasured: operations whose own rounding is not measured, likewise.
        unfollowed: operations without a derivative, of operands with errors, likewise.
        reached: operations whose errors reach a result of their own program.
        is_short: True if more digits of the reference may change an error.
    """

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.measured: dict[tuple[Program, int], Measurement] = {}
        self.unmeasured: dict[tuple[Program, int], Frame] = {}
        self.unfollowed: dict[tuple[Program, int], Frame] = {}
        self.reached: set[tuple[Program, int]] = set()
        self.forms: dict[Program, dict[int, StableForm]] = {}
        self.is_short = False
        self.frame: Frame | None = None

    def run(self, program: Program, arguments: Sequence[Any], lines: Sequence[Position]) -> Frame:
        """Evaluate a program."""
        frame = evaluate_frame(program, arguments, lines, apply=self.apply)
        for i in program.output_ids:
            frame.values[i] = self._lifted(frame.values[i])
        self._follow(frame)
        self.frame = frame
        return frame

    # -- values with references --------------------------------------------------------------------

    def _dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        first, second = self.reference.first, self.reference.second
        return np.dtype(
            [("value", dtype), ("first", first.dtype(dtype)), ("second", second.dtype(dtype)),
             ("error", np.float64)]
        )  # fmt: skip

    def _stored(self, aval: ShapeDtype) -> Any:
        """Return the shape and dtype of arrays for values of an aval."""
        return Stored(aval.shape, self._dtype(aval.dtype)) if is_inexact(aval.dtype) else aval

    def _lifted(self, x: Array) -> Any:
        """Return an exact floating value with its references; other values as they are."""
        if is_compared(x) or not isinstance(x, np.ndarray | np.generic | float | complex):
            return x
        array = np.asarray(x)
        if not is_inexact(array.dtype):
            return x
        references = [a.lift(array) for a in (self.reference.first, self.reference.second)]
        return self._joined(array, references)

    def _joined(self, value: Array, references: Sequence[Any]) -> Any:
        value = np.asarray(value)
        made = np.empty(value.shape, self._dtype(value.dtype))
        made["value"] = value
        for name, x in zip(("first", "second"), references, strict=True):
            made[name] = x
        tiny = smallest(np.dtype(np.float32) if value.dtype.kind == "V" else value.dtype)
        first, second = self.reference.first, self.reference.second
        made["error"] = second.error(value, made["second"], tiny)
        if np.any(second.error(made["first"], made["second"], tiny) > rounding(value.dtype)):
            self.is_short = True
            made["error"] = np.maximum(made["error"], first.error(value, made["first"], tiny))
        return made

    # -- operations --------------------------------------------------------------------------------

    def apply(self, frame: Frame, k: int) -> Any:
        """Evaluate an operation in all arithmetics, and measure the digits that it loses."""
        primitive, operands, params = frame.program.ops[k]
        bodies = bodies_of(frame, k)
        for i in operands:
            if i >= 0:
                frame.values[i] = self._lifted(frame.values[i])
        if bodies is not None and not bodies.is_host:
            return run_steps(frame, k, bodies, self._follow, self.apply, self._stored)
        given = [frame.operand(i) for i in operands]
        plain = [_value(x) for x in given]
        found = primitive.eval(*plain, *params)
        results = tuple(found) if primitive.many else (found,)
        is_rounded = [
            isinstance(x, np.ndarray | np.generic) and is_inexact(x.dtype) for x in results
        ]
        if not any(is_rounded):
            return found
        joined = self._compared(frame, k, given, plain, results, is_rounded)
        for j, x in zip(frame.results(k), joined, strict=True):
            if is_compared(x):
                self._measure(frame, k, j, given, x)
        return tuple(joined) if primitive.many else joined[0]

    def _compared(
        self,
        frame: Frame,
        k: int,
        given: Sequence[Any],
        plain: Sequence[Any],
        results: tuple[Any, ...],
        is_rounded: Sequence[bool],
    ) -> list[Any]:
        primitive, _, params = frame.program.ops[k]
        is_computed = isinstance(primitive, Elementwise) or primitive is convert_p
        if primitive.jvp is ZERO or not (is_computed or any(map(is_compared, given))):
            return [self._lifted(x) for x in results]  # a decision, or random numbers
        is_complex = any(
            x.dtype.kind == "c" for x, flag in zip(results, is_rounded, strict=True) if flag
        )
        if primitive is sign and not is_complex:
            return [self._lifted(x) for x in results]
        references: list[tuple[Any, ...]] = []
        for name, arithmetic in self._arithmetics():
            operands = [x[name] if is_compared(x) else x for x in given]
            made = None
            if not primitive.effects and primitive.holds is None:
                made = arithmetic.apply(primitive, operands, params, is_complex=is_complex)
            if made is None:
                self.unmeasured.setdefault((frame.program, k), frame)
                made = self._linearized(frame, k, given, plain, results, name, arithmetic)
            references.append(made)
        return [
            self._joined(x, [made[n] for made in references]) if flag else x
            for n, (x, flag) in enumerate(zip(results, is_rounded, strict=True))
        ]

    def _arithmetics(self) -> tuple[tuple[str, Arithmetic], ...]:
        return ("first", self.reference.first), ("second", self.reference.second)

    def _linearized(
        self,
        frame: Frame,
        k: int,
        given: Sequence[Any],
        plain: Sequence[Any],
        results: tuple[Any, ...],
        name: str,
        arithmetic: Arithmetic,
    ) -> tuple[Any, ...]:
        """Return results plus their derivative times the errors of the operands."""
        lifted = [arithmetic.lift(x) if is_inexact(np.asarray(x).dtype) else x for x in results]
        changes = [
            arithmetic.narrow(x[name] - arithmetic.lift(x["value"])) if is_compared(x) else None
            for x in given
        ]
        if all(x is None or not np.any(x) for x in changes):
            return tuple(lifted)
        tangents = _pushed(frame.program, k, plain, changes)
        if tangents is None:
            if any(_marked(x) is not None for x in given):
                self.unfollowed.setdefault((frame.program, k), frame)
            return tuple(lifted)
        return tuple(
            [
                x + arithmetic.lift(t) if is_inexact(np.asarray(y).dtype) else x
                for x, t, y in zip(lifted, tangents, results, strict=True)
            ]
        )

    # -- measurements ------------------------------------------------------------------------------

    def _measure(self, frame: Frame, k: int, result: int, given: Sequence[Any], x: Array) -> None:
        """Keep the run of an operation in which an element loses most digits."""
        errors, dtype = np.asarray(x["error"]), x["value"].dtype
        if not errors.size:
            return
        errors = np.where(frame.of_takers(np.ones(errors.shape, bool)), errors, 0.0)
        primitive = frame.program.ops[k][0]
        befores = [np.asarray(y["error"]) for y in given if is_compared(y) and y["error"].size]
        before: Any = np.zeros(errors.shape)
        for y in befores:
            is_like = isinstance(primitive, Elementwise)
            before = np.maximum(before, y if is_like else y.max())
        lost = digits_lost(errors, dtype) - digits_lost(before, dtype)
        rank = np.asarray(lost + 1e-3 * digits_lost(errors, dtype))
        index = np.unravel_index(int(np.argmax(rank)), errors.shape)
        worst, kept = float(lost[index]), self.measured.get((frame.program, k))
        if kept is not None:
            kept.runs += 1
            if worst <= kept.lost:
                return
        at = tuple([int(n) for n in index])
        second = np.asarray(x["second"])
        doubt = self.reference.second.error(np.asarray(x["first"])[index], second[index], 0.0)
        self.measured[frame.program, k] = Measurement(
            frame, k, result, worst, float(errors[index]), float(np.broadcast_to(before, errors.shape)[index]),
            at, np.asarray(x["value"])[index],
            self.reference.second.text(second[index], 1 + int(digits_of(dtype))),
            self._condition(frame, k, given, x, at) if worst >= 0.5 else float("nan"),
            1 if kept is None else kept.runs,
            bool(np.any(doubt > rounding(dtype))),
        )  # fmt: skip

    def _condition(
        self, frame: Frame, k: int, given: Sequence[Any], x: Array, index: tuple[int, ...]
    ) -> float:
        """Return the condition number of an operation at an element: the sum of
        ``|dy/dx * x / y|`` over its operands."""
        primitive, second = frame.program.ops[k][0], self.reference.second
        narrow = second.narrow
        with np.errstate(all="ignore"):
            if primitive is reduce_sum_p:
                (axes,) = frame.program.ops[k][2]
                total = np.add.reduce(np.abs(narrow(given[0]["second"])), axis=axes)
                return float(np.asarray(total)[index] / abs(narrow(x["second"][index])))
            if not isinstance(primitive, Elementwise) or isinstance(
                primitive.jvp, RuleMarker | ReplacingJvp
            ):
                return float("nan")
            shape = np.shape(x["value"])
            at = [
                narrow(np.broadcast_to(y["second"], shape)[index]) if is_compared(y)
                else np.broadcast_to(y, shape)[index] if isinstance(y, np.ndarray) else y
                for y in given
            ]  # fmt: skip
            output = narrow(x["second"][index])
            total = 0.0
            for place, y in enumerate(given):
                if not is_compared(y):
                    continue
                try:
                    slope = partial_at(primitive, at, output, place)
                except FunctraceError:  # no derivative by this operand
                    return float("nan")
                total += 0.0 if slope is None else float(abs(slope * at[place] / output))
            return total

    def _follow(self, frame: Frame) -> None:
        """Note the operations whose errors reach a result of a program."""
        start: dict[int, Mask] = {}
        for i in frame.program.output_ids:
            mask = _marked(frame.values[i])
            if mask is not None and (kept := frame.of_takers(mask)).any():
                start[i] = kept
        self.reached.update([(frame.program, k) for k in trace_back(frame, start, _marked).reached])

    def reaches_result(self, kept: Measurement) -> bool:
        """Return True if the errors of an operation reach a result of the program."""
        at: tuple[Frame, int] | None = kept.frame, kept.k
        while at is not None:
            if (at[0].program, at[1]) not in self.reached:
                return False
            at = at[0].outer
        return True

    def form(self, program: Program, k: int) -> StableForm | None:
        """Return the stable form of the formula that an operation is part of."""
        if program not in self.forms:
            self.forms[program] = _covered(program)
        return self.forms[program].get(k)


def _value(x: Array) -> Any:
    """Return the value in the program's own dtype, in an array of its own."""
    return np.array(x["value"])[()] if is_compared(x) else x


def _marked(x: Array) -> Mask | None:
    """Return the elements with errors that are followed."""
    if not is_compared(x):
        return None
    found = np.asarray(x["error"]) > FOLLOWED * rounding(x["value"].dtype)
    return found if np.any(found) else None


def _pushed(program: Program, k: int, values: Sequence[Any], changes: Sequence[Any]) -> Any:
    """Return the derivatives of an operation's results along changes of its operands; ``None`` if
    it has none."""
    primitive, operands, params = program.ops[k]
    build = Assembly()
    placed = tuple(
        [
            build.input(program.avals[i]) if i >= 0 else build.literal(program.literals[~i])
            for i in operands
        ]
    )
    first = build.place(primitive, placed, params)
    count = program.result_count(k) if primitive.many else 1
    alone = build.program(range(first, first + count), primitive.name)
    inputs = [n for n, i in enumerate(operands) if i >= 0]
    active = [changes[n] is not None for n in inputs]
    try:
        pushed = jvp_program(alone, active)
        moved = [
            np.asarray(changes[n]).astype(np.asarray(values[n]).dtype)
            for n in inputs
            if changes[n] is not None
        ]
        found = evaluate_program(pushed, [*[values[n] for n in inputs], *[x[()] for x in moved]])
    except FunctraceError:  # it is not differentiable
        return None
    return found[count:]


def _covered(program: Program) -> dict[int, StableForm]:
    """Return the stable forms of a program by the operations of their formulas."""
    found: dict[int, StableForm] = {}
    for end, form in stable_forms(program).items():
        near = [end]
        for _ in range(4):
            near += [i for k in near for i in program.ops[k][1] if i >= 0 and i not in near]
        for k in near:
            found.setdefault(k, form)
        found[end] = form
    return found


def compare(
    program: Program,
    arguments: Sequence[Any],
    lines: Sequence[Position] = (),
    reference: str | None = None,
) -> Comparison:
    """Evaluate a program, compared with a reference that has enough digits.

    Args:
        program: the program.
        arguments: plain values, one per input.
        lines: positions of the recording, for a cached program.
        reference: see `reference_of`.
    """
    dtypes = [a.dtype for a in program.avals if is_inexact(a.dtype) and a.dtype.kind != "V"]
    widest = max(dtypes, key=lambda d: -float(np.finfo(d).eps), default=np.dtype(np.float32))
    chosen = reference_of(reference, widest)
    while True:
        found = Comparison(chosen)
        found.run(program, arguments, lines)
        if not found.is_short or chosen.more is None:
            return found
        chosen = reference_of("mpmath", widest, chosen.more)
