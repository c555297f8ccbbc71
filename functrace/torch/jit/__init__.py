"""``torch.jit`` without TorchScript: functions and modules stay Python.

`script`, `trace` and the decorators return what they get; `save` and `load`, whose files hold
TorchScript, are refused.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

from functrace.errors import UnsupportedFunctionError
from functrace.torch.futures import Future
from functrace.torch.jit import annotations

__all__ = [
    "Error",
    "Final",
    "annotate",
    "annotations",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
T = TypeVar("T")
_isinstance = isinstance


class Error(RuntimeError):
    """An error in TorchScript; never raised here."""


class TracerWarning(Warning):
    """A warning of PyTorch's tracer; never given here."""


class ScriptWarning(Warning):
    """A warning of TorchScript; never given here."""


class ScriptModule:
    """Class of compiled modules; there are none."""


class ScriptFunction:
    """Class of compiled functions; there are none."""


RecursiveScriptModule = ScriptModule


def script(obj: T, *_unused: object, **_options: object) -> T:
    """Return the function, class or module unchanged."""
    return obj


def trace(func: object, example_inputs: object = None, *_unused: object, **_options: object) -> Any:
    """Return the function or module unchanged; it isn't called."""
    return func


def trace_module(mod: object, inputs: object, *_unused: object, **_options: object) -> Any:
    """Return the module unchanged."""
    return mod


def script_if_tracing(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def script_method(fn: T) -> T:
    """Return the method unchanged."""
    return fn


def export(fn: T) -> T:
    """Return the method unchanged."""
    return fn


def ignore(drop: object = False, **_options: object) -> Any:
    """Return the function unchanged, or, with an option, a decorator that does."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def interface(obj: T) -> T:
    """Return the class unchanged."""
    return obj


def freeze(mod: T, *_unused: object, **_options: object) -> T:
    """Return the module unchanged."""
    return mod


def optimize_for_inference(mod: T, *_unused: object) -> T:
    """Return the module unchanged."""
    return mod


def annotate(the_type: object, the_value: T) -> T:
    """Return the value."""
    return the_value


def isinstance(obj: object, target_type: object) -> bool:
    """Return True if an object has a type; generic types are compared by their origin."""
    given: Any = target_type if _isinstance(target_type, tuple) else (target_type,)
    return any(_isinstance(obj, getattr(kind, "__origin__", None) or kind) for kind in given)


def is_scripting() -> bool:
    """Return False."""
    return False


def is_tracing() -> bool:
    """Return False."""
    return False


def fork(func: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Call the function at once; returns a `functrace.torch.futures.Future` of its result."""
    made = Future()
    try:
        result = func(*args, **kwargs)
    except BaseException as error:
        made.set_exception(error)
    else:
        made.set_result(result)
    return made


def wait(future: Future) -> Any:
    """Return the result of `fork`, or raise its error."""
    return future.wait()


_fork, _wait = fork, wait


def set_fusion_strategy(strategy: object) -> list[Any]:
    """Do nothing; returns no strategy."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing."""


def onednn_fusion_enabled() -> bool:
    """Return False."""
    return False


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Do nothing."""
    yield


def save(m: object, f: object, _extra_files: object = None) -> NoReturn:
    """Raise: there is no TorchScript to save."""
    raise UnsupportedFunctionError(
        "torch.jit.save writes TorchScript, which functrace.torch does not have",
        fix="save the state_dict with torch.save",
    )


def load(
    f: object, map_location: object = None, _extra_files: object = None, **_options: object
) -> NoReturn:
    """Raise: TorchScript cannot be run."""
    raise UnsupportedFunctionError(
        "torch.jit.load reads TorchScript, which functrace.torch does not have",
        fix="in PyTorch, save the state_dict with torch.save, and load it into the module",
    )
