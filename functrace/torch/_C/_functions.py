"""``torch._C._functions``: node classes by name, and functions that only add a node to tensors.

Example:
    >>> import functrace.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> type((x * 2).grad_fn) is torch._C._functions.MulBackward0
    True

Layer: 9.
"""

from functrace.torch.autograd.delayed import (
    DelayedError,
    Error,
    UndefinedGrad,
    UndefinedGradBackward,
)
from functrace.torch.autograd.graph import NODE_NAMES, AccumulateGrad, OpNode, node_class
from functrace.torch.tensors.views import CopySlicesOf as CopySlices

__all__ = [
    "AccumulateGrad",
    "CopySlices",
    "DelayedError",
    "Error",
    "UndefinedGrad",
    "UndefinedGradBackward",
]


def __getattr__(name: str) -> type[OpNode]:
    """Return the node class of a name."""
    if name not in NODE_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return node_class(name)
