"""`lift`: plain NumPy code runs on traced values as it is, the code that it calls included.

Note [How NumPy's names are lifted]
    While a `lift` is open anywhere, the modules ``numpy``, ``numpy.linalg`` and ``numpy.fft`` have a class of their own, in
    which every public function is a property: it hands out the wrapper of `functrace.numpy.namespace` to whoever reads the
    name *inside of the lift*, and NumPy's own function to all others. Nothing is written into the modules' dictionaries, so
    identity and pickling of NumPy's functions are what they were. Inside means: in the same thread, in a call made from the
    ``with`` block (or the decorated function). A generator or coroutine with the block in it is inside only while it runs.
    After the last lift the modules are of their old class again, and nothing is left.
    Three readers get NumPy's own function in any case: NumPy's and functrace's own code, which computes with plain arrays;
    compiled code (Cython), which looks into the memory of what ``np.zeros`` returns; and modules that are being imported,
    whose names would outlive the lift. Compiled code is told by the instruction that the innermost Python frame is at,
    which is not one that reads a name.
    What is handed out and kept (``zeros = np.zeros``) asks again at every call, and is NumPy's function outside.

Note [SciPy's names are lifted, too]
    SciPy's modules that are imported when a lift is opened have such a class, too, if `functrace.scipy` has a module of the
    name. What is handed out is the function of `functrace.scipy`, which on plain values is SciPy's. That room is above this
    one, so it is named here and imported when such a name is first read.

Floor: 6.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from opcode import opmap
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar, final, overload

import numpy as np

from functrace.locks import Lock, after_fork
from functrace.numpy import namespace
from functrace.numpy.namespace import Function
from functrace.source import OWN_AND_NUMPYS

F = TypeVar("F", bound=Callable[..., Any])

_innermost: ContextVar[Lift | None] = ContextVar("the innermost lift", default=None)
_lock = Lock()  # a generator that is collected may leave its lift at any time
_open: list[Lift] = []
"""The lifts that are open, in all threads."""

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_READS = frozenset(
    opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1") if name in opmap
)
"""Instructions that read a name of a module; since Python 3.12 ``import *`` is an intrinsic."""


@final
class Lift:
    """The context manager that `lift` returns; it can be entered once at a time, and again afterwards."""

    __slots__ = ("_frame", "_outer", "_thread", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._outer: Lift | None = None
        self._frame: FrameType | None = None
        self._thread = 0

    def __enter__(self) -> Lift:
        if self.is_open:
            raise RuntimeError("this lift is open already: nest another one, with functrace.numpy.lift()")
        frame = sys._getframe(1)
        self._frame = frame if frame.f_code.co_flags & _SUSPENDS else None
        self._thread = threading.get_ident()
        self._outer = _innermost.get()
        self.is_open = True
        with _lock.now:
            if not _open:
                _lift_modules()
            _open.append(self)
        _innermost.set(self)
        return self

    def __exit__(self, _kind: object, _error: BaseException | None, _traceback: TracebackType | None) -> None:
        self.is_open = False
        self._frame = None
        with _lock.now:
            _open.remove(self)
            if not _open:
                _lower_modules()
        if _innermost.get() is self:  # a generator may be closed in another context than it was begun in
            outer = self._outer
            while outer is not None and not outer.is_open:
                outer = outer._outer
            _innermost.set(outer)

    @property
    def holds(self) -> bool:
        """Whether code that runs here is inside of it."""
        frame = self._frame
        return self.is_open and self._thread == threading.get_ident() and (frame is None or frame.f_back is not None)


def is_lifted() -> bool:
    """Whether NumPy's names are lifted for code that runs here."""
    lifted = _innermost.get()
    while lifted is not None:
        if lifted.holds:
            return True
        lifted = lifted._outer
    return False


