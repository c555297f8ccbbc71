"""Extract parts of programs, and assemble programs from parts.

Layer: 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, final

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ir.program import Position, Program
from functrace.ir.tape import Builder, Op

_NO_NAMES: Mapping[int, str | None] = MappingProxyType({})


class Assembly(Builder):
    """A builder with source positions, into which programs are copied."""

    __slots__ = ("positions",)

    def __init__(self) -> None:
        super().__init__()
        self.positions: list[Position] = []

    def place(
        self,
        primitive: Primitive,
        operands: tuple[int, ...],
        params: tuple[Any, ...],
        position: Position = None,
    ) -> int:
        """Add an operation; return the variable of its first result."""
        first = self.append(primitive, operands, tuple([self.spec(i) for i in operands]), params)
        self.positions.extend([None] * (first - len(self.positions)))
        self.positions.extend([position] * (len(self.primitives) - first))
        return first

    def splice(self, program: Program, inputs: Sequence[int]) -> list[int]:
        """Copy the live operations of a program, with variables of this builder as its inputs.

        Returns:
            the variables of its outputs.
        """
        moved: dict[int, int] = dict(zip(program.input_ids, inputs, strict=True))
        for k, value in program.constant_values.items():
            moved[k] = self.constant(value, program.avals[k])
        for k, _ in program.schedule:
            self.copy(program, k, moved)
        return [moved[i] for i in program.output_ids]

    def copy(self, program: Program, k: int, moved: dict[int, int]) -> None:
        """Copy one operation; ``moved`` maps operands to variables here, and gets the results."""
        primitive, operands, params = program.ops[k]
        placed = tuple(
            [moved[i] if i >= 0 else self.literal(program.literals[~i]) for i in operands]
        )
        first = self.place(
            primitive, placed, params, program.positions[k] if k < len(program.positions) else None
        )
        for j in range(program.result_count(k) if primitive.many else 1):
            moved[k + j] = first + j

    def program(
        self,
        outputs: Sequence[int],
        name: str,
        input_names: Sequence[str | None] = (),
        names: Mapping[int, str | None] = _NO_NAMES,
    ) -> Program:
        """Freeze the assembled program."""
        return Program.from_builder(
            self, outputs, name=name, positions=self.positions, input_names=input_names, names=names
        )


@final
class Rewrite(Assembly):
    """Rewrite a program: keep or replace operations; source positions and names are preserved.

    Args:
        source: the source program.
        inputs: positions of the source's inputs that stay inputs, in order, and avals of additional
            unused inputs; by default all. For an omitted input, the caller stores its replacement
            in ``moved``.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> from functrace.ops.elementwise import cos, sin
        >>> write = Rewrite(ft.trace(lambda x: np.sin(x) * 2.0)(1.0))
        >>> for k, _ in write.source.schedule:
        ...     primitive, operands, params = write.source.ops[k]
        ...     if primitive is sin:
        ...         write.replace(k, [write.place(cos, (write.operand(operands[0]),), ())])
        ...     else:
        ...         write.keep(k)
        >>> ft.evaluate(write.finish(), 0.0)
        np.float64(2.0)
    """

    __slots__ = ("_input_names", "moved", "source")

    def __init__(self, source: Program, inputs: Iterable[int | ShapeDtype] | None = None) -> None:
        super().__init__()
        self.source = source
        ids, names = source.input_ids, source.input_names
        self.moved: dict[int, int] = {}
        """Variable here for each variable of the source."""
        self._input_names: list[str | None] = []
        for place in range(len(ids)) if inputs is None else inputs:
            if isinstance(place, ShapeDtype):
                self.input(place)
                self._input_names.append(None)
            else:
                self.moved[ids[place]] = self.input(source.avals[ids[place]])
                self._input_names.append(names[place] if place < len(names) else None)

    def operand(self, i: int) -> int:
        """Return the variable here for an operand of the source; add constants on first use."""
        if i < 0:
            return self.literal(self.source.literals[~i])
        found = self.moved.get(i)
        if found is None:
            found = self.moved[i] = self.constant(
                self.source.constant_values[i], self.source.avals[i]
            )
        return found

    def position(self, k: int) -> Position:
        """Return the source position of an operation of the source program."""
        return self.source.positions[k] if k < len(self.source.positions) else None

    def keep(self, k: int, bodies: Callable[[Program], Program] | None = None) -> None:
        """Copy an operation.

        Args:
            k: the variable of its first result.
            bodies: a pass to apply to its sub-programs; by default they stay as they are.
        """
        source = self.source
        primitive, operands, params = source.ops[k]
        if bodies is None or primitive.holds is None:
            self.keep_each((k,))
            return
        params = tuple([with_programs(param, bodies) for param in params])
        self._place(k, primitive, tuple(map(self.operand, operands)), params)

    def keep_each(self, kept: Iterable[int]) -> None:
        """Copy operations, with their sub-programs.

        Args:
            kept: the variables of their first results, in order.
        """
        source, moved, literals, avals = self.source, self.moved, self.literals, self.avals
        primitives, positions = self.primitives, self.positions
        ops, numbers, known, places = source.ops, source.literals, source.avals, source.positions
        for k in kept:
            primitive, operands, params = ops[k]
            given: list[int] = []
            is_same = not primitive.many
            for i in operands:
                if i < 0:
                    literals.append(numbers[~i])
                    given.append(-len(literals))
                    continue
                j = moved[i] if i in moved else self.operand(i)
                if avals[j] is not known[i]:
                    is_same = False
                given.append(j)
            if not is_same:
                self._place(k, primitive, tuple(given), params)
                continue
            # Operands of the same avals: the result has the same one, too. (0.6 us; to infer, 1.5)
            first = moved[k] = len(primitives)
            primitives.append(primitive)
            self.operands.append(tuple(given))
            self.params.append(params)
            avals.append(known[k])
            if len(positions) != first:
                positions.extend([None] * (first - len(positions)))
            positions.append(places[k] if k < len(places) else None)

    def _place(
        self, k: int, primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...]
    ) -> None:
        """Add an operation for one of the source."""
        first = self.place(primitive, operands, params, self.position(k))
        for j in range(self.source.result_count(k) if primitive.many else 1):
            self.moved[k + j] = first + j

    def keep_all(self) -> list[int]:
        """Copy all operations; return the variables of the outputs."""
        self.keep_each([k for k, _ in self.source.schedule])
        return [self.operand(i) for i in self.source.output_ids]

    def replace(self, k: int, results: Iterable[int]) -> None:
        """Replace the results of an operation by variables of this program."""
        self.moved.update(enumerate(results, k))

    def finish(self, outputs: Sequence[int] | None = None) -> Program:
        """Freeze the result; by default the outputs are those of the source."""
        source, moved = self.source, self.moved
        chosen = [self.operand(i) for i in source.output_ids] if outputs is None else outputs
        self.positions.extend([None] * (len(self.primitives) - len(self.positions)))
        names: dict[int, str | None] = {}
        for i, name in source.names.items():
            if i in moved:
                names.setdefault(
                    moved[i], name
                )  # the replacement of a later variable keeps its name
        return self.program(chosen, source.name, source.input_names, names)


Compiled = Callable[..., tuple[Any, ...]]
"""A compiled form of a program: called with one argument per input, it returns a tuple of outputs.
"""


Choose = Callable[[Op], Program | None]
Enter = Callable[[Rewrite, int, list[int]], list[int]]


def inline(program: Program, choose: Choose, enter: Enter | None = None) -> Program:
    """Return an equal program in which calls, at any depth, are replaced by their sub-programs.

    Args:
        program: any program.
        choose: returns the sub-program to inline for an operation, or ``None`` to keep it.
        enter: maps the rewrite, a replaced operation and its operands there to the arguments of its
            sub-program.
    """
    if not any(choose(op) is not None for op in program.ops):
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        held = choose(program.ops[k])
        if held is None:
            write.keep(k)
        else:
            given = [write.operand(i) for i in program.ops[k][1]]
            given = given if enter is None else enter(write, k, given)
            write.replace(k, write.splice(inline(held, choose, enter), given))
    return write.finish()


class Restriction(NamedTuple):
    """Result of `restrict`: the program, and which of the requested inputs it has."""

    program: Program
    used: tuple[int, ...]


def restrict(
    program: Program,
    inputs: Sequence[int],
    outputs: Sequence[int],
    *,
    keep: bool = False,
    effects: bool | None = None,
) -> Restriction:
    """Return the part of a program that computes ``outputs`` from ``inputs``, any variables of it.

    Dead operations are dropped, as are those before a variable in ``inputs``. Unused inputs are
    dropped, unless ``keep``. Operations with side effects (`Primitive.kept`) stay if ``effects``,
    by default if ``keep``.

    Raises:
        ProgramError: if an output depends on an input of ``program`` that is not among ``inputs``.
    """
    ops, avals = program.ops, program.avals
    given = set(inputs)
    needed = set(outputs)
    if keep if effects is None else effects:
        needed.update(
            k
            for k, (primitive, _, params) in enumerate(ops)
            if primitive.kept is not None and primitive.kept(*params)
        )
    for k in range(len(ops) - 1, -1, -1):
        if k in needed and k not in given:
            first = k
            while ops[first][0] is RESULT:  # (the first result may be given, and others not)
                first -= 1
            needed.update(i for i in ops[first][1] if i >= 0)
    build = Assembly()
    used = tuple(i for i in dict.fromkeys(inputs) if keep or i in needed)
    moved = {i: build.input(avals[i]) for i in used}
    for k, (primitive, _, _) in enumerate(ops):
        if primitive is RESULT or (k not in needed and not primitive.many):
            continue
        results = range(k, k + program.result_count(k)) if primitive.many else (k,)
        if not any(j in needed and j not in given for j in results):
            continue
        if primitive is INPUT:
            name = program.variables[k].name
            raise ProgramError(
                f"an output depends on input {name}, which is left out",
                fix="name it among the inputs",
            )
        if primitive is CONSTANT:
            moved[k] = build.constant(program.constant_values[k], avals[k])
            continue
        kept = {j: moved[j] for j in results if j in given and j in moved}
        build.copy(program, k, moved)
        moved.update(kept)
    called = dict(zip(program.input_ids, program.input_names, strict=False))
    names = {moved[i]: name for i, name in program.names.items() if i in moved}
    made = build.program(
        [moved[i] for i in outputs], program.name, [called.get(i) for i in used], names
    )
    return Restriction(made, used)


def is_compact(program: Program) -> bool:
    """Return True if a rewrite that keeps all operations gives the same tape: nothing is dead, and
    inputs, constants and numbers are in the order of their first use.
    """
    ops, end, number = program.ops, len(program.input_ids), 0
    if program.lines or program.input_ids != tuple(range(end)):
        return False
    if any(ops[i][0] is not INPUT for i in program.input_ids):  # (a residual is a constant's entry)
        return False
    for k, _ in program.schedule:
        primitive, operands, _ = ops[k]
        for i in operands:
            if i < 0:
                if ~i != number:
                    return False
                number += 1
            elif i >= end:
                if i != end:
                    return False
                end += 1  # a constant, at its first use
        if k != end:
            return False
        end += program.result_count(k) if primitive.many else 1
    for i in program.output_ids:
        if i >= end:
            if i != end:
                return False
            end += 1
    return end == len(ops) and number == len(program.literals)


def compact(program: Program) -> Program:
    """Return a program without dead operations, constants and numbers; itself, if there are none."""
    if is_compact(program):
        return program
    write = Rewrite(program)
    return write.finish(write.keep_all())


def reordered(program: Program, inputs: Sequence[int]) -> Program:
    """Return the program with its inputs permuted: ``inputs`` are their present positions."""
    return Program(
        program.ops,
        program.avals,
        program.literals,
        [program.input_ids[k] for k in inputs],
        program.constant_values,
        program.output_ids,
        positions=program.positions,
        name=program.name,
    )


def with_inputs(
    program: Program, explicit: int, before: Sequence[Any], after: Sequence[Any]
) -> Program:
    """Add unused captured inputs to a program, so that it has the same signature as related ones.

    Args:
        program: a closed program.
        explicit: how many of its inputs are explicit.
        before, after: captured values of the other programs, placed before and after its own.
    """
    own = range(explicit, len(program.input_ids))
    write = Rewrite(program, [*range(explicit), *map(aval_of, before), *own, *map(aval_of, after)])
    return write.finish(write.keep_all())


def closed_over(
    program: Program, moves: Callable[[ShapeDtype], bool] = lambda _: True
) -> tuple[Program, list[Any]]:
    """Return the program with its constants as additional last inputs, and their values.

    Args:
        program: any program.
        moves: returns True for the aval of a constant that becomes an input; by default all do.
    """
    moved = {i: value for i, value in program.constant_values.items() if moves(program.avals[i])}
    kept = {i: value for i, value in program.constant_values.items() if i not in moved}
    ops = list(program.ops)
    for i in moved:
        ops[i] = (INPUT, (), (program.avals[i],))
    made = Program(
        ops,
        program.avals,
        program.literals,
        (*program.input_ids, *moved),
        kept,
        program.output_ids,
        positions=program.positions,
        name=program.name,
        input_names=program.input_names,
    )
    return made, list(moved.values())


def holds_kept(*params: object) -> bool:
    """Return True if sub-programs in params have side effects: a ``kept`` rule."""
    return any(_holds(param) for param in params)


def _holds(param: object) -> bool:
    parts: Any = param
    if type(param) is tuple:
        return any(map(_holds, parts))
    return isinstance(param, Program) and param.keeps


def without_kept(program: Program) -> Program:
    """Return the program without side effects, at any depth: for a second run."""
    if not program.keeps:
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, _, params = program.ops[k]
        if primitive.kept is None or not primitive.kept(*params):
            write.keep(k)
        elif primitive.holds is not None:
            write.keep(k, bodies=without_kept)
    return write.finish()


def with_programs(param: object, change: Callable[[Program], Program]) -> Any:
    """Return a static param with ``change`` applied to every program in it, also inside tuples."""
    parts: Any = param
    if type(param) is tuple:
        return tuple([with_programs(part, change) for part in parts])
    return change(param).interned() if isinstance(param, Program) else param


def output_avals(program: Program) -> tuple[ShapeDtype, ...]:
    """Return the avals of the outputs."""
    return tuple(program.avals[i] for i in program.output_ids)
