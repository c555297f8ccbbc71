"""Error messages for conversions of traced values to plain arrays: cause and fix.

NumPy converts in compiled code, by ``__array__``. The name of the NumPy function is read from the
frames, or, for a compiled function, from the source of the current line.

Layer: 3.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable
from types import BuiltinFunctionType, FrameType, ModuleType, TracebackType
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError, FunctraceError, LostGradientError
from functrace.numpy.arrays.instances import naming_modules
from functrace.numpy.protocol.foreign_names import PRINT, in_numpy
from functrace.numpy.protocol.sparse_operands import WAY_OUT, is_of_sparse
from functrace.numpy.protocol.tables import FUNCTIONS, OR_LIFT, function_name
from functrace.source import OWN_AND_NUMPYS, PACKAGE_PREFIX, Source, is_users, user_frame
from functrace.tracing.tracer import Tracer, leaked
from functrace.tracing.values import is_concrete

_ITSELF = (
    "leave it out: a traced value is an array already; functrace.primitive or "
    "functrace.pure_callback call code that takes "
    "plain arrays"
)
_MATRIX = "numpy.matrix holds no traced values: use arrays of two axes and @, np.block"
_GRID = "use np.meshgrid of np.linspace(start, stop, n), whose ends may be traced"
_JOINED = "use np.concatenate or np.column_stack"

REACHED = {
    "array": "use np.stack([...]) or functrace.numpy.array([...]) to build an array from traced values; write into "
    "np.zeros_like(x) or np.zeros_like(x, shape=n) instead of a plain ndarray",
    "asarray": _ITSELF,
    "asanyarray": _ITSELF,
    "ascontiguousarray": _ITSELF,
    "asfortranarray": _ITSELF,
    "require": _ITSELF,
    "asarray_chkfinite": _ITSELF,
    "full": "use np.full(shape, value, like=value), or value * np.ones(shape)",
    "arange": "use x * np.arange(n), where n is known",
    "fromiter": "use np.stack(list(iterable))",
    "kaiser": "use functrace.numpy.kaiser(M, beta)",
    "r_": _JOINED,
    "c_": _JOINED,
    "vectorize": "use functrace.vmap(f)(x), or functrace.numpy.vectorize(f)(x)",
    "ndenumerate": "write for index in np.ndindex(x.shape): x[index], or use functrace.numpy.ndenumerate(x)",
    "broadcast": "use np.broadcast_shapes(x.shape, y.shape) or np.broadcast_arrays(x, y)",
}
"""Fixes by name of NumPy's function; the functions take traced values in `functrace.numpy`."""

_OF_ARRAYS = REACHED.keys() - {"arange", "full", "kaiser"}
"""Functions without size arguments."""

BEYOND = {
    "nditer": "write for index in np.ndindex(x.shape): x[index]",
    "as_strided": "use np.lib.stride_tricks.sliding_window_view(x, n), or x[rows] with an array of indices: as_strided "
    "reads memory, which a traced value does not have",
    "from_dlpack": "leave it out: a traced value has no memory that another library could read",
    "mgrid": _GRID,
    "ogrid": _GRID,
    "matrix": _MATRIX,
    "asmatrix": _MATRIX,
    "bmat": _MATRIX,
    "poly1d": "use np.polyval(p, x)",
}
"""Fixes for functions that take no traced values in any way."""

_OF_MODULES = {
    "numpy.random": "draw from the standard distribution and move what was drawn: loc + scale * rng.standard_normal(shape)",
    "numpy.ma": "masked arrays hold no traced values: use np.where(mask, 0.0, x), or np.sum(x, where=~mask) and the like",
    "scipy": "use the function of the same name in functrace.scipy, which takes traced values (docs/scipy.md); if there is "
    "none, functrace.pure_callback calls SciPy's and functrace.primitive gives it a derivative",
    "pandas": "pass the values alone, s.to_numpy(): a pandas object holds no traced values, and what it would make of them "
    "(labels, an index) belongs outside of the traced function",
    "numpy.testing": "compare the plain values, functrace.value(x)",
}

