"""`lift`: plain NumPy code runs on traced values as it is, the code that it calls included.

Note [How NumPy's names are lifted]
    While a `lift` is open anywhere, the modules ``numpy``, ``numpy.linalg`` and ``numpy.fft`` have a class of their own, in
    which every public function is a property: it hands out the wrapper of `functrace.numpy.protocol.namespace` to whoever
    reads the name *inside of the lift*, and NumPy's own function to all others. Nothing is written into the modules'
    dictionaries, so identity and pickling of NumPy's functions are what they were. Inside means: in the same thread, in a
    call made from the ``with`` block (or the decorated function). A generator or coroutine with the block in it is inside
    only while it runs. After the last lift the modules are of their old class again, and nothing is left.
    Some readers get NumPy's own function in any case: see Note [Who gets NumPy's own names] in numpy/protocol/readers.py.
    What is handed out and kept (``zeros = np.zeros``) asks again at every call, and is NumPy's function outside.

Note [SciPy's names are lifted, too]
    SciPy's modules that are imported when a lift is opened have such a class, too, if `functrace.scipy` has a module of the
    name. The name resolves to the function of `functrace.scipy`, which calls SciPy's on plain values. That package is of a
    higher layer, so it is named here and imported when such a name is first read.

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

_lock = Lock()  # a generator that is collected may leave its lift at any time
_open: list[Lift] = []
"""The lifts that are open, in all threads."""

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


@final
class Lift:
    """The context manager that `lift` returns; it can be entered once at a time, and again afterwards."""

    __slots__ = ("_frame", "_function", "_modules", "_namespaces", "_thread", "is_open", "outer")

    def __init__(self, modules: Iterable[str] = (), function: Callable[..., Any] | None = None) -> None:
        self.is_open = False
        self._modules, self._function = tuple(modules), innermost(function)
        self._namespaces: list[dict[str, Any]] = []
        self.outer: Lift | None = None
        self._frame: FrameType | None = None
        self._thread = 0

    def __enter__(self) -> Lift:
        if self.is_open:
            raise RuntimeError("this lift is open already: nest another one, with functrace.numpy.lift()")
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

    def __exit__(self, _kind: object, _error: BaseException | None, _traceback: TracebackType | None) -> None:
        self.is_open = False
        self._frame = None
        with _lock.now:
            _open.remove(self)
            take_names_back(self._namespaces)
            if not _open:
                _lower_modules()
        if INNERMOST_LIFT.get() is self:  # a generator may be closed in another context than it was begun in
            outer = self.outer
            while outer is not None and not outer.is_open:
                outer = outer.outer
            INNERMOST_LIFT.set(outer)

    def _found(self) -> list[dict[str, Any]]:
        """The dictionaries of modules whose names are put; see Note [Names that were bound before]."""
        if self._function is None and not self._modules:
            return []
        found = [] if self._function is None else namespaces_of(self._function)
        return [*found, *[one for one in modules_below(self._modules) if all(one is not other for other in found)]]

    @property
    def holds(self) -> bool:
        """Whether code that runs here is inside of it."""
        frame = self._frame
        return self.is_open and self._thread == threading.get_ident() and (frame is None or frame.f_back is not None)


@overload
def lift(function: None = None, /, *, modules: Iterable[str] = ()) -> Lift: ...
@overload
def lift(function: F, /, *, modules: Iterable[str] = ()) -> F: ...
def lift(function: Callable[..., Any] | None = None, /, *, modules: Iterable[str] = ()) -> Any:
    """Run plain NumPy code unchanged on traced values, in a function or a block, and in all Python code that it calls.

    Under it, ``np.array([x, 1.0])``, ``z = np.zeros(n); z[i] = x``, ``np.full(3, x)``, ``np.mean([x, y])`` and all other
    functions that NumPy's protocols do not dispatch behave as in `functrace.numpy`. Other threads are not affected, and
    nothing stays changed afterwards.

    The following stays as it is outside, and raises where a derivative would be lost: names that a module has bound before
    and that ``modules`` does not name, compiled code, ``getattr(np, name)``, arrays that were made elsewhere, threads that
    are started inside. See docs/numpy.md.

    Args:
        function: the function to decorate, which may be a generator or a coroutine; left out, ``lift`` is a context manager.
        modules: names of modules or packages that bound functions of NumPy, SciPy or ``math`` when they were imported
            (``from numpy import array``), or call ``float(x)`` on traced values: these names are replaced there while the
            lift is open. The module of ``function``, and the user's own modules that it imports from, need not be named.

    Returns:
        the decorated function, or a context manager.

    Raises:
        ArgumentError: if there is no module of one of these names.

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
        nothing outside. 1.4 us for entering and leaving; 0.4 us for reading a function of ``np`` inside, 0.06 us in other
        threads meanwhile; a call costs 0.1 us more than in `functrace.numpy`.
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


