"""Patterns: what the derivative of an operation depends on, so that one is derived for many sizes, positions and numbers.

The derivative of ``x + y`` is the same program for all shapes in which the same axes have the same sizes, but for the sizes
that it holds. So a plan is derived once for a pattern, with `Unknown` numbers for sizes of which only is known which are
equal, and then made for given ones by putting them in. What a rule of the core asked of an unknown number holds for the
given one too, or another plan is derived (`Questions`); where a rule needs the number itself, plans are for it alone.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.unknown import Questions, Unknown

_OPEN = object()
"""Stands in a key for a number that may be any."""


@final
class Pattern:
    """The pattern of the operands and parameters of one operation.

    Args:
        specs: avals of operands; types of numbers, or ``(type, number)`` for what is part of the plan.
        params: static parameters.
        numbers: whether numbers that are part of the plan are unknown.
        measures: whether sizes and positions among the parameters are unknown.
    """

    __slots__ = ("_measures", "_numbers", "_params", "_places", "_specs", "given", "key")

    def __init__(self, specs: Sequence[Any], params: tuple[Any, ...], numbers: bool, measures: bool) -> None:
        self._specs, self._params, self._numbers, self._measures = specs, params, numbers, measures
        self._places: dict[int, int] = {}
        self.given: list[Any] = []
        """Sizes, positions and numbers, by their places."""
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
        """Return which sizes are equal, as negative numbers."""
        place = self._places.get(n)
        if place is None:
            place = self._places[n] = len(self.given)
            self.given.append(n)
        return ~place

    def _mark_open(self, n: int) -> Any:
        return (_OPEN, self._mark(n)) if n > 1 else n

    def unknown(self) -> tuple[Questions, tuple[Any, ...], tuple[Any, ...]]:
        """Return specs and parameters like these, with unknown numbers in place of those that are given."""
        questions = Questions()
        sizes = {n: questions.size(place, n) for n, place in self._places.items()}
        taken = set(self._places.values())
        places = iter([place for place in range(len(self.given)) if place not in taken])
        specs: list[Any] = []
        for spec in self._specs:
            if isinstance(spec, ShapeDtype):
                specs.append(_unknown_shape(spec, sizes))
            elif self._numbers and _is_open(spec):
                specs.append((spec[0], questions.number(next(places), spec[1])))
            else:
                specs.append(spec)
        params = _each(self._params, lambda n: sizes.get(n, n)) if self._measures else self._params
        return questions, tuple(specs), params


def _unknown_shape(aval: ShapeDtype, sizes: dict[int, Unknown]) -> ShapeDtype:
    shape: Any = tuple([sizes.get(n, n) for n in aval.shape])
    return ShapeDtype(shape, aval.dtype)


def _each(param: Any, change: Callable[[int], Any]) -> Any:
    """Return a parameter with every int in it changed."""
    if type(param) is tuple:
        return tuple([_each(part, change) for part in param])
    return change(param) if type(param) is int else param


def _is_open(spec: Any) -> bool:
    """Whether a number may be unknown: one that can be computed with, and is no truth value."""
    return type(spec) is tuple and (spec[0] is int or spec[0] is float)
