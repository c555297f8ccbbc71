"""``torch._C._nn``: functions that PyTorch's own ``nn.functional`` calls, from the rows.

Layer: 9.
"""

from functrace.torch.dispatch.rows import NN
from functrace.torch.dispatch.surface import public

globals().update(public(NN))
__all__ = list(public(NN))  # pyright: ignore[reportUnsupportedDunderAll]
