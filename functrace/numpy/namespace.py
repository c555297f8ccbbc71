"""What makes `functrace.numpy` a namespace: NumPy's functions, which also take lists of traced values.

A function of the namespace is NumPy's own behind a thin wrapper: lists of traced values among its arguments become
traced arrays (``fnp.mean([x, x + 2])``), then NumPy is called, which hands traced arguments to the tables of this room.
Wrappers are made when they are first asked for, so that importing costs nothing. Where NumPy's dispatch does not look
(the contents of ``array``, the fill of ``full``, the indices of ``take``), the implementation of this room is called.

Floor: 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any, final

import numpy as np

from functrace.numpy.operands import holds_tracer, stacked
from functrace.numpy.tables import ROWS

_OF_SEQUENCES = frozenset({"row_stack", "histogramdd", "piecewise", "apply_over_axes"})
"""Functions without a row, of which a list among the arguments is a list of arrays."""

_AS_THEY_ARE = frozenset({"block", "ndim", "isscalar", "iterable", "printoptions"})


def _wrapped(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    row = ROWS.get(function) if isinstance(function, Hashable) else None
    of_sequence = name in _OF_SEQUENCES if row is None else row.of_sequence
    as_it_is = name in _AS_THEY_ARE or (row is not None and row.creates)

    def prepared(value: Any) -> Any:
        if as_it_is or type(value) not in (list, tuple) or not holds_tracer(value):
            return value
        return [stacked(part) for part in value] if of_sequence else stacked(value)

    @functools.wraps(function, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple([prepared(x) for x in args])
        if kwargs:
            kwargs = {key: prepared(x) for key, x in kwargs.items()}
        # NumPy's dispatch looks at some arguments only (not at the indices of take): any traced one decides here.
        if row is not None and (any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values()))):
            return row.does(*args, **kwargs)
        return function(*args, **kwargs)

    return call


@final
class Ufunc:
    """A ufunc of the namespace, with its methods and attributes."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__
        self.__doc__ = ufunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the ufunc; lists of traced values count as arrays."""
        args = tuple(stacked(x) if type(x) in (list, tuple) else x for x in args)
        return self._ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return _wrapped(found, name) if callable(found) and not name.startswith("_") else found

    def __repr__(self) -> str:
        return f"<functrace.numpy {self._ufunc.__name__}>"


@final
class Joiner:
    """``r_`` and ``c_``: NumPy's own for plain values; traced ones are joined like arrays."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, items: Any) -> Any:
        parts = items if isinstance(items, tuple) else (items,)
        if not any(map(holds_tracer, parts)):
            return getattr(np, self._name)[items]
        plain = getattr(np, self._name)
        arrays = [plain[part] if isinstance(part, slice | str) else np.atleast_1d(stacked(part)) for part in parts]
        return np.concatenate(arrays) if self._name == "r_" else np.column_stack(arrays)


def lookup(module: ModuleType, name: str, where: str) -> Any:
    """Return what a namespace calls ``name``: a wrapper around the function of ``module``, or its constant or class.

    Raises:
        AttributeError: if NumPy has no such public name.
    """
    if module is np and name in ("r_", "c_"):
        return Joiner(name)
    if module is np and name in ("linalg", "fft"):
        return Namespace(getattr(np, name), f"{where}.{name}")
    if name == "__all__":
        return [public for public in module.__all__ if not public.startswith("_")]
    if name.startswith("_") and name not in module.__all__:
        raise AttributeError(f"module {where!r} has no attribute {name!r}")
    try:
        found = getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module {where!r} has no attribute {name!r}: NumPy has no such name") from None
    if isinstance(found, np.ufunc):
        return Ufunc(found)
    if isinstance(found, type) or not callable(found):
        return found
    return _wrapped(found, name)


@final
class Namespace:
    """A namespace inside `functrace.numpy`: ``linalg``, ``fft``."""

    def __init__(self, module: ModuleType, where: str) -> None:
        self.__dict__.update(_module=module, __name__=where, __doc__=module.__doc__)

    def __getattr__(self, name: str) -> Any:
        found = lookup(self._module, name, self.__name__)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._module) if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<namespace {self.__name__}>"
