"""`lift`: run plain NumPy code, including the code that it calls, unchanged on traced values.

Note [How NumPy's names are lifted]
    While any `lift` is open, the modules ``numpy``, ``numpy.linalg`` and ``numpy.fft`` have a class
    in which every public function is a property. It returns the wrapper of
    `functrace.numpy.protocol.namespace` to code *inside of the lift*, and NumPy's own function to
    all other code. The modules' dictionaries are unchanged, so that identity and pickling of
    NumPy's functions are, too. Inside means: in the same thread, in a call from the ``with`` block
    (or the decorated function). A generator or coroutine that contains the block is inside only
    while it runs. After the last lift the modules have their original class.
    Some code always gets NumPy's own function: see Note [Readers of NumPy's own names] in
    numpy/protocol/readers.py.
    A stored wrapper (``zeros = np.zeros``) checks every call, and is NumPy's function outside.

Note [SciPy's names are lifted, too]
    SciPy's modules that are imported when a lift opens have such a class, too, if `functrace.scipy`
    has a module of that name. A name resolves to the function of `functrace.scipy`, which calls
    SciPy's on plain values. That package is in a higher layer, so it is imported by name on first
    use.

Layer: 3.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar, final, overload

import numpy as np

from functrace.locks import Lock, after_fork
from functrace.numpy.arrays.instances import INNERMOST_LIFT, is_lifted
from functrace.numpy.functions.python_math import MathFunction
from functrace.numpy.protocol import namespace
from functrace.numpy.protocol.bound_names import (
    MATH,
    innermost,
    keep_names,
    math_function,
    modules_below,
    namespaces_of,
    put_names,
    take_names_back,
)
from functrace.numpy.protocol.namespace import Function
from functrace.numpy.protocol.readers import is_reached_code, reads_lifted
from functrace.numpy.protocol.without_masks import MASKED, masked_array
from functrace.source import PACKAGE_PREFIX

F = TypeVar("F", bound=Callable[..., Any])

_lock = Lock()  # garbage collection of a generator may close its lift at any time
_open: list[Lift] = []
"""The open lifts of all threads."""

_SUSPENDS = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)


@final
class Lift:
    """Context manager returned by `lift`: reusable, but not reentrant."""

    __slots__ = ("_frame", "_function", "_modules", "_namespaces", "_thread", "is_open", "outer")

    def __init__(
        self, modules: Iterable[str] = (), function: Callable[..., Any] | None = None
    ) -> None:
        self.is_open = False
        self._modules, self._function = tuple(modules), innermost(function)
        self._namespaces: list[dict[str, Any]] = []
        self.outer: Lift | None = None
        self._frame: FrameType | None = None
        self._thread = 0

    def __enter__(self) -> Lift:
        if self.is_open:
            raise RuntimeError(
                "this lift is open already: open another, with functrace.numpy.lift()"
            )
        frame = sys._getframe(1)
        self._frame = frame if frame.f_code.co_flags & _SUSPENDS else None
        self._thread = threading.get_ident()
        self.outer = INNERMOST_LIFT.get()
        self._namespaces = self._found()
        with _lock.now:
            put_names(self._namespaces, self._function, _bound_before)
            self.is_open = True
            if not _open:
                _lift_modules()
            _open.append(self)
        INNERMOST_LIFT.set(self)
        return self

    def __exit__(
        self, _kind: object, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.is_open = False
        self._frame = None
        with _lock.now:
            _open.remove(self)
            take_names_back(self._namespaces)
            if not _open:
                _lower_modules()
        if INNERMOST_LIFT.get() is self:  # generators may be closed in another context
            outer = self.outer
            while outer is not None and not outer.is_open:
                outer = outer.outer
            INNERMOST_LIFT.set(outer)

    def _found(self) -> list[dict[str, Any]]:
        """Return the dictionaries to put names into; see Note [Names that were bound before]."""
        if self._function is None and not self._modules:
            return []
        found = [] if self._function is None else namespaces_of(self._function)
        return [
            *found,
            *[
                one
                for one in modules_below(self._modules)
                if all(one is not other for other in found)
            ],
        ]

    @property
    def holds(self) -> bool:
        """True if it applies to the current context."""
        frame = self._frame
        return (
            self.is_open
            and self._thread == threading.get_ident()
            and (frame is None or frame.f_back is not None)
        )


@overload
def lift(function: None = None, /, *, modules: Iterable[str] = ()) -> Lift: ...
@overload
def lift(function: F, /, *, modules: Iterable[str] = ()) -> F: ...
def lift(function: Callable[..., Any] | None = None, /, *, modules: Iterable[str] = ()) -> Any:
    """Run plain NumPy code unchanged on traced values, in a function or block and what it calls.

    Under it, ``np.array([x, 1.0])``, ``z = np.zeros(n); z[i] = x``, ``np.full(3, x)``,
    ``np.mean([x, y])`` and all other functions that NumPy's protocols do not dispatch behave as in
    `functrace.numpy`. Other threads are not affected, and nothing stays changed afterwards.

    Not lifted, and an error where a derivative would be lost: names that a module has bound before
    and that ``modules`` does not name, compiled code, ``getattr(np, name)``, arrays created
    elsewhere, threads started inside. See docs/numpy.md.

    Args:
        function: the function to decorate, which may be a generator or a coroutine; without it,
            ``lift`` returns a context manager.
        modules: names of modules or packages that bound functions of NumPy, SciPy or ``math`` at
            import (``from numpy import array``), or call ``float(x)`` on traced values: the lift
            replaces these names there while it is open. Not needed for the module of ``function``,
            and the user's own modules that it imports from.

    Returns:
        the decorated function, or a context manager.

    Raises:
        ArgumentError: if a module does not exist.

    Example:
        >>> import functrace as ft
        >>> def path(x):
        ...     points = np.zeros(3)
        ...     for k in range(3):
        ...         points[k] = x**k
        ...     return np.sum(np.array([points[2], 1.0, x]))
        >>> ft.grad(ft.numpy.lift(path))(3.0)
        np.float64(7.0)

    Cost:
        nothing outside. 1.4 us for entering and leaving; 0.4 us for reading a function of ``np``
        inside, 0.06 us in other threads meanwhile; a call costs 0.1 us more than in
        `functrace.numpy`.
    """
    modules = (modules,) if isinstance(modules, str) else tuple(modules)
    if function is None:
        return Lift(modules)
    opened = functools.partial(Lift, modules, function)
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generate_later(*args: object, **kwargs: object) -> Any:
            inner = function(*args, **kwargs)
            advance, given = inner.__anext__, ()
            with opened():
                while True:
                    try:
                        made = await advance(*given)
                    except StopAsyncIteration:
                        return
                    try:
                        given = ((yield made),)
                        advance = inner.asend
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:
                        advance, given = inner.athrow, (error,)

        return generate_later
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_later(*args: object, **kwargs: object) -> Any:
            with opened():
                return await function(*args, **kwargs)

        return call_later
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: object, **kwargs: object) -> Iterator[Any]:
            with opened():
                return (yield from function(*args, **kwargs))

        return generate

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        with opened():
            return function(*args, **kwargs)

    return call


# -- replacements ----------------------------------------------------------------------------------


class Lifted(Function):
    """Replacement of a NumPy function: functrace's in lifted code, NumPy's own otherwise."""

    def __init__(self, inner: Function) -> None:
        self.__dict__.update(inner.__dict__)
        self._inner = inner

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call one of the two."""
        return (self._inner if is_lifted() else self.__wrapped__)(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _numpys, (self._where, self._name)


class LiftedUfunc(Lifted):
    """Replacement of a ufunc."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _BoundName:
    """Replacement in a module: checks its caller at every call, like NumPy's module properties."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call one of the two."""
        lifted: Any = self
        is_reached = is_lifted() and is_reached_code(sys._getframe(1))
        return (lifted._inner if is_reached else lifted.__wrapped__)(*args, **kwargs)


@final
class BoundFunction(_BoundName, Lifted):
    """Replacement of a function that a module has bound before."""


@final
class BoundUfunc(_BoundName, LiftedUfunc):
    """Replacement of a ufunc that a module has bound before."""


def _numpys(where: str, name: str) -> Any:
    """Return NumPy's own function, to unpickle outside of a lift."""
    return getattr(importlib.import_module(where.replace(namespace.NAME, "numpy")), name)


def _bound_before(value: object) -> Any:
    """Return the replacement of a function that a module has bound before; ``None`` to keep it."""
    if isinstance(value, (Lifted, MathFunction)):
        return None
    found = _of_numpy().get(id(value))
    if found is not None:
        return found[1] if found[0] is value else None
    return math_function(value) or _of_scipy(value)


@functools.lru_cache(maxsize=1)
def _of_numpy() -> dict[int, tuple[Any, Any]]:
    """Return the replacements of NumPy's functions, by identity."""
    found: dict[int, tuple[Any, Any]] = {}
    for module, names in _names():
        where = module.__name__.replace("numpy", namespace.NAME, 1)
        for name in names:
            own, inner = vars(module).get(name), namespace.lookup(module, name, where)
            if isinstance(own, type) or own is None:
                continue
            if isinstance(inner, Function):
                inner = (BoundUfunc if isinstance(inner, np.ufunc) else BoundFunction)(inner)
            found[id(own)] = own, inner
    return found


def _of_scipy(value: object) -> Any:
    if not isinstance(value, FunctionType) or not str(value.__module__).startswith("scipy."):
        return None
    for where in _companions():
        module = sys.modules.get(where)
        if module is not None and vars(module).get(value.__name__) is value:
            ours = getattr(importlib.import_module(f"functrace.{where}"), value.__name__, None)
            return ours if getattr(ours, "of_scipy", None) is value else None
    return None


# -- the modules -----------------------------------------------------------------------------------


class _LiftedModule(ModuleType):
    """Class of NumPy's modules while a lift is open."""

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)  # cloudpickle tests the exact class


