"""Automatic differentiation of tensors: ``backward``, ``grad``, ``Function``, grad modes, the graph.

Floor: 8.
"""

from functrace.torch.autograd import function, graph
from functrace.torch.autograd.engine import backward, grad
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from functrace.torch.autograd.gradcheck import gradcheck, gradgradcheck
from functrace.torch.autograd.saved import SavedTensor

__all__ = [
    "Function",
    "SavedTensor",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
