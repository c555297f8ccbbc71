"""One call of a user's function under a transform: recording its inputs and outputs.

Floor: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import ArgumentError, CapturedArrayError, ConcretizationError, DtypeError, FunctraceError
from functrace.ir.aval import aval_of, check_plain
from functrace.numpy.array import TracedArray
from functrace.numpy.masked import MaskedSelection
from functrace.numpy.number import TracedNumber
from functrace.numpy.views import new_array
from functrace.source import source_of_traceback
from functrace.tracing.capture import held_array
from functrace.tracing.recording import Recording, Tracer, as_array

NUMERIC = (Tracer, np.ndarray, np.generic, bool, int, float, complex)
"""What stands for an array or a number. (A tuple: ``A | B`` would build a new type at every call.)"""


def function_name(f: Callable[..., Any]) -> str:
    """The name by which messages call a function."""
    return getattr(f, "__name__", None) or type(f).__name__


def as_value(leaf: Any, what: str) -> Any:
    """Return an argument's leaf as an array, a NumPy scalar or a traced value.

    Raises:
        DtypeError: if it is not numeric.
    """
    if type(leaf) is np.ndarray and leaf.ndim and leaf.dtype.kind in "fc":
        return leaf
    if isinstance(leaf, np.ndarray):
        check_plain(leaf)
        if leaf.dtype.kind not in "biufc":
            raise DtypeError(f"{what} has dtype {leaf.dtype}, which is not numeric", fix="pass arrays and numbers")
        leaf = leaf if type(leaf) is np.ndarray else leaf.view(np.ndarray)
        return leaf if leaf.ndim else leaf[()]
    if isinstance(leaf, (Tracer, np.generic)):
        return leaf.strong() if type(leaf) is TracedNumber else leaf
    if isinstance(leaf, float):
        return np.float64(leaf)
    array = as_array(leaf)
    if array.dtype.kind not in "biufc":
        raise DtypeError(f"{what} is a {type(leaf).__name__}, not an array or a number", fix="pass arrays and numbers")
    return array[()]


def add_input(recording: Recording, value: Any, leaf: Any = None) -> Any:
    """Make an argument an input of the recording; the array is held as it is now.

    Args:
        recording: who records.
        value: the argument, as `as_value` returns it.
        leaf: the argument as it was passed: a 0-d array is not a scalar to the function.
    """
    if isinstance(value, np.ndarray):
        tracer = recording.new_input(aval_of(value), held_array(value))
        if not value.flags.c_contiguous:
            recording.layouts[tracer._id] = value.strides
        return tracer
    tracer = recording.new_input(aval_of(value), value)
    return new_array(tracer) if isinstance(leaf, np.ndarray) else tracer


def own_arrays(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments that are not traced, with copies of the arrays among them: what a function writes stays there."""
    return [_own(x) for x in args], {key: _own(x) for key, x in kwargs.items()} if kwargs else kwargs


def _own(value: Any) -> Any:
    """A plain array as it is now. What only the function knows (a masked array, a memmap) is handed on as it is."""
    if type(value) is not np.ndarray:
        return value
    return held_array(value) if value.dtype.kind in "biufc" else value.copy()


