"""Channels in another order.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.nn.modules.plain import F, Plain
from functrace.torch.tensors.tensor import Tensor


class ChannelShuffle(Plain):
    """Take a channel of each group in turn.

    Args:
        groups: number of groups.
    """

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the channels in another order."""
        return F.channel_shuffle(input, self.groups)
