"""Operators and functions that mix traced values with duck arrays of other libraries.

NumPy's arrays defer an operation to the other operand if its class implements an override protocol;
a traced value does the same:

* ``__array_ufunc__`` (NEP 13) is called for ufuncs, and for operators for which Python does not
  call the class's own (reflected) method; if it is ``None``, operators are deferred to the class.
* ``__array_priority__`` above that of arrays, without ``__array_ufunc__``, defers operators to the
  class.
* ``__array_function__`` (NEP 18) is called for all other functions.
* ``__array_wrap__`` would convert the result of a ufunc to the class; it never gets traced values,
  so that raises.

A class with none of them is converted by its ``__array__``, by NumPy and by functrace. So is every
class in functions that it does not override. If a class does not accept traced values, the error
names the class and a workaround.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, LostGradientError
from functrace.numpy.arrays.operators import Operator
from functrace.numpy.arrays.views import is_scalar
from functrace.numpy.protocol.operands import HasOperators
from functrace.numpy.protocol.sparse_operands import is_sparse, with_sparse
from functrace.numpy.protocol.tables import function_name
from functrace.tracing.tracer import Tracer

AS_VALUES: Any = object()
"""Result of `apply_operator` if NumPy converts the other operand to an array."""

_ABSENT = object()
_LEAST = -1_000_000.0
"""NumPy's priority of scalars, and of classes without one; arrays have priority 0."""
_WRAPPED = "the result would be one of its own, by __array_wrap__"
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_OURS = (np.ndarray, np.generic, Tracer)
_PLAIN = frozenset(
    {
        np.ndarray,
        list,
        tuple,
        bool,
        int,
        float,
        complex,
        *[np.dtype(letter).type for letter in "?bhilqBHILQefdgFDG"],
    }
)


def has_operators(kind: type) -> bool:
    """Return True if NumPy may defer an operator to a class: none of arrays, scalars and traced
    values.
    """
    if kind in _PLAIN:  # 0.4 us less for NumPy's scalars
        return False
    if issubclass(kind, _OURS):
        return getattr(kind, "__array_ufunc__", _ABSENT) is None
    return any(
        hasattr(kind, name) for name in ("__array_ufunc__", "__array_priority__", "__array_wrap__")
    )


def apply_operator(
    row: Operator, x: Tracer, other: object, *, reflected: bool, in_place: bool = False
) -> Any:
    """Apply an operator to a traced value and an operand whose class passes `has_operators`.

    Returns:
        ``NotImplemented`` if Python must call the other operand's method; `AS_VALUES` if NumPy
        converts it to an array.

    Raises:
        DtypeError: if the class does not take traced values.
    """
    kind = type(other)
    ufunc = getattr(kind, "__array_ufunc__", _ABSENT)
    if ufunc is None or issubclass(kind, HasOperators):
        if in_place and ufunc is None and not str(kind.__module__).startswith("functrace."):
            raise _refused(f"in-place {row.ufunc.__name__}", x, kind, "its __array_ufunc__ is None")
        return NotImplemented
    if ufunc is not _ABSENT:
        pair = (other, x) if reflected else (x, other)
        return row.ufunc(*pair, out=(x,)) if in_place else row.ufunc(*pair)
    if is_sparse(other):
        return AS_VALUES if in_place else with_sparse(row, x, other, reflected=reflected)
    if _priority(other, _LEAST) <= _own_priority(x):
        if not in_place and _wraps(other, x):
            raise _refused(row.ufunc.__name__, x, kind, _WRAPPED)
        return AS_VALUES
    if in_place:
        return NotImplemented
    if reflected:  # the class returned NotImplemented, or has no such operator
        if not hasattr(kind, f"__{row.name}__") and not hasattr(kind, "__array_wrap__"):
            return AS_VALUES
        raise _refused(row.ufunc.__name__, x, kind)
    name = f"__{_SWAPPED[row.name]}__" if row.compares else f"__r{row.name}__"
    does = getattr(kind, name, None)
    result = (
        NotImplemented if does is None else _called(does, (other, x), row.ufunc.__name__, x, kind)
    )
    if result is NotImplemented and not (row.name in ("eq", "ne") and kind.__eq__ is object.__eq__):
        raise _refused(row.ufunc.__name__, x, kind)
    return result  # NotImplemented for equality: Python then compares identities


def _priority(x: object, usual: float) -> float:
    try:
        return float(getattr(x, "__array_priority__", usual))
    except (TypeError, ValueError):
        return usual


def _own_priority(x: Tracer) -> float:
    return 0.0 if x.aval.shape or not is_scalar(x) else _LEAST


