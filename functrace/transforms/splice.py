"""`Splice`: the tape of a derivative, put together of a program's and of pieces of templates.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Builder, Operands, Params
from functrace.ir.walk import reachable
from functrace.transforms.templates import Chosen, Piece, Template


def with_slots(program: Program, chosen: Chosen, outputs: Sequence[int]) -> Iterator[tuple[int, Template, list[int]]]:
    """Yield the operations that have derivatives of their own, in order: each with its template, and its first slots.

    Args:
        program: whose operations they are.
        chosen: the templates of that.
        outputs: what is differentiated.
    """
    templates = chosen.templates
    for k, _ in reachable(program.ops, outputs):
        template = templates[k]
        if template is not None and template.alias < 0:
            yield k, template, [*program.ops[k][1], k, -1]


@final
class Splice(Builder):
    """A tape that continues a program's, or one of its own that tells of a program's lines."""

    __slots__ = ("origins", "program")

    def __init__(self, program: Program, *, empty: bool = False) -> None:
        super().__init__()
        self.program = program
        self.origins: list[int | None] = []
        """Where each entry comes from: an operation of the program."""
        if not empty:
            self.begin(program.columns, program.avals)
            self.inputs.extend(program.input_ids)
            self.literals.extend(program.literals)
            self.constants.update(program.constant_values)
            self.origins.extend(range(len(program.avals)))

    def write(
        self, primitive: Primitive, operands: Operands, params: Params, aval: ShapeDtype, origin: int | None = None
    ) -> None:
        """Write one entry."""
        super().write(primitive, operands, params, aval)
        self.origins.append(origin)

    def place(self, primitive: Primitive, operands: Operands, aval: ShapeDtype, origin: int | None) -> int:
        """Add an operation without params; returns its variable."""
        self.write(primitive, operands, (), aval, origin)
        return len(self.primitives) - 1

    def pieces(self, template: Template, first: int, end: int, slots: list[int], origin: int) -> None:
        """Add pieces of a template; their variables are added to the slots."""
        self._add(template, template.pieces[first:end], first, slots, origin)

    def residuals(self, template: Template, slots: list[int], origin: int, behind: Splice, known: dict[int, int]) -> None:
        """Add what a template computes ahead; what its linear part reads of it becomes inputs of another tape.

        Args:
            template: the template.
            slots: see `with_slots`.
            origin: the operation.
            behind: the other tape.
            known: what is an input there already, each with that input; it is added to.
        """
        self.pieces(template, 0, template.ahead, slots, origin)
        for slot in template.captured:
            i = slots[slot]
            if i not in known:
                known[i] = behind.input(self.avals[i])

    def pushing(self, template: Template, tangents: Sequence[int], slots: list[int], origin: int) -> int:
        """Add what pushes tangents of an operation's operands forward; returns the variable of its result's tangent."""
        slots += tangents
        self._add(template, template.pushing, 0, slots, origin)
        return slots[template.tangent]

    def _add(self, template: Template, pieces: Sequence[Piece], first: int, slots: list[int], origin: int) -> None:
        literals = self.literals
        for place, (primitive, operands, params, aval) in enumerate(pieces, first):
            variable = len(self.primitives)
            slots.append(variable)
            if primitive is CONSTANT:
                self.constants[variable] = template.constants[place]
            ids: list[int] = []
            for i in operands:
                if i >= 0:
                    ids.append(slots[i])
                else:
                    number = template.numbers[~i]
                    literals.append(self.program.literals[~slots[number[0]]] if isinstance(number, tuple) else number)
                    ids.append(-len(literals))
            self.primitives.append(primitive)
            self.operands.append(tuple(ids))
            self.params.append(params)
            self.avals.append(aval)
            self.origins.append(origin)

    def finish(self, outputs: Sequence[int], name: str) -> Program:
        """Freeze the tape; operations point at the lines that they came from."""
        program, positions = self.program, self.program.positions
        details: dict[str, Any] = {"name": name}
        if len(self.inputs) == len(program.input_ids):
            details["input_names"] = program.input_names
        at = [positions[o] if o is not None and o < len(positions) else None for o in self.origins]
        return Program.from_builder(self, outputs, positions=at, **details)
