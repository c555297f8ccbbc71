"""Instruction lists: the compact form in which programs run before they are compiled.

An instruction is a function and the places of its operands and its result in one list of values. All instructions stand in
one flat list, five entries each. So none is an object of its own, and Python's cycle collector has nothing to walk.

Note [The first gradient of a recording]
    A gradient program of 5,000 equations takes 13 ms to derive by the rules, and is then run once. `gradient` derives no
    program: it puts the templates of the recorded operations (transforms/templates.py) one behind the other, as a list of
    instructions in the order of the transpose, in 2.5 ms. What is computed is what the rules' program computes, to the last
    bit: residuals stand right behind what they belong to, and what nobody reads is left out.

Floor: 6.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple, final

import numpy as np

from functrace.executor.spread import spread_operations
from functrace.ir.filling import Template as ProgramTemplate
from functrace.ir.primitive import CONSTANT, INPUT, Primitive
from functrace.ir.program import Position, Program
from functrace.ops.elementwise import add
from functrace.source import Source
from functrace.tracing.lines import LINES, RUNNING, Now, name_warnings, stop_naming
from functrace.tracing.tracer import Value
from functrace.transforms.templates import Chosen, Piece, Template

WIDTH = 5
"""Entries per instruction: kind, function, two places of operands (or a tuple of them, and those that die), result."""
ANY, ONE, TWO, MANY = 0, 1, 2, 3
"""Kinds, by what is taken: a tuple of places, one, or two; `MANY` is `ANY` with several results, in places that follow one
another. Added to `ONE` and `TWO`: which of the operands die."""
FIRST_DIES, SECOND_DIES = 4, 8

SMALL = 1 << 20
"""Bytes: what takes less altogether is let go at the end."""


def closed(primitive: Primitive, params: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function that evaluates a primitive, of its operands alone."""
    function = primitive.eval
    if not params:
        return function

    def of_operands(*operands: Value) -> Any:
        return function(*operands, *params)

    return of_operands


@final
class Instructions:
    """A list of instructions; `run` runs it.

    Args:
        program: the program that it was made for: its variables are the first places of the list of values.
    """

    __slots__ = ("code", "copied", "inputs", "origins", "outputs", "primitives", "program", "values")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code: list[Any] = []
        """The instructions, `WIDTH` entries each."""
        self.values: list[Any] = []
        """What the list of values is at the start: constants, and numbers from its end backwards."""
        self.inputs = program.input_ids
        self.outputs: list[int] = []
        self.copied: list[bool] = []
        """By output, whether it may share memory with something else."""
        self.primitives: list[Primitive] = []
        """Of the places behind the program's variables: what makes them."""
        self.origins: list[int] = []
        """Of the same places: the variable of the program that they belong to."""

    def now(self, place: int) -> Now:
        """Return what makes the value of a place, and where it came from."""
        program, count = self.program, len(self.program.avals)
        origin = place if place < count else self.origins[place - count]
        position = program.positions[origin] if origin < len(program.positions) else None
        return Now(program.columns.primitives[place] if place < count else self.primitives[place - count], position)


def run(instructions: Instructions, arguments: Sequence[Any], lines: Sequence[Position]) -> list[Any]:
    """Run on plain arguments; returns the outputs, which share memory with nothing.

    Args:
        instructions: what to run.
        arguments: one array per input of the program.
        lines: the positions of the recording that it runs for.

    Cost:
        70 ns per instruction beside the array work.
    """
    values = instructions.values.copy()
    for place, value in zip(instructions.inputs, arguments, strict=True):
        values[place] = value
    result = -1
    code = iter(instructions.code)
    named = name_warnings()
    try:
        for kind, function, first, second, result in zip(code, code, code, code, code, strict=True):
            if kind == 2:
                values[result] = function(values[first], values[second])
            elif kind == 1:
                values[result] = function(values[first])
            elif kind == 6:
                values[result] = function(values[first], values[second])
                values[first] = None
            elif kind == 14:
                values[result] = function(values[first], values[second])
                values[first] = values[second] = None
            elif kind == 5:
                values[result] = function(values[first])
                values[first] = None
            elif kind == 10:
                values[result] = function(values[first], values[second])
                values[second] = None
            elif kind == 0:
                values[result] = function(*[values[i] for i in first])
                for i in second:
                    values[i] = None
            else:
                found = function(*[values[i] for i in first])
                values[result : result + len(found)] = found
                found = None  # what dies is let go
                for i in second:
                    values[i] = None
    except Exception as error:
        position = None if result < 0 else instructions.now(result).position
        source = _source(position, lines)
        if source is not None:
            error.add_note(f"  recorded at {source}")
        raise
    finally:
        stop_naming(named)
    outputs = zip(instructions.outputs, instructions.copied, strict=True)
    return [values[i].copy("K") if copied else values[i] for i, copied in outputs]


