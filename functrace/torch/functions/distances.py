"""The rows of distances and directions: ``pairwise_distance``, ``cdist``, ``cosine_similarity``.

Layer: 9.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import norms
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.contraction import swap_last
from functrace.ops.indexing import gather as core_gather
from functrace.ops.reductions import reduce_max, reduce_sum
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply, recorded_gradient
from functrace.torch.dispatch.promotion import arithmetic, check_broadcast
from functrace.torch.dispatch.results import put_out
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import reductions, shaping, statistics
from functrace.torch.functions.losses import ADD_NUMBER
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = FunctionTable()
NORM = replace(
    statistics.NORM,
    node="NormBackward1",
    details=lambda specs, params: {"p": params[0], "dim": params[3], "keepdim": params[2]},
)


@ROWS.function("function nn.functional")
def pairwise_distance(
    x1: Operand, x2: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    """Return the norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        x1, x2: shape (..., n), which broadcast.
        p: order of the norm.
        eps: added to each difference.
        keepdim: True to keep the last dimension, with size 1.
    """
    f.tensors_only("pairwise_distance", x1=x1, x2=x2)
    difference = apply(ADD_NUMBER, (f.sub(x1, x2), eps))
    ndim = len(f.shape_of(difference))
    axes = (ndim - 1,) if ndim else ()
    return apply(NORM, (difference,), (p, axes, bool(keepdim), axes))


@ROWS.function("function nn.functional")
def cosine_similarity(x1: Operand, x2: Operand, dim: int = 1, eps: float = 1e-8) -> Value:
    """Return the cosines of the angles between vectors.

    Args:
        x1, x2: shapes that broadcast.
        dim: the dimension of the vectors.
        eps: the least length that divides a vector.

    Raises:
        RuntimeError: for integers.
    """
    f.tensors_only("cosine_similarity", x1=x1, x2=x2)
    shapes = f.shape_of(x1), f.shape_of(x2)
    check_broadcast(*shapes)
    full = np.broadcast_shapes(*shapes)
    dtype = arithmetic.dtype([f._spec(x) for x in (x1, x2)])
    if dtype.kind not in "fV":
        raise RuntimeError(errors.cosine_dtype(DTYPES[dtype].printed))
    axis = f.dimension(dim, len(full))
    first, second = (
        f.to(x if shape == full else shaping.expand(x, full), dtype)
        for x, shape in zip((x1, x2), shapes, strict=True)
    )
    return reductions.sum(f.mul(_unit(first, axis, eps), _unit(second, axis, eps)), axis)


def _unit(x: Any, axis: int, eps: float) -> Value:
    size = statistics.norm(x, 2, axis, True)
    return f.div(x, _at_least(size, eps))


def _at_least(size: Any, eps: float) -> Any:
    """Return lengths that are at least ``eps``; the derivative ignores the bound, as PyTorch's."""
    return apply(CLAMPED, (size,), (eps,))


def _clamped(x: Array, low: float) -> Any:
    if isinstance(x, np.ndarray):
        return np.maximum(x, low)
    return ew.add(x, ew.stop_gradient(ew.sub(ew.maximum(x, low), x)))


CLAMPED = Op("CopySlices", _clamped, (("self", 0),), called="clamp_min_number")


