"""What a rewrite that saves an operation looks at, and the row that it stands in with its example.

Layer: 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program


@final
@dataclass(frozen=True, slots=True)
class Sought:
    """What rules look at: the program that is read, the one that is written, and how often variables are read.

    Args:
        program: the program.
        write: what is written.
        readers: by variable, how often an operation or the caller reads it.
    """

    program: Program
    write: Rewrite
    readers: Counter[int]

    def operands(self, i: int, primitive: Primitive) -> tuple[int, ...] | None:
        """The operands of a variable that this primitive has made."""
        found = self.program.ops[i] if i >= 0 else None
        return found[1] if found is not None and found[0] is primitive else None

    def is_float(self, k: int) -> bool:
        """Whether a variable is of real floats."""
        return self.program.avals[k].dtype.kind == "f"

    def number(self, i: int) -> float | None:
        """An operand that is a Python number, other than 0 or a bool."""
        value = None if i >= 0 else self.program.literals[~i]
        return value if type(value) in (int, float) and value and not isinstance(value, complex) else None

    def finite(self, i: int) -> float | None:
        """The value of an operand that is a Python number, or a constant of one element, and real and finite."""
        value = self.program.literals[~i] if i < 0 else self.program.constant_values.get(i)
        if not isinstance(value, int | float | np.ndarray | np.generic) or np.size(value) != 1 or np.iscomplexobj(value):
            return None
        number = float(np.reshape(value, ())[()])
        return number if math.isfinite(number) else None

    def put(self, k: int, primitive: Primitive, *operands: int) -> int:
        """Write an operation in place of ``k``; returns the new variable."""
        return self.write.place(primitive, operands, (), self.write.position(k))


Rule = Callable[[Sought, int], int | None]
"""From an operation to what stands for its result in the program that is written; ``None`` where it does not apply."""


@final
@dataclass(frozen=True, slots=True)
class Saving:
    """A rule, and what it does to an example.

    Args:
        name: for people.
        primitive: the operation that it begins at.
        rule: writes something else.
        before: an example: the listing of a program.
        after: what becomes of it.
    """

    name: str
    primitive: Primitive
    rule: Rule
    before: str
    after: str
