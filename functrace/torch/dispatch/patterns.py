"""Patterns: the part of a call that its derivative depends on, so that one derivation serves many
sizes and numbers.

The derivative of ``x + y`` is the same program for all shapes in which the same axes have equal
sizes, up to the sizes that it contains. So a plan is derived once per pattern, with symbolic
numbers (`SymbolicNumber`) for the sizes, of which only equality is fixed, and instantiated by
substituting concrete sizes. Comparisons that a rule of the core evaluates on a symbolic number
become guards: if one fails, another plan is derived (`Comparisons`); where a rule needs the concrete
number, plans are specialized to it.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.symbolic_numbers import Comparisons, SymbolicNumber

_OPEN = object()
"""Placeholder in a key for an arbitrary number."""


@final
class Pattern:
    """The pattern of the operands and parameters of one operation.

    Args:
        specs: avals of operands; types of numbers, or ``(type, number)`` for numbers that are part
            of the plan.
        params: static parameters.
        numbers: True if numbers that are part of the plan become symbolic.
        measures: True if sizes and positions among the parameters become symbolic.
    """

    __slots__ = ("_measures", "_numbers", "_params", "_places", "_specs", "given", "key")

    def __init__(
        self, specs: Sequence[Any], params: tuple[Any, ...], numbers: bool, measures: bool
    ) -> None:
        self._specs, self._params, self._numbers, self._measures = specs, params, numbers, measures
        self._places: dict[int, int] = {}
        self.given: list[Any] = []
        """Concrete sizes, positions and numbers, by index."""
        key: list[Any] = []
        for spec in specs:
            if isinstance(spec, ShapeDtype):
                key.append(spec.dtype)
                for n in spec.shape:
                    key.append(n if n <= 1 else self._mark(n))
                key.append(None)
            elif numbers and _is_open(spec):
                key.append((spec[0], _OPEN))
                self.given.append(spec[1])
            else:
                key.append(spec)
        key.append(_each(params, self._mark_open) if measures and params else params)
        self.key = tuple(key)

    def _mark(self, n: int) -> int:
        """Return the index of a size as a negative number; equal sizes have the same one."""
        place = self._places.get(n)
        if place is None:
            place = self._places[n] = len(self.given)
            self.given.append(n)
        return ~place

    def _mark_open(self, n: int) -> Any:
        return (_OPEN, self._mark(n)) if n > 1 else n

    def unknown(self) -> tuple[Comparisons, tuple[Any, ...], tuple[Any, ...]]:
        """Return the specs and parameters with symbolic numbers in place of the concrete ones."""
        comparisons = Comparisons()
        sizes = {n: comparisons.size(place, n) for n, place in self._places.items()}
        taken = set(self._places.values())
        places = iter([place for place in range(len(self.given)) if place not in taken])
        specs: list[Any] = []
        for spec in self._specs:
            if isinstance(spec, ShapeDtype):
                specs.append(_unknown_shape(spec, sizes))
            elif self._numbers and _is_open(spec):
                specs.append((spec[0], comparisons.number(next(places), spec[1])))
            else:
                specs.append(spec)
        params = _each(self._params, lambda n: sizes.get(n, n)) if self._measures else self._params
        return comparisons, tuple(specs), params


def _unknown_shape(aval: ShapeDtype, sizes: dict[int, SymbolicNumber]) -> ShapeDtype:
    shape: Any = tuple([sizes.get(n, n) for n in aval.shape])
    return ShapeDtype(shape, aval.dtype)


def _each(param: Any, change: Callable[[int], Any]) -> Any:
    """Return a parameter with every int in it changed."""
    if type(param) is tuple:
        return tuple([_each(part, change) for part in param])
    return change(param) if type(param) is int else param


def _is_open(spec: Any) -> bool:
    """Return True if a number may be symbolic: an int or float, and no bool."""
    return type(spec) is tuple and (spec[0] is int or spec[0] is float)
