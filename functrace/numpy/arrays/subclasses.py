"""Traced counterparts of ndarray subclasses: ``np.asarray(x).view(Signal)``, in lifted code.

A subclass of ndarray that adds attributes and methods, or overrides indexing, gets a counterpart: a
subclass of the traced array with the same functions. Where NumPy propagates the subclass to
results, results here are plain traced arrays. Subclasses that override arithmetic are rejected:
their results would be wrong.

Layer: 3.
"""

from __future__ import annotations

import functools
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.view_kinds import View
from functrace.numpy.arrays.views import is_scalar

if TYPE_CHECKING:
    from functrace.tracing.tracer import Tracer

_LEFT_OUT = frozenset(
    {
        "__new__",
        "__init_subclass__",
        "__class_getitem__",
        "__dict__",
        "__weakref__",
        "__slots__",
        "__class__",
    }
)
_READ = frozenset(
    {
        "__getitem__", "__setitem__", "__repr__", "__str__", "__format__", "__init__",
        "__array_finalize__", "__doc__",
        "__module__", "__qualname__", "__annotations__", "__call__", "__getattr__", "__reduce__",
        "__setstate__", "__static_attributes__", "__firstlineno__",
    }
)  # fmt: skip
"""Special names that a subclass may define; arithmetic is excluded."""


class SubclassArray(TracedArray):
    """Traced array that is an instance of a user's ndarray subclass: base of all counterparts."""

    __slots__ = ("__dict__",)
    subclass: type = np.ndarray

    def __array_finalize__(self, obj: object) -> None:
        """Do nothing, as ndarray does."""


def seen_as(x: Tracer, kind: type) -> Any:
    """Return a view of a traced value as the counterpart of an ndarray subclass.

    Raises:
        UnsupportedFunctionError: if the class overrides arithmetic or methods of ndarray.
    """
    if not x.aval.shape and is_scalar(x) is not False:
        raise UnsupportedFunctionError(
            f"a scalar ({x.aval}) has no view as {kind.__name__}", fix="make an array of it"
        )
    made: Any = object.__new__(_counterpart(kind))
    made.ft_recording, made.ft_variable, made.aval, made.ft_view = (
        x.ft_recording,
        x.ft_variable,
        x.aval,
        View(x),
    )
    x.ft_recording.views.watch(made)
    made.__array_finalize__(x)
    return made


@functools.lru_cache(maxsize=64)
def _counterpart(kind: type) -> type:
    own = [part for part in kind.__mro__ if not issubclass(np.ndarray, part)]
    for part in own:
        _check(part, kind)
    made: Any = SubclassArray
    for part in reversed(own):
        cell = CellType()
        names = {
            name: _moved(value, part, cell)
            for name, value in vars(part).items()
            if name not in _LEFT_OUT
        }
        names.update(subclass=part, __slots__=())
        made = type(part.__name__, (made,), names)
        cell.cell_contents = made
    return made


def _check(part: type, kind: type) -> None:
    for name in vars(part):
        if name in _LEFT_OUT or name in _READ:
            continue
        if name.startswith("__") or hasattr(np.ndarray, name):
            raise UnsupportedFunctionError(
                f"a traced value has no view as {kind.__name__}, which has a {name} of its own",
                fix="use the traced array as it is, and the function that the method is for",
            )


def _moved(value: Any, part: type, cell: CellType) -> Any:
    """Return a class member for the counterpart: functions with ``super()`` rebound to it."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_moved(value.__func__, part, cell))
    if isinstance(value, property):
        return property(
            *[
                None if f is None else _moved(f, part, cell)
                for f in (value.fget, value.fset, value.fdel)
            ]
        )
    if not isinstance(value, FunctionType) or not value.__closure__:
        return value
    closure = tuple([cell if _holds(other, part) else other for other in value.__closure__])
    made = FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, closure
    )
    made.__kwdefaults__ = value.__kwdefaults__
    return functools.update_wrapper(made, value)


def _holds(cell: CellType, part: type) -> bool:
    try:
        return cell.cell_contents is part
    except ValueError:
        return False
