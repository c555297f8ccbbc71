"""Neural networks: so far their functions, ``nn.functional``.

Floor: 8.
"""

from functrace.torch.nn import functional

__all__ = ["functional"]
