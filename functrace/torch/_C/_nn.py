"""``torch._C._nn``: functions that PyTorch's own ``nn.functional`` calls, from the rows.

Layer: 9.
"""

from functrace.torch._C._python import _parse_to, pad_sequence
from functrace.torch.dispatch.rows import NN
from functrace.torch.dispatch.surface import public

globals().update(public(NN))
__all__ = [*public(NN), "_parse_to", "pad_sequence"]  # pyright: ignore[reportUnsupportedDunderAll]
