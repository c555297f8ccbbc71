"""Operators between traced values and SciPy's own sparse matrices: ``A @ x``, ``x @ A``, ``x * A``, ``X + A``.

A matrix of ``scipy.sparse`` is taken as the one of `functrace.scipy.sparse` with the same elements, whose operators take
traced operands. That package is above this one, so it is named here and imported when such an operand first appears.

Layer: 3.
"""

from __future__ import annotations

import importlib
import operator
import sys
from types import FrameType
from typing import Any

from functrace.numpy.arrays.operators import Operator

_OPERATORS = frozenset(f"__{name}__" for name in ("matmul", "mul", "truediv", "add", "sub"))
_FUNCTIONS = {"and": operator.and_, "or": operator.or_}


WAY_OUT = (
    "make the matrix by functrace.scipy.sparse, whose operators and methods take traced operands: "
    "functrace.scipy.sparse.csr_array(A) (docs/scipy.md)"
)


def is_sparse(value: object) -> bool:
    """Tell a matrix of ``scipy.sparse``, which is not imported for that."""
    sparse: Any = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(value)


def with_sparse(row: Operator, x: object, matrix: object, *, reflected: bool) -> Any:
    """Apply an operator to a traced value and a matrix of ``scipy.sparse``, which is on the left if ``reflected``."""
    other = importlib.import_module("functrace.scipy.sparse.matrices").of(matrix)
    apply: Any = _FUNCTIONS.get(row.name) or getattr(operator, row.name)
    return apply(other, x) if reflected else apply(x, other)


def is_operator_of_sparse(frame: FrameType | None) -> bool:
    """Recognize that an operator of SciPy's matrices converts its other operand.

    SciPy then leaves the operation to the class of an operand that becomes a 0-d array of one object. Methods such as
    ``A.multiply(x)`` would return ``NotImplemented`` for it.
    """
    while frame is not None and is_of_sparse(frame):
        if frame.f_code.co_name in _OPERATORS:
            return True
        frame = frame.f_back
    return False


def is_of_sparse(frame: FrameType) -> bool:
    """Tell frames of SciPy's sparse matrices."""
    return str(frame.f_globals.get("__name__")).startswith("scipy.sparse.")
