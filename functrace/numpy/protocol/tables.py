"""The rows: what users call each function of this package, stated once, where it is written.

``@implements(np.sum, method="sum", reduce=np.add)`` above a function says that it is ``np.sum`` on traced values, the method
``x.sum`` and ``np.add.reduce``. NumPy's dispatch (NEP 18), the methods of `TracedArray`, ufunc methods (NEP 13) and the
namespace `functrace.numpy` all read the tables that these rows fill as the package's files are imported; nothing else is
written to add a function. Ufuncs are primitives (`functrace.ops.elementwise.UFUNCS`), operators stand in
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
from functrace.later import LaterTable
from functrace.numpy.protocol.foreign_names import SAVE, SAVED
from functrace.ops.elementwise import logical_or, positive
from functrace.tracing.tracer import Tracer

OR_LIFT = (
    "Or leave the code as it is, and import functrace.numpy as np above it, or call it under @functrace.numpy.lift "
    "(docs/numpy.md)"
)
"""The ways out where NumPy's protocols do not reach, as messages name them."""

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One implementation, and what users call it."""

    does: Callable[..., Any]
    """The implementation, with the signature of the NumPy functions that it stands for."""
    functions: tuple[Any, ...]
    """These functions."""
    method: str
    """The method of an array that it is, the array being its first argument; empty if none."""
    creates: bool
    """Whether NumPy hands over to it by ``like=`` only, whatever the other arguments are."""
    of_sequence: bool
    """Whether a list among its arguments is a list of arrays, not one array."""
    weak: bool
    """Whether it leaves Python numbers weak; any other takes them as arrays."""


RARE = (
    "functions.applying",     "functions.factorizations",     "functions.fourier",
    "functions.histograms",     "functions.linear_algebra",     "functions.nan_reductions",
    "functions.padding",     "functions.polynomials",     "functions.quantiles",
    "functions.samples",     "functions.scimath",     "functions.sets",
    "protocol.ufunc_reductions",
)  # fmt: skip
"""Files whose rows come in when a function is asked for that no other file has."""


def _read_rare() -> None:
    for name in RARE:
        importlib.import_module(f"functrace.numpy.{name}")


ROWS: LaterTable[Any, Row] = LaterTable(_read_rare)
"""Row by NumPy function."""

FUNCTIONS: LaterTable[Any, Callable[..., Any]] = LaterTable(_read_rare)
"""Implementation by NumPy function, for those that NumPy hands over by their arguments (NEP 18)."""

LIKE: dict[Any, Callable[..., Any]] = {}
"""What ``like=`` of a traced value means (NEP 35), by creation function; called with the traced value first."""

METHODS: dict[str, Callable[..., Any]] = {}
"""What each method of a traced array is, by name; called with the array first."""

METHOD_SETTERS: list[Callable[[str, Callable[..., Any]], None]] = []
"""What gives the classes of traced values a method, once they are there: `functrace.numpy.arrays.methods`."""

UFUNC_METHODS: LaterTable[tuple[np.ufunc, str], Callable[..., Any]] = LaterTable(_read_rare)
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
    """Make a function the implementation of NumPy functions: a row of the tables of this package.

    Args:
        functions: NumPy's functions that it is, all with its signature.
        method: the method of an array that it is as well.
        reduce, accumulate: the ufunc whose method of this name it is, along axis 0 if none is given.
        creates, of_sequence, weak: see `Row`.
        scalars: whether a result without axes is a scalar, as most functions have it, though the operation that it is
            computed by at last (``where``, ``reshape``) gives an array.
    """

    def add(written: F) -> F:
        does = with_scalars(written) if scalars else written
        row = Row(does, functions, method, creates, of_sequence, weak)
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
    """Return an implementation whose result is a scalar if it has no axes, and was not asked for in an array."""

    @functools.wraps(does)
    def scalar(*args: object, **kwargs: object) -> Any:
        result = does(*args, **kwargs)
        if kwargs.get("out") is None and isinstance(result, Tracer) and not result.aval.shape:
            return positive(result) if result.dtype.kind != "b" else logical_or(result, False)
        return result

    return scalar  # type: ignore[return-value]


def implements_like(function: Callable[..., Any]) -> Callable[[F], F]:
    """Make a function what ``like=`` of a traced value means for a creation function; it takes that value first."""
    return lambda does: _put(LIKE, function, does)


def array_method(*names: str) -> Callable[[F], F]:
    """Make a function a method of arrays that is no NumPy function with the array first: ``x.sort``, ``x.reshape``."""

    def add(does: F) -> F:
        does.__name__ = does.__qualname__ = names[0]
        for name in names:
            _put_method(name, does)
        return does

    return add


def ufunc_method(ufunc: np.ufunc, name: str) -> Callable[[F], F]:
    """Make a function the method of a ufunc: ``reduce``, ``accumulate`` (both with ``axis=``) or ``at``."""
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
    """The name that users know: ``numpy.linalg.norm``."""
    module = getattr(func, "__module__", None) or "numpy"
    return f"{module}.{getattr(func, '__qualname__', getattr(func, '__name__', repr(func)))}"


def unsupported_function(func: object, why: str = "has no implementation on traced values") -> UnsupportedFunctionError:
    """The error for a NumPy function that traced values cannot go through; names it and the way out."""
    name = function_name(func)
    if name.rpartition(".")[2] in SAVED:
        return UnsupportedFunctionError(f"{name} takes plain arrays, not traced values", fix=SAVE)
    return UnsupportedFunctionError(
        f"{name} {why}",
        fix="write it with functions that are supported (docs/numpy_coverage.md). Without a derivative: "
        "functrace.pure_callback calls it when the program runs; functrace.value(x) gives the plain value, where it is "
        "known. functrace.primitive gives it a derivative of yours",
    )
