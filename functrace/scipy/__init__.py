"""SciPy on traced values: functions under SciPy's names and signatures.

SciPy's ufuncs (`scipy.special`) take traced values themselves. On plain values, every function here
is SciPy's own. docs/scipy.md lists the functions; SciPy is an extra, imported with this module.

Layer: 9.
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    importlib.import_module("scipy")
except ImportError as error:
    raise ImportError(
        "functrace.scipy needs SciPy, which is not installed: pip install 'scipy>=1.17'"
    ) from error

if TYPE_CHECKING:
    from functrace.scipy import (
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

__all__ = [
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name: str) -> Any:
    """Import a submodule on first access, like SciPy."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The modules."""
    return sorted(__all__)
