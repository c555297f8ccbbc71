"""`Size`: the shape of a tensor, a tuple that prints as PyTorch's.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any


class Size(tuple[int, ...]):
    """The sizes of a tensor's axes.

    Example:
        >>> Size((2, 3)), Size((2, 3)).numel()
        (torch.Size([2, 3]), 6)
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if type(index) is slice else found

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"
