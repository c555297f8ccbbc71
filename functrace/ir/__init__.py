"""The intermediate representation: avals, primitives, programs and their forms.

Layer: 0 (imports the base only).
"""

from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import LINEAR, ZERO, LinearOperand, Primitive, absent, is_linear
from functrace.ir.program import Equation, Literal, Program, Var
from functrace.ir.tape import Builder

__all__ = [
    "LINEAR", "ZERO", "Builder", "Equation", "LinearOperand", "Literal", "Primitive", "Program",
    "ShapeDtype", "Var",
    "absent", "aval_of", "is_linear",
]  # fmt: skip