def _wraps(other: object, x: Tracer) -> bool:
    """Return True if a ufunc would wrap its result in the class."""
    return hasattr(type(other), "__array_wrap__") and _priority(other, 0.0) >= _own_priority(x)


# -- dispatch to other classes ---------------------------------------------------------------------


def hand_over_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Dispatch the call of a ufunc with traced operands to another class's ``__array_ufunc__`` (NEP
    13).

    Returns:
        the result of that class; ``NotImplemented`` if NumPy would dispatch to none.

    Raises:
        DtypeError: if the class does not take traced values.
    """
    out = kwargs.get("out")
    operands = (*inputs, *(out if isinstance(out, tuple) else (out,)))
    others = [x for x in operands if type(x) is not np.ndarray and has_operators(type(x))]
    traced = next((x for x in operands if isinstance(x, Tracer)), None) if others else None
    if traced is None:
        return NotImplemented
    refusing: Any = None
    for other in others:
        kind = type(other)
        does: Any = getattr(kind, "__array_ufunc__", _ABSENT)
        if does is None:
            raise _refused(f"numpy.{ufunc.__name__}", traced, kind, "its __array_ufunc__ is None")
        if does is _ABSENT:
            if out is None and _wraps(other, traced):
                raise _refused(f"numpy.{ufunc.__name__}", traced, kind, _WRAPPED)
            continue
        refusing = kind
        result = _called(
            does, (other, ufunc, method, *inputs), f"numpy.{ufunc.__name__}", traced, kind, kwargs
        )
        if result is not NotImplemented:
            return result
    if refusing is None:
        return NotImplemented
    raise _refused(f"numpy.{ufunc.__name__}", traced, refusing)


def refuse_wrapping(x: object, other: object, what: str) -> None:
    """Raise for operands whose class would wrap the result of a NumPy function."""
    if (
        has_operators(type(other))
        and hasattr(type(other), "__array_wrap__")
        and isinstance(x, Tracer)
    ):
        raise _refused(what, x, type(other), _WRAPPED)


def takes_functions(kind: type) -> bool:
    """Return True if a class that is neither NumPy's nor functrace's has ``__array_function__``."""
    return not issubclass(kind, _OURS) and hasattr(kind, "__array_function__")


def any_takes_functions(values: Iterable[object]) -> bool:
    """Return True if NumPy would dispatch a function of these arguments to another class; lists are
    searched.
    """
    for x in values:
        kind = type(x)
        if kind is list or kind is tuple:
            if any(takes_functions(type(part)) for part in x):  # type: ignore[attr-defined]
                return True
        elif kind not in _PLAIN and takes_functions(kind):
            return True
    return False


def hand_over_function(
    function: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Dispatch the call of a function with traced arguments to another class's
    ``__array_function__`` (NEP 18).

    Raises:
        DtypeError: if the class does not take traced values.
    """
    parts = list(_parts((*args, *kwargs.values())))
    traced = next(x for x in parts if isinstance(x, Tracer))
    others = {type(x): x for x in parts if type(x) in types and takes_functions(type(x))}
    for kind, other in others.items():
        does: Any = kind.__array_function__  # type: ignore[attr-defined]
        result = _called(
            does, (other, function, types, args, kwargs), function_name(function), traced, kind
        )
        if result is not NotImplemented:
            return result
    raise _refused(function_name(function), traced, next(iter(others), type(traced)))


def _parts(values: Iterable[object]) -> Iterator[Any]:
    for x in values:
        if type(x) is list or type(x) is tuple:
            yield from _parts(x)
        else:
            yield x


# -- classes that do not accept traced values ------------------------------------------------------


def _called(
    does: Callable[..., Any],
    args: tuple[Any, ...],
    what: str,
    traced: Tracer,
    kind: type,
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Call another class; convert the errors that it raises because it does not accept traced
    values.
    """
    try:
        return does(*args, **kwargs)
    except TypeError as error:
        if type(error) is TypeError:
            raise _refused(what, traced, kind, str(error).partition("\n")[0]) from error
        if type(error) in (LostGradientError, ConcretizationError):
            raise _refused(what, traced, kind, "it makes a plain array of them") from error
        raise


def _refused(what: str, traced: Tracer, kind: type, why: str = "") -> DtypeError:
    name = f"{str(kind.__module__).partition('.')[0]}.{kind.__qualname__}"
    return DtypeError(
        f"{what} of a traced value ({traced.aval}) and a {name}: NumPy leaves it to that class, "
        "which does not take traced "
        f"values{f' ({why})' if why else ''}",
        fix="pass its values alone, np.asarray(q); what else it holds (units, labels, an index) "
        "belongs outside of the "
        "traced function",
    )