def call(recording: Recording, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the user's function; what NumPy makes of our errors is undone."""
    try:
        return f(*args, **kwargs)
    except (ValueError, SystemError) as error:
        # C code hides it: "setting an array element with a sequence", "returned a result with an exception set"
        if isinstance(error.__cause__, FunctraceError):
            raise error.__cause__ from None
        if "read-only" in str(error) and not isinstance(error, FunctraceError):
            raise CapturedArrayError(
                f"an array that {recording.owner} was given, or has read, is written in place, and cannot be",
                at=source_of_traceback(error.__traceback__),
                fix="write into a copy: x = x.copy()",
            ) from error
        raise
    except TypeError as error:
        if "a single integer, got 'TracedArray" in str(error):  # NumPy hides that the size was refused: np.zeros(n)
            raise ConcretizationError(
                f"a shape depends on values, but {recording.owner} records without values",
                at=source_of_traceback(error.__traceback__),
                fix="take sizes from shapes or from arguments that are not traced",
            ) from None
        raise


def output_variable(recording: Recording, leaf: Any, what: str) -> int:
    """Return the variable of an output leaf; one that is not traced becomes a captured value.

    Raises:
        DtypeError: if the function returned something that is not a number or an array.
    """
    if isinstance(leaf, TracedNumber):
        leaf = leaf.strong()
    if isinstance(leaf, TracedArray) and leaf._recording is recording:
        return leaf._id
    if isinstance(leaf, (*NUMERIC, list, tuple)):
        return recording.capture(leaf if isinstance(leaf, Tracer) else as_value(leaf, what))
    if isinstance(leaf, MaskedSelection):
        raise leaf.refuse()
    raise DtypeError(
        f"{what} returned a {type(leaf).__name__}, not an array or a number",
        fix="return arrays or numbers; has_aux=True carries other results",
    )


def is_position(argnums: Any) -> bool:
    """Whether ``argnums`` names one argument, so that there is one derivative and not a tuple of them."""
    return isinstance(argnums, int | np.integer)


def check_argnums(argnums: Any, transform: str) -> tuple[int, ...]:
    """Return ``argnums`` as a tuple.

    Raises:
        ArgumentError: if it is no position, nor a sequence of them.
    """
    if is_position(argnums):
        return (argnums,)
    if isinstance(argnums, tuple | list | range) and all(map(is_position, argnums)):
        return tuple(argnums)
    is_name = isinstance(argnums, str)
    shown = repr(argnums) if isinstance(argnums, str | tuple | list) else f"a {type(argnums).__name__}"
    raise ArgumentError(
        f"{transform}: argnums is {shown}, not a position or a sequence of positions",
        fix="count positional arguments from 0: argnums=0, argnums=(0, 2)"
        if is_name
        else f"{transform}(f, argnums) returns a function: call {transform}(f)(x)",
    )


def check_function(f: Any, transform: str, usage: str = "{0}(f) returns a function: call {0}(f)(x)") -> None:
    """Check that what is to be transformed can be called.

    Raises:
        ArgumentError: if not.
    """
    if not callable(f):
        raise ArgumentError(f"{transform} takes a function, not a {type(f).__name__}", fix=usage.format(transform))


def normalize_argnums(argnums: Any, count: int, what: str) -> tuple[int, ...]:
    """Return ``argnums`` as a tuple of non-negative positions.

    Raises:
        ArgumentError: if a position does not exist in this call, or is named twice.
    """
    numbers = check_argnums(argnums, what.partition(" of ")[0])
    for k in numbers:
        if not -count <= k < count:
            raise ArgumentError(
                f"{what}: argnums={argnums!r}, but the function was called with {count} positional arguments",
                fix="keyword arguments are not differentiated: pass by position what argnums names"
                + (f" (positions are 0 to {count - 1})" if count else ""),
            )
    positions = tuple([int(k) % count for k in numbers])
    if len(set(positions)) < len(positions):
        raise ArgumentError(
            f"{what}: argnums={argnums!r} names an argument twice (of {count}), which has one derivative",
            fix="name every position once",
        )
    return positions


def split_aux(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    """Return the function's result and its auxiliary data."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ArgumentError(
            f"{what} with has_aux=True expects a pair (result, aux), but the function returned a {type(result).__name__}",
            fix="return result, aux",
        )
    return result


def own_tracers(recording: Recording, leaves: list[Any]) -> list[tuple[int, int]]:
    """Positions and variables of the leaves of auxiliary data that are traced by this recording.

    Raises:
        ConcretizationError: if a leaf is a selection of unknown size.
    """
    own = []
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, TracedNumber):
            leaf = leaves[k] = leaf.strong()
        if isinstance(leaf, TracedArray):
            if leaf._recording is recording:
                own.append((k, leaf._id))
        elif isinstance(leaf, MaskedSelection) and leaf.key[0] is recording:
            raise leaf.refuse()
    return own
