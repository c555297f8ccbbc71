"""``autograd.numpy``: the names of NumPy, for plain and traced values: those of `functrace.numpy`.

Layer: 10.
"""

import importlib as _importlib
from typing import Any as _Any

import numpy as _np

from functrace import numpy as _names

_MODULES = (
    "fft",
    "linalg",
    "numpy_boxes",
    "numpy_vjps",
    "numpy_vspaces",
    "numpy_wrapper",
    "random",
)
_OLD = {
    "alltrue": "all",
    "cumproduct": "cumprod",
    "product": "prod",
    "sometrue": "any",
    "trapz": "trapezoid",
}
"""Names that NumPy 2 has removed, and packages written for autograd still import."""

__all__ = [name for name in dir(_np) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
__version__ = _np.__version__


def __getattr__(name: str) -> _Any:
    """Return a function of `functrace.numpy`, or a module of this package."""
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    wrapper = _importlib.import_module(f"{__name__}.numpy_wrapper")
    if name in wrapper.__all__:
        found = getattr(wrapper, name)
    else:
        found = getattr(_names, _OLD.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """NumPy's names."""
    return sorted({*__all__, *_MODULES})
