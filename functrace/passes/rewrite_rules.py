"""Data of rewrite rules that save an operation: the context that a rule reads, and a row with its
example.

Layer: 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import final

import numpy as np

from functrace.ir.parts import Rewrite, compact
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program


@final
class RewriteContext:
    """Context of rules: the source program, the rewrite, and use counts.

    Args:
        program: the program.

    Attributes:
        readers: by variable, number of reads by operations and the caller.
    """

    __slots__ = ("_kept", "_write", "is_changed", "program", "readers")

    def __init__(self, program: Program) -> None:
        self.program = program
        ops = program.ops
        self.readers = Counter(program.output_ids)
        self.readers.update(chain.from_iterable([ops[k][1] for k, _ in program.schedule]))
        self._write = Rewrite(program)
        self._kept: list[int] = []
        self.is_changed = False

    @property
    def write(self) -> Rewrite:
        """The rewrite of what comes before an operation. A rule reads it once it applies: a program
        to which none applies is not written.
        """
        if self._kept:
            self._write.keep_each(self._kept)
            self._kept = []
        return self._write

    def keep(self, k: int) -> None:
        """Keep an operation."""
        self._kept.append(k)

    def replace(self, k: int, found: int) -> None:
        """Replace the result of an operation."""
        self.write.replace(k, [found])
        self.is_changed = True

    def finish(self) -> Program:
        """Return the new program without dead code, or the source if nothing has been replaced."""
        return compact(self.write.finish()) if self.is_changed else self.program

    def operands(self, i: int, primitive: Primitive) -> tuple[int, ...] | None:
        """Return the operands of a variable that ``primitive`` computed; None if another primitive
        did.
        """
        found = self.program.ops[i] if i >= 0 else None
        return found[1] if found is not None and found[0] is primitive else None

    def is_float(self, k: int) -> bool:
        """Return True if a variable has a real floating dtype."""
        return self.program.avals[k].dtype.kind == "f"

    def number(self, i: int) -> float | None:
        """Return the value of an operand that is a Python number, other than 0 or a bool."""
        value = None if i >= 0 else self.program.literals[~i]
        return (
            value
            if type(value) in (int, float) and value and not isinstance(value, complex)
            else None
        )

    def finite(self, i: int) -> float | None:
        """Return the value of an operand that is a real, finite number, or a constant of one
        element.
        """
        value = self.program.literals[~i] if i < 0 else self.program.constant_values.get(i)
        if (
            not isinstance(value, int | float | np.ndarray | np.generic)
            or np.size(value) != 1
            or np.iscomplexobj(value)
        ):
            return None
        number = float(np.reshape(value, ())[()])
        return number if math.isfinite(number) else None

    def put(self, k: int, primitive: Primitive, *operands: int) -> int:
        """Write an operation in place of ``k``; returns the new variable."""
        return self.write.place(primitive, operands, (), self.write.position(k))


Rule = Callable[[RewriteContext, int], int | None]
"""From an operation to the replacement of its result in the new program; ``None`` if the rule does
not apply.
"""


@final
@dataclass(frozen=True, slots=True)
class RuleEffect:
    """A rule, and its effect on an example.

    Args:
        name: for display.
        primitive: the root operation of its pattern.
        rule: writes the replacement.
        before: an example: the listing of a program.
        after: the rewritten example.
        reads: operations that its pattern has besides the root: a program that lacks one is not
            searched.
    """

    name: str
    primitive: Primitive
    rule: Rule
    before: str
    after: str
    reads: tuple[Primitive, ...] = ()


def rules_by_root(
    rows: Iterable[RuleEffect], present: frozenset[Primitive]
) -> dict[Primitive, tuple[Rule, ...]]:
    """Return the rules that may apply, in order, by the root of their pattern.

    Args:
        rows: the rules.
        present: the operations of a program.
    """
    found: dict[Primitive, tuple[Rule, ...]] = {}
    for row in rows:
        if row.primitive in present and present.issuperset(row.reads):
            found[row.primitive] = (*found.get(row.primitive, ()), row.rule)
    return found