_raised: list[tuple[ModuleType, type[_LiftedModule]]] = []
"""Modules that currently have another class."""


def _lift_modules() -> None:
    _raised[:] = _liftable(len(sys.modules))
    for module, lifted in _raised:
        module.__class__ = lifted


def _lower_modules() -> None:
    for module, _ in _raised:
        module.__class__ = ModuleType
    _raised.clear()


@after_fork
def _forget_other_threads() -> None:
    """Keep only the lifts of the forking thread: the child never closes the others."""
    _open[:] = [lifted for lifted in _open if lifted._thread == threading.get_ident()]
    keep_names([namespace for lifted in _open for namespace in lifted._namespaces])
    if not _open:
        _lower_modules()


@functools.lru_cache(maxsize=1)
def _liftable(_count: int) -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """Return all modules that can be lifted; recomputed after further imports."""
    return [*_classes(), *_scipys(), *_of_masked_arrays()]


@functools.lru_cache(maxsize=1)
def _classes() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """Return NumPy's modules, and their classes while lifted."""
    made = []
    for module, names in _names():
        properties = {name: _property(module, name) for name in names}
        made.append((module, type(f"_Lifted_{module.__name__}", (_LiftedModule,), properties)))
    properties = {name: _plain_property(math, name, function) for name, function in MATH.items()}
    made.append((math, type("_Lifted_math", (_LiftedModule,), properties)))
    return made


