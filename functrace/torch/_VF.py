"""``torch._VF``: functions used by PyTorch's own Python code; all those of ``torch``, too.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.autograd.forward_ad import UnpackedDualTensor, make_dual, unpack_dual
from functrace.torch.dispatch.rows import TORCH
from functrace.torch.dispatch.surface import ENTRIES
from functrace.torch.functions.searching import unique_dim
from functrace.torch.tensors.tensor import Tensor

__all__ = ["_make_dual", "_unpack_dual"]


def _make_dual(tensor: Tensor, tangent: Tensor, level: int) -> Tensor:
    """Return an alias of a tensor that has a tangent."""
    return make_dual(tensor, tangent, level=level)


def _unpack_dual(dual: Tensor, level: int) -> UnpackedDualTensor:
    """Return an alias without tangent, and the tangent."""
    return unpack_dual(dual, level=level)


def __getattr__(name: str) -> Any:
    """Return a function of ``torch``."""
    if name in ENTRIES[TORCH]:
        return ENTRIES[TORCH][name][1]
    if name == "unique_dim":
        return unique_dim
    if name in ("_pack_padded_sequence", "_pad_packed_sequence"):
        return getattr(importlib.import_module("functrace.torch._C._python"), name)
    raise AttributeError(f"module 'torch._VF' has no attribute {name!r}")
