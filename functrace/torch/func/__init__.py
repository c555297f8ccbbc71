"""``torch.func``: functrace's transforms, for functions of tensors.

A transform of the core runs on arrays. Here the tensors among the arguments become arrays, inside the function the traced
arrays are tensors again, and results are tensors. So they compose, with one another and with the core's.

Note [Constants]
    What is computed under ``no_grad`` inside the function, and what is detached, is a constant for all derivatives. (In
    PyTorch forward mode goes through ``no_grad``; here the modes agree.) A ``no_grad`` around the transform does nothing.

Layer: 9.
"""

from functrace.torch.func.forward import jvp, linearize
from functrace.torch.func.jacobians import hessian, jacfwd, jacrev
from functrace.torch.func.mapping import vmap
from functrace.torch.func.reverse import grad, grad_and_value, vjp
from functrace.torch.func.stateless import functional_call, stack_module_state

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
