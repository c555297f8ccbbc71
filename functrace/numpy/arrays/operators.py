"""Table of Python's operators: name and ufunc.

Three classes have them: traced arrays (functrace/numpy/arrays/arithmetic.py), traced numbers, and
selections by an abstract mask. Each class defines how to apply a plain, reflected or in-place
operator; `set_operators` makes the methods.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul_p


@final
@dataclass(frozen=True, slots=True)
class Operator:
    """Binary operator: ``__add__`` with ``__radd__`` and ``__iadd__``; comparisons have neither."""

    name: str
    ufunc: np.ufunc
    compares: bool = False
    """True for a comparison."""
    counts: bool = True
    """True if a Python bool counts as 0 or 1, as for ``+``; false for ``&``."""
    elementwise: bool = True
    """True if numbers have it, too."""

    @property
    def primitive(self) -> Primitive:
        """The primitive that it records."""
        return ew.UFUNCS[self.ufunc] if self.elementwise else matmul_p


OPERATORS = (
    Operator("add", np.add),
    Operator("sub", np.subtract),
    Operator("mul", np.multiply),
    Operator("truediv", np.divide),
    Operator("floordiv", np.floor_divide),
    Operator("mod", np.remainder),
    Operator("pow", np.power),
    Operator("matmul", np.matmul, elementwise=False),
    Operator("and", np.bitwise_and, counts=False),
    Operator("or", np.bitwise_or, counts=False),
    Operator("xor", np.bitwise_xor, counts=False),
    Operator("lshift", np.left_shift),
    Operator("rshift", np.right_shift),
    Operator("lt", np.less, compares=True, counts=False),
    Operator("le", np.less_equal, compares=True, counts=False),
    Operator("gt", np.greater, compares=True, counts=False),
    Operator("ge", np.greater_equal, compares=True, counts=False),
    Operator("eq", np.equal, compares=True, counts=False),
    Operator("ne", np.not_equal, compares=True, counts=False),
)

UNARY: dict[str, ew.Elementwise] = {
    "neg": ew.neg,
    "pos": ew.positive,
    "abs": ew.absolute,
    "invert": ew.invert,
}
"""Unary operators, and the primitive of each."""


class OperatorFactory(Protocol):
    """Factory for operator methods."""

    def __call__(self, row: Operator, *, reflected: bool) -> Callable[[Any, Any], Any]:
        """Return the method; ``reflected`` if ``self`` is the right operand."""
        ...


def set_operators(
    kind: type,
    binary: OperatorFactory,
    in_place: Callable[[Operator], Callable[[Any, Any], Any]] | None,
    unary: Callable[[ew.Elementwise], Callable[[Any], Any]],
    *,
    elementwise: bool = True,
) -> None:
    """Set the operators of a class, except those that it defines itself.

    Args:
        kind: the class.
        binary: makes the method of a plain or reflected binary operator.
        in_place: makes the method of ``+=`` …; ``None`` to use the one of ``+``.
        unary: makes the method of a unary operator.
        elementwise: True to set only the elementwise operators.
    """
    made: dict[str, Callable[..., Any]] = {
        f"__{name}__": unary(primitive) for name, primitive in UNARY.items()
    }
    for row in OPERATORS:
        if elementwise and not row.elementwise:
            continue
        made[f"__{row.name}__"] = binary(row, reflected=False)
        if not row.compares:
            made[f"__r{row.name}__"] = binary(row, reflected=True)
            made[f"__i{row.name}__"] = (
                binary(row, reflected=False) if in_place is None else in_place(row)
            )
    for name, method in made.items():
        if name not in kind.__dict__:
            method.__name__, method.__qualname__ = name, f"{kind.__qualname__}.{name}"
            setattr(kind, name, method)