# -- what is handed out -----------------------------------------------------------------------------------------------


class Lifted(Function):
    """A function as it is handed out: the one of `functrace.numpy` while code is lifted, NumPy's own otherwise."""

    def __init__(self, inner: Function) -> None:
        self.__dict__.update(inner.__dict__)
        self._inner = inner

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call one of the two."""
        return (self._inner if is_lifted() else self.__wrapped__)(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _numpys, (self._where, self._name)


class LiftedUfunc(Lifted):
    """A ufunc as it is handed out."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _OfBoundName:
    """A function as it stands in a module: it asks at every call who calls, as a property of NumPy's modules does."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call one of the two."""
        lifted: Any = self
        is_reached = is_lifted() and is_reached_code(sys._getframe(1))
        return (lifted._inner if is_reached else lifted.__wrapped__)(*args, **kwargs)


@final
class BoundFunction(_OfBoundName, Lifted):
    """A function in place of one that a module has bound before."""


@final
class BoundUfunc(_OfBoundName, LiftedUfunc):
    """A ufunc in place of one that a module has bound before."""


def _numpys(where: str, name: str) -> Any:
    """NumPy's own function: what is pickled inside of a lift is unpickled anywhere."""
    return getattr(importlib.import_module(where.replace(namespace.NAME, "numpy")), name)


def _bound_before(value: object) -> Any:
    """Return what is put in place of a function that a module has bound before; ``None`` if it stays."""
    if isinstance(value, (Lifted, MathFunction)):
        return None
    found = _of_numpy().get(id(value))
    if found is not None:
        return found[1] if found[0] is value else None
    return math_function(value) or _of_scipy(value)


@functools.lru_cache(maxsize=1)
def _of_numpy() -> dict[int, tuple[Any, Any]]:
    """What is put in place of NumPy's functions, by identity."""
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


# -- the modules ------------------------------------------------------------------------------------------------------


class _LiftedModule(ModuleType):
    """The class of NumPy's modules while a lift is open."""

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)  # cloudpickle knows modules by their exact class


_raised: list[tuple[ModuleType, type[_LiftedModule]]] = []
"""The modules that have another class now."""


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
    """Keep only the lifts of the thread that has forked: nobody closes the others in the child."""
    _open[:] = [lifted for lifted in _open if lifted._thread == threading.get_ident()]
    keep_names([namespace for lifted in _open for namespace in lifted._namespaces])
    if not _open:
        _lower_modules()


@functools.lru_cache(maxsize=1)
def _liftable(_count: int) -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """All modules that can be lifted, looked for again when others have been imported."""
    return [*_classes(), *_scipys(), *_of_masked_arrays()]


@functools.lru_cache(maxsize=1)
def _classes() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """NumPy's modules, and the classes that they have while lifted."""
    made = []
    for module, names in _names():
        properties = {name: _property(module, name) for name in names}
        made.append((module, type(f"_Lifted_{module.__name__}", (_LiftedModule,), properties)))
    properties = {name: _plain_property(math, name, function) for name, function in MATH.items()}
    made.append((math, type("_Lifted_math", (_LiftedModule,), properties)))
    return made


