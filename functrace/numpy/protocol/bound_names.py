"""Names that a module has bound before: ``from numpy import array``, ``from math import sqrt``.

Note [Names that were bound before]
    `lift` puts replacements into dictionaries of modules: modules given by name, with their
    submodules, and the module of the lifted function, with the user's own modules that it imports
    from. Functions are matched by identity: NumPy's, SciPy's with a counterpart in
    `functrace.scipy`, and those of ``math``. ``float``, ``int``, ``complex`` (and ``memoryview``,
    ``bytes``) are added where a function of the module calls them. On every call a replacement
    checks if it runs inside a lift, and otherwise calls the original, so that other threads notice
    only a different identity. When the last lift that uses a dictionary ends, its previous contents
    are restored. Closures of the module's functions are treated alike, for decorated functions. Not
    replaced: names in class bodies, default arguments, and lists and dicts of such a module.

Layer: 3.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, final

import numpy as np

from functrace.caches import MemoTable
from functrace.errors import ArgumentError
from functrace.numpy.arrays.instances import is_lifted
from functrace.numpy.functions.python_math import ON_TRACED, MathFunction, python_number
from functrace.numpy.protocol.readers import is_filled
from functrace.source import is_users
from functrace.tracing.tracer import Tracer

Namespace = dict[str, Any]
Search = Callable[[object], Any]
"""Return the replacement of a module's value; ``None`` to keep it."""

_OWN = ("builtins", "functrace", "math", "numpy", "scipy", "sys")
"""Packages whose names are not replaced."""

_KINDS = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.mean), type(np.r_), type(np.c_))


@final
class _ModuleBindings:
    """Dictionary of a module, and the replacements in it."""

    __slots__ = ("cells", "codes", "count", "namespace", "put")

    def __init__(self, namespace: Namespace) -> None:
        self.namespace, self.count = namespace, 0
        self.codes: set[Any] = set()
        self.cells: list[tuple[CellType, Any, Any]] = []
        self.put: dict[str, tuple[Any, Any]] = {}


_bound: dict[int, _ModuleBindings] = {}
_ABSENT = object()


def put_names(namespaces: Iterable[Namespace], function: object, handed_out: Search) -> None:
    """Put replacements into dictionaries of modules; requires the lock of `lift`.

    Args:
        namespaces: the dictionaries, without duplicates.
        function: the lifted function, if any, whose code may call ``float``, too.
        handed_out: returns the replacement of a value.
    """
    code = getattr(function, "__code__", None)
    plans: list[tuple[Namespace, _Replacements | None]] = []
    for namespace in namespaces:  # plan first, so that an exception changes nothing
        known = _bound.get(id(namespace))
        is_put = known is not None and code in known.codes
        plans.append(
            (
                namespace,
                None if is_put else _planned(namespace, function, handed_out, keeps=known is None),
            )
        )
    for namespace, plan in plans:
        bound = _bound.setdefault(id(namespace), _ModuleBindings(namespace))
        bound.count += 1
        if plan is None:
            continue
        bound.codes.add(code)
        for name, (before, found) in plan.names.items():
            if name not in bound.put:
                bound.put[name] = before, found
                namespace[name] = found
        for cell, before, found in plan.cells:
            if cell.cell_contents is before:
                bound.cells.append((cell, before, found))
                cell.cell_contents = found


class _Replacements(NamedTuple):
    """Replacements for a dictionary of a module, and for the closures of its functions."""

    namespace: Namespace
    size: int
    names: dict[str, tuple[Any, Any]]
    cells: list[tuple[CellType, Any, Any]]

    def holds(self, namespace: Namespace) -> bool:
        """Return True if the module is unchanged."""
        return (
            self.namespace is namespace
            and self.size == len(namespace)
            and all(
                namespace.get(name, _ABSENT) is before for name, (before, _) in self.names.items()
            )
        )


_NO_CODE = compile("", "", "exec")
_plans = MemoTable("names that lift puts into modules", 500)
"""Plans, by module and code of the lifted function."""


