"""Neural networks: ``nn.functional``, and the Function that module hooks use.

Layer: 9.
"""

from functrace.torch.nn import functional, modules

__all__ = ["functional", "modules"]
