"""``torch.utils.tensorboard``: absent.

Layer: 9.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writer of TensorBoard's files: refused."""

    def __new__(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Raise."""
        raise ModuleNotFoundError(
            "functrace.torch has no torch.utils.tensorboard\n"
            "fix: use tensorboardX.SummaryWriter, which has the same methods and accepts arrays"
        )