_ANY = (
    "use np.stack([...]) or functrace.numpy.array([...]) to build an array from traced values; "
    "write into np.zeros_like(x) "
    "or np.zeros_like(x, shape=n) instead of a plain ndarray; functrace.primitive or "
    "functrace.pure_callback call code that "
    "takes plain arrays"
)
_WRITERS = frozenset(
    {
        "fill",
        "put",
        "put_along_axis",
        "fill_diagonal",
        "itemset",
        "partition",
        "sort",
        "__setitem__",
    }
)
"""Functions and methods that write to their first argument."""
_TARGET = (
    "let the array be traced as well: np.zeros_like(x) or np.zeros_like(x, shape=n) of a traced x; "
    "or collect the values in a "
    f"list, and use np.stack. {OR_LIFT}"
)
"""Fixes for writing a traced value into a plain array."""


def plain_values(x: Tracer) -> str:
    """Return the advice on reading the concrete value, if possible."""
    recording = x.ft_recording
    if (
        recording.closed
        or recording.values.source is not None
        or is_concrete(recording, x.ft_variable)
    ):
        return "functrace.value(x) gives the plain values, functrace.stop_gradient(x) a constant"
    return (
        f"plain values are not known in {recording.owner}: return x, or let "
        "functrace.debug.callback(f, x) call a function "
        "with them when the program runs"
    )


def lost_in_array(x: Tracer) -> FunctraceError:
    """Return the error for converting a traced value to a plain ndarray."""
    if x.ft_recording.closed:
        return leaked(x)
    frame = sys._getframe(2)
    target, name = _target(), converter(frame)
    made = x.ft_recording.source(x.ft_variable)
    if (target and not name) or name.rpartition(".")[2] in _WRITERS:
        return _refused(_written(x, name or f"the assignment to {target}", made))
    what = f"a traced value ({x.aval}) cannot become a plain ndarray without losing its derivative"
    way = f"{WAY_OUT if is_of_sparse(frame) else way_out(name)}; {plain_values(x)}"
    return _refused(
        LostGradientError(f"{name}: {what}" if name else what, made=made, fix=_lift_last(way))
    )


def lost_in_python(x: Tracer, what: str) -> FunctraceError:
    """Return the error for Python or compiled code that reads the concrete value of a traced one.

    Args:
        x: the traced value.
        what: the expression of the conversion: ``"float(x)"``.
    """
    if x.ft_recording.closed:
        return leaked(x)
    frame = user_frame()
    source = None if frame is None else Source(frame.f_code, frame.f_lasti)
    target, name = "" if source is None else source.stored_into, converter(sys._getframe(2))
    made = x.ft_recording.source(x.ft_variable)
    if (target and not name) or name.rpartition(".")[2] in _WRITERS:
        return _refused(_written(x, name or f"the assignment to {target}", made))
    if name and name.rpartition(".")[2] != what.partition("(")[0].rpartition(".")[2]:
        what = name if name.endswith(")") else f"{name}(x)"
    if source is not None and not name and source.formats:
        what, way = "formatting x", PRINT
    else:
        way = in_numpy(name) or (way_out(name) if name.startswith(("numpy.", "scipy.")) else "")
    if is_of_sparse(sys._getframe(2)):
        way = WAY_OUT
    way = (
        way
        or f"keep it an array: NumPy's functions take it as it is (np.sin instead of math.sin). {OR_LIFT}"
    )
    return _refused(
        LostGradientError(
            f"{what} would lose the derivative of a traced value ({x.aval}) in silence",
            made=made,
            fix=_lift_last(f"{way}; {plain_values(x)}"),
        )
    )


