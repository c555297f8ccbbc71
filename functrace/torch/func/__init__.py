"""``torch.func``: functrace's transforms, for functions of tensors.

A transform of the core runs on arrays. Here, tensor arguments become arrays, traced arrays become
tensors inside the function, and results become tensors. So they compose, with one another and with
the core's.

Note [Constants]
    Values computed under ``no_grad`` inside the function, and detached values, are constants for
    all derivatives. (In PyTorch, forward mode ignores ``no_grad``; here the modes agree.) A
    ``no_grad`` around the transform has no effect.

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
