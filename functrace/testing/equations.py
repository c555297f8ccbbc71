"""Search for a wrong equation in a program: compare the derivative of each with differences.

The function is recorded with concrete values, so Python's branches are those of the failing run.
Each equation is then a function of its operands, at their values; the first whose derivative
disagrees with differences is reported. The search enters sub-programs (the body of a loop, the
branches of a choice).

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.api.capture.record import Called, RecordedCall, add_input
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.control.call import call_p
from functrace.errors import FunctraceError
from functrace.ir.parts import inline
from functrace.ir.primitive import RESULT
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import stop_gradient
from functrace.ops.foreign import callback_p, returned_p
from functrace.source import Source
from functrace.testing.points import (
    Flat,
    Settings,
    Values,
    aval,
    differences,
    directions,
    errors,
    is_inexact,
    plain,
    product,
    settings,
    worst,
)
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.typing import PyTree


@final
@dataclass(frozen=True)
class FailingEquation:
    """The equation that disagrees.

    Args:
        equation: as text, with its number and the name of its program.
        source: the user's line.
        advice: the fix.
    """

    equation: str
    source: Source | None
    advice: str

    @property
    def where(self) -> str:
        """The equation and its line, for messages."""
        return self.equation if self.source is None else f"{self.equation}\n    at {self.source}"


def culprit(
    flat: Flat, values: Values, mode: str, chosen: Settings, name: str
) -> FailingEquation | None:
    """Find the first equation of a function whose own derivative is wrong; ``None`` if all are
    right."""

    def inputs(recording: Recording) -> Called:
        return [add_input(recording, value, value) for value in values], {}

    with ArrayRecording(f"check of {name}") as recording:
        program = RecordedCall(recording, flat, inputs).program(name)
    return _first(program, values, mode, chosen)


def _called(op: Op) -> Program | None:
    return (
        op[0].holds.called_program(*op[2])
        if op[0] is call_p and op[0].holds and op[0].holds.called_program
        else None
    )


@final
class _EvaluatedProgram:
    """A program with the values of all its variables."""

    def __init__(self, program: Program, values: Sequence[Any]) -> None:
        self.program = program
        self.env: dict[int, Any] = {
            **dict(zip(program.input_ids, values, strict=True)),
            **program.constant_values,
        }
        self.moving = {i for i in program.input_ids if is_inexact(self.env[i])}

    def operand(self, i: int) -> Any:
        return self.env[i] if i >= 0 else self.program.literals[~i]

    def step(self, k: int) -> None:
        """Evaluate an operation."""
        primitive, operands, params = self.program.ops[k]
        result: Any = primitive.eval(*map(self.operand, operands), *params)
        found: Sequence[Any] = result if primitive.many else (result,)
        self.env.update(enumerate(found, k))
        if primitive in (stop_gradient, callback_p) or self.moving.isdisjoint(operands):
            return
        count = self.program.result_count(k)
        self.moving.update(i for i in range(k, k + count) if is_inexact(self.env[i]))

    def function(self, k: int) -> tuple[Flat, Flat, list[Any]]:
        """Return an operation as a function of its active operands, by rules and by values, and
        their values."""
        primitive, operands, params = self.program.ops[k]
        moving = sorted({i for i in operands if i in self.moving})

        def placed(values: Sequence[Any]) -> dict[int, Any]:
            return dict(zip(moving, values, strict=True))

        def results(found: PyTree) -> list[Any]:
            return [y for y in (found if primitive.many else [found]) if is_inexact(y)]

        def by_rules(*values: object) -> list[Any]:
            given = placed(values)
            return results(
                bind(primitive, tuple([given.get(i, self.operand(i)) for i in operands]), params)
            )

        def by_values(*values: object) -> list[Any]:
            given = placed(values)
            return results(primitive.eval(*[self._again(i, given) for i in operands], *params))

        def again(*values: object) -> list[Any]:
            return by_rules(*values)

        plainly = by_values if _stands_for_foreign(params) else again
        return by_rules, plainly, [self.env[i] for i in moving]

    def _again(self, i: int, given: dict[int, Any]) -> Any:
        """Return an operand at other values: results of foreign code depend on them, too."""
        if i < 0 or i in given:
            return given.get(i, self.operand(i))
        k = i
        while self.program.ops[k][0] is RESULT:
            k -= 1
        primitive, operands, params = self.program.ops[k]
        if primitive is not callback_p:
            return self.env[i]
        return primitive.eval(
            *[given.get(self._root(j), self.operand(j)) for j in operands], *params
        )[i - k]

    def _root(self, i: int) -> int:
        while i >= 0 and self.program.ops[i][0] is stop_gradient:
            i = self.program.ops[i][1][0]
        return i


def _first(
    program: Program, values: Sequence[Any], mode: str, chosen: Settings
) -> FailingEquation | None:
    program = inline(program, _called)
    walk = _EvaluatedProgram(program, values)
    constant: FailingEquation | None = None
    for number, (k, _) in enumerate(program.schedule):
        primitive, operands, _ = program.ops[k]
        walk.step(k)
        if (
            walk.moving.isdisjoint(operands)
            or primitive is callback_p
            or not is_inexact(walk.env[k])
        ):
            continue
        if primitive is stop_gradient:
            constant = constant or _described(program, k, number)
        elif not _agrees(*walk.function(k), mode, chosen):
            return _inside(walk, k, mode, chosen) or _described(program, k, number)
    return constant


def _agrees(
    by_rules: Flat, by_values: Flat, values: list[Any], mode: str, chosen: Settings
) -> bool:
    """Return True if the derivative of a function agrees with differences."""
    rng = np.random.default_rng(0)
    own = settings(values, None, None, None, None)
    atol, rtol = max(own.atol, chosen.atol), max(own.rtol, chosen.rtol)
    along = directions(rng, values)
    try:
        expected = differences(by_values, values, along, max(own.eps, chosen.eps))
        if mode == "fwd":
            return worst(errors(plain(jvp(by_rules, values, along)[1]), expected, atol, rtol)) <= 1
        out, pullback = vjp(by_rules, *values)
        bars = directions(rng, out)
        found = [
            np.zeros(aval(x).shape) if ct is None else ct
            for x, ct in zip(values, pullback(bars), strict=True)
        ]
        return worst(errors([product(found, along)], [product(bars, expected)], atol, rtol)) <= 1
    except (FunctraceError, ArithmeticError, np.linalg.LinAlgError):
        return True  # it cannot be differentiated separately


def _stands_for_foreign(params: Sequence[object]) -> bool:
    """Return True if a sub-program returns precomputed results of foreign code."""
    held = [param for param in params if isinstance(param, Program)]
    return any(
        op[0] is returned_p or _stands_for_foreign(op[2]) for program in held for op in program.ops
    )


def _inside(walk: _EvaluatedProgram, k: int, mode: str, chosen: Settings) -> FailingEquation | None:
    """Search the sub-programs of an operation, at the values of the first run."""
    primitive, operands, params = walk.program.ops[k]
    if primitive.holds is None or primitive.holds.feeds is None:
        return None
    given: dict[int, tuple[Program, dict[int, Any]]] = {}
    for place, i in enumerate(operands):
        for program, input_place in primitive.holds.feeds(place, *params):
            wanted, value = program.avals[program.input_ids[input_place]], walk.operand(i)
            if aval(value) is not wanted and aval(value).shape[1:] == wanted.shape and len(value):
                value = value[0]
            given.setdefault(id(program), (program, {}))[1][input_place] = value
    for program, values in given.values():
        if len(values) == len(program.input_ids):
            found = _first(program, [values[place] for place in range(len(values))], mode, chosen)
            if found is not None:
                return found
    return None


def _described(program: Program, k: int, number: int) -> FailingEquation:
    primitive, _, params = program.ops[k]
    equation = program.equation(k)
    held = next((param.name for param in params if isinstance(param, Program)), None)
    words = [
        primitive.name,
        *([f"of {held}"] if held else []),
        *[str(getattr(x, "name", None) or x) for x in equation.inputs],
    ]
    results = ", ".join(map(repr, equation.outputs))
    text = f"{number} of {program.name}: {results} = {' '.join(words)}"
    return FailingEquation(text, equation.source, _advice(primitive.name, held))


def _advice(name: str, held: str | None) -> str:
    if name == "stop_gradient":
        return "stop_gradient makes the result a constant for derivatives there: remove it, or close over that part"
    if held is None:
        return "if the function has a kink or a tie there, check it elsewhere; if not, its derivative is wrong"
    if name.startswith("custom"):
        return f"fix the rule of {held}: it is not the derivative of the function"
    return f"fix the rules of the functions that {held} calls"
