"""NumPy's functions for diagonals and triangular matrices.

Layer: 3.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import AxisError, ShapeError
from functrace.ir.aval import aval_of
from functrace.numpy.arrays.view_kinds import DiagonalView
from functrace.numpy.arrays.views import linked
from functrace.numpy.protocol.operands import (
    Arrayed,
    DtypeLike,
    Out,
    at_least,
    cast_to,
    flattened,
    one_axis,
    stored,
)
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops import shaping
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import permute


def _diagonal_last(a: Arrayed, axis1: SupportsIndex, axis2: SupportsIndex, what: str) -> Any:
    at_least(a, 2, what)
    i, j = one_axis(axis1, a.ndim), one_axis(axis2, a.ndim)
    if i == j:
        raise AxisError(
            f"{what}: axis1 and axis2 cannot be the same ({axis1})", fix="name two axes"
        )
    return (*(k for k in range(a.ndim) if k not in (i, j)), i, j)


@implements(np.diagonal, method="diagonal")
def diagonal(a: Arrayed, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """As ``numpy.diagonal``."""
    axes, offset = _diagonal_last(a, axis1, axis2, "diagonal"), operator.index(offset)

    return linked(shaping.diagonal(permute(a, axes), offset), DiagonalView(a, axes, offset))


@implements(np.trace, method="trace")
def trace(
    a: Arrayed,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DtypeLike = None,
    out: Out = None,
) -> Any:
    """As ``numpy.trace``."""
    axes = _diagonal_last(a, axis1, axis2, "trace")
    d = shaping.diagonal(permute(a, axes), operator.index(offset))
    return stored(reduce_sum(cast_to(d, dtype), (d.ndim - 1,)), out, "trace")


@implements(np.diag)
def diag(v: Arrayed, k: int = 0) -> Any:
    """As ``numpy.diag``."""
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(f"Input must be 1- or 2-d. diag got {aval_of(v)}", fix="use np.diagonal")
    k = operator.index(k)
    n = v.shape[0] + abs(k)
    return shaping.embed_diagonal(v, k, n, n)


@implements(np.diagflat)
def diagflat(v: Arrayed, k: int = 0) -> Any:
    """As ``numpy.diagflat``."""
    return diag(flattened(v), k)


def _triangle(m: Arrayed, k: int, lower: bool, what: str) -> Any:
    # Like NumPy, broadcast a vector against the mask.
    if m.ndim < 1:
        raise ShapeError(f"{what} needs at least 1 axis", fix="pass a vector or matrices")
    rows = m.shape[-2] if m.ndim > 1 else m.shape[-1]
    mask = np.tri(rows, m.shape[-1], k if lower else k - 1, dtype=bool)
    zero: Any = False if m.dtype.kind == "b" else 0
    return ew.where(mask, m, zero) if lower else ew.where(mask, zero, m)


@implements(np.tril)
def tril(m: Arrayed, k: int = 0) -> Any:
    """As ``numpy.tril``."""
    return _triangle(m, operator.index(k), True, "tril")


@implements(np.triu)
def triu(m: Arrayed, k: int = 0) -> Any:
    """As ``numpy.triu``."""
    return _triangle(m, operator.index(k), False, "triu")


@implements(np.linalg.diagonal)
def _linalg_diagonal(x: Arrayed, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@implements(np.linalg.trace)
def _linalg_trace(x: Arrayed, /, *, offset: int = 0, dtype: DtypeLike = None) -> Any:
    return trace(x, offset, -2, -1, dtype)
