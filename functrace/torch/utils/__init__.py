"""``torch.utils``: checkpoint, and modes that see operations.

Floor: 8.
"""

from functrace.torch.utils import _python_dispatch as _python_dispatch
from functrace.torch.utils import checkpoint as checkpoint

__all__ = ["checkpoint"]
