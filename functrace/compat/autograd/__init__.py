"""HIPS autograd's names over functrace: one import changed, and code that is written for autograd runs.

``from functrace.compat.autograd import grad``, ``import functrace.compat.autograd.numpy as np``: names, arguments and
conventions are autograd's (``argnum=``, gradients of functions whose result has one element, ``defvjp``), the derivatives
functrace's. `replace_autograd` lets packages that import autograd themselves run on it, unmodified.

Differences: arguments that hold integers raise; containers are Python's own, traced values stand in them; values carry no
graph of nodes, so what reads one is missing. docs/backends.md has the table.

Layer: 10.
"""

from functrace.compat.autograd.builtins import dict, isinstance, list, tuple, type
from functrace.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from functrace.compat.autograd.extend import primitive
from functrace.compat.autograd.replacing import replace_autograd

__all__ = [
    "checkpoint", "deriv", "dict", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "isinstance", "jacobian", "list", "make_ggnvp",
    "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "primitive", "replace_autograd", "tensor_jacobian_product",
    "tuple", "type", "value_and_grad", "vector_jacobian_product",
]  # fmt: skip
