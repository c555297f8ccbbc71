"""`functrace.numpy` as a namespace: NumPy's functions where its own protocols do not dispatch.

A function of the namespace is a thin wrapper (`Function`) of NumPy's own, which adds three things:

* Lists of traced values in arguments become traced arrays (``fnp.mean([x, x + 2])``).
* Where NumPy does not dispatch (the contents of ``array``, the fill of ``full``, the indices of
  ``take``), it calls the implementation of this package.
* Inside a traced function, creation functions (`CREATORS`) return traced arrays even for plain
  numbers, so that traced values can be written into them or index them: ``z = fnp.zeros(3); z[0] =
  x``. They depend on no input, so that they can be read as concrete values.

Outside of all transforms a wrapper only calls NumPy.
Wrappers are created on first access, so that importing costs nothing. `functrace.numpy.lift` uses
the same wrappers under NumPy's own names.

Layer: 3.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import operator
from collections.abc import Callable, Hashable, Iterable
from types import FunctionType, ModuleType
from typing import Any, final

import numpy as np

from functrace.numpy.arrays.layout import C_ORDER, F_ORDER
from functrace.numpy.arrays.traced_number import strong
from functrace.numpy.arrays.views import new_array
from functrace.numpy.functions.creation import made_in
from functrace.numpy.functions.joiners import Joiner
from functrace.numpy.functions.vectorizing import Vectorized
from functrace.numpy.protocol.foreign_operands import any_takes_functions
from functrace.numpy.protocol.iterating import Broadcast, Enumerated, Iterated
from functrace.numpy.protocol.operands import holds_tracer, stacked
from functrace.numpy.protocol.tables import ROWS
from functrace.numpy.protocol.without_masks import is_masked, without_masks
from functrace.ops.shaping import filled_in
from functrace.tracing.binding import is_recording, running
from functrace.tracing.recording import Recording

_OF_SEQUENCES = frozenset({"row_stack", "histogramdd", "piecewise", "apply_over_axes"})
"""Functions without a row whose list arguments are lists of arrays."""

_AS_THEY_ARE = frozenset({"block", "isscalar", "iterable", "printoptions"})

_OF_ONE_NUMBER = {
    "zeros": 0,
    "zeros_like": 0,
    "empty": 0,
    "empty_like": 0,
    "ones": 1,
    "ones_like": 1,
}
"""Creation functions recorded as one broadcast number; zeros for uninitialized memory."""

CONVERSIONS = frozenset(
    {
        "array",
        "asarray",
        "asanyarray",
        "asarray_chkfinite",
        "ascontiguousarray",
        "asfortranarray",
        "require",
    }
)
"""Functions that may return their argument; for lists and numbers the result is new."""

CREATORS = frozenset(
    {
        *_OF_ONE_NUMBER, *CONVERSIONS, "arange", "copy", "diag", "diagflat", "eye", "fromiter",
        "full", "full_like", "geomspace", "identity", "indices", "linspace", "logspace",
        "meshgrid", "repeat", "tile",
        "tri", "tril", "triu", "vander",
    }
)  # fmt: skip
"""NumPy's array creation routines, whose results are traced inside a traced function."""

_FRESH = (list, tuple, int, float, complex, bool, range, np.generic)

NAME = "functrace.numpy"
SUBMODULES = ("linalg", "fft")
"""NumPy's modules that are namespaces here, too; other modules are NumPy's own."""


