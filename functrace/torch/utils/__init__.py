"""``torch.utils``: hooks, dispatch modes; checkpoint and loading of data, when they are used.

Layer: 9.
"""

from functrace.lazy import lazy_attributes
from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import hooks

LAZY = (
    "_pytree",
    "backend_registration",
    "checkpoint",
    "data",
    "model_zoo",
    "module_tracker",
    "tensorboard",
)
"""Submodules that are imported on first access."""
MODULES = {**dict.fromkeys(LAZY, ""), "swap_tensors": "functrace.torch.utils.swapping"}
"""Modules of the names that are imported on first access."""
__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_attributes(__name__, __all__, MODULES)
