"""Neural networks: so far their functions, ``nn.functional``, and what their hooks need.

Layer: 9.
"""

from functrace.torch.nn import functional, modules

__all__ = ["functional", "modules"]
