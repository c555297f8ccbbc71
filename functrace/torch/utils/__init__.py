"""``torch.utils``: checkpoint, hooks, and modes that see operations.

Layer: 9.
"""

from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