def _now(frame: FrameType, _line: int) -> Now | None:
    result = frame.f_locals.get("result", -1)
    return None if result < 0 else frame.f_locals["instructions"].now(result)


RUNNING[run.__code__] = _now
LINES.add(run.__code__)


def _source(position: Position, lines: Sequence[Position]) -> Source | None:
    if isinstance(position, int):
        position = lines[position] if position < len(lines) else None
    return Source(*position) if isinstance(position, tuple) else None


# -- from programs ---------------------------------------------------------------------------------------------------------


def listed(program: Program) -> Instructions:
    """Return the instructions of a program: what `functrace.tracing.evaluate.evaluate_program` does on plain arguments.

    Cost:
        about 0.3 us per equation.
    """
    made = Instructions(program)
    ops, code = program.ops, made.code
    spread = spread_operations(program)
    for k, dying in program.schedule:
        primitive, operands, params = ops[k]
        function = closed(primitive, params) if params else spread.get(k, primitive.eval)
        if primitive.many:
            code += (MANY, function, operands, dying, k)
            continue
        arity = len(operands)
        if arity == 2:
            first, second = operands
            kind = TWO
            if dying:
                kind += (FIRST_DIES if first in dying else 0) + (SECOND_DIES if second in dying and second != first else 0)
            code += (kind, function, first, second, k)
        elif arity == 1:
            (first,) = operands
            code += (ONE + FIRST_DIES if dying else ONE, function, first, first, k)
        else:
            code += (ANY, function, operands, dying, k)
    made.values = [None] * len(ops) + list(program.literals[::-1])
    for i, value in program.constant_values.items():
        made.values[i] = value
    made.outputs = list(program.output_ids)
    made.copied = list(program.aliasing)
    return made


@final
class Unfilled:
    """The instructions of a program that holds unknown numbers: filled with given ones they run, without a program of it.

    Args:
        template: the program.
    """

    __slots__ = ("_listed", "_places", "_template")

    def __init__(self, template: ProgramTemplate) -> None:
        self._template = template
        made = self._listed = listed(template.program)
        self._places = {result: at for at, result in enumerate(made.code[WIDTH - 1 :: WIDTH])}
        """By operation: which instruction is its."""

    def fill(self, given: Sequence[Any]) -> Instructions:
        """Return the instructions for given numbers.

        Cost:
            1 us, and 0.3 per number.
        """
        like = self._listed
        made = Instructions(like.program)
        made.code, made.values, made.outputs, made.copied = like.code, like.values, like.outputs, like.copied
        literals = self._template.literals(given)
        if literals:
            made.values = [*like.values[: -len(literals)], *literals[::-1]]
        for k, params in self._template.params(given):
            if k in self._places:
                if made.code is like.code:
                    made.code = like.code.copy()
                made.code[self._places[k] * WIDTH + 1] = closed(like.program.ops[k][0], params)
        return made


# -- from templates --------------------------------------------------------------------------------------------------------


class Kernel(NamedTuple):
    """A template as instructions, of those of its pieces that are needed.

    Slots are the template's, but behind the cotangent stand the fixed values, then the needed pieces.

    Args:
        fixed: numbers and constants.
        size: how many pieces there are.
        primitives: theirs.
        ahead, behind: instructions; the former stand with the last one first.
        used: the places of operands that are read, and behind them that of the result if it is.
        contributions: places of operands, each with the slot of what reaches it.
    """

    fixed: tuple[Any, ...]
    size: int
    primitives: tuple[Primitive, ...]
    ahead: Part
    behind: Part
    used: tuple[int, ...]
    contributions: tuple[tuple[int, int], ...]


Part = tuple[tuple[int, Callable[..., Any], Any, int, int], ...]
"""Instructions of a kernel, with slots in place of places."""


