"""functrace as a backend of autoray, the basis of quimb and cotengra.

Call ``functrace.compat.autoray.register()`` once; then code that uses ``autoray.do`` takes traced
values: contractions of cotengra, tensor networks and circuits of quimb.

Layer: 10.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.capture.programs import stop_gradient, value
from functrace.compat.kinds import Given, Values

__all__ = ["register"]

BACKEND = "functrace"
"""The name that autoray infers from the module of a traced value's class."""


def register() -> None:
    """Register functrace's functions with autoray; a second call changes nothing.

    Raises:
        ImportError: if autoray is not installed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> import autoray, functrace.compat.autoray as backend  # doctest: +SKIP
        >>> backend.register()  # doctest: +SKIP
        >>> ft.grad(lambda x: autoray.do("sum", autoray.do("tanh", x)))(np.zeros(2))  # doctest: +SKIP
        array([1., 1.])
    """
    autoray: Any = importlib.import_module("autoray.autoray")  # (hidden from type checkers)
    autoray.register_module_alias(
        BACKEND, "functrace.numpy"
    )  # its names are NumPy's, and take lists of traced values
    for name, function in _FUNCTIONS.items():
        autoray.register_function(BACKEND, name, function)
    autoray.register_function(BACKEND, "linalg.svd", wrapper=_thin)
    autoray.register_function(BACKEND, "linalg.expm", module="functrace.scipy.linalg")
    autoray.register_function(BACKEND, "linalg.solve_triangular", module="functrace.scipy.linalg")


def _thin(svd: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduced singular value decomposition, like all backends of autoray."""

    @functools.wraps(svd)
    def thin(a: Values, full_matrices: bool = False, **kwargs: Given) -> Any:
        return svd(a, full_matrices=full_matrices, **kwargs)

    return thin


def _complex(real: Values, imag: Values) -> Any:
    return real + 1j * imag


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "complex": _complex,
    "stop_gradient": stop_gradient,
    "to_numpy": value,
    "size": np.size,
}
"""Functions that autoray's programs call, and that NumPy does not have under these names."""
