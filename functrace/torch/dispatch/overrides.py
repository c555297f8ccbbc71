"""Subclasses of `Tensor`, and PyTorch's ``__torch_function__``.

A call on a subclass is passed to its ``__torch_function__``; the one that it inherits from `Tensor`
computes, and returns results of the subclass.

Note [Subclasses cost nothing until there is one]
    The functions of the rows, and the methods of `Tensor`, know nothing of this protocol. The first
    definition of a subclass wraps the functions in the public namespaces, and each subclass gets
    wrapped methods of its own. A wrapped function is equal to the plain one, and has its hash, so
    tables of overrides may be written before or after. A function that was imported by name
    before the first subclass existed treats its instances as plain tensors.

Layer: 9.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, final

from functrace.torch.dispatch.rows import TENSOR, TORCH
from functrace.torch.tensors.tensor import Mirrored, Tensor

Function = Callable[..., Any]


class _OfThread(threading.local):
    """State of one thread."""

    disabled: bool = False


STATE = _OfThread()
_PLAIN: set[type[Any]] = {Tensor, Mirrored, int, float, bool, str, complex, type(None)}
"""Types without overrides, for a fast check."""
_OTHERS: weakref.WeakSet[type[Any]] = weakref.WeakSet()
"""Further types without overrides that have been found."""
ENTRIES: dict[str, Any] = {}
"""Rows of each namespace; surface.py fills it."""
_OWN = (
    "__bool__", "__complex__", "__float__", "__int__", "__len__", "as_subclass", "detach", "dim",
    "element_size", "is_contiguous", "is_floating_point", "item", "numel", "numpy",
    "requires_grad_", "size", "stride", "tolist",
)  # fmt: skip
"""Methods of the class itself, beside those of the rows."""
_PROPERTIES = (
    "data",
    "device",
    "dtype",
    "grad",
    "grad_fn",
    "is_leaf",
    "ndim",
    "requires_grad",
    "shape",
)
_NOT_CONVERTED = ("grad",)
_LEFT_ALONE = {"__deepcopy__", "__reduce_ex__", "__hash__"}
_BINARY = {
    f"__{kind}{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul", "and", "or",
        "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge",
    )
    for kind in ("", "r")
}  # fmt: skip


@final
class DisableTorchFunctionSubclass:
    """Context in which subclasses are plain tensors."""

    def __enter__(self) -> None:
        self._before = STATE.disabled
        STATE.disabled = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        STATE.disabled = self._before


class Overrides(Protocol):
    """A class with the protocol's method."""

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Handle a call, or return ``NotImplemented``."""
        ...


def disabled(
    func: Function,
    types: Iterable[type[Any]],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the function; a class with this ``__torch_function__`` has no overrides, and its
    subclasses are plain tensors for the call.
    """
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def has_overrides(kind: type[Any]) -> bool:
    """Return True if instances of a class handle calls themselves."""
    if kind in _PLAIN or kind in _OTHERS:
        return False
    found = getattr(kind, "__torch_function__", None)
    is_plain = found is None or found is disabled or kind.__dict__.get("_is_plain", False)
    if is_plain or _is_pytorchs(kind):
        _OTHERS.add(kind)
        return False
    return True


def _is_pytorchs(kind: type[Any]) -> bool:
    """Return True for PyTorch's own tensors, whose overrides call the function that they are given."""
    return not issubclass(kind, Tensor) and any(
        base.__module__ == "torch" and base.__qualname__ == "Tensor" for base in kind.__mro__
    )


def overriding(args: Iterable[Any]) -> list[Any]:
    """Return the arguments that handle a call, one of each class, subclasses first; also those in
    lists and tuples.
    """
    found: list[Any] = []
    for x in args:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if kind is tuple or kind is list:
            for y in overriding(x):
                _insert(found, y)
        elif has_overrides(kind):
            _insert(found, x)
    return found


def _insert(found: list[Any], x: Any) -> None:
    if any(type(x) is type(other) for other in found):
        return
    at = next((k for k, other in enumerate(found) if issubclass(type(x), type(other))), len(found))
    found.insert(at, x)


