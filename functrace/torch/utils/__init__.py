"""``torch.utils``: hooks, dispatch modes; checkpoint and loading of data, when they are used.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import hooks

LAZY = ("_pytree", "backend_registration", "checkpoint", "data", "model_zoo", "tensorboard")
"""Submodules that are imported on first access."""
__all__ = ["checkpoint", "data", "hooks"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a submodule on first access."""
    if name in LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    from functrace.names import unknown_name

    raise unknown_name(__name__, name, __all__)


def __dir__() -> list[str]:
    """The names, and the submodules that are not imported yet."""
    return sorted({*globals(), *LAZY})
