"""Rows: norms of vectors and matrices, condition numbers.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

from functrace.torch import errors
from functrace.torch.dispatch.applying import apply
from functrace.torch.errors import algebra
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, reductions, shaping, statistics
from functrace.torch.functions.arithmetic import nan_to_num
from functrace.torch.functions.elementwise import shape_of
from functrace.torch.functions.linear_algebra.checks import (
    ROWS,
    array_of,
    check_floats,
    check_matrix,
    check_square,
)
from functrace.torch.functions.linear_algebra.solving import INV_OR_NAN, inv_ex
from functrace.torch.functions.linear_algebra.spectra import singular_values
from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Value
from functrace.tracing import Tracer


@ROWS.function("linalg", out=True)
def vector_norm(
    x: Operand,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of vectors: ``sum(abs(x)**ord)**(1/ord)``, of all elements or along
    dimensions.

    Args:
        ord: the order; infinite for the largest element, 0 for the number of nonzero ones.
    """
    f.tensors_only("linalg_vector_norm", input=x)
    check_floats("linalg.vector_norm", x, half=True)
    if isinstance(ord, str) or ord is None:
        raise TypeError(errors.must_be("linalg_vector_norm", "ord", 1, "Number", "str"))
    given = x if dtype is None else f.to(x, dtype)
    shape = shape_of(given)
    axes = f.dimensions(dim, len(shape))
    if (ord < 0 or ord == math.inf) and any(shape[k] == 0 for k in axes):
        raise RuntimeError(algebra.norm_of_nothing(ord, None if dim is None else axes))
    shown = None if dim is None else axes
    return apply(statistics.NORM, (given,), (float(ord), axes, bool(keepdim), shown))


def _two_dims(dim: Any, ndim: int) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)):
        raise TypeError(errors.invalid_combination("linalg_matrix_norm", (dim,)))
    if len(dim) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}"
        )
    a, b = (f.dimension(k, ndim) for k in dim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return a, b


@ROWS.function("linalg", out=True)
def matrix_norm(
    A: Operand,
    ord: float | str = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of matrices.

    Args:
        A: shape (..., m, n).
        ord: ``"fro"``, ``"nuc"`` (the sum of singular values), 2 or -2 (the largest or smallest
            singular value), 1 or -1 (of sums of columns), inf or -inf (of sums of rows).
        dim: the dimensions of rows and columns.
    """
    shape = check_matrix("linalg.matrix_norm", A)
    check_floats("linalg.matrix_norm", A, half=True)
    a, b = _two_dims(dim, len(shape))
    if ord == "fro":
        return vector_norm(A, 2, [a, b], keepdim, dtype=dtype)
    given = A if dtype is None else f.to(A, dtype)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        turned = picking.movedim(given, (a, b), (-2, -1))
        values = singular_values(turned)
        if ord == "nuc":
            found = reductions.sum(values, -1, keepdim)
        else:
            found = _extreme(values, -1, keepdim, largest=ord > 0)  # type: ignore[operator]
        if keepdim:
            found = picking.movedim(shaping.unsqueeze(found, -1), (-2, -1), (a, b))
        return found
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        shown = ord if isinstance(ord, str) else f"{ord:g}"
        raise RuntimeError(f"linalg.matrix_norm: Order {shown} not supported.")
    rows, columns = (a, b) if abs(ord) == 1 else (b, a)
    if rows < columns and not keepdim:
        columns -= 1
    sums = vector_norm(given, 1, rows, keepdim)
    return _extreme(sums, columns, keepdim, largest=ord > 0)


def _extreme(values: Any, dim: int, keepdim: bool, *, largest: bool) -> Value:
    return (values.amax if largest else values.amin)(dim, keepdim)


@ROWS.function("linalg", out=True, name="norm")
def linalg_norm(
    A: Operand,
    ord: float | str | None = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of vectors (of one dimension, or all elements) or matrices (two dimensions).

    Args:
        ord: see `vector_norm` and `matrix_norm`; the Euclidean norm by default.
    """
    f.tensors_only("linalg_norm", input=A)
    ndim = len(shape_of(A))
    if isinstance(ord, str):
        axes = (-2, -1) if dim is None else dim
        if dim is not None and (not isinstance(dim, (tuple, list)) or len(dim) != 2):
            raise RuntimeError(algebra.norm_dims(len(dim) if isinstance(dim, (tuple, list)) else 1))
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if ord is not None and dim is None and ndim not in (1, 2):
        raise RuntimeError(algebra.NORM_DIMENSIONS)
    if ord is not None and isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(algebra.norm_dims_given(dim))
    two = (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and ndim == 2)
    if ord is not None and two:
        return matrix_norm(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@ROWS.function("linalg", out=True)
def cond(A: Operand, p: float | str | None = None) -> Value:
    """Return the condition numbers of matrices: ``norm(A) * norm(inv(A))``.

    Args:
        A: shape (..., m, n); square unless ``p`` is None, 2 or -2.
        p: order of the norm; 2 by default.
    """
    f.tensors_only("linalg_cond", input=A)
    if len(shape_of(A)) < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values: Any = singular_values(A)
        first, last = values[..., :1], values[..., -1:]
        return shaping.squeeze(f.div(last, first) if p == -2 else f.div(first, last), -1)
    shown = p if isinstance(p, str) else f"{p:g}"
    check_square(f"linalg.cond(ord={shown})", A)
    found = matrix_norm(A, p)
    if isinstance(array_of(A), Tracer):
        other: Any = matrix_norm(apply(INV_OR_NAN, (A,)), p)
    else:
        inverse, info = inv_ex(A)
        other = matrix_norm(inverse, p)
        if info._array.any():
            other = f.where(info > 0, math.inf, other)
    return nan_to_num(f.mul(found, other), math.inf, math.inf, -math.inf)