def _names() -> Iterator[tuple[ModuleType, list[str]]]:
    """Yield NumPy's modules, and their names to replace."""
    for where in ("numpy", *[f"numpy.{name}" for name in namespace.SUBMODULES]):
        module = importlib.import_module(where)
        yield (
            module,
            [
                name
                for name in module.__all__
                if not name.startswith("_") and _is_lifted_name(module, name)
            ],
        )


def _of_masked_arrays() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """Return ``numpy.ma``, if it is imported, and its class while lifted."""
    module = sys.modules.get("numpy.ma")
    if type(module) is not ModuleType:
        return []
    members = {
        name: _plain_property(module, name, masked_array(vars(module)[name])) for name in MASKED
    }
    return [(module, type("_Lifted_numpy.ma", (_LiftedModule,), members))]


def _plain_property(module: ModuleType, name: str, handed_out: Any) -> property:
    """Return a property that replaces a function in lifted code, unless it was overwritten."""
    own = module.__dict__
    function = handed_out.__wrapped__

    def read(_module: ModuleType) -> Any:
        found = own.get(name, _MISSING)
        if found is _MISSING:
            raise AttributeError(name)
        if INNERMOST_LIFT.get() is None or found is not handed_out.__wrapped__ or not is_lifted():
            return found
        return handed_out if reads_lifted(sys._getframe(1)) else found

    return _stored(own, name, read, function, handed_out)