def explain_reading(error: ConcretizationError) -> None:
    """Add the reader of an abstract value, and a fix, to an error."""
    name = converter(sys._getframe(2))
    frame = user_frame()
    if not name and frame is not None and Source(frame.f_code, frame.f_lasti).formats:
        error.amend(what=f"formatting a traced value: {error.what}", fix=PRINT)
    elif name and not name.startswith("numpy."):
        way = in_numpy(name)
        error.amend(
            what=f"{name}: {error.what}",
            fix=f"{way}; or {error.fix}" if way and error.fix else way or None,
        )
    _refused(error)


def unknown_values(x: Tracer, error: ConcretizationError) -> ConcretizationError:
    """Return the error for Python or a plain ndarray that reads an abstract traced value."""
    name = converter(sys._getframe(2))
    what = f"{name} reads the value of a traced {'integer' if x.aval.dtype.kind in 'iu' else f'value ({x.aval})'}"
    fix = way_out(name)
    if not name or name.endswith(".take"):
        what = "a traced integer was used where Python or a plain ndarray needs its value"
        fix = "use functrace.numpy.take(T, i) instead of T[i] or np.take(T, i) for a plain T; a traced x[i] works as it is"
        fix = f"{fix}. {OR_LIFT}"
    elif x.aval.dtype.kind in "iu" and name.rpartition(".")[2] not in _OF_ARRAYS:
        fix = (
            "take sizes from x.shape, or from arguments that are not traced; functrace.fori_loop "
            "repeats as often as a "
            f"traced integer says, functrace.numpy.take(T, i) reads a plain T there. {OR_LIFT}"
        )
    return _refused(
        ConcretizationError(f"{what}, which is not known here", made=error.made, fix=fix)
    )


def _target() -> str:
    """Return the target that the user's current line writes to; empty if none."""
    frame = user_frame()
    return "" if frame is None else Source(frame.f_code, frame.f_lasti).stored_into


def _written(x: Tracer, writer: str, made: Source | None) -> LostGradientError:
    return LostGradientError(
        f"{writer} would write a traced value ({x.aval}) into a plain ndarray and lose its "
        "derivative",
        made=made,
        fix=_TARGET + naming_modules(),
    )


def _lift_last(way: str) -> str:
    """Move the advice to lift, which concerns the whole program, behind advice on the line."""
    return (
        f"{way.replace(f'. {OR_LIFT}', '')}. {OR_LIFT}" if OR_LIFT in way else way
    ) + naming_modules()


# -- errors that compiled code replaces ------------------------------------------------------------

REFUSED: dict[int, FunctraceError] = {}
"""Last error per thread: compiled code may replace it by another error that hides the cause."""


def _refused(error: FunctraceError) -> Any:
    REFUSED[threading.get_ident()] = error
    return error


def forget_refusals() -> None:
    """Drop the last error of this thread after its trace has ended."""
    REFUSED.pop(threading.get_ident(), None)


def replaced_refusal(traceback: TracebackType | None) -> FunctraceError | None:
    """Return our own error, if the same instruction raised the error with this traceback instead.

    If Python code has handled our error, its traceback contains that code; compiled code leaves
    none.
    """
    last = REFUSED.pop(threading.get_ident(), None)
    if last is None or last.at is None:
        return None
    handled = last.__traceback__
    while handled is not None:
        if not handled.tb_frame.f_code.co_filename.startswith(OWN_AND_NUMPYS):
            return None
        handled = handled.tb_next
    while traceback is not None:
        if traceback.tb_frame.f_code is last.at.code and traceback.tb_lasti == last.at.offset:
            return last
        traceback = traceback.tb_next
    return None


def way_out(name: str) -> str:
    """Return the fix for a call of a function with a dotted name (empty if unknown)."""
    module, _, last = name.rpartition(".")
    other = in_numpy(name)
    if other:
        return other
    for prefix, way in _OF_MODULES.items():
        if f"{module}.".startswith(f"{prefix}."):
            return way
    if module.startswith("numpy.polynomial"):
        return "call it under @functrace.numpy.lift (docs/numpy.md); np.polyval and the like take traced values as they are"
    if not module.startswith("numpy"):
        return f"{_ANY}. {OR_LIFT}"
    if last in REACHED:
        return f"{REACHED[last]}. {OR_LIFT}"
    if last in BEYOND:
        return BEYOND[last]
    short, found = name.replace("numpy.", "np.", 1), _found(name)
    if isinstance(found, type) and issubclass(found, np.generic):
        return f"use x.astype({short}), which keeps the derivative"
    if isinstance(found, Hashable) and found in FUNCTIONS:
        return f"let an array be among its arguments, not a list of traced values: {short}(np.stack([...])). {OR_LIFT}"
    return f"{_ANY}. {OR_LIFT}"


