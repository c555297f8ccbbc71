"""``torch.utils``: checkpoint, hooks, and dispatch modes.

Layer: 9.
"""

from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
