"""HIPS autograd's names over functrace: change one import to run code that is written for autograd.

``from functrace.compat.autograd import grad``, ``import functrace.compat.autograd.numpy as np``:
names, arguments and conventions are autograd's (``argnum=``, gradients of functions whose result
has one element, ``defvjp``), the derivatives functrace's. `replace_autograd` runs packages that
import autograd themselves, unmodified.

Differences: integer arguments raise; containers are Python's own, with traced values in them; there
is no graph of nodes, so functions that read one are missing. docs/backends.md has the table.

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
    "checkpoint", "deriv", "dict", "elementwise_grad", "grad", "grad_and_aux", "grad_named",
    "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "isinstance",
    "jacobian", "list", "make_ggnvp",
    "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "primitive", "replace_autograd",
    "tensor_jacobian_product",
    "tuple", "type", "value_and_grad", "vector_jacobian_product",
]  # fmt: skip
