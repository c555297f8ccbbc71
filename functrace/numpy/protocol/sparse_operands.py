"""Operators between traced values and SciPy's own sparse matrices: ``A @ x``, ``x * A``, ``X + A``.

A matrix of ``scipy.sparse`` is converted to one of `functrace.scipy.sparse`, whose operators take
traced operands. That package is in a higher layer, so it is imported by name on first use.

Layer: 3.
"""

from __future__ import annotations

import importlib
import operator
import sys
from types import FrameType
from typing import Any

from functrace.numpy.arrays.operators import Operator
from functrace.tree import flatten, unflatten

_OPERATORS = frozenset(f"__{name}__" for name in ("matmul", "mul", "truediv", "add", "sub"))
_FUNCTIONS = {"and": operator.and_, "or": operator.or_}


WAY_OUT = (
    "make the matrix by functrace.scipy.sparse, whose operators and methods take traced operands: "
    "functrace.scipy.sparse.csr_array(A) (docs/scipy.md)"
)


def is_sparse(value: object) -> bool:
    """Return True for a matrix of ``scipy.sparse``, without importing it."""
    sparse: Any = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(value)


def as_nodes(value: Any) -> Any:
    """Return a pytree in which SciPy's matrices are those of `functrace.scipy.sparse`: nodes with their
    elements as leaf; other pytrees unchanged.
    """
    leaves, tree = flatten(value)
    if not any(map(is_sparse, leaves)):
        return value
    convert: Any = importlib.import_module("functrace.scipy.sparse.nodes").as_node
    return unflatten(tree, [convert(leaf) if is_sparse(leaf) else leaf for leaf in leaves])


def with_sparse(row: Operator, x: object, matrix: object, *, reflected: bool) -> Any:
    """Apply an operator to a traced value and a sparse matrix, on the left if ``reflected``."""
    other = importlib.import_module("functrace.scipy.sparse.matrices").of(matrix)
    apply: Any = _FUNCTIONS.get(row.name) or getattr(operator, row.name)
    return apply(other, x) if reflected else apply(x, other)


def is_operator_of_sparse(frame: FrameType | None) -> bool:
    """Return True if an operator of SciPy's matrices is converting its other operand.

    For an operand that becomes a 0-d object array, SciPy defers the operation to its class. Methods
    such as ``A.multiply(x)`` would return ``NotImplemented`` for it.
    """
    while frame is not None and is_of_sparse(frame):
        if frame.f_code.co_name in _OPERATORS:
            return True
        frame = frame.f_back
    return False


def is_of_sparse(frame: FrameType) -> bool:
    """Return True for frames of SciPy's sparse matrices."""
    return str(frame.f_globals.get("__name__")).startswith("scipy.sparse.")
