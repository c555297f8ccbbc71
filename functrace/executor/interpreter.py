"""Interpreter of un-jitted derivatives: flat instruction lists.

An instruction is a function with the indices of its operands and its result in one list of values.
All instructions are in one flat list, five entries each, so Python's cycle collector has no objects
to traverse.

There are two ways to create a list. `listed` converts a program. `ListSink` receives the output of
the derivative transforms (`functrace.transforms.walk`) directly, without a program: a gradient of
5,000 operations takes 13 ms to derive as a program, and 3 as a list. Both use the kernels of
generated code (`functrace.executor.kernels`).

Layer: 7.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from functrace.control.joining import join_bodies
from functrace.executor.kernels import (
    KERNELS,
    as_number_array,
    is_exact_number,
    number_array,
    number_dtype,
    scalar_operator,
)
from functrace.executor.parallel.operations import spread_operations
from functrace.ir.aval import LARGE, Constant, ShapeDtype
from functrace.ir.parts import Compiled, output_avals
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ir.program import Position, Program, resolved
from functrace.ir.tape import Operands, Params, Spec
from functrace.ops.elementwise import add as add_p
from functrace.passes import EARLY, optimized
from functrace.source import Source
from functrace.tracing.lines import LINES, RUNNING, CurrentOperation, name_warnings, stop_naming
from functrace.tracing.tracer import Value
from functrace.transforms.precomputed import Precomputed
from functrace.transforms.templates import Template, TemplateOperation
from functrace.transforms.walk import ForwardWalk, NeedsTape, RuleRange
from functrace.typing import Scalar

WIDTH = 5
"""Entries per instruction: kind, function, two operand indices (or a tuple of them, and one of
freed operands), result.
"""
ANY, ONE, TWO, MANY = 0, 1, 2, 3
"""Kinds, by operands: a tuple of indices, one, or two; `MANY` is `ANY` with several results, at
consecutive indices. `ONE` and `TWO` can be combined with flags for the operands that are freed.
"""
FREES_FIRST, FREES_SECOND = 4, 8

SMALL = 1 << 18
"""Bytes: smaller programs free all values at the end."""


@final
class InstructionList:
    """A list of instructions; `run` executes it.

    Args:
        program: its source program, whose variables are the first indices of the list of values.
    """

    __slots__ = ("code", "inputs", "origins", "outputs", "program", "rows", "turned", "values")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code: list[Any] = []
        """The instructions, `WIDTH` entries each."""
        self.values: list[Any] = []
        """Initial list of values: constants, and numbers from its end backwards."""
        self.inputs = program.input_ids
        self.outputs: list[tuple[int, bool]] = []
        """Indices of the outputs, each with a flag: True if its value may share memory with another
        value.
        """
        self.rows: list[TemplateInstruction] = list[TemplateInstruction]()
        """Operations of the values behind the program's variables."""
        self.origins: list[int] = []
        """For the same values, the program's variable from which each derives."""
        self.turned: int | None = None
        """Index of the first value of the reverse pass; ``None`` without one."""

    def __len__(self) -> int:
        return len(self.code) // WIDTH

    def now(self, place: int) -> CurrentOperation:
        """Return the primitive and the origin of a value, by index."""
        program, count = self.program, len(self.program.avals)
        origin = place if place < count else self.origins[place - count]
        position = program.positions[origin] if 0 <= origin < len(program.positions) else None
        return CurrentOperation(
            program.columns.primitives[place]
            if place < count
            else self.rows[place - count].primitive,
            position,
        )

    def finish(
        self,
        outputs: Iterable[int],
        copied: Iterable[bool],
        tail: Sequence[Any],
        count: int,
        *,
        prunes: bool,
    ) -> InstructionList:
        """Mark last uses of values, if they are large enough to be freed early.

        Args:
            outputs: indices of the outputs.
            copied: one flag per output: True if its value may share memory with another value.
            tail: numbers; the first is at the end of the list of values.
            count: number of other values.
            prunes: True to eliminate dead code.
        """
        code, program = self.code, self.program
        self.outputs = list(zip(outputs, copied, strict=True))
        read = bytearray(count + len(tail))
        for i, _ in self.outputs:
            read[i] = 1
        largest = max([aval.nbytes for aval in set(program.avals) if aval.is_large], default=LARGE)
        frees = len(self) * largest > SMALL
        kept: list[Any] = []
        entries = reversed(code)
        for result, second, first, function, kind in zip(
            entries, entries, entries, entries, entries, strict=True
        ):
            if (
                prunes
                and not read[result]
                and (kind != MANY or not any(read[result : result + program.result_count(result)]))
            ):
                continue
            if kind and kind != MANY:
                if frees:
                    if first >= 0 and not read[first]:
                        kind += FREES_FIRST
                    if kind & TWO and second >= 0 and not read[second] and second != first:
                        kind += FREES_SECOND
                read[first] = read[second] = 1
            else:
                if frees:
                    second = tuple([i for i in dict.fromkeys(first) if i >= 0 and not read[i]])
                for i in first:
                    read[i] = 1
            kept += (result, second, first, function, kind)
        kept.reverse()
        self.code = kept
        self.values = [None] * count + list(tail[::-1])
        for i, value in program.constant_values.items():
            self.values[i] = value
        return self