def _found(name: str) -> Any:
    found: Any = np
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


# -- names of converting functions -----------------------------------------------------------------


def converter(frame: FrameType | None) -> str:
    """Return the public dotted name of the converting function; empty if unknown.

    Args:
        frame: the frame that called ``__array__``.
    """
    numpys: FrameType | None = None
    while frame is not None and frame.f_code.co_filename.startswith(OWN_AND_NUMPYS):
        if not frame.f_code.co_filename.startswith(PACKAGE_PREFIX):
            numpys = frame
        frame = frame.f_back
    if frame is not None and not is_users(frame.f_code.co_filename):
        inner: FrameType = frame
        while (outer := inner.f_back) is not None:
            if is_users(outer.f_code.co_filename):  # the user's call of the library
                return (
                    called_at(outer)
                    or f"{_public(inner.f_globals.get('__name__'))}.{inner.f_code.co_qualname}"
                )
            inner = outer
    if numpys is not None:
        return _name_of(numpys)
    return "" if frame is None else called_at(frame)


def _public(module: object) -> str:
    """Return the name of a module without its private parts."""
    return str(module).partition("._")[0]


_CLASSES = {"RClass": "r_", "CClass": "c_", "MGridClass": "mgrid", "OGridClass": "ogrid"}
_PLACES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.lib.stride_tricks", "numpy.ma")


def _name_of(frame: FrameType) -> str:
    """Return the public name of the NumPy function that a frame runs."""
    first, _, method = frame.f_code.co_qualname.partition(".")
    if method and "self" in frame.f_locals:
        first = type(frame.f_locals["self"]).__name__
    first = _CLASSES.get(first, first)
    for place in _PLACES:
        if place in sys.modules and _found(f"{place}.{first}") is not None:
            return f"{place}.{first}"
    return f"{_public(frame.f_globals.get('__name__'))}.{first}"


def called_at(frame: FrameType, offset: int | None = None) -> str:
    """Return the name of the function that a frame calls, now or at an instruction.

    Compiled functions have no frames of their own.
    """
    text = Source(frame.f_code, frame.f_lasti if offset is None else offset).called
    if not text:
        return ""
    root, *path = text.split(".")
    found: Any = frame.f_locals.get(root, frame.f_globals.get(root))
    place = root
    for k, part in enumerate(path):
        if str(type(found).__module__).startswith("numpy.random"):
            return f"numpy.random.{type(found).__name__}.{'.'.join(path[k:])}"
        if not isinstance(found, ModuleType):
            return f"{place}.{'.'.join(path[k:])}" if place.startswith("numpy.") else text
        place = f"{found.__name__}.{part}"
        found = found.__dict__.get(part)
    maker = type(found).__module__  # finding a name must not run user code
    if maker.startswith("functrace."):
        found = found.__wrapped__
    own = getattr(found, "__module__", None)
    if (
        not path
        and isinstance(own, str)
        and (in_numpy(f"{own}.{root}") or isinstance(found, BuiltinFunctionType))
    ):
        return root if own == "builtins" else f"{own}.{getattr(found, '__name__', root)}"
    if maker.startswith("scipy"):
        return f"{_public(maker)}.{type(found).__name__}"
    module = (
        str(getattr(found, "__module__", ""))
        if maker.startswith(("builtins", "numpy", "functrace."))
        else ""
    )
    if module.startswith("numpy"):
        return function_name(found)
    return f"{_public(module)}.{found.__name__}" if module.startswith("scipy") else place
