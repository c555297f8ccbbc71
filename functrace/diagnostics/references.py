"""Arithmetic with more digits, in which `functrace.debug.precision` evaluates a program again.

A reference has two arithmetics, whose results must agree: `Wider` is NumPy in a wider dtype,
`Multiprecision` is mpmath with some number of digits, and with twice as many. The second one changes
every rounded result at random by its rounding error. Otherwise both might lose all digits in the
same way: ``1 - cos(x)`` is 0 for a small x, with any number of digits.

Layer: 6.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.diagnostics.arithmetic import Arithmetic
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.ir.primitive import Primitive
from functrace.ops.broadcasting import Elementwise
from functrace.typing import Array

MOST_DIGITS = 640
"""Decimal digits at which no more are tried."""


@final
class Wider(Arithmetic):
    """NumPy's functions in a wider dtype.

    Args:
        dtype: ``np.float64`` or ``np.longdouble``.
        is_perturbed: True to change results at random by one rounding error of this dtype.
    """

    def __init__(self, dtype: Array, *, is_perturbed: bool = False) -> None:
        self.real = np.dtype(dtype)
        self.complex_ = np.dtype(np.result_type(dtype, np.complex64))
        super().__init__(self.real.type(np.finfo(self.real).eps) if is_perturbed else None)

    def lift(self, value: Array) -> Any:
        """Return a floating or complex value in this arithmetic, exactly."""
        return np.asarray(value).astype(self.dtype(np.asarray(value).dtype))

    def apply(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        params: tuple[Any, ...],
        *,
        is_complex: bool,
    ) -> tuple[Any, ...] | None:
        """Apply an operation; ``None`` if this arithmetic does not have it."""
        is_elementwise = isinstance(primitive, Elementwise)
        given = [self._raised(x, of_integers=is_elementwise) for x in operands]
        widened = tuple([self._wider(p) for p in params])
        try:
            found = primitive.eval(*given, *widened)
        except Exception:  # libraries raise errors of many classes for a dtype that they lack
            return None
        results = tuple([np.asarray(x) for x in (found if primitive.many else (found,))])
        if any(x.dtype.kind in "fc" and x.dtype != self.dtype(x.dtype) for x in results):
            return None
        return tuple(
            [self.perturbed(primitive, given, x) if x.dtype.kind in "fc" else x for x in results]
        )

    def _raised(self, x: Array, *, of_integers: bool) -> Any:
        """Return a floating operand, or an integer one of a function of reals, in this dtype."""
        kind = np.asarray(x).dtype.kind
        return self.lift(x)[()] if kind in "fc" or (of_integers and kind in "iu") else x

    def _wider(self, param: object) -> object:
        return self.dtype(param) if isinstance(param, np.dtype) and param.kind in "fc" else param

    def _is_short(self, value: Array) -> Array:
        short: Any = np.float64 if self.real.itemsize > 8 else np.float32
        if value.dtype.kind == "c":
            short = np.result_type(short, np.complex64)
        return np.asarray(value.astype(short) == value)

    def error(self, value: Array, exact: Array, tiny: float) -> Array:
        """Return relative errors; see `Arithmetic.error`."""
        value, exact = np.asarray(value), np.asarray(exact)
        size = np.maximum(np.abs(exact), tiny)
        found = np.asarray(np.abs(value - exact) / size, np.float64)
        is_same = (value == exact) | (np.isnan(value) & np.isnan(exact))
        return np.where(is_same, 0.0, np.where(np.isnan(found), np.inf, found))

    def narrow(self, value: Array) -> Any:
        """Return values rounded to float64 or complex128."""
        value = np.asarray(value)
        return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


# -- references ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """Two arithmetics whose results must agree.

    Args:
        name: for display.
        first, second: the arithmetics; the second is the more exact one, or the perturbed one.
        digits: decimal digits of the first.
        more: digits to try where they do not agree; ``None`` if there are no more.
    """

    name: str
    first: Arithmetic
    second: Arithmetic
    digits: int
    more: int | None = None


def reference_of(name: str | None, widest: np.dtype[Any], digits: int = 40) -> Reference:
    """Return the reference for a program.

    Args:
        name: ``"float64"``, ``"longdouble"``, ``"mpmath"``, or ``None`` to choose: float64 for a
            program without float64; otherwise mpmath if it is installed, or else longdouble.
        widest: the widest floating dtype of the program.
        digits: decimal digits of mpmath.

    Raises:
        ArgumentError: if there is no such reference, or if it has no more digits than the program.
        UnsupportedFunctionError: if mpmath is needed, but not installed.
    """
    is_wide = np.finfo(widest).eps <= np.finfo(np.float64).eps
    is_installed = importlib.util.find_spec("mpmath") is not None
    is_long = np.finfo(np.longdouble).eps < np.finfo(widest).eps
    if name is None:
        name = (
            "float64" if not is_wide else "mpmath" if is_installed or not is_long else "longdouble"
        )
    if name == "mpmath":
        if not is_installed:
            raise UnsupportedFunctionError(
                "debug.precision computes the reference with mpmath, which is not installed",
                fix="pip install 'functrace-numpy[precision]'",
            )
        from functrace.diagnostics.multiprecision import Multiprecision

        more = 2 * digits if 2 * digits <= MOST_DIGITS else None
        first, second = Multiprecision(digits), Multiprecision(2 * digits, is_perturbed=True)
        return Reference(f"mpmath with {digits} digits", first, second, digits, more)
    dtypes: dict[str, Any] = {"float64": np.float64, "longdouble": np.longdouble}
    if name not in dtypes:
        raise ArgumentError(
            f"debug.precision has no reference {name!r}", fix=f'use "mpmath", {", ".join(dtypes)}'
        )
    dtype = dtypes[name]
    if np.finfo(dtype).eps >= np.finfo(widest).eps:
        raise ArgumentError(
            f"debug.precision: the reference {name} has no more digits than {widest}",
            fix='reference="mpmath"',
        )
    digits = int(np.finfo(dtype).precision)
    return Reference(name, Wider(dtype), Wider(dtype, is_perturbed=True), digits)