@overload
def lift(function: None = None, /) -> Lift: ...
@overload
def lift(function: F, /) -> F: ...
def lift(function: Callable[..., Any] | None = None, /) -> Any:
    """Let plain NumPy code run on traced values as it is, in a function or a block, and in all Python code called from it.

    Under it, ``np.array([x, 1.0])``, ``z = np.zeros(n); z[i] = x``, ``np.full(3, x)``, ``np.mean([x, y])`` and all else that
    NumPy's own protocols do not hand over mean what `functrace.numpy` means by them. Nothing of it acts in other threads, or
    stays.

    Args:
        function: the function to be decorated, which may be a generator or a coroutine; without one, a context manager is
            returned.

    Example:
        >>> import functrace as ft
        >>> def path(x):
        ...     points = np.zeros(3)
        ...     for k in range(3):
        ...         points[k] = x**k
        ...     return np.sum(np.array([points[2], 1.0, x]))
        >>> ft.grad(ft.numpy.lift(path))(3.0)
        np.float64(7.0)

    Note:
        What is not reached stays as it is outside, and raises where a derivative would be lost: names that a module has
        bound to NumPy's functions before (``from numpy import array``), compiled code, ``getattr(np, name)``, arrays that
        were made elsewhere, threads that are started inside. See docs/numpy.md.

    Cost:
        Nothing outside. 1.4 us for entering and leaving; 0.4 us for reading a function of ``np`` inside, 0.06 us in other
        threads meanwhile; calls cost what they do in `functrace.numpy`, and 0.1 us.
    """
    if function is None:
        return Lift()
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generate_later(*args: object, **kwargs: object) -> Any:
            inner = function(*args, **kwargs)
            advance, given = inner.__anext__, ()
            with Lift():
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
            with Lift():
                return await function(*args, **kwargs)

        return call_later
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: object, **kwargs: object) -> Iterator[Any]:
            with Lift():
                return (yield from function(*args, **kwargs))

        return generate

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        with Lift():
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


@final
class LiftedUfunc(Lifted):
    """A ufunc as it is handed out."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _numpys(where: str, name: str) -> Any:
    """NumPy's own function: what is pickled inside of a lift is unpickled anywhere."""
    return getattr(importlib.import_module(where.replace(namespace.NAME, "numpy")), name)


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
    if not _open:
        _lower_modules()


@functools.lru_cache(maxsize=1)
def _liftable(_count: int) -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """All modules that can be lifted, looked for again when others have been imported."""
    return [*_classes(), *_scipys()]


@functools.lru_cache(maxsize=1)
def _classes() -> list[tuple[ModuleType, type[_LiftedModule]]]:
    """NumPy's modules, and the classes that they have while lifted."""
    made = []
    for where in ("numpy", *[f"numpy.{name}" for name in namespace.SUBMODULES]):
        module = importlib.import_module(where)
        names = [name for name in module.__all__ if not name.startswith("_") and _is_lifted_name(module, name)]
        properties = {name: _property(module, name) for name in names}
        made.append((module, type(f"_Lifted_{where}", (_LiftedModule,), properties)))
    return made


@functools.lru_cache(maxsize=1)
def _companions() -> tuple[str, ...]:
    """SciPy's modules that there is one of here."""
    import pkgutil

    place = os.path.join(os.path.dirname(os.path.dirname(__file__)), "scipy")
    return tuple([f"scipy.{found.name}" for found in pkgutil.iter_modules([place])])


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
        found = own[name]
        if _innermost.get() is None or not is_lifted() or not _may_see_lifted(sys._getframe(1)):
            return found
        ours = getattr(importlib.import_module(f"functrace.{module.__name__}"), name, None)
        return ours if getattr(ours, "of_scipy", None) is found else found

    return _stored(own, name, read)


def _stored(own: dict[str, Any], name: str, read: Callable[[ModuleType], Any]) -> property:
    """A property of a module that is read by ``read``, and written to the module's dictionary."""

    def write(_module: ModuleType, value: object) -> None:
        own[name] = value

    def delete(_module: ModuleType) -> None:
        del own[name]

    return property(read, write, delete)


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
        found = own[name]
        if _innermost.get() is None or not is_lifted() or (wrapped is not None and found is not wrapped):
            return found  # the latter if somebody has put another one there
        frame = sys._getframe(1)
        if _may_see_lifted(frame):
            return handed_out
        if converts is not None and frame.f_code.co_filename.startswith(_POLYNOMIALS):
            return converts
        return found

    return _stored(own, name, read)


def _may_see_lifted(frame: FrameType) -> bool:
    """Whether the code that reads a name is one that lifts are for; see Note [How NumPy's names are lifted]."""
    code = frame.f_code
    if code.co_filename.startswith(OWN_AND_NUMPYS) or _instruction(code, frame.f_lasti) not in _READS:
        return False
    if code.co_name != "<module>":
        return True
    specification = frame.f_globals.get("__spec__")
    return not getattr(specification, "_initializing", False)


def _instruction(code: CodeType, at: int) -> int:
    return code.co_code[at]
