"""Symbolic sizes and scalars, with recorded guards: one program for many sizes, positions and
exponents.

Code that runs with an `SymbolicNumber` in place of a number traces a program that contains the symbol.
Each comparison of the number, such as ``n == 1``, is evaluated for an example value and recorded as
a guard (`Comparisons`): the program is valid for all numbers with the same results, since the trace
read nothing else of them. A use that cannot be recorded, such as a size that NumPy itself reads,
raises `NeedsConcreteNumber`.

    >>> guards = Comparisons()
    >>> n = guards.size(0, 12)  # some size, 12 for example
    >>> n * 2 > 10  # recorded as a guard
    True
    >>> guards.fit([7]), guards.fit([5])
    (True, False)

Note [Sizes are not 0 or 1]
    Rules compare nearly every size with 1 and with other sizes. Code that traces programs for many
    sizes keeps sizes 0 and 1 concrete, and gives equal sizes one symbol; so symbolic sizes decide
    these two comparisons without a guard.

Layer: 0.
"""

# The functions below the class belong to it.

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, final

MOST_COMPARISONS = 12
"""Maximum number of guards; checking more costs more than tracing the program again."""


class NeedsConcreteNumber(BaseException):
    """Signal that a concrete number is needed. No `Exception`: calling code must not handle it as a
    failure of its own.
    """


@final
class Comparison:
    """A comparison of two numbers that a trace has evaluated: one guard condition.

    Args:
        relation: e.g. ``operator.lt``.
        a, b: the two numbers; at least one is symbolic.
    """

    __slots__ = ("_a", "_b", "_relation", "_text")

    def __init__(self, relation: Callable[[Any, Any], bool], a: object, b: object) -> None:
        self._relation, self._a, self._b = relation, reading(a), reading(b)
        self._text = f"{relation.__name__}({a!r}, {b!r})"

    def __str__(self) -> str:
        return self._text

    def outcome(self, given: Sequence[Any]) -> bool:
        """Evaluate the comparison for concrete numbers, given by position."""
        return self._relation(self._a(given), self._b(given))


@final
class Comparisons:
    """Guards of a trace: the comparisons of symbolic numbers while a program was traced, with their
    results.
    """

    __slots__ = ("_made", "_results", "is_closed")

    def __init__(self) -> None:
        self._results: dict[tuple[Any, ...], tuple[Comparison, bool]] = {}
        self._made: dict[tuple[Any, ...], SymbolicNumber] = {}
        self.is_closed = False
        """True if a comparison that is not recorded yet raises `NeedsConcreteNumber`."""

    def size(self, place: int, example: int) -> SymbolicNumber:
        """Return a symbolic size or position: not 0 or 1, and no two are equal."""
        return SymbolicNumber(self, example, None, (place,), is_size=True)

    def number(self, place: int, example: float) -> SymbolicNumber:
        """Return a symbolic number."""
        return SymbolicNumber(self, example, None, (place,))

    def evaluate(self, relation: Callable[[Any, Any], bool], a: object, b: object) -> bool:
        """Evaluate a comparison for the example values, and record it."""
        key = (relation, _name(a), _name(b))
        found = self._results.get(key)
        if found is None:
            if self.is_closed or len(self._results) == MOST_COMPARISONS:
                raise NeedsConcreteNumber
            found = self._results[key] = (
                Comparison(relation, a, b),
                relation(_example(a), _example(b)),
            )
        return found[1]

    def compute(self, function: Callable[..., Any], *operands: object) -> SymbolicNumber:
        """Apply a pure function to numbers; return the same object for the same operands."""
        key = (function, *map(_name, operands))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = SymbolicNumber(
                self, function(*map(_example, operands)), function, operands
            )
        return found

    @property
    def recorded(self) -> list[tuple[Comparison, bool]]:
        """Recorded comparisons with their results, in order."""
        return [*self._results.values()]

    def fit(self, given: Sequence[Any]) -> bool:
        """Return True if every recorded comparison has the same result for these numbers."""
        return all(comparison.outcome(given) is outcome for comparison, outcome in self.recorded)


