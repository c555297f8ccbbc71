"""functrace as a backend of POT (Python Optimal Transport).

``functrace.compat.pot.register()``, once, and the functions of ``ot`` take traced values: those that iterate (Sinkhorn,
Gromov-Wasserstein) are recorded, and those that call compiled code (``ot.emd2``) have the derivative that POT gives them.

Note [Plain arrays beside traced ones]
    POT looks for the backend whose class all arguments are of, so the class here is that of traced values, and while a
    function is recorded that of plain arrays, too. Its functions are those of POT's NumPy backend, run under
    `functrace.numpy.lift`: arrays that they make can be written to with traced values.

Floor: 9.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.programs import stop_gradient, value
from functrace.compat.kinds import Given, Values
from functrace.numpy.array import TracedArray
from functrace.numpy.lifting import lift
from functrace.tracing.binding import is_recording
from functrace.tracing.tracer import Tracer

__all__ = ["register"]

_NAME = "FunctraceBackend"


class _Traced(type):
    """The class of `Arrays`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TracedArray) or (is_recording() and isinstance(instance, np.ndarray))


class Arrays(metaclass=_Traced):
    """What POT looks for; see Note [Plain arrays beside traced ones]."""


def _set_gradients(_backend: object, val: Values, inputs: Values, grads: Values) -> Any:
    """Return ``val`` with the gradients that POT has computed."""
    traced: list[tuple[Any, Any]] = [(x, g) for x, g in zip(inputs, grads, strict=True) if isinstance(x, Tracer)]
    for x, gradient in traced:
        val = val + np.sum(gradient * (x - stop_gradient(x)))
    return val


def register() -> None:
    """Add functrace to the backends of POT, in front of them; a second call changes nothing.

    Raises:
        ImportError: if POT is not installed.
    """
    from ot import backend

    if any(known.__name__ == _NAME for known in backend.get_available_backend_implementations()):
        return
    own: dict[str, Any] = {
        "__name__": "functrace",
        "__type__": Arrays,
        "__type_list__": [],
        "_to_numpy": lambda _backend, a: value(a),
        "_detach": lambda _backend, a: stop_gradient(a),
        "set_gradients": _set_gradients,
    }
    for name, method in inspect.getmembers(backend.NumpyBackend, inspect.isfunction):
        if not name.startswith("_") and name not in own:
            own[name] = _lifted(method)
    implementations: list[Any] = backend.get_available_backend_implementations()
    implementations.insert(0, type(_NAME, (backend.NumpyBackend,), own))


def _lifted(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method whose code is lifted."""
    within = lift(method)

    @functools.wraps(method)
    def call(*args: Given, **kwargs: Given) -> Any:
        return within(*args, **kwargs) if is_recording() else method(*args, **kwargs)

    return call