def call_override(
    func: Function, found: Iterable[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Pass a call to the first class that handles it.

    Raises:
        TypeError: if no class does.
    """
    types = tuple([type(x) for x in found])
    for x in found:
        result = x.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(func, "__name__", str(func))
    raise TypeError(
        f"no implementation found for '{getattr(func, '__module__', 'torch')}.{name}' on types that "
        f"implement __torch_function__: {list(types)}"
    )


def converted(result: Any, kind: type[Any]) -> Any:
    """Return the tensors of a result as tensors of a subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, kind) else result.as_subclass(kind)
    if type(result) is tuple or type(result) is list:
        return type(result)([converted(x, kind) for x in result])
    if isinstance(result, tuple) and hasattr(result, "_make"):
        made: Any = result
        return made._make([converted(x, kind) for x in made])
    return result


def default(
    cls: type[Any],
    func: Function,
    types: Iterable[type[Any]],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Compute on plain tensors, and return results of the subclass: the inherited
    ``__torch_function__``.

    Args:
        cls: the subclass.
        func: the function, the plain method, or the getter of a property.
        types: classes of the arguments that have overrides.
        args, kwargs: the arguments.

    Returns:
        what the function returns; ``NotImplemented`` if a class of ``types`` is no base of the
        subclass.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "__get__" and getattr(func, "of", "") in _NOT_CONVERTED:
            return result
        return converted(result, cls)


class Overridable:
    """A public function whose arguments may handle the call; equal to the plain one."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or what an argument's class has instead."""
        if STATE.disabled:
            return self.function(*args, **kwargs)
        found = overriding((*args, *kwargs.values()))
        if not found:
            return self.function(*args, **kwargs)
        return call_override(self, found, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self.function or (
            isinstance(other, Overridable) and other.function is self.function
        )

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)

    def __reduce__(self) -> str:
        return self.__qualname__  # (of its module, as functions are pickled)


@functools.lru_cache(maxsize=1 << 14)
def overridable(function: Function) -> Overridable:
    """Return a function that passes calls on; one for each plain one."""
    return Overridable(function)


_METHODS = {"__add__": "add", "__sub__": "sub", "__mul__": "mul", "__matmul__": "matmul"}
_METHODS |= {"__radd__": "add", "__rmul__": "mul"}
_METHODS |= {f"__{name}__": name for name in ("gt", "ge", "lt", "le", "ne")}
"""Operators for which PyTorch passes the method."""


def _named(name: str, function: Function) -> Function:
    """Return what ``__torch_function__`` gets of a method: equal to it, and of its name."""
    if name in _METHODS:
        name, function = _METHODS[name], getattr(Tensor, _METHODS[name])
    made = Overridable(function)
    made.__name__ = name
    return made


def _method(name: str, function: Function) -> Function:
    is_binary, is_reflected = name in _BINARY, name.startswith("__r") and name in _BINARY
    plain = f"__{name[3:]}" if is_reflected else name
    swaps = is_reflected and hasattr(Tensor, plain) and plain != "__sub__" and plain != "__pow__"

    called = _named(name, function)
    swapped = _named(plain, getattr(Tensor, plain)) if swaps else called

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        if STATE.disabled:
            return function(*args, **kwargs)
        found = overriding((*args, *kwargs.values()))
        if not found:
            return function(*args, **kwargs)
        func = called
        if swaps and isinstance(args[1], Tensor):
            func, args = swapped, (args[1], args[0])
        try:
            return call_override(func, found, args, kwargs)
        except TypeError as error:
            if is_binary and str(error).startswith("no implementation found for"):
                return NotImplemented
            raise

    return method


class _Getter:
    """What ``__torch_function__`` gets when a property is read."""

    __name__ = "__get__"

    def __init__(self, name: str, getter: Function) -> None:
        self.of, self.getter = name, getter

    def __call__(self, tensor: Tensor) -> Any:
        return self.getter(tensor)


_Getter.__name__ = _Getter.__qualname__ = "method-wrapper"  # the kind that PyTorch's is


def _property(name: str, found: property) -> property:
    getter: Any = found.fget
    reads = _Getter(name, getter)

    def get(tensor: Tensor) -> Any:
        if STATE.disabled:
            return getter(tensor)
        return call_override(reads, [tensor], (tensor,), {})

    return property(get, found.fset, found.fdel, found.__doc__)


def prepare(kind: type[Any]) -> None:
    """Give a new subclass of `Tensor` its methods, unless it is one of this library."""
    if kind.__dict__.get("_is_plain", False) or not has_overrides(kind):
        return
    install()
    for name in (*ENTRIES[TENSOR], *_OWN, *_PROPERTIES):
        plain = vars(Tensor).get(name)
        found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if plain is None or found is not plain or name in _LEFT_ALONE:
            continue
        if isinstance(plain, property):
            setattr(kind, name, _property(name, plain))
        elif callable(plain):
            setattr(kind, name, _method(name, plain))


_INSTALLED = False


def is_installed() -> bool:
    """Return True if there has been a subclass."""
    return _INSTALLED


def install() -> None:
    """Wrap the functions in the public namespaces that are imported."""
    global _INSTALLED
    if _INSTALLED:
        return
    _INSTALLED = True
    places = [place for place in ENTRIES if place != TENSOR]
    for place in (*places, f"{TORCH}.namespace"):
        module = sys.modules.get(place)
        rows = ENTRIES[TORCH if place == f"{TORCH}.namespace" else place]
        for name, (_, function) in rows.items():
            if module is not None and vars(module).get(name) is function:
                setattr(module, name, overridable(function))