@final
class SymbolicNumber:
    """A symbolic number: it supports arithmetic and comparisons, and passes ``isinstance`` checks
    as int or float.

    Args:
        `comparisons`: record of its comparisons.
        example: concrete number for which comparisons are evaluated.
        function: function that computes it; ``None`` if it is an input.
        operands: operands of the function; for an input, its position.
        is_size: see Note [Sizes are not 0 or 1].
    """

    __slots__ = ("comparisons", "example", "function", "is_size", "operands")

    def __init__(
        self,
        comparisons: Comparisons,
        example: float,
        function: Callable[..., Any] | None,
        operands: tuple[Any, ...],
        is_size: bool = False,
    ) -> None:
        if type(example) is not int and type(example) is not float:
            raise NeedsConcreteNumber
        self.comparisons, self.example, self.function, self.operands = (
            comparisons,
            example,
            function,
            operands,
        )
        self.is_size = is_size

    @property
    def __class__(self) -> type:  # so that `isinstance` sees a number
        return type(self.example)

    @__class__.setter
    def __class__(self, kind: type) -> NoReturn:
        raise TypeError("the class of an unknown number cannot be set")

    __hash__ = object.__hash__

    def _computed(self, function: Callable[..., Any], *operands: object) -> Any:
        if all(type(x) in (int, float, SymbolicNumber) for x in operands):
            return self.comparisons.compute(function, *operands)
        raise NeedsConcreteNumber

    def _compared(self, relation: Callable[[Any, Any], bool], a: object, b: object) -> bool:
        if type(b) in (int, float, bool, SymbolicNumber):
            return self.comparisons.evaluate(relation, a, b)
        raise NeedsConcreteNumber

    # -- comparisons ---------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if other is self and type(self.example) is int:
            return True
        if self.is_size and (
            (type(other) is int and 0 <= other <= 1)
            or (type(other) is SymbolicNumber and other.is_size)
        ):
            return False
        if type(other) not in (int, float, bool, SymbolicNumber):
            return (
                False
                if other is None or isinstance(other, (str, tuple)) or other is Ellipsis
                else _refuse()
            )
        return self._compared(operator.eq, self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return self._compared(operator.lt, self, other)

    def __le__(self, other: object) -> bool:
        return self._compared(operator.le, self, other)

    def __gt__(self, other: object) -> bool:
        return self._compared(operator.gt, self, other)

    def __ge__(self, other: object) -> bool:
        return self._compared(operator.ge, self, other)

    def __bool__(self) -> bool:
        return self != 0

    # -- arithmetic ----------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        return (
            self if type(other) is int and not other else self._computed(operator.add, self, other)
        )

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return (
            self if type(other) is int and not other else self._computed(operator.sub, self, other)
        )

    def __rsub__(self, other: object) -> Any:
        return self._computed(operator.sub, other, self)

    def __mul__(self, other: object) -> Any:
        return (
            self if type(other) is int and other == 1 else self._computed(operator.mul, self, other)
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        return self._computed(_divide_down, self, other)

    def __truediv__(self, other: object) -> Any:
        return self._computed(_divide, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._computed(_divide, other, self)

    def __mod__(self, other: object) -> Any:
        return self._computed(operator.mod, self, other)

    def __neg__(self) -> Any:
        return self._computed(operator.neg, self)

    def __abs__(self) -> Any:
        return self._computed(operator.abs, self)

    # -- uses that need a concrete number ------------------------------------------------------

    def __index__(self) -> NoReturn:
        raise NeedsConcreteNumber

    __int__ = __float__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise NeedsConcreteNumber

    def __reduce__(self) -> NoReturn:
        raise NeedsConcreteNumber

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(self.example, name):
            raise NeedsConcreteNumber
        raise AttributeError(f"{type(self.example).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        if self.function is None:
            return f"n{self.operands[0]}"
        return f"{self.function.__name__}({', '.join(map(repr, self.operands))})"


def _divide(a: float, b: float) -> float:
    return a / b


def _divide_down(a: float, b: float) -> float:
    return a // b


def _refuse() -> NoReturn:
    raise NeedsConcreteNumber


def _name(x: object) -> Any:
    return (id(x),) if type(x) is SymbolicNumber else (type(x), x)


def _example(x: object) -> Any:
    return x.example if type(x) is SymbolicNumber else x


def reading(value: object) -> Callable[[Sequence[Any]], Any]:
    """Return a function from concrete inputs to the value of a number: an ``itemgetter`` if it is
    an input.

    Example:
        >>> n = Comparisons().size(0, 5)
        >>> reading(2 * n)([7])
        14
    """
    if type(value) is not SymbolicNumber:
        return lambda given: value
    function, operands = value.function, value.operands
    if function is None:
        return operator.itemgetter(operands[0])
    parts = [reading(x) for x in operands]
    if len(parts) == 2:
        first, second = parts
        return lambda given: function(first(given), second(given))
    return lambda given: function(*[part(given) for part in parts])


def computed(function: Callable[..., Any], *numbers: object) -> Any:
    """Apply a pure function to numbers that may be symbolic."""
    for x in numbers:
        if type(x) is SymbolicNumber:
            return x.comparisons.compute(function, *numbers)
    return function(*numbers)