def run(
    instructions: InstructionList, arguments: Sequence[Any], lines: Sequence[Position]
) -> list[Any]:
    """Run on plain arguments; returns the outputs, in memory of their own.

    Args:
        instructions: the instructions.
        arguments: one array per input of the program.
        lines: positions of the current recording.

    Cost:
        70 ns per instruction besides the array work.
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
                found = None  # a freed value must have no other reference
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
    return [values[i].copy("K") if copied else values[i] for i, copied in instructions.outputs]


def _now(frame: FrameType, _line: int) -> CurrentOperation | None:
    result = frame.f_locals.get("result", -1)
    return None if result < 0 else frame.f_locals["instructions"].now(result)


RUNNING[run.__code__] = _now
LINES.add(run.__code__)


def _source(position: Position, lines: Sequence[Position]) -> Source | None:
    position = resolved(position, lines)
    return Source(*position) if isinstance(position, tuple) else None


# -- calls of operations ---------------------------------------------------------------------------


def called(primitive: Primitive, params: Params) -> Callable[..., Any]:
    """Return the function that evaluates an operation, with params bound."""
    if not params:
        return primitive.eval
    kernel = KERNELS.get(primitive)
    if kernel is not None:
        return kernel(params).call
    function = primitive.eval

    def of_operands(*operands: Value) -> Any:
        return function(*operands, *params)

    return of_operands


class ConstantPool:
    """Numbers that instructions read: at the end of the list of values, backwards.

    Args:
        literals: the program's literals, which are first.
    """

    __slots__ = ("_arrays", "literals", "tail")

    def __init__(self, literals: Sequence[Scalar]) -> None:
        self.literals = literals
        self.tail: list[Any] = list(literals)
        self._arrays: dict[Any, int] = {}

    def add(self, value: object) -> int:
        """Add a number, or another constant; returns its index."""
        self.tail.append(value)
        return -len(self.tail)

    def as_array(self, i: int, dtype: np.dtype[Any]) -> int:
        """Return the index of a literal as an array, if the dtype holds it; see `number_array`."""
        found = self._arrays.get((i, dtype))
        if found is None:
            array = as_number_array(dtype, self.literals[~i])
            found = self._arrays[i, dtype] = i if array is None else self.add(array)
        return found

    def with_literal(
        self, operands: Operands, primitive: Primitive, specs: Sequence[Spec]
    ) -> Operands:
        """Return the indices of two operands, one a literal; for a ufunc the literal becomes a 0-d
        array.
        """
        at = 0 if operands[0] < 0 else 1
        dtype = number_dtype(primitive, specs, at)
        if dtype is None:
            return operands
        place = self.as_array(operands[at], dtype)
        return (operands[0], place) if at else (place, operands[1])


# -- from programs ---------------------------------------------------------------------------------


def listed(program: Program, *, fresh: bool = True) -> InstructionList:
    """Convert a program to instructions, equivalent to
    `functrace.tracing.evaluate.evaluate_program` on plain arguments.

    Args:
        program: the program.
        fresh: True if results must not share memory with arguments.

    Cost:
        about 1 us per equation.
    """
    made = InstructionList(program)
    ops, code, numbers, spread = (
        program.ops,
        made.code,
        ConstantPool(program.literals),
        spread_operations(program),
    )
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        if primitive.holds is not None or primitive.many:
            function = (
                _held(program, k) if primitive.holds is not None else called(primitive, params)
            )
            code += (MANY if primitive.many else ANY, function, operands, (), k)
            continue
        _write(made, numbers, k, spread.get(k) or called(primitive, params))
    outputs = program.output_ids
    copied = program.aliasing if fresh else [False] * len(outputs)
    return made.finish(outputs, copied, numbers.tail, len(ops), prunes=False)


def _write(
    made: InstructionList, numbers: ConstantPool, k: int, function: Callable[..., Any]
) -> None:
    """Write an operation of the program that has one result and no sub-programs.

    Args:
        made: the list.
        numbers: of the list.
        k: the operation.
        function: its implementation; a scalar operator may replace it.
    """
    program = made.program
    primitive, operands, params = program.ops[k]
    arity, is_single = len(operands), not program.avals[k].shape
    if arity > TWO or not arity:
        made.code += (ANY, function, operands, (), k)
        return
    first, second = operands[0], operands[-1]
    if is_single and not params:
        specs = [program.spec(i) for i in operands]
        found = scalar_operator(primitive, specs, [program.literals[~i] for i in operands if i < 0])
        function = function if found is None else found.call
    elif not is_single and (first < 0) != (second < 0) and primitive.is_ufunc:
        first, second = numbers.with_literal(
            operands, primitive, [program.spec(first), program.spec(second)]
        )
    made.code += (arity, function, first, second, k)


def _held(program: Program, k: int) -> Callable[..., Any]:
    """Return the function of an operation with sub-programs, which become instruction lists."""
    primitive, operands, params = program.ops[k]
    holds = primitive.holds
    if holds is None or holds.lowers is None:
        return called(primitive, params)
    lowering = holds.lowers(tuple(map(program.spec, operands)), *params)
    runs = [compiled(body, fresh=lowering.fresh) for body in lowering.bodies]
    return join_bodies(lowering.structure, output_avals(lowering.bodies[0]), runs)


def compiled(program: Program, *, fresh: bool) -> Compiled:
    """Return a function that runs a program as an instruction list.

    Args:
        program: the program.
        fresh: True if results must not share memory with arguments.
    """
    made = listed(optimized(program, EARLY), fresh=fresh)
    return lambda *arguments: tuple(run(made, arguments, ()))


# -- from derivative transforms --------------------------------------------------------------------


class TemplateInstruction(NamedTuple):
    """A piece of a template as an instruction.

    Args:
        kind: `ANY`, `ONE` or `TWO`; `FIXED` for a constant, `WITH_NUMBERS` if numbers are among the
            operands, `WITH_LITERAL` if one of two operands is a literal of the program.
        function: the function; for a constant, its value.
        first, second: slots, or a tuple of them. With numbers, one entry per operand: a slot, or a
            number or array in a list. With a literal, two slots and a `_LiteralCall`.
        piece: the operation.
        specs: avals of its operands, or the types of numbers.
    """

    kind: int
    function: Any
    first: Any
    second: Any
    piece: TemplateOperation
    specs: tuple[Spec, ...]

    @property
    def primitive(self) -> Primitive:
        """The primitive."""
        return self.piece.primitive


class _LiteralCall(NamedTuple):
    """Call of an operation with one literal of the program as operand.

    Args:
        at: index of the literal operand.
        scalar: the operator, if the result is a single number, and the literal exact.
        dtype: dtype of the literal next to an array, if floating.
    """

    at: int
    scalar: Callable[..., Any] | None
    dtype: np.dtype[Any] | None


FIXED, WITH_NUMBERS, WITH_LITERAL = -1, -2, -3

_SUM = TemplateInstruction(
    TWO, np.add, 0, 1, TemplateOperation(add_p, (0, 1), (), ShapeDtype((), np.dtype(float))), ()
)
"""The sum of two cotangents; its aval is that of its operands."""


class TemplateInstructions(NamedTuple):
    """A template as instructions.

    Args:
        own: the operation itself.
        pieces: pieces of the template.
    """

    own: TemplateInstruction
    pieces: tuple[TemplateInstruction, ...]


def _rows(template: Template, primitive: Primitive, params: Params) -> TemplateInstructions:
    """Convert a template and its operation to instructions."""
    *given, result, _ = template.specs
    numbers = [(at,) for at, spec in enumerate(given) if isinstance(spec, type)]
    places = [
        ~numbers.index((at,)) if isinstance(spec, type) else at for at, spec in enumerate(given)
    ]
    assert isinstance(result, ShapeDtype)
    own = _row(TemplateOperation(primitive, tuple(places), params, result), numbers, given)
    specs: list[Spec] = [*template.specs, *[piece.aval for piece in template.pieces]]
    pieces = [
        TemplateInstruction(FIXED, template.constants[place], 0, 0, piece, ())
        if piece.primitive is CONSTANT
        else _row(piece, template.numbers, specs)
        for place, piece in enumerate(template.pieces)
    ]
    return TemplateInstructions(own, tuple(pieces))


def _row(
    piece: TemplateOperation, numbers: Sequence[Scalar | tuple[int]], specs: Sequence[Spec]
) -> TemplateInstruction:
    """Convert an operation to an instruction, given its numbers and the avals of slots."""
    primitive, operands, params, aval = piece
    places: list[Any] = []
    kinds: list[Spec] = []
    fixed: list[Scalar] = []
    own = -1
    for at, i in enumerate(operands):
        number = (i,) if i >= 0 else numbers[~i]
        if isinstance(number, tuple):
            own = own if i >= 0 else at
            places.append(number[0])
            kinds.append(specs[number[0]])
        else:
            fixed.append(number)
            places.append([number])
            kinds.append(number.__class__)
    function = called(primitive, params)
    scalar = None
    arity = len(operands)
    if not aval.shape and arity < 3 and not params:
        found = scalar_operator(primitive, kinds, fixed)
        scalar = None if found is None else found.call
    is_pair = arity == TWO and primitive.is_ufunc
    if own >= 0 and is_pair and isinstance(kinds[1 - own], ShapeDtype):
        dtype = number_dtype(primitive, kinds, own) if aval.shape else None
        return TemplateInstruction(
            WITH_LITERAL,
            function,
            tuple(places),
            _LiteralCall(own, scalar, dtype),
            piece,
            tuple(kinds),
        )
    if own < 0 and scalar is not None:
        function = scalar
    elif fixed and is_pair and aval.shape:
        at = 0 if operands[0] < 0 else 1
        array = number_array(primitive, kinds, at, fixed[0])
        places[at] = [fixed[0] if array is None else array]
    if fixed or own >= 0:
        return TemplateInstruction(WITH_NUMBERS, function, tuple(places), None, piece, tuple(kinds))
    if arity in (ONE, TWO):
        return TemplateInstruction(arity, function, operands[0], operands[-1], piece, tuple(kinds))
    return TemplateInstruction(ANY, function, operands, (), piece, tuple(kinds))


def _first(value: Any, *_others: object) -> Any:
    """Return the first argument."""
    return value


@final
class ListSink:
    """Sink of the derivative transforms that writes an instruction list.

    Args:
        program: the differentiated program; its variables are the first indices.

    Raises:
        NeedsTape: from the transform, if an operation has no template.
    """

    __slots__ = ("_code", "_fixed", "_made", "_next", "_numbers", "_program")
    splits = takes_tracers = False

    def __init__(self, program: Program) -> None:
        self._program = program
        made = self._made = InstructionList(program)
        self._code = made.code
        self._numbers = ConstantPool(program.literals)
        self._fixed: dict[Any, int] = {}
        self._next = len(program.avals)

    def finish(self, outputs: Sequence[int]) -> InstructionList:
        """Return the instructions, with the indices of the outputs."""
        made, program = self._made, self._program
        primitives, count = program.columns.primitives, len(program.avals)
        seen: set[int] = set()
        copied: list[bool] = []
        for place in outputs:
            primitive = (
                None
                if place < 0
                else primitives[place]
                if place < count
                else made.rows[place - count].primitive
            )
            foreign = (
                primitive is None or primitive is INPUT or primitive is CONSTANT or primitive.view
            )
            copied.append(foreign or type(primitive) is Precomputed or place in seen)
            seen.add(place)
        return made.finish(outputs, copied, self._numbers.tail, self._next, prunes=True)

    def place(self, i: int) -> int:
        """Return the index of a variable of the program."""
        return i

    def constant(self, value: Constant, aval: ShapeDtype) -> int:
        """Add a constant; returns its index. The first one is the seed of the reverse pass."""
        if self._made.turned is None:
            self._made.turned = self._next
        return self._numbers.add(value)

    # -- forward -------------------------------------------------------------------------------

    def begin(self, walked: ForwardWalk) -> None:
        """Raise `NeedsTape` for programs that must not run as recorded.

        The recording holds precomputed values. If these are large, residuals that depend only on
        them should be rematerialized, by a pass over a program.
        """
        program = self._program
        for primitive in program.kinds:
            if primitive.holds is not None or primitive.effects or primitive.kept is not None:
                raise NeedsTape
            if (
                type(primitive) is Precomputed
                and sum([aval.nbytes for aval in program.avals]) >= SMALL
            ):
                raise NeedsTape

    def order(self, program: Program) -> Sequence[int]:
        """Return all operations; `finish` eliminates dead code."""
        primitives = program.columns.primitives
        return [
            k
            for k, p in enumerate(primitives)
            if p is not INPUT and p is not CONSTANT and p is not RESULT
        ]

    def own(self, k: int, primitive: Primitive, operands: Operands, params: Params) -> None:
        """Write an operation of the program."""
        if type(primitive) is Precomputed:
            if primitive.many:
                raise NeedsTape
            # The recording holds the value: no recomputation.
            self._code += (ONE, _first, operands[0], operands[0], k)
        elif primitive.many:
            self._code += (MANY, called(primitive, params), operands, (), k)
        else:
            _write(self._made, self._numbers, k, called(primitive, params))

    def derived(self, k: int, template: Template, walked: ForwardWalk) -> list[int]:
        """Write an operation of the program that has a template, and its residuals."""
        columns = self._program.columns
        operands = columns.operands[k]
        rows: TemplateInstructions | None = template.kernel
        if rows is None:
            rows = template.kernel = _rows(template, columns.primitives[k], columns.params[k])
        slots = [*operands, k, -1]
        kind, function, a, b, _, _ = own = rows.own
        if kind > 0:
            self._code += (kind, function, slots[a], slots[b], k)
        else:
            self._code += (*self._instruction(own, slots), k)
        if template.ahead:
            self.replay(template, 0, template.ahead, slots, k)
        return slots

    def by_rule(self, k: int, walked: ForwardWalk) -> NoReturn:
        """Raise `NeedsTape`: a rule takes tracers."""
        raise NeedsTape

    # -- backward ------------------------------------------------------------------------------

    def capture(self, template: Template, slots: list[int]) -> NoReturn:
        """Raise `NeedsTape`: there is one list."""
        raise NeedsTape

    def transpose(self, part: RuleRange, cotangents: list[int | None], k: int) -> NoReturn:
        """Raise `NeedsTape`: there is no linear tape."""
        raise NeedsTape

    def add(self, a: int, b: int, k: int) -> int:
        """Write the sum of two cotangents."""
        place = self._next
        self._code += (TWO, np.add, a, b, place)
        self._made.rows.append(_SUM)
        self._made.origins.append(k)
        self._next = place + 1
        return place

    def replay(self, template: Template, first: int, end: int, slots: list[int], k: int) -> None:
        """Write the pieces ``first`` to ``end`` of a template."""
        rows: TemplateInstructions = template.kernel
        code, made, place = self._code, self._made, self._next
        for row in rows.pieces[first:end]:
            kind, function, a, b, _, _ = row
            if kind > 0:
                code += (kind, function, slots[a], slots[b], place)
            elif kind == FIXED:
                slots.append(self._constant(function))
                continue
            else:
                code += (*self._instruction(row, slots), place)
            slots.append(place)
            made.rows.append(row)
            made.origins.append(k)
            place += 1
        self._next = place

    def _instruction(
        self, row: TemplateInstruction, slots: list[int]
    ) -> tuple[int, Callable[..., Any], Any, Any]:
        """Return an instruction, without its result, for an operation with numbers, without
        operands, or with more than two.
        """
        kind, function, places, of, _, _ = row
        if kind == WITH_LITERAL:
            pair: tuple[int, int] = places
            first, second = slots[pair[0]], slots[pair[1]]
            at, scalar, dtype = of
            if dtype is not None:
                if at:
                    second = self._numbers.as_array(second, dtype)
                else:
                    first = self._numbers.as_array(first, dtype)
            elif scalar is not None and is_exact_number(
                self._program.literals[~(second if at else first)]
            ):
                function = scalar
            return (TWO, function, first, second)
        if kind == ANY:
            read: list[int] = [slots[i] for i in places]
            return (ANY, function, tuple(read), ())
        read = [slots[i] if type(i) is int else self._constant(i[0]) for i in places]
        if len(read) == TWO or len(read) == ONE:
            return (len(read), function, read[0], read[-1])
        return (ANY, function, tuple(read), ())

    def _constant(self, value: Any) -> int:
        """Return the index of a constant of a template, shared by all its uses."""
        found = self._fixed.get(id(value))
        if found is None:
            found = self._fixed[id(value)] = self._numbers.add(value)
        return found
