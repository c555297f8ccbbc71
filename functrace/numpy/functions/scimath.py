"""``numpy.emath``: functions that return complex results for values out of the real domain.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, known
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert

_SINGLE = frozenset(
    {np.dtype(kind) for kind in (np.float32, np.int8, np.int16, np.uint8, np.uint16, np.complex64)}
)


def _any(x: Arrayed, outside: Callable[[Any], Any], name: str) -> bool:
    try:
        return bool(np.any(outside(known(x))))
    except ConcretizationError as error:
        raise ConcretizationError(
            f"whether numpy.emath.{name} is complex depends on values, which are not known here",
            made=error.made,
            fix=f"write np.{name}(x.astype(complex)), or np.{name}(x) for what stays real",
        ) from error


def _widened(x: Operand, outside: Callable[[Any], Any], name: str) -> Any:
    """Return the operand, as complex if an element is outside of the real domain."""
    x = arrayed(x)
    if x.dtype.kind == "c":
        return x
    return (
        convert(x, np.complex64 if x.dtype in _SINGLE else np.complex128)
        if _any(x, outside, name)
        else x
    )


def _negative(x: np.ndarray[Any, Any]) -> Any:
    return x < 0


def _beyond_one(x: np.ndarray[Any, Any]) -> Any:
    return abs(x) > 1


def _wide(
    name: str, primitive: ew.Elementwise, outside: Callable[[Any], Any]
) -> Callable[..., Any]:
    def function(x: Operand) -> Any:
        return primitive(_widened(x, outside, name))

    function.__name__ = name
    function.__doc__ = f"As ``numpy.emath.{name}``; real numbers must be concrete."
    return implements(getattr(np.emath, name))(function)


sqrt = _wide("sqrt", ew.sqrt, _negative)
log = _wide("log", ew.log, _negative)
log2 = _wide("log2", ew.log2, _negative)
log10 = _wide("log10", ew.log10, _negative)
arccos = _wide("arccos", ew.arccos, _beyond_one)
arcsin = _wide("arcsin", ew.arcsin, _beyond_one)
arctanh = _wide("arctanh", ew.arctanh, _beyond_one)


@implements(np.emath.logn)
def logn(n: Operand, x: Operand) -> Any:
    """As ``numpy.emath.logn``; real numbers must be concrete."""
    return ew.div(log(x), log(n))


@implements(np.emath.power)
def power(x: Operand, p: Operand) -> Any:
    """As ``numpy.emath.power``; real bases and integer exponents must be concrete."""
    base, exponent = _widened(x, _negative, "power"), arrayed(p)
    if exponent.dtype.kind in "iu" and _any(exponent, _negative, "power"):
        exponent = convert(exponent, np.float64)
    return ew.power(base, exponent)