def _planned(
    namespace: Namespace, function: object, handed_out: Search, *, keeps: bool
) -> _Replacements:
    """Return the plan of a module; recomputed if the module changed, or has replacements."""
    key = (id(namespace), getattr(function, "__code__", None))
    known: _Replacements | None = _plans.get(key)
    if keeps and known is not None and known.holds(namespace):
        return known
    put: dict[str, tuple[Any, Any]] = {
        name: (_ABSENT, _NUMBERS[name]) for name in _called_kinds(namespace, function)
    }
    for name, value in list(namespace.items()):
        found = handed_out(value) if isinstance(value, _KINDS) else None
        if found is not None:
            put[name] = value, found
    for value in list(namespace.values()):  # keep names that numba compiles
        if str(type(value).__module__).startswith("numba."):
            for name in getattr(getattr(value, "py_func", None), "__code__", _NO_CODE).co_names:
                put.pop(name, None)
    cells = []
    for value in list(namespace.values()):
        for cell in (
            value.__closure__ or () if isinstance(value, FunctionType) and _is_own(value) else ()
        ):
            held = cell.cell_contents if is_filled(cell) else None
            found = handed_out(held) if isinstance(held, _KINDS) else None
            if found is not None:
                cells.append((cell, held, found))
    plan = _Replacements(namespace, len(namespace), put, cells)
    return _plans.keep(key, plan) if keeps else plan


def _is_own(function: FunctionType) -> bool:
    """Return True if the true module of a function may be changed, ignoring its ``__module__``."""
    return _is_open(function.__globals__)


def take_names_back(namespaces: Iterable[Namespace]) -> None:
    """Restore names that no lift uses any more and that nothing else has overwritten."""
    for namespace in namespaces:
        bound = _bound[id(namespace)]
        bound.count -= 1
        if not bound.count:
            _restore(bound)


def keep_names(namespaces: Iterable[Namespace]) -> None:
    """Restore all other dictionaries in a forked child, where other threads no longer run.

    Args:
        namespaces: dictionaries of the lifts active in the child, once per lift.
    """
    counts = Counter(map(id, namespaces))
    for key, bound in list(_bound.items()):
        bound.count = counts[key]
        if not bound.count:
            _restore(bound)


def _restore(bound: _ModuleBindings) -> None:
    namespace = bound.namespace
    for cell, before, found in bound.cells:
        if is_filled(cell) and cell.cell_contents is found:
            cell.cell_contents = before
    for name, (before, found) in bound.put.items():
        if namespace.get(name) is not found:
            continue
        if before is _ABSENT:
            del namespace[name]
        else:
            namespace[name] = before
    del _bound[id(namespace)]


def modules_below(names: Iterable[str]) -> list[Namespace]:
    """Return the dictionaries of the modules of these names, and of their imported submodules.

    Raises:
        ArgumentError: if a module does not exist, or belongs to NumPy, SciPy or functrace.
    """
    names = tuple(names)
    for name in names:
        if type(name) is not str or name.partition(".")[0] in _OWN:
            raise ArgumentError(
                f"lift(modules=…) takes names of modules that use NumPy, not {name!r}",
                fix="name the package whose functions were bound at import: modules=['package']",
            )
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise ArgumentError(
                    f"lift(modules=…): there is no module {name!r}", fix="check its name"
                ) from error
    key = (names, len(sys.modules))
    known = _modules.get(key)
    if known is not None and all(map(_is_imported, known)):
        return known
    below = tuple([f"{name}." for name in names])
    found = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith(below)]
    return _modules.keep(
        key, [module.__dict__ for module in found if isinstance(module, ModuleType)]
    )


def _is_imported(namespace: Namespace) -> bool:
    module = sys.modules.get(namespace.get("__name__", ""))
    return module is not None and module.__dict__ is namespace


_modules = MemoTable("modules by the names that lift was given", 100)


def innermost(function: Any) -> Any:
    """Unwrap wrappers and partial applications."""
    while hasattr(function, "__wrapped__") or isinstance(function, functools.partial):
        function = (
            function.func if isinstance(function, functools.partial) else function.__wrapped__
        )
    return function


def namespaces_of(function: Callable[..., Any]) -> list[Namespace]:
    """Return the dictionaries of a function's module, and of user modules that it imports from."""
    own: Any = getattr(function, "__globals__", None)
    if own is None or not _is_open(own):
        return []
    key = (id(own), len(sys.modules))
    known = _modules.get(key)
    if known is None or known[0] is not own:
        known = _modules.keep(key, _with_imported(own))
    return known


def _with_imported(own: Namespace) -> list[Namespace]:
    found = {id(own): own}
    for value in list(own.values()):
        module = value if isinstance(value, ModuleType) else None
        if isinstance(value, FunctionType):
            namespace: Any = value.__globals__
        else:
            module = sys.modules.get(value.__module__) if isinstance(value, type) else module
            namespace = None if module is None else module.__dict__
        if namespace is not None and id(namespace) not in found and _is_open(namespace):
            file = namespace.get("__file__")
            if file and is_users(file):
                found[id(namespace)] = namespace
    return list(found.values())


def _is_open(namespace: Namespace) -> bool:
    """Return True if names of a module may be replaced: it is not in `_OWN`."""
    return str(namespace.get("__name__", "")).partition(".")[0] not in _OWN or not _is_imported(
        namespace
    )


