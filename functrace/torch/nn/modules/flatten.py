"""Several axes as one, and back.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch.nn.modules.plain import Plain
from functrace.torch.tensors.tensor import Tensor


class Flatten(Plain):
    """Make several axes one.

    Args:
        start_dim: the first of them.
        end_dim: the last of them.
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__(start_dim=start_dim, end_dim=end_dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with fewer axes."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Plain):
    """Make an axis several.

    Args:
        dim: the axis.
        unflattened_size: their sizes.

    Raises:
        TypeError: if sizes are no tuple of integers.
    """

    dim: Any
    unflattened_size: Any

    def __init__(self, dim: int | str, unflattened_size: object) -> None:
        if not isinstance(dim, int):
            raise NotImplementedError(
                "tensors have no named dimensions here: pass the number of the axis"
            )
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for k, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(n).__name__} at pos {k}"
                )
        super().__init__(dim=dim, unflattened_size=unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with more axes."""
        return input.unflatten(self.dim, self.unflattened_size)
