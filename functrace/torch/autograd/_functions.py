"""``torch.autograd._functions``: operations that PyTorch implements as a `Function` in Python.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functrace.torch import errors
from functrace.torch.autograd.function import Function
from functrace.torch.tensors.tensor import Tensor


class Resize(Function):
    """Reshape a tensor to a shape with as many elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: Sequence[int]) -> Any:
        """Return the reshaped tensor.

        Raises:
            RuntimeError: if the number of elements differs.
        """
        ctx.sizes, ctx.numel = sizes, math.prod(sizes)
        if tensor.numel() != ctx.numel:
            raise RuntimeError(errors.resized(sizes, ctx.numel, tensor.shape, tensor.numel()))
        ctx.input_sizes = tensor.shape
        return tensor.detach().contiguous().view(*sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None]:
        """Return the gradient in the original shape."""
        return grad.contiguous().view(ctx.input_sizes), None
