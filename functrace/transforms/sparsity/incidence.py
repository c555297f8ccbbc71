"""Incidence of one linear operation: which elements of its result depend on which of an operand.

Elements are numbered in C order. The numbers of an operand's elements, moved by the operation
itself, tell where each comes from; the numbers of the result's elements, moved by its transpose,
tell where each goes.

Layer: 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import LinearOperand, Primitive
from functrace.ops.contraction import dot_p, einsum_p, matmul_in_parts_p, matmul_p
from functrace.ops.cumulative import cumsum_p
from functrace.ops.indexing import (
    embed_p,
    gather_p,
    index_p,
    scatter_add_p,
    scatter_each_p,
    scatter_set_p,
)
from functrace.ops.joining import concatenate_p, convolve_p, stack_p
from functrace.ops.linalg import solve_p
from functrace.ops.naming import name_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import (
    broadcast_to_p,
    convert_p,
    diagonal_p,
    embed_diagonal_p,
    permute_p,
    reshape_p,
    roll_p,
)
from functrace.ops.sorting import add_along_axis_p, take_along_axis_p
from functrace.ops.sparse import sparse_matmul_p
from functrace.ops.triangular import solve_triangular_p
from functrace.typing import Array

MOVES: frozenset[Primitive] = frozenset({
    broadcast_to_p, concatenate_p, diagonal_p, embed_p, embed_diagonal_p, gather_p, index_p, name_p,
    permute_p, reshape_p, roll_p, scatter_each_p, scatter_set_p, stack_p, take_along_axis_p,
})  # fmt: skip
"""Each element of the result is at most one element of the operands."""

SUMS: frozenset[Primitive] = frozenset({add_along_axis_p, reduce_sum_p, scatter_add_p})
"""Each element of the operand is added to at most one element of the result."""

PRODUCTS: frozenset[Primitive] = frozenset({dot_p, matmul_p, matmul_in_parts_p})

MOST_EDGES = 1 << 24
"""Maximum number of pairs of elements; an operation with more counts as dense."""


class Moved(NamedTuple):
    """Incidence where a result's element has at most one source.

    Args:
        sources: by element of the result, the element of the operand, or -1.
    """

    sources: Array


class Summed(NamedTuple):
    """Incidence where an operand's element has at most one target.

    Args:
        targets: by element of the operand, the element of the result, or -1.
    """

    targets: Array


class Edges(NamedTuple):
    """Any incidence: pairs of elements of the result and of the operand."""

    results: Array
    operands: Array


Incidence = Moved | Summed | Edges


def incidence(
    primitive: Primitive,
    place: int,
    avals: Sequence[ShapeDtype | None],
    known: Mapping[int, Array],
    params: tuple[Any, ...],
    result: ShapeDtype,
) -> Incidence | None:
    """Return which elements of the result depend on which of the operand at a position.

    Args:
        primitive: an operation that is linear in that operand.
        place: position of the operand.
        avals: of the operands; ``None`` for a Python number.
        known: values of integer operands, by position.
        params: parameters of the operation.
        result: aval of the result.

    Returns:
        the incidence, or a superset of it; ``None`` if it is unknown or too large, so that every
        element may depend on every one.
    """
    aval = avals[place]
    assert aval is not None
    if primitive is convert_p:
        return Moved(np.arange(aval.size))
    if primitive in MOVES or primitive in SUMS:
        needed = [k for k, a in enumerate(avals) if a is not None and a.dtype.kind in "iu"]
        if any(k not in known for k in needed):
            return None  # data-dependent positions
        return (_moved if primitive in MOVES else _summed)(
            primitive, place, avals, known, params, result
        )
    if primitive in PRODUCTS:
        return _matmul(place, avals, result)
    if primitive is einsum_p:
        return _einsum(place, avals, params[0], result)
    if primitive is cumsum_p:
        return _cumsum(aval, *params)
    if primitive is convolve_p:
        return _convolve(place, avals, result)
    if primitive is sparse_matmul_p and {1, 3} <= known.keys():
        return _sparse_matmul(place, avals, known, params, result)
    if primitive in (solve_p, solve_triangular_p):
        return _solve(place, avals, result)
    return None


def _moved(
    primitive: Primitive,
    place: int,
    avals: Sequence[ShapeDtype | None],
    known: Mapping[int, Array],
    params: tuple[Any, ...],
    _result: ShapeDtype,
) -> Moved:
    values: list[Any] = []
    for k, aval in enumerate(avals):
        if k == place and aval is not None:
            values.append(np.arange(1, aval.size + 1).reshape(aval.shape))
        elif k in known:
            values.append(known[k])
        else:
            values.append(0 if aval is None else np.broadcast_to(np.int64(0), aval.shape))
    return Moved(np.ravel(primitive.eval(*values, *params)).astype(np.int64) - 1)


def _summed(
    primitive: Primitive,
    place: int,
    avals: Sequence[ShapeDtype | None],
    known: Mapping[int, Array],
    params: tuple[Any, ...],
    result: ShapeDtype,
) -> Summed:
    ids = np.arange(1.0, result.size + 1.0).reshape(result.shape)  # exact up to 2**53
    operands = [
        LinearOperand(aval)
        if k == place and aval is not None
        else known[k]
        if k in known
        else np.zeros(() if aval is None else aval.shape)
        for k, aval in enumerate(avals)
    ]
    aval = avals[place]
    assert aval is not None
    found = primitive.transpose(ids, *operands, *params)[place]
    return Summed(np.ravel(np.broadcast_to(found, aval.shape)).astype(np.int64) - 1)


def _edges(results: Array, operands: Array, shape: tuple[int, ...]) -> Edges | None:
    """Broadcast numbers of elements against each other, to pairs."""
    if math.prod(shape) > MOST_EDGES:
        return None
    return Edges(
        np.ravel(np.broadcast_to(results, shape)), np.ravel(np.broadcast_to(operands, shape))
    )


def _numbered(aval: ShapeDtype) -> Array:
    return np.arange(aval.size).reshape(aval.shape)


def _matmul(place: int, avals: Sequence[ShapeDtype | None], result: ShapeDtype) -> Edges | None:
    x, y = avals
    assert x is not None
    assert y is not None
    out = _numbered(result)
    if y.ndim == 1:
        out = out[..., None]
    if x.ndim == 1:
        out = out[..., None, :]
    length = x.shape[-1]
    # out (…, i, k), x (…, i, j), y (…, j, k) as arrays of axes (…, i, k, j)
    if place == 0:
        ids = _numbered(x)
        ids = (ids[None, :] if x.ndim == 1 else ids)[..., :, None, :]
    else:
        ids = _numbered(y)
        ids = np.swapaxes(ids[:, None] if y.ndim == 1 else ids, -1, -2)[..., None, :, :]
    return _edges(out[..., None], ids, (*out.shape, length))


def _einsum(
    place: int, avals: Sequence[ShapeDtype | None], subscripts: str, result: ShapeDtype
) -> Edges | None:
    left, out = subscripts.split("->")
    term, aval = left.split(",")[place], avals[place]
    assert aval is not None
    ids = _numbered(aval)
    if len(set(term)) < len(term):  # a diagonal
        kept = "".join(dict.fromkeys(term))
        ids, term = np.einsum(f"{term}->{kept}", ids), kept
    letters = [*out, *[a for a in term if a not in out]]
    sizes = {**dict(zip(term, ids.shape, strict=True)), **dict(zip(out, result.shape, strict=True))}
    ids = np.transpose(ids, [term.index(a) for a in letters if a in term])
    own = iter(ids.shape)
    ids = ids.reshape([next(own) if a in term else 1 for a in letters])
    targets = _numbered(result).reshape(*result.shape, *[1] * (len(letters) - len(out)))
    return _edges(targets, ids, tuple([sizes[a] for a in letters]))


def _cumsum(aval: ShapeDtype, axis: int, backwards: bool) -> Edges | None:
    ids, n = np.moveaxis(_numbered(aval), axis, -1), aval.shape[axis]
    if ids.size * (n + 1) // 2 > MOST_EDGES:
        return None
    later, earlier = np.tril_indices(n)
    pair = (earlier, later) if backwards else (later, earlier)
    return Edges(np.ravel(ids[..., pair[0]]), np.ravel(ids[..., pair[1]]))


def _convolve(place: int, avals: Sequence[ShapeDtype | None], result: ShapeDtype) -> Edges | None:
    aval, other = avals[place], avals[1 - place]
    assert aval is not None
    assert other is not None
    n, m = aval.shape[-1], other.shape[-1]
    shape = (*result.shape[:-1], n, m)
    if math.prod(shape) > MOST_EDGES:
        return None
    places = np.arange(n)[:, None] + np.arange(m)
    return _edges(_numbered(result)[..., places], _numbered(aval)[..., None], shape)


def _sparse_matmul(
    place: int,
    avals: Sequence[ShapeDtype | None],
    known: Mapping[int, Array],
    params: tuple[Any, ...],
    result: ShapeDtype,
) -> Edges | None:
    columns, rows, backwards = known[1], known[3], params[2]
    into, out_of = (columns, rows) if backwards else (rows, columns)
    data, x = avals[0], avals[-1]
    assert data is not None
    assert x is not None
    shape = (*result.shape[:-2], len(rows), result.shape[-1])
    if math.prod(shape) > MOST_EDGES:
        return None
    targets = _numbered(result)[..., into, :]
    sources = _numbered(data)[..., None] if place == 0 else _numbered(x)[..., out_of, :]
    return _edges(targets, sources, shape)


def _solve(place: int, avals: Sequence[ShapeDtype | None], result: ShapeDtype) -> Edges | None:
    """Return the incidence of the right-hand side: a solution depends on all of its column."""
    b = avals[1]
    if place != 1 or b is None or b.shape != result.shape or b.ndim < 2:
        return None
    ids = np.swapaxes(_numbered(result), -1, -2)
    return _edges(ids[..., :, None], ids[..., None, :], (*ids.shape, ids.shape[-1]))