# -- float, int, complex, memoryview, bytes --------------------------------------------------------


class _PythonClass(type):
    """Metaclass of the replacements of ``float``, ``int`` …: they behave like Python's classes."""

    kind: type

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        """Create a replacement; a subclass of one is a subclass of Python's own class."""
        if any(isinstance(base, _PythonClass) for base in bases):
            return type(
                name,
                tuple([base.kind if isinstance(base, _PythonClass) else base for base in bases]),
                members,
            )
        return super().__new__(mcs, name, bases, members)

    def __call__(cls, *args: Any, **kwargs: object) -> Any:
        if any(isinstance(x, Tracer) for x in (*args, *kwargs.values())) and is_lifted():
            if len(args) == 1 and not kwargs:
                value: Any = args[0]
                return (
                    cls.kind(np.asarray(value))
                    if cls.kind in _BUFFERS
                    else python_number(cls.kind, value)
                )
            if cls.kind is complex:
                return _complex(*args, **kwargs)
        return cls.kind(*args, **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.kind)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.kind

    def __hash__(cls) -> int:
        return hash(cls.kind)

    def __repr__(cls) -> str:
        return repr(cls.kind)

    def __reduce__(cls) -> Any:
        return getattr, (builtins, cls.kind.__name__)


def _complex(real: Any = 0, imag: Any = 0) -> Any:
    """Return ``complex(real, imag)`` with a traced argument."""
    parts = [
        python_number(complex, x) if isinstance(x, Tracer) else complex(x) for x in (real, imag)
    ]
    return parts[0] + 1j * parts[1]


def _named(kind: type) -> type:
    attributes = {
        "kind": kind,
        "__module__": "builtins",
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    if kind in _BUFFERS:
        return _PythonClass(kind.__name__, (), attributes)
    return _PythonClass(
        kind.__name__, (kind,), {**attributes, "dtype": np.dtype(kind)}
    )  # for dtype=float


_BUFFERS: tuple[type, ...] = (memoryview, bytes, bytearray)
"""Python's classes that read memory: of an array that depends on no input, its concrete values."""

_NUMBERS: dict[str, type] = {
    kind.__name__: _named(kind) for kind in (float, int, complex, *_BUFFERS)
}


def _called_kinds(namespace: Namespace, function: object) -> Iterator[str]:
    """Yield names of Python's classes that functions of a module call, but never test by ``is``."""
    called: set[str] = set()
    compared: set[str] = set()
    values = list(namespace.values())
    for value in list(values):
        if type(value) in (dict, list, tuple) and len(value) < 1000:
            values += value.values() if type(value) is dict else value
    codes = {code for value in values for code in _codes(value, namespace)}
    if getattr(function, "__globals__", None) is namespace:
        codes.add(function.__code__)  # type: ignore[attr-defined]
    for code in codes:
        used, by_identity = _uses(code)
        called |= used
        compared |= by_identity
    for kind in _NUMBERS:
        if kind in called and kind not in compared and kind not in namespace:
            yield kind


def _codes(value: object, namespace: Namespace) -> Iterator[CodeType]:
    """Yield code objects of a function, or of a class's functions, with a module's globals."""
    for part in list(vars(value).values()) if isinstance(value, type) else (value,):
        if isinstance(part, (staticmethod, classmethod)):
            part = part.__func__
        for function in (part.fget, part.fset) if isinstance(part, property) else (part,):
            if isinstance(function, FunctionType) and function.__globals__ is namespace:
                yield function.__code__


@functools.lru_cache(maxsize=4096)
def _uses(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of Python's classes that code calls, and the ones it compares by ``is``."""
    called: set[str] = set()
    compared: set[str] = set()
    if _NUMBERS.keys().isdisjoint(code.co_names) and not any(
        isinstance(c, CodeType) for c in code.co_consts
    ):
        return frozenset(), frozenset()
    before: str | None = None
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in _NUMBERS:
            before = step.argval
            if (step.arg or 0) & 1:  # the flag of a call
                called.add(step.argval)
        elif step.opname == "IS_OP" and before is not None:
            compared.add(before)
        elif step.opname != "CACHE":
            before = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _uses(constant)
            called |= inner[0]
            compared |= inner[1]
    return frozenset(called), frozenset(compared)


# -- math ------------------------------------------------------------------------------------------

MATH: dict[str, MathFunction] = {own.__name__: MathFunction(own, is_lifted) for own in ON_TRACED}
"""Replacements of the functions of ``math``, by name."""


def math_function(value: object) -> MathFunction | None:
    """Return the replacement of a function of ``math``."""
    found = MATH.get(getattr(value, "__name__", ""))
    return found if found is not None and found.__wrapped__ is value else None
