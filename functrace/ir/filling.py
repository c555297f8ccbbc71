"""Programs with symbolic numbers, and functions that substitute concrete numbers into them.

Layer: 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.ir.symbolic_numbers import NeedsConcreteNumber, SymbolicNumber, reading

Filling = Callable[[Sequence[Any]], Any]
"""Function from concrete numbers, by position, to a param or aval with these numbers."""


def filling(param: object) -> Filling | None:
    """Return the function that substitutes numbers into a param or aval; None if it has no symbols.

    Raises:
        NeedsConcreteNumber: for sub-programs.

    Example:
        >>> from functrace.ir.symbolic_numbers import Comparisons
        >>> n = Comparisons().size(0, 5)
        >>> fill = filling((2 * n, (n, None)))
        >>> fill([7])
        (14, (7, None))
    """
    if type(param) is SymbolicNumber:
        return reading(param)
    if type(param) is tuple:
        return _filling_all(cast("tuple[object, ...]", param))
    if isinstance(param, ShapeDtype):
        dtype, shape = param.dtype, _filling_all(param.shape)
        return None if shape is None else lambda given: ShapeDtype(shape(given), dtype)
    if isinstance(param, slice):
        bounds = cast("slice[object, object, object]", param)
        parts = _filling_all((bounds.start, bounds.stop, bounds.step))
        return None if parts is None else lambda given: slice(*parts(given))
    if isinstance(param, Program):
        raise NeedsConcreteNumber
    return None


def _filling_all(parts: tuple[object, ...]) -> Filling | None:
    fillings = [filling(part) for part in parts]
    if all(fill is None for fill in fillings):
        return None
    places = [fill(_PLACES) if isinstance(fill, operator.itemgetter) else None for fill in fillings]
    if len(places) > 1 and None not in places:
        return operator.itemgetter(*places)
    pairs = list(zip(fillings, parts, strict=True))
    return lambda given: tuple([part if fill is None else fill(given) for fill, part in pairs])


_PLACES = range(1 << 20)
"""Argument with which a reader of a number returns the number's position."""


@final
class ProgramTemplate:
    """A program with symbolic numbers.

    Args:
        program: the program; operands and last uses are computed once for all instances.

    Raises:
        NeedsConcreteNumber: if an operation has a sub-program.
    """

    __slots__ = ("_avals", "_literals", "_ops", "is_concrete", "program")

    def __init__(self, program: Program) -> None:
        self.program = program
        fillings = [(k, filling(params)) for k, (_, _, params) in enumerate(program.ops)]
        self._ops = [(k, fill) for k, fill in fillings if fill is not None]
        self._literals = filling(program.literals)
        self._avals = _filling_all(program.avals)
        runs = {k for k, _ in program.schedule}
        self.is_concrete = self._literals is None and not any(k in runs for k, _ in self._ops)
        """True if the operations that run contain no symbolic numbers: only avals may."""
        assert len(program.aliasing) == len(program.output_ids)

    def fill(self, given: Sequence[Any]) -> Program:
        """Return the program for concrete numbers."""
        program = self.program
        ops = list(program.ops)
        for k, params in self.params(given):
            primitive, operands, _ = ops[k]
            ops[k] = (primitive, operands, params)
        avals = program.avals if self._avals is None else self._avals(given)
        return program.with_same_flow(ops, avals, self.literals(given))

    def params(self, given: Sequence[Any]) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the filled-in params that have symbolic numbers, by operation."""
        return [(k, fill(given)) for k, fill in self._ops]

    def literals(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Return the program's literals for concrete numbers."""
        return self.program.literals if self._literals is None else self._literals(given)
