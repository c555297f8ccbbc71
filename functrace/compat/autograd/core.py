"""``autograd.core``: derivatives of functions of one argument, rules and vector spaces.

Layer: 10.
"""

from functrace.compat.autograd.differential_operators import jvp_of as make_jvp
from functrace.compat.autograd.differential_operators import vjp_of as make_vjp
from functrace.compat.autograd.extend import (
    JVPNode,
    SparseObject,
    VJPNode,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    vspace,
)
from functrace.compat.autograd.tracer import Box, getval, isbox

__all__ = [
    "Box", "JVPNode", "SparseObject", "VJPNode", "VSpace", "def_linear", "defjvp", "defjvp_argnum",
    "defjvp_argnums",
    "defvjp", "defvjp_argnum", "defvjp_argnums", "getval", "isbox", "make_jvp", "make_vjp",
    "primitive", "vspace",
]  # fmt: skip