def _kernel(template: Template, arity: int) -> Kernel:
    """Make a kernel of a template."""
    pieces = template.pieces
    start = arity + 2
    needed = {slot for _, slot, _ in template.contributions if slot >= start}
    for k in range(len(pieces) - 1, -1, -1):
        if start + k in needed:
            needed.update(pieces[k].operands)
    numbers = sorted([i for i in needed if i < 0], reverse=True)
    kept = [k for k in range(len(pieces)) if start + k in needed and k not in template.constants]
    constants = [k for k in template.constants if start + k in needed]
    fixed: list[Any] = []
    moved: dict[int, int] = {i: i for i in range(start)}
    for i in numbers:
        number = template.numbers[~i]
        if isinstance(number, tuple):
            moved[i] = number[0]
        else:
            moved[i] = start + len(fixed)
            fixed.append(number)
    for k in constants:
        moved[start + k] = start + len(fixed)
        fixed.append(template.constants[k])
    first = start + len(fixed)
    for place, k in enumerate(kept):
        moved[start + k] = first + place
    split = sum([k < template.ahead for k in kept])
    used = {i for i in needed if 0 <= i <= arity} | {slot for _, slot, _ in template.contributions if slot <= arity}
    return Kernel(
        tuple(fixed),
        len(kept),
        tuple([pieces[k].primitive for k in kept]),
        _part([pieces[k] for k in kept[:split]], moved, first)[::-1],
        _part([pieces[k] for k in kept[split:]], moved, first + split),
        tuple(sorted(used)),
        tuple([(place, moved[slot]) for place, slot, _ in template.contributions]),
    )


def _part(pieces: Sequence[Piece], moved: dict[int, int], first: int) -> Part:
    rows: list[tuple[int, Callable[..., Any], Any, int, int]] = []
    for place, piece in enumerate(pieces):
        slots = tuple([moved[i] for i in piece.operands])
        function = closed(piece.primitive, piece.params)
        if len(slots) in (ONE, TWO):
            rows.append((len(slots), function, slots[0], slots[-1], first + place))
        else:
            rows.append((ANY, function, slots, 0, first + place))
    return tuple(rows)


def gradient(program: Program, chosen: Chosen, active: Sequence[bool], with_value: bool) -> Instructions:
    """Return the instructions that compute outputs, then gradients of the first output by the active inputs.

    Args:
        program: a program whose first output is a scalar.
        chosen: the templates of its operations.
        active: one flag per input.
        with_value: whether the first output is among the results; otherwise what only it needs is not computed.

    Cost:
        about 2 us per operation of the program.
    """
    made = Instructions(program)
    operands_of, avals = program.columns.operands, program.avals
    templates, roots = chosen.templates, chosen.roots
    count = len(avals)
    tail: list[Any] = list(program.literals)
    fixed: dict[int, list[int]] = {}
    origins, primitives = made.origins, made.primitives
    code = made.code
    needed = bytearray(count + len(tail))
    ahead: dict[int, int] = {}
    places: list[int] = []  # of their slots, one behind the other: no list for each, which the collector would walk
    cotangents: list[int | None] = [None] * count
    out = program.output_ids[0]
    if chosen.active[out]:
        tail.append(np.ones((), avals[out].dtype)[()])
        cotangents[roots[out]] = -len(tail)
    next_place = count
    for k in range(out, -1, -1):
        template = templates[k]
        cotangent = cotangents[k]
        if template is None or cotangent is None:
            continue
        kernel: Kernel | None = template.kernel
        operands = operands_of[k]
        if kernel is None:
            kernel = template.kernel = _kernel(template, len(operands))
        slots = [*operands, k, cotangent]
        if kernel.fixed:
            given = fixed.get(id(kernel))
            if given is None:
                tail.extend(kernel.fixed)
                given = fixed[id(kernel)] = [-1 - i for i in range(len(tail) - len(kernel.fixed), len(tail))]
            slots += given
        if kernel.size:
            slots += range(next_place, next_place + kernel.size)
            next_place += kernel.size
            primitives += kernel.primitives
            origins += [k] * kernel.size
        for i in kernel.used:
            needed[slots[i]] = 1
        if kernel.ahead:
            ahead[k] = len(places)
            places += slots
        for kind, function, first, second, result in kernel.behind:
            if kind:
                code += (kind, function, slots[first], slots[second], slots[result])
            else:
                read: list[int] = [slots[i] for i in first]
                code += (kind, function, tuple(read), (), slots[result])
        for place, slot in kernel.contributions:
            i = roots[operands[place]]
            before = cotangents[i]
            if before is None:
                cotangents[i] = slots[slot]
                continue
            code += (2, np.add, before, slots[slot], next_place)
            cotangents[i] = next_place
            next_place += 1
            primitives.append(add)
            origins.append(k)
    kept = program.output_ids if with_value else program.output_ids[1:]
    for i in kept:
        needed[i] = 1
    made.outputs = list(kept)
    for i, flag in zip(program.input_ids, active, strict=True):
        if flag:
            found = cotangents[i]
            if found is None:
                tail.append(np.zeros(avals[i].shape, avals[i].dtype)[()])
                found = -len(tail)
            made.outputs.append(found)
    _forward(made, ahead, places, templates, needed)
    made.values = [None] * next_place + tail[::-1]
    for i, value in program.constant_values.items():
        made.values[i] = value
    made.copied = _copied(made)
    if len(code) // WIDTH * max([aval.nbytes for aval in set(avals)]) > SMALL:
        _let_die(made)
    return made


