"""``torch._subclasses.fake_tensor``: the class of tensors without memory; there are none here.

Layer: 9.
"""

from __future__ import annotations

from typing import NoReturn

from functrace.errors import UnsupportedFunctionError
from functrace.torch.tensors.tensor import Tensor

__all__ = ["FakeTensor", "FakeTensorMode"]


class FakeTensor(Tensor):
    """A tensor with a shape and a dtype only."""


class FakeTensorMode:
    """Context that makes such tensors: refused."""

    def __new__(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Raise."""
        raise UnsupportedFunctionError(
            "functrace.torch has no tensors without memory",
            fix="functrace.jit(f).trace(...), or functrace.eval_shape, take shapes in place of arrays",
        )
