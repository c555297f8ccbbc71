"""``torch.utils``: checkpoint.

Floor: 8.
"""

from functrace.torch.utils import checkpoint as checkpoint

__all__ = ["checkpoint"]
