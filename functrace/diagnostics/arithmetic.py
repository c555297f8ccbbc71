"""`Arithmetic`: numbers with more digits, in which `functrace.debug.precision` evaluates a program
again.

Layer: 6.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from functrace.ir.primitive import LINEAR, Primitive
from functrace.ops import elementwise as ew
from functrace.ops.broadcasting import Elementwise
from functrace.ops.shaping import convert_p, real
from functrace.typing import Array

Number: TypeAlias = Any
"""A number of some arithmetic, such as one of mpmath's."""

CHOICES: frozenset[Primitive] = frozenset(
    {
        ew.neg, ew.positive, ew.absolute, ew.fabs, ew.where, ew.maximum, ew.minimum, ew.fmax, ew.fmin,
        ew.clip, ew.clip_above, ew.clip_below, ew.conj, ew.copysign, ew.relu, ew.imag, ew.complex_of,
        ew.stop_gradient, convert_p, real,
    }
)  # fmt: skip
"""Elementwise operations without rounding."""
_NEVER_ABSORBED: frozenset[Primitive] = frozenset(
    {ew.mul, ew.div, ew.sqrt, ew.square, ew.reciprocal}
)
"""Operations whose results are exact if they have few digits."""


class Arithmetic(abc.ABC):
    """Numbers with more digits, in arrays.

    Args:
        noise: the relative change of rounded results; ``None`` to leave them.

    Attributes:
        real, complex_: dtypes of such arrays.
    """

    real: np.dtype[Any]
    complex_: np.dtype[Any]

    def __init__(self, noise: Number) -> None:
        self._noise, self._random = noise, np.random.default_rng(0)

    def dtype(self, of: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of values that have a floating or complex dtype."""
        return self.complex_ if of.kind == "c" else self.real

    @abc.abstractmethod
    def lift(self, value: Number) -> Any:
        """Return a floating or complex value in this arithmetic, exactly."""

    @abc.abstractmethod
    def apply(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        params: tuple[Any, ...],
        *,
        is_complex: bool,
    ) -> tuple[Any, ...] | None:
        """Apply an operation; ``None`` if this arithmetic does not have it."""

    @abc.abstractmethod
    def error(self, value: Number, exact: Number, tiny: float) -> Array:
        """Return the relative errors of values (of any arithmetic); 0 for two NaN or infinities.

        Args:
            value: the values.
            exact: the values in this arithmetic.
            tiny: numbers below it are as large, so that underflow alone is no error.
        """

    @abc.abstractmethod
    def narrow(self, value: Number) -> Any:
        """Return values rounded to float64 or complex128."""

    def perturbed(self, primitive: Primitive, operands: Sequence[Any], result: Number) -> Any:
        """Change elements of a result that are rounded at random by a rounding error.

        Not rounded are sums whose terms can be found again; products, quotients and roots with few
        digits; and likewise other functions, of 0, 1 or -1.
        """
        if self._noise is None or primitive.jvp is LINEAR or primitive in CHOICES:
            return result
        signs = self._random.integers(0, 2, np.shape(result)) * 2 - 1
        moved = result * (1 + signs * self._noise)
        if primitive is ew.add or primitive is ew.sub:
            a, b = operands if primitive is ew.add else (operands[0], np.negative(operands[1]))
            is_exact = (result - a == b) & (result - b == a)
        else:
            is_exact = self._is_short(result)
            if primitive not in _NEVER_ABSORBED:
                if not isinstance(primitive, Elementwise):
                    return moved
                for x in operands:
                    is_exact = is_exact & ((x == 0) | (x == 1) | (x == -1))
        return np.where(np.asarray(is_exact, bool), result, moved)

    @abc.abstractmethod
    def _is_short(self, value: Number) -> Array:
        """Return True where a value has few digits."""

    def text(self, value: Number, digits: int) -> str:
        """Write one value."""
        return f"{np.asarray(value)[()]:.{digits}g}"