@ROWS.function("nn.functional")
def normalize(
    input: Operand,
    p: float = 2.0,
    dim: Any = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Value:
    """Return ``input / max(norm(input, p, dim), eps)``.

    Args:
        p: order of the norm.
        dim: the dimension or dimensions of the vectors.
        eps: the least length that divides a vector.
    """
    if out is not None:
        return put_out(out, "div", (input,), lambda: normalize(input, p, dim, eps))
    f.tensors_only("normalize", input=input)
    dtype = f.dtype_of(input)
    if dtype.kind not in "fcV":
        raise RuntimeError(errors.norm_kind(DTYPES[dtype].printed))
    size = apply(CLAMP_MIN, (statistics.norm(input, p, dim, True),), (eps,))
    return f.div(input, shaping.expand(size, f.shape_of(input)))


CLAMP_MIN = Op(
    "ClampMinBackward0",
    lambda x, low: ew.clip_below(x, low),
    (("self", 0),),
    arithmetic,
    details=lambda specs, params: {"min": params[0]},
)
"""``max(x, low)``, whose derivative at the bound is 1."""


def _distances(difference: Any, p: float) -> Any:
    """Return the norms along the last axis."""
    axis = difference.ndim - 1
    if p == 0:
        return reduce_sum(ew.stop_gradient(_counted(difference)), (axis,))
    if p == math.inf:
        return reduce_max(ew.absolute(difference), (axis,))
    return norms.vector_norm(difference, (axis,), p)


def _counted(x: Any) -> Any:
    return ew.where(ew.equal(x, 0), x.dtype.type(0), x.dtype.type(1))


def _pairs(x: Array, y: Array, p: float) -> Any:
    """Return the distances of all pairs of rows: (..., n, d) and (..., m, d) give (..., n, m)."""
    n, d = x.shape[-2:]
    m = y.shape[-2]
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if not d:
        return ew.mul(ew.add(_norm_of_none(x), swap_last(_norm_of_none(y))), 0)
    if p == 2 and n * m * d > 4096 and not batch and min(n, m) > 25:
        return _by_products(x, y)
    first = core_reshape(x, (*x.shape[:-2], n, 1, d))
    second = core_reshape(y, (*y.shape[:-2], 1, m, d))
    return _distances(ew.sub(first, second), p)


def _norm_of_none(x: Array) -> Any:
    return core_reshape(reduce_sum(x, (x.ndim - 1,)), (*x.shape[:-1], 1))


def _by_products(x: Array, y: Array) -> Any:
    """Return Euclidean distances by one product of matrices."""
    squares = [
        core_reshape(reduce_sum(ew.square(z), (z.ndim - 1,)), (*z.shape[:-1], 1)) for z in (x, y)
    ]
    inner = ew.mul(core_matmul(x, swap_last(y)), -2)
    found = ew.add(ew.add(inner, squares[0]), swap_last(squares[1]))
    positive = ew.greater(found, 0)
    return ew.where(positive, ew.sqrt(ew.where(positive, found, 1)), 0)


CDIST = Op(
    "CdistBackward0",
    lambda x, y, p: _pairs(x, y, p),
    (("x1", 0), ("x2", 1), ("result", -1)),
    keeps=("x1", "x2", "result"),
    details=lambda specs, params: {"p": params[0]},
)


@ROWS.function("function")
def cdist(
    x1: Operand,
    x2: Operand,
    p: float = 2.0,
    compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary",
) -> Value:
    """Return the distances between all rows of two tensors.

    Args:
        x1: shape (..., n, d).
        x2: shape (..., m, d).
        p: order of the norm; 0 counts the differences.

    Returns:
        shape (..., n, m).

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    f.tensors_only("cdist", x1=x1, x2=x2)
    shapes = f.shape_of(x1), f.shape_of(x2)
    for k, (x, shape) in enumerate(zip((x1, x2), shapes, strict=True), 1):
        if f.dtype_of(x).kind not in "fV":
            name = DTYPES[f.dtype_of(x)].printed
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{k} got: {name}")
        if len(shape) < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{k} got: {len(shape)}D")
    if shapes[0][-1] != shapes[1][-1]:
        raise RuntimeError(errors.cdist_columns(shapes[0][-1], shapes[1][-1]))
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    check_broadcast(shapes[0][:-2], shapes[1][:-2])
    return apply(CDIST, (x1, x2), (float(p),))


def _of_rows(x: Array, p: float) -> Any:
    rows, columns = np.triu_indices(x.shape[0], 1)
    pick = lambda index: core_gather(x, ("array",), (index,))  # noqa: E731
    return _distances(ew.sub(pick(rows), pick(columns)), p)


PDIST = Op(
    "PdistBackward0",
    _of_rows,
    (("self", 0), ("result", -1)),
    keeps=("self", "result"),
    details=lambda specs, params: {"p": params[0]},
    gradient=replace(
        recorded_gradient("PdistBackwardBackward0", ("grad", 0), ("self", 1), ("pdist", 2)),
        edges=(0, 1, 2),
    ),
)


@ROWS.function("function nn.functional")
def pdist(input: Operand, p: float = 2) -> Value:
    """Return the distances between all pairs of rows ``i < j``.

    Args:
        input: shape (n, d).
        p: order of the norm.

    Returns:
        shape (n * (n - 1) / 2,).

    Raises:
        RuntimeError: for another number of dimensions, integers, or negative ``p``.
    """
    f.tensors_only("pdist", input=input)
    ndim = len(f.shape_of(input))
    if ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {ndim}D")
    if f.dtype_of(input).kind not in "fV":
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return apply(PDIST, (input,), (float(p),))
