"""functrace as a backend of POT (Python Optimal Transport).

Call ``functrace.compat.pot.register()`` once; then the functions of ``ot`` take traced values:
iterative ones (Sinkhorn) are recorded, and those that call compiled code (``ot.emd2``) have the
derivative that POT gives them. If its plan does not come from a linear program
(Gromov-Wasserstein), that is only the first derivative: a second one raises.

Note [Plain arrays beside traced ones]
    POT selects the backend whose class matches all arguments, so the class here matches traced
    values and, while a function is recorded, plain arrays, too. Its functions are those of POT's
    NumPy backend, run under `functrace.numpy.lift`: arrays that they make can be written to with
    traced values.

Layer: 10.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.capture.programs import stop_gradient, value
from functrace.api.custom_rules.derivatives import custom_jvp
from functrace.compat.kinds import Given, Values
from functrace.errors import NotDifferentiableError
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.protocol.lifting import lift
from functrace.tracing.binding import is_recording
from functrace.tracing.tracer import Tracer

__all__ = ["register"]

_NAME = "FunctraceBackend"


class _Traced(type):
    """The metaclass of `Arrays`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TracedArray) or (
            is_recording() and isinstance(instance, np.ndarray)
        )


class Arrays(metaclass=_Traced):
    """The class that POT tests for; see Note [Plain arrays beside traced ones]."""


def _to_numpy(_backend: object, a: Values) -> Any:
    return value(a)


def _detach(_backend: object, a: Values) -> Any:
    return stop_gradient(a)


def _set_gradients(_backend: object, val: Values, inputs: Values, grads: Values) -> Values:
    """Return ``val`` with only the gradients that POT has computed."""
    traced: list[tuple[Values, Values]] = [
        (x, g) for x, g in zip(inputs, grads, strict=True) if isinstance(x, Tracer)
    ]
    if not traced:
        return val
    # Plans and potentials of linear programs are piecewise constant; others depend on their inputs.
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    is_linear_program = caller.f_globals.get("__name__", "").startswith("ot.lp.")
    bound = _valued if is_linear_program else _valued_once
    return bound(val, [x for x, _ in traced], [g for _, g in traced])


@custom_jvp
def _valued(val: Values, inputs: Values, grads: Values) -> Values:
    return val


@_valued.defjvp
def _valued_jvp(primals: Values, tangents: Values) -> Values:
    return _valued(*primals), sum(
        np.sum(g * x_dot) for g, x_dot in zip(primals[2], tangents[1], strict=True)
    )


@custom_jvp
def _valued_once(val: Values, inputs: Values, grads: Values) -> Values:
    return val


@_valued_once.defjvp
def _valued_once_jvp(primals: Values, tangents: Values) -> Values:
    _, inputs, grads = primals
    along = sum(
        np.sum(_first(g, inputs) * x_dot) for g, x_dot in zip(grads, tangents[1], strict=True)
    )
    return _valued_once(*primals), along


@custom_jvp
def _first(gradient: Values, inputs: Values) -> Values:
    return gradient


@_first.defjvp
def _first_jvp(primals: Values, tangents: Values) -> Values:
    raise NotDifferentiableError(
        "POT computes the gradient of this value from a plan that depends on the arguments, "
        "without that dependence",
        fix="differentiate it once; functions that iterate under the backend (ot.sinkhorn2) have "
        "derivatives of all orders",
    )


def register() -> None:
    """Add functrace to the backends of POT, as the first one; a second call changes nothing.

    Raises:
        ImportError: if POT is not installed.

    Example:
        >>> import functrace.compat.pot as backend
        >>> backend.register()  # doctest: +SKIP
    """
    backend: Any = importlib.import_module("ot.backend")  # (hidden from type checkers)
    if any(known.__name__ == _NAME for known in backend.get_available_backend_implementations()):
        return
    own: dict[str, Any] = {
        "__name__": "functrace",
        "__type__": Arrays,
        "__type_list__": [],
        "_to_numpy": _to_numpy,
        "_detach": _detach,
        "set_gradients": _set_gradients,
    }
    for name, method in inspect.getmembers(backend.NumpyBackend, inspect.isfunction):
        if not name.startswith("_") and name not in own:
            own[name] = _lifted(method)
    implementations: list[Any] = backend.get_available_backend_implementations()
    implementations.insert(0, type(_NAME, (backend.NumpyBackend,), own))


def _lifted(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method with lifted code."""
    within = lift(method)

    @functools.wraps(method)
    def call(*args: Given, **kwargs: Given) -> Any:
        return within(*args, **kwargs) if is_recording() else method(*args, **kwargs)

    return call
