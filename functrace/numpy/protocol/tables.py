"""Tables of implementations of NumPy's functions and methods on traced values.

``@implements(np.sum, method="sum", reduce=np.add)`` makes a function ``np.sum`` on traced values,
the method ``x.sum``, and ``np.add.reduce``. NumPy's dispatch (NEP 18), the methods of
`TracedArray`, ufunc methods (NEP 13) and the namespace `functrace.numpy` all read these tables,
which importing the package's files fills; adding a function needs nothing else. Ufuncs are
primitives (`functrace.ops.elementwise.UFUNCS`), operators are in
functrace/numpy/arrays/operators.py.

Layer: 3.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.lazy import LazyTable
from functrace.numpy.protocol.foreign_names import SAVE, SAVED
from functrace.ops.elementwise import logical_or, positive
from functrace.tracing.tracer import Tracer

OR_LIFT = (
    "Or leave the code as it is, and import functrace.numpy as np above it, or call it under "
    "@functrace.numpy.lift "
    "(docs/numpy.md)"
)
"""Fix for functions that NumPy's protocols do not dispatch, for error messages."""

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


@final
@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation, and the NumPy names for it."""

    does: Callable[..., Any]
    """The implementation, with the signature of NumPy's functions."""
    functions: tuple[Any, ...]
    """NumPy's functions."""
    method: str
    """Name of the array method, with the array as first argument; empty if none."""
    creates: bool
    """True if NumPy dispatches to it by ``like=`` only, whatever the other arguments are."""
    of_sequence: bool
    """True if a list argument is a list of arrays, not one array."""
    weak: bool
    """True if it keeps Python numbers weak; otherwise they are converted to arrays."""


RARE = (
    "functions.applying",     "functions.factorizations",     "functions.fourier",
    "functions.histograms",     "functions.linear_algebra",     "functions.nan_reductions",
    "functions.padding",     "functions.polynomials",     "functions.quantiles",
    "functions.samples",     "functions.scimath",     "functions.sets",
    "protocol.ufunc_reductions",
)  # fmt: skip
"""Files that are imported when a function is looked up that no other file implements."""


def _read_rare() -> None:
    for name in RARE:
        importlib.import_module(f"functrace.numpy.{name}")


ROWS: LazyTable[Any, Implementation] = LazyTable(_read_rare)
"""Row by NumPy function."""

FUNCTIONS: LazyTable[Any, Callable[..., Any]] = LazyTable(_read_rare)
"""Implementation by NumPy function, for those that NumPy dispatches by arguments (NEP 18)."""

LIKE: dict[Any, Callable[..., Any]] = {}
"""Creation functions for ``like=`` of a traced value (NEP 35), which is the first argument."""

METHODS: dict[str, Callable[..., Any]] = {}
"""Methods of traced arrays, by name, with the array as first argument."""

METHOD_SETTERS: list[Callable[[str, Callable[..., Any]], None]] = []
"""Functions that add a method to the classes of traced values: `functrace.numpy.arrays.methods`."""

UFUNC_METHODS: LazyTable[tuple[np.ufunc, str], Callable[..., Any]] = LazyTable(_read_rare)
"""``ufunc.reduce``, ``ufunc.accumulate`` and ``ufunc.at``, by ufunc and name."""


def implements(
    *functions: Callable[..., Any],
    method: str = "",
    reduce: np.ufunc | None = None,
    accumulate: np.ufunc | None = None,
    creates: bool = False,
    of_sequence: bool = False,
    weak: bool = False,
    scalars: bool = False,
) -> Callable[[F], F]:
    """Register a function as the implementation of NumPy functions.

    Args:
        functions: NumPy's functions, all with its signature.
        method: name of the array method, if it is one.
        reduce, accumulate: the ufunc whose method it is, along axis 0 by default.
        creates, of_sequence, weak: see `Implementation`.
        scalars: True if a 0-d result is a scalar, as for most functions, though the last operation
            (``where``, ``reshape``) returns an array.
    """

    def add(written: F) -> F:
        does = with_scalars(written) if scalars else written
        row = Implementation(does, functions, method, creates, of_sequence, weak)
        for function in functions:
            _put(ROWS, function, row)
            if creates:
                _put(LIKE, function, lambda like, *args, **kwargs: does(*args, like=like, **kwargs))
            else:
                _put(FUNCTIONS, function, does)
        if method:
            _put_method(method, does)
        for name, ufunc in (("reduce", reduce), ("accumulate", accumulate)):
            if ufunc is not None:
                ufunc_method(ufunc, name)(does)
        return written

    return add


def with_scalars(does: F) -> F:
    """Return an implementation whose 0-d results are scalars, except for ``out=``."""

    @functools.wraps(does)
    def scalar(*args: object, **kwargs: object) -> Any:
        result = does(*args, **kwargs)
        if kwargs.get("out") is None and isinstance(result, Tracer) and not result.aval.shape:
            return positive(result) if result.dtype.kind != "b" else logical_or(result, False)
        return result

    return scalar  # type: ignore[return-value]


def implements_like(function: Callable[..., Any]) -> Callable[[F], F]:
    """Register the implementation of a creation function for ``like=`` of a traced value."""
    return lambda does: _put(LIKE, function, does)


def array_method(*names: str) -> Callable[[F], F]:
    """Register an array method that no NumPy function implements: ``x.sort``, ``x.reshape``."""

    def add(does: F) -> F:
        does.__name__ = does.__qualname__ = names[0]
        for name in names:
            _put_method(name, does)
        return does

    return add


def ufunc_method(ufunc: np.ufunc, name: str) -> Callable[[F], F]:
    """Register a method of a ufunc: ``reduce``, ``accumulate`` (both with ``axis=``) or ``at``."""
    return lambda does: _put(UFUNC_METHODS, (ufunc, name), does)


def _put_method(name: str, does: Callable[..., Any]) -> None:
    _put(METHODS, name, does)
    for give in METHOD_SETTERS:
        give(name, does)


def _put(table: dict[Any, Any], key: object, value: V) -> V:
    assert not dict.__contains__(table, key), f"two rows for {key}"
    table[key] = value
    return value


def function_name(func: object) -> str:
    """Return the public name of a function: ``numpy.linalg.norm``."""
    module = getattr(func, "__module__", None) or "numpy"
    return f"{module}.{getattr(func, '__qualname__', getattr(func, '__name__', repr(func)))}"


def unsupported_function(
    func: object, why: str = "has no implementation on traced values"
) -> UnsupportedFunctionError:
    """Return the error for a NumPy function without an implementation; it names it and the fix."""
    name = function_name(func)
    if name.rpartition(".")[2] in SAVED:
        return UnsupportedFunctionError(f"{name} takes plain arrays, not traced values", fix=SAVE)
    return UnsupportedFunctionError(
        f"{name} {why}",
        fix="write it with functions that are supported (docs/numpy_coverage.md). Without a "
        "derivative: "
        "functrace.pure_callback calls it when the program runs; functrace.value(x) gives the "
        "plain value, where it is "
        "known. functrace.primitive gives it a derivative of yours",
    )