@functools.lru_cache(maxsize=1)
def _companions() -> tuple[str, ...]:
    """Return the SciPy modules with a counterpart in functrace, and ``scipy.spatial.distance``."""
    import pkgutil

    place = os.path.join(PACKAGE_PREFIX, "scipy")
    return (
        *[f"scipy.{found.name}" for found in pkgutil.iter_modules([place])],
        "scipy.spatial.distance",
    )


def _scipys() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """Return SciPy's modules that are imported already, and their classes while lifted."""
    found = [sys.modules.get(where) for where in _companions()]
    return [(module, _scipys_class(module)) for module in found if type(module) is ModuleType]


@functools.lru_cache(maxsize=64)
def _scipys_class(module: ModuleType) -> type[_LiftedModule]:
    names = [
        name
        for name in getattr(module, "__all__", ())
        if isinstance(vars(module).get(name), FunctionType)
    ]
    return type(
        f"_Lifted_{module.__name__}",
        (_LiftedModule,),
        {name: _companion_property(module, name) for name in names},
    )


def _companion_property(module: ModuleType, name: str) -> property:
    own = module.__dict__

    def read(_module: ModuleType) -> Any:
        found = own.get(name, _MISSING)
        if found is _MISSING:
            raise AttributeError(name)
        if INNERMOST_LIFT.get() is None or not is_lifted() or not reads_lifted(sys._getframe(1)):
            return found
        ours = getattr(importlib.import_module(f"functrace.{module.__name__}"), name, None)
        return ours if getattr(ours, "of_scipy", None) is found else found

    return _stored(own, name, read, own.get(name))


def _stored(
    own: dict[str, Any],
    name: str,
    read: Callable[[ModuleType], Any],
    function: object,
    *handed_out: object,
) -> property:
    """Return a module property that ``read`` reads, and that writes to the module's dictionary.

    Args:
        own: the dictionary.
        name: name of the function.
        read: returns the value; raises AttributeError for a missing name.
        function: the module's own.
        handed_out: its replacements; writing one of them back restores the module's own.
    """

    def write(_module: ModuleType, value: object) -> None:
        is_ours = (
            any(value is one for one in handed_out if one is not None)
            or getattr(value, "of_scipy", _MISSING) is function
        )
        own[name] = function if is_ours else value

    def delete(_module: ModuleType) -> None:
        del own[name]

    return property(read, write, delete)


_MISSING = object()
"""Marker of a name that was deleted from a module."""


def _is_lifted_name(module: ModuleType, name: str) -> bool:
    if module is np and name in namespace.OVERRIDDEN:
        return True
    found: Any = getattr(module, name)
    return callable(found) and not isinstance(found, type)


_POLYNOMIALS = os.path.join(os.path.dirname(np.__file__), "polynomial") + os.sep
"""NumPy code built on public functions: in it, conversions return traced values."""


def _handed_out(inner: object) -> Any:
    if not isinstance(inner, Function):
        return inner
    return (LiftedUfunc if isinstance(inner, np.ufunc) else Lifted)(inner)


def _property(module: ModuleType, name: str) -> property:
    inner = namespace.lookup(module, name, module.__name__.replace("numpy", namespace.NAME, 1))
    own = module.__dict__
    handed_out = _handed_out(inner)
    wrapped = getattr(inner, "__wrapped__", None)
    converts = None
    if module is np and name in namespace.CONVERSIONS:
        converts = _handed_out(
            Function(inner.__wrapped__, name, f"{namespace.NAME}.of_traced_values")
        )

    def read(_module: ModuleType) -> Any:
        found = own.get(name, _MISSING)
        if found is _MISSING:
            raise AttributeError(name)
        if (
            INNERMOST_LIFT.get() is None
            or not is_lifted()
            or (wrapped is not None and found is not wrapped)
        ):
            return found  # the last case: it was overwritten
        frame = sys._getframe(1)
        if reads_lifted(frame):
            return handed_out
        if converts is not None and frame.f_code.co_filename.startswith(_POLYNOMIALS):
            return converts
        return found

    return _stored(
        own, name, read, own.get(name) if wrapped is None else wrapped, handed_out, converts
    )
