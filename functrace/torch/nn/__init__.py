"""Neural networks: modules, parameters, functions. Imported as far as it is used.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.nn import functional, modules

PARAMETERS = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")
SUBMODULES = ("attention", "init", "parallel", "parameter", "utils")

__all__ = [*modules.__all__, *PARAMETERS, "DataParallel", "functional", "modules", *SUBMODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a module, a class, or a kind of parameter on first access."""
    if name in SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in PARAMETERS:
        from functrace.torch.nn import parameter

        return globals().setdefault(name, getattr(parameter, name))
    if name in modules.__all__:
        return globals().setdefault(name, getattr(modules, name))
    if name == "DataParallel":
        return importlib.import_module(f"{__name__}.parallel").DataParallel
    from functrace.names import unknown_name

    raise unknown_name(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