def _names() -> Iterator[tuple[ModuleType, list[str]]]:
    """NumPy's modules, and their names that are handed out."""
    for where in ("numpy", *[f"numpy.{name}" for name in namespace.SUBMODULES]):
        module = importlib.import_module(where)
        yield module, [name for name in module.__all__ if not name.startswith("_") and _is_lifted_name(module, name)]


def _of_masked_arrays() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """``numpy.ma``, if it is imported, and the class that it has while lifted."""
    module = sys.modules.get("numpy.ma")
    if type(module) is not ModuleType:
        return []
    members = {name: _plain_property(module, name, masked_array(vars(module)[name])) for name in MASKED}
    return [(module, type("_Lifted_numpy.ma", (_LiftedModule,), members))]


def _plain_property(module: ModuleType, name: str, handed_out: Any) -> property:
    """A property that hands out a function to those whom lifts are for, unless somebody has put another one there."""
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
    """SciPy's modules that there is one of here, and ``scipy.spatial.distance``."""
    import pkgutil

    place = os.path.join(PACKAGE_PREFIX, "scipy")
    return (*[f"scipy.{found.name}" for found in pkgutil.iter_modules([place])], "scipy.spatial.distance")


def _scipys() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """SciPy's modules that are imported already, and the classes that they have while lifted."""
    found = [sys.modules.get(where) for where in _companions()]
    return [(module, _scipys_class(module)) for module in found if type(module) is ModuleType]


@functools.lru_cache(maxsize=64)
def _scipys_class(module: ModuleType) -> type[_LiftedModule]:
    names = [name for name in getattr(module, "__all__", ()) if isinstance(vars(module).get(name), FunctionType)]
    return type(f"_Lifted_{module.__name__}", (_LiftedModule,), {name: _companion_property(module, name) for name in names})


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
    own: dict[str, Any], name: str, read: Callable[[ModuleType], Any], function: object, *handed_out: object
) -> property:
    """A property of a module that is read by ``read``, and written to the module's dictionary.

    Args:
        own: the dictionary.
        name: of the function.
        read: returns what is handed out; raises AttributeError where there is nothing, and the module is asked for it.
        function: the module's own.
        handed_out: in its place; whoever has read that and writes it back restores the module's own.
    """

    def write(_module: ModuleType, value: object) -> None:
        is_ours = (
            any(value is one for one in handed_out if one is not None) or getattr(value, "of_scipy", _MISSING) is function
        )
        own[name] = function if is_ours else value

    def delete(_module: ModuleType) -> None:
        del own[name]

    return property(read, write, delete)


_MISSING = object()
"""Stands for a name that somebody has deleted from a module."""


def _is_lifted_name(module: ModuleType, name: str) -> bool:
    if module is np and name in namespace.OVERRIDDEN:
        return True
    found: Any = getattr(module, name)
    return callable(found) and not isinstance(found, type)


_POLYNOMIALS = os.path.join(os.path.dirname(np.__file__), "polynomial") + os.sep
"""NumPy's own code that is written with its public functions: there, its conversions let traced values through."""


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
        converts = _handed_out(Function(inner.__wrapped__, name, f"{namespace.NAME}.of_traced_values"))

    def read(_module: ModuleType) -> Any:
        found = own.get(name, _MISSING)
        if found is _MISSING:
            raise AttributeError(name)
        if INNERMOST_LIFT.get() is None or not is_lifted() or (wrapped is not None and found is not wrapped):
            return found  # the latter if somebody has put another one there
        frame = sys._getframe(1)
        if reads_lifted(frame):
            return handed_out
        if converts is not None and frame.f_code.co_filename.startswith(_POLYNOMIALS):
            return converts
        return found

    return _stored(own, name, read, own.get(name) if wrapped is None else wrapped, handed_out, converts)