class Function:
    """Function of the namespace: called, compared, hashed and pickled like NumPy's of this name."""

    def __init__(self, function: Callable[..., Any], name: str, where: str) -> None:
        row = ROWS.get(function) if isinstance(function, Hashable) else None
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__doc__ = function.__doc__
        self._where, self._name = where, name
        self._row = row
        self._of_sequence = name in _OF_SEQUENCES if row is None else row.of_sequence
        is_foreign = (
            row is None and isinstance(function, FunctionType) and name not in _OF_SEQUENCES
        )
        self._as_it_is = name in _AS_THEY_ARE or is_foreign or (row is not None and row.creates)
        self._creates = name in CREATORS and where == NAME
        self._targets = _targets(function, None if row is None else row.does)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call NumPy's function; see the module's docstring."""
        if not is_recording():
            return self.__wrapped__(*args, **kwargs)
        is_traced = False
        for x in (*args, *kwargs.values()) if kwargs else args:
            if holds_tracer(x):
                is_traced = True
                break
        if not is_traced:
            made = self.__wrapped__(*args, **kwargs)
            recording = running() if self._creates else None
            return made if recording is None else _traced(recording, made, self._name, args, kwargs)
        targets = self._targets
        args = tuple([x if k in targets else self._prepared(x) for k, x in enumerate(args)])
        kwargs = {key: x if key in targets else self._prepared(x) for key, x in kwargs.items()}
        # NumPy dispatches on some arguments only (not the indices of take); this, on any of them.
        row = self._row
        if row is None or (not row.creates and any_takes_functions((*args, *kwargs.values()))):
            return self.__wrapped__(*args, **kwargs)
        return (
            row.does(*args, **kwargs)
            if row.weak
            else row.does(*map(strong, args), **strong(kwargs))
        )

    def _prepared(self, value: Any) -> Any:
        if is_masked(type(value)):  # ufuncs handle masked arrays themselves
            return value if isinstance(self, Ufunc) else without_masks(value)
        if self._as_it_is or type(value) not in (list, tuple) or not holds_tracer(value):
            return value
        return [stacked(part) for part in value] if self._of_sequence else stacked(value)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if isinstance(other, Function) else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> Any:
        return _found, (self._where, self._name)

    def __repr__(self) -> str:
        return f"<{self._where} {self._name}>"


_WRITERS = frozenset({"copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis"})
"""Functions that write to their first argument."""


def _targets(function: Callable[..., Any], does: Callable[..., Any] | None) -> frozenset[int | str]:
    """Return positions and names of output arguments, whose lists are not converted to arrays."""
    if isinstance(function, np.ufunc):
        return frozenset({"out", *range(function.nin, function.nin + function.nout)})
    code = getattr(inspect.unwrap(does), "__code__", None) if does is not None else None
    if code is None:
        return frozenset()
    names = code.co_varnames[: code.co_argcount]
    found: set[int | str] = {"out", *[k for k, name in enumerate(names) if name == "out"]}
    return frozenset(found | ({0, names[0]} if function.__name__ in _WRITERS else set()))


def _found(where: str, name: str) -> Any:
    """Unpickle a function of the namespace."""
    return operator.attrgetter(f"{where}.{name}".removeprefix(f"{NAME}."))(
        importlib.import_module(NAME)
    )


def _traced(
    recording: Recording, made: Any, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """Return the result of a creation function as a traced array, if it is new memory."""
    if type(made) in (tuple, list):  # meshgrid; linspace with its step
        return type(made)([_traced(recording, part, name, args, kwargs) for part in made])
    if type(made) is not np.ndarray or made.dtype.kind not in "biufc" or not made.flags.writeable:
        return made
    if 0 in [step for size, step in zip(made.shape, made.strides, strict=True) if size > 1]:
        return made  # meshgrid(copy=False): elements share memory with each other
    recording.makes_arrays = True
    if name in _OF_ONE_NUMBER:
        filled = filled_in(recording, made.shape, made.dtype, _OF_ONE_NUMBER[name])
        return new_array(filled, F_ORDER if made.flags.fnc else C_ORDER)
    given = (*args, *kwargs.values())
    if name in CONVERSIONS:
        source = args[0] if args else kwargs.get("object", kwargs.get("a"))
        copies = (
            name == "array" and (args[2] if len(args) > 2 else kwargs.get("copy", True)) is True
        )
        if not copies and not isinstance(source, _FRESH):
            return made
    elif any(isinstance(x, np.ndarray) and np.may_share_memory(x, made) for x in given):
        return made
    return made_in(recording, made)


@final
class Ufunc(Function):
    """Ufunc of the namespace, with its methods and attributes."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.__wrapped__, name)
        return Function(found, name, f"{self._where}.{self._name}") if callable(found) else found


@final
class FromIter(Function):
    """``fromiter``, which must read its first argument to find traced values."""

    def __call__(
        self, iter: Iterable[object], dtype: object, count: int = -1, **kwargs: object
    ) -> Any:
        """Call NumPy's function."""
        if is_recording():
            iter = list(itertools.islice(iter, count) if count >= 0 else iter)
        return super().__call__(iter, dtype, count, **kwargs)


OVERRIDDEN: dict[str, Any] = {
    "r_": Joiner("r_", 0, 1, -1),
    "c_": Joiner("c_", -1, 2, 0),
    "vectorize": Vectorized,
    "ndenumerate": Enumerated,
    "broadcast": Broadcast,
    "nditer": Iterated,
}
"""Objects and classes of NumPy that need another implementation for traced values."""


def lookup(module: ModuleType, name: str, where: str) -> Any:
    """Return ``name`` of a namespace: a wrapper of a function, or NumPy's constant or class.

    Args:
        module: NumPy, or one of its `SUBMODULES`.
        name: the name in it.
        where: the dotted name of the namespace.

    Raises:
        AttributeError: if NumPy has no such public name.
    """
    if module is np and name in OVERRIDDEN:
        return OVERRIDDEN[name]
    if module is np and name in SUBMODULES:
        return Namespace(getattr(np, name), f"{where}.{name}")
    if name == "__all__":
        return [public for public in module.__all__ if not public.startswith("_")]
    if name.startswith("_") and name not in module.__all__:
        raise AttributeError(f"module {where!r} has no attribute {name!r}")
    try:
        found = getattr(module, name)
    except AttributeError:
        raise AttributeError(
            f"module {where!r} has no attribute {name!r}: NumPy has no such name"
        ) from None
    if isinstance(found, type) or not callable(found):
        return found
    kind = Ufunc if isinstance(found, np.ufunc) else FromIter if found is np.fromiter else Function
    return kind(found, name, where)


@final
class Namespace:
    """Namespace inside `functrace.numpy`: ``linalg``, ``fft``."""

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
