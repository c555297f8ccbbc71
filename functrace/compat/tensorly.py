"""functrace as a backend of tensorly.

Call ``functrace.compat.tensorly.register()`` once; then ``tensorly.set_backend("functrace")``, or
``with tensorly.backend_context("functrace")``. Tensors are NumPy arrays, and traced values under a
transform.

Layer: 10.
"""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

import numpy as np

from functrace import numpy as fnp
from functrace.api.capture.programs import value
from functrace.compat.kinds import Values
from functrace.numpy.protocol.lifting import lift
from functrace.tracing.tracer import Tracer

__all__ = ["register"]


def _is_tensor(tensor: object) -> bool:
    return isinstance(tensor, np.ndarray | Tracer)


def _to_numpy(tensor: Values) -> Any:
    return value(tensor) if isinstance(tensor, Tracer) else np.copy(tensor)


def register() -> None:
    """Add a backend named ``"functrace"`` to tensorly; a second call changes nothing.

    Raises:
        ImportError: if tensorly is not installed.

    Example:
        >>> import functrace.compat.tensorly as backend
        >>> backend.register()  # doctest: +SKIP
        >>> import tensorly; tensorly.set_backend("functrace")  # doctest: +SKIP
    """
    backend: Any = importlib.import_module("tensorly.backend")  # (hidden from type checkers)
    numpy_backend: Any = importlib.import_module("tensorly.backend.numpy_backend").NumpyBackend

    if "functrace" in backend.BackendManager.available_backend_names:
        return
    own: dict[str, Any] = {
        "is_tensor": staticmethod(_is_tensor),
        "to_numpy": staticmethod(_to_numpy),
        "tensor": staticmethod(_tensor),
    }
    for name in dir(numpy_backend):
        if name.startswith("_") or name in own:
            continue
        found = inspect.getattr_static(numpy_backend, name)
        given: object = found
        plain: Any = found.__func__ if isinstance(given, staticmethod) else None
        if plain is not None and callable(plain) and not isinstance(plain, type):
            own[name] = staticmethod(_ours(plain))
        elif inspect.isfunction(found):
            own[name] = lift(found)
    types.new_class(
        "FunctraceBackend",
        (numpy_backend,),
        {"backend_name": "functrace"},
        lambda made: made.update(own),
    )
    backend.BackendManager.available_backend_names.append("functrace")


def _ours(function: Values) -> Any:
    """Return functrace's function for one of NumPy's, and any other function lifted."""
    name = getattr(function, "__name__", "")
    for numpys, names in ((np, fnp), (np.linalg, fnp.linalg)):
        if getattr(numpys, name, None) is function:
            return getattr(names, name)
    return lift(function) if inspect.isfunction(function) else function


def _tensor(data: Values, dtype: Values = None, **_: object) -> Any:
    return fnp.array(data, dtype=dtype)
