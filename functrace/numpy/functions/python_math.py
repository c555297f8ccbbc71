"""Functions of ``math``, ``float`` and ``int`` in lifted code: differentiable on traced values.

Other values get Python's own function. Results are Python numbers: weak in operations with arrays
(NEP 50). On concrete values Python's function is called first, so that its errors
(``math.sqrt(-1.0)``) are raised in the user's line.

Layer: 3.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from functrace.errors import DtypeError
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.traced_number import TracedNumber, as_number
from functrace.numpy.protocol.operands import Arrayed, Operand, holds_tracer
from functrace.numpy.protocol.tables import FUNCTIONS
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value


def _log(x: Operand, base: Operand | None = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _hypot(*coordinates: Any) -> Any:
    return functools.reduce(np.hypot, coordinates) if len(coordinates) > 1 else np.abs(*coordinates)


def _total(values: Iterable[Any]) -> Any:
    return functools.reduce(lambda x, y: x + y, values, 0.0)


def _product(values: Iterable[Any], /, *, start: Operand = 1) -> Any:
    return functools.reduce(lambda x, y: x * y, values, start)


def _is_close(a: Arrayed, b: Arrayed, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    return np.abs(a - b) <= np.maximum(rel_tol * np.maximum(np.abs(a), np.abs(b)), abs_tol)


def _remainder(x: Arrayed, y: Arrayed) -> Any:
    return x - y * np.rint(x / y)


def _whole(rounded: np.ufunc) -> Callable[[Any], Any]:
    return lambda x: rounded(x).astype(np.int64)


def _special(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(importlib.import_module("scipy.special"), name)(x)


ON_TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    **{
        getattr(math, name): getattr(np, ufunc)
        for name, ufunc in {
            "sqrt": "sqrt", "exp": "exp", "log2": "log2", "log10": "log10", "log1p": "log1p",
            "expm1": "expm1", "sin": "sin",
            "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
            "atan2": "arctan2",
            "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh",
            "atanh": "arctanh",
            "pow": "power", "fabs": "abs", "copysign": "copysign", "fmod": "fmod",
            "degrees": "degrees",
            "radians": "radians", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
            "cbrt": "cbrt",
            "exp2": "exp2", "modf": "modf", "ldexp": "ldexp",
        }.items()
    },
    math.log: _log,
    math.hypot: _hypot,
    math.dist: lambda p, q: _hypot(*[x - y for x, y in zip(p, q, strict=True)]),
    math.fsum: _total,
    math.prod: _product,
    math.isclose: _is_close,
    math.remainder: _remainder,
    math.floor: _whole(np.floor), math.ceil: _whole(np.ceil), math.trunc: _whole(np.trunc),
    math.erf: _special("erf"), math.erfc: _special("erfc"), math.gamma: _special("gamma"),
    math.lgamma: _special("gammaln"),
}  # fmt: skip
"""Implementations of functions of ``math`` on traced values."""

_OF_ITERABLES = frozenset({math.fsum, math.prod, math.dist})
_OF_INTEGERS = frozenset({math.prod})
_KEEPS_KIND = frozenset({math.floor, math.ceil, math.trunc, math.prod})
_POWERS = frozenset({math.pow, math.ldexp})


class MathFunction:
    """Function of ``math`` in lifted code: compares, hashes and pickles like Python's own."""

    def __init__(self, function: Callable[..., Any], is_lifted: Callable[[], bool]) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self._is_lifted = is_lifted

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        """Call Python's function, or its implementation on traced values."""
        own = self.__wrapped__
        if own in _OF_ITERABLES:
            args = tuple(
                [
                    list(x) if hasattr(x, "__iter__") and not isinstance(x, (list, tuple)) else x
                    for x in args
                ]
            )
        if not self._is_lifted() or not any(map(holds_tracer, (*args, *kwargs.values()))):
            return own(*args, **kwargs)
        args = tuple([_numbers(x, own) for x in args])
        return _of_traced(own, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if isinstance(other, MathFunction) else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> Any:
        return _of_math, (self.__name__,)

    def __repr__(self) -> str:
        return f"<functrace.numpy math.{self.__name__}>"


def _of_math(name: str) -> Any:
    """Return Python's own function, to unpickle outside of a lift."""
    return vars(math)[name]


def _of_traced(own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    known = [_known(x) for x in args]
    if None not in known:
        own(*known, **{key: _known(value) for key, value in kwargs.items()})  # for its errors
    result = ON_TRACED[own](*args, **kwargs)
    return tuple(map(_number, result)) if isinstance(result, tuple) else _number(result)


def _number(x: object) -> Any:
    if isinstance(x, np.generic):  # a result of ended tracers
        return x.item()
    return as_number(x, float) if isinstance(x, TracedArray) and x.dtype.kind in "bif" else x


def _known(x: object) -> Any:
    """Return the concrete value of an argument; ``None`` if it is abstract."""
    if isinstance(x, (list, tuple)):
        found = [_known(part) for part in x]
        return None if None in found else found
    if isinstance(x, TracedNumber):
        return None
    value = concrete_value(x)
    return value.item() if isinstance(x, Tracer) and value is not None else value


def _numbers(x: object, own: Callable[..., Any]) -> Any:
    """Convert traced values in an argument to float64, as Python converts arguments."""
    if isinstance(x, (list, tuple)):
        return [_numbers(part, own) for part in x]
    if not isinstance(x, Tracer) or isinstance(x, TracedNumber):
        return x
    if own in _OF_ITERABLES and x.ndim == 1:
        return [_numbers(part, own) for part in x]  # type: ignore[attr-defined]
    return converted(
        x, int if own in _OF_INTEGERS and x.dtype.kind in "biu" else float, f"math.{own.__name__}"
    )


def converted(x: Any, kind: type, what: str) -> Any:
    """Convert a traced value of one element to a 0-d array of a Python type's dtype.

    Raises:
        DtypeError: if it has several elements, or is complex.
    """
    if x.size != 1:
        raise DtypeError(
            f"{what} takes one number, not {x.aval}: only 0-dimensional arrays can be converted to "
            "Python scalars",
            fix="use NumPy's function of this name, which takes arrays",
        )
    if x.dtype.kind == "c" and kind is not complex:
        raise DtypeError(
            f"{what} takes a real number, not a complex one ({x.aval})", fix="use abs(x), or x.real"
        )
    one = x if not x.ndim else FUNCTIONS[np.reshape](x, ())
    return one.astype(kind)


def python_number(kind: type, x: Any) -> Any:
    """Return ``float(x)``, ``int(x)`` or ``complex(x)`` as a traced number, with its derivative."""
    if isinstance(x, TracedNumber) and x.kind is kind:
        return x
    whole = x.strong() if isinstance(x, TracedNumber) else x
    if kind is int and whole.dtype.kind == "f":
        known = _known(whole)
        if known is not None:
            return int(known)  # the derivative is 0, as for astype(int)
    return as_number(converted(whole, kind, f"{kind.__name__}(x)"), kind)
