"""``torch.utils``: checkpoint, hooks, dispatch modes; loading of data, when it is used.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import checkpoint, hooks

LAZY = ("_pytree", "backend_registration", "data", "model_zoo", "tensorboard")
"""Submodules that are imported on first access."""
__all__ = ["checkpoint", "data", "hooks"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a submodule on first access."""
    if name in LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    from functrace.names import unknown_name

    raise unknown_name(__name__, name, __all__)