def _forward(
    made: Instructions,
    ahead: dict[int, int],
    places: list[int],
    templates: Sequence[Template | None],
    needed: bytearray,
) -> None:
    """Put what the backward part and the outputs need of the program itself in front, with the residuals.

    Args:
        made: the backward part.
        ahead: by operation with residuals, where the places of its template's slots begin.
        places: those of all.
        templates: of the operations.
        needed: by variable, whether it is read; what reads it is read marks it.
    """
    backwards: list[Any] = []
    columns = made.program.columns
    primitives, operands_of, params_of = columns.primitives, columns.operands, columns.params
    for k in range(len(primitives) - 1, -1, -1):  # the last one first: what is needed is known then
        if k in ahead:
            begin = ahead[k]
            for kind, function, first, second, result in templates[k].kernel.ahead:  # type: ignore[union-attr]
                if kind:
                    backwards += (places[begin + result], places[begin + second], places[begin + first], function, kind)
                else:
                    read: list[int] = [places[begin + i] for i in first]
                    backwards += (places[begin + result], (), tuple(read), function, kind)
        if not needed[k]:
            continue
        primitive, operands, params = primitives[k], operands_of[k], params_of[k]
        arity = len(operands)
        if arity == 2:
            first, second = operands
            needed[first] = needed[second] = 1  # numbers, too: what stands behind the variables is not looked at
            backwards += (k, second, first, closed(primitive, params) if params else primitive.eval, 2)
        elif arity == 1:
            (first,) = operands
            needed[first] = 1
            backwards += (k, first, first, closed(primitive, params) if params else primitive.eval, 1)
        elif primitive is not INPUT and primitive is not CONSTANT:
            for i in operands:
                needed[i] = 1
            backwards += (k, (), operands, closed(primitive, params), ANY)
    backwards.reverse()
    made.code[:0] = backwards


def _copied(made: Instructions) -> list[bool]:
    """Say which outputs may share memory with arguments, constants or outputs before them."""
    primitives, count = made.program.columns.primitives, len(made.program.avals)
    seen: set[int] = set()
    copied: list[bool] = []
    for place in made.outputs:
        primitive = None if place < 0 else primitives[place] if place < count else made.primitives[place - count]
        foreign = primitive is None or primitive is INPUT or primitive is CONSTANT or primitive.view
        copied.append(foreign or place in seen)
        seen.add(place)
    return copied


def _let_die(made: Instructions) -> None:
    """Say where values are read for the last time."""
    code = made.code
    seen = bytearray(len(made.values))
    for place in made.outputs:
        seen[place] = 1
    for at in range(len(code) - WIDTH, -1, -WIDTH):
        kind, first = code[at], code[at + 2]
        if kind == ANY:
            code[at + 3] = tuple([i for i in dict.fromkeys(first) if i >= 0 and not seen[i]])
            for i in first:
                seen[i] = 1
            continue
        if first >= 0 and not seen[first]:
            code[at] += FIRST_DIES
            seen[first] = 1
        if kind == TWO:
            second = code[at + 3]
            if second >= 0 and not seen[second]:
                code[at] += SECOND_DIES
                seen[second] = 1
