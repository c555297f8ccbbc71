"""Automatic differentiation of tensors: ``backward``, ``grad``, ``Function``, grad modes, the graph.

Floor: 8.
"""

from functrace.torch.autograd import graph
from functrace.torch.autograd.engine import backward, grad
from functrace.torch.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "graph", "is_grad_enabled", "no_grad", "set_grad_enabled"]
