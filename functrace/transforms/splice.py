"""`Splice`: the tape of a derivative, put together of a program's and of pieces of templates.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, Primitive
from functrace.ir.program import Program
from functrace.transforms.templates import Piece, Template


@final
class Splice:
    """A tape that continues a program's, or one of its own that tells of a program's lines."""

    def __init__(self, program: Program, *, empty: bool = False) -> None:
        self.program = program
        self.inputs: list[int] = [] if empty else list(program.input_ids)
        self.ops, self.avals, self.literals = list(program.ops), list(program.avals), list(program.literals)
        self.constants = dict(program.constant_values)
        self.origins: list[int | None] = list(range(len(self.ops)))
        if empty:
            for part in (self.ops, self.avals, self.literals, self.constants, self.origins):
                part.clear()

    def input(self, aval: ShapeDtype) -> int:
        """Add an input; returns its variable."""
        self.inputs.append(len(self.ops))
        self.ops.append((INPUT, (), (aval,)))
        self.avals.append(aval)
        self.origins.append(None)
        return self.inputs[-1]

    def append(
        self, primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...], aval: ShapeDtype, origin: int | None
    ) -> int:
        """Add an operation; returns its variable."""
        self.ops.append((primitive, operands, params))
        self.avals.append(aval)
        self.origins.append(origin)
        return len(self.ops) - 1

    def constant(self, value: Any, aval: ShapeDtype, origin: int | None = None) -> int:
        """Add a constant; returns its variable."""
        variable = len(self.ops)
        self.ops.append((CONSTANT, (), (aval,)))
        self.avals.append(aval)
        self.constants[variable] = value
        if origin is not None:
            self.origins.append(origin)
        return variable

    def pieces(self, template: Template, first: int, end: int, slots: list[int], origin: int) -> None:
        """Add pieces of a template; their variables are added to the slots."""
        self._add(template, template.pieces[first:end], first, slots, origin)

    def pushing(self, template: Template, tangents: Sequence[int], slots: list[int], origin: int) -> int:
        """Add what pushes tangents of an operation's operands forward; returns the variable of its result's tangent."""
        slots += tangents
        self._add(template, template.pushing, 0, slots, origin)
        return slots[template.tangent]

    def _add(self, template: Template, pieces: Sequence[Piece], first: int, slots: list[int], origin: int) -> None:
        ops, literals = self.ops, self.literals
        for place, (primitive, operands, params, aval) in enumerate(pieces, first):
            slots.append(len(ops))
            if primitive is CONSTANT:
                self.constants[len(ops)] = template.constants[place]
            ids: list[int] = []
            for i in operands:
                if i >= 0:
                    ids.append(slots[i])
                else:
                    number = template.numbers[~i]
                    literals.append(self.program.literals[~slots[number[0]]] if isinstance(number, tuple) else number)
                    ids.append(-len(literals))
            ops.append((primitive, tuple(ids), params))
            self.avals.append(aval)
            self.origins.append(origin)

    def finish(self, outputs: Sequence[int], name: str) -> Program:
        """Freeze the tape; operations point at the lines that they came from."""
        program, positions = self.program, self.program.positions
        return Program(
            self.ops,
            self.avals,
            self.literals,
            self.inputs,
            self.constants,
            outputs,
            name=name,
            input_names=program.input_names if len(self.inputs) == len(program.input_ids) else (),
            positions=[positions[o] if o is not None and o < len(positions) else None for o in self.origins],
        )
