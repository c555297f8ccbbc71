"""Automatic differentiation of tensors: ``backward``, ``grad``, ``Function``, grad modes, the graph.

Floor: 8.
"""

from functrace.torch.autograd import function, graph
from functrace.torch.autograd.engine import backward, grad
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
