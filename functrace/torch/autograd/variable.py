"""``Variable``: what tensors were called when they had to be wrapped to be differentiated.

Floor: 8.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.autograd.running import Engine
from functrace.torch.tensor import Tensor


class VariableMeta(type):
    """Makes every tensor an instance of `Variable`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """Makes a leaf over the memory of a tensor.

    Args:
        data: the tensor.
        requires_grad: whether the leaf wants gradients.
    """

    _execution_engine: ClassVar[Engine] = Engine()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False) -> Any:
        """Return a tensor."""
        return (Tensor() if data is None else data.detach()).requires_grad_(requires_grad)
