"""Indexing: reading and writing parts of arrays.

Basic indexing (ints, slices, ``None``, ``...``) has a static index, kept as a hashable tuple: an int as it is, a
slice as ``(start, stop, step)``, ``None`` and ``Ellipsis`` as they are.

Floor: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ir.aval import shape_of
from functrace.errors import TracedIndexError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import LINEAR, Primitive
from functrace.tracing.recording import bind

StaticIndex = tuple[Any, ...]


def decode_index(index: StaticIndex) -> tuple[Any, ...]:
    """Return a static index as NumPy takes it."""
    return tuple(slice(*k) if type(k) is tuple else k for k in index)


def _index_aval(x: ShapeDtype, index: StaticIndex) -> ShapeDtype:
    # A zero-stride array of the right shape: NumPy itself says what an index means, at no cost in memory.
    probe = np.broadcast_to(np.empty((), np.bool_), x.shape)
    try:
        return ShapeDtype(shape_of(probe[decode_index(index)]), x.dtype)
    except IndexError as error:
        raise TracedIndexError(f"{error} (indexing {x})", fix="check the index against the shape") from None


def past_batch(index: StaticIndex) -> StaticIndex:
    """A static index with the batch axis left alone."""
    return ((None, None, None), *index)


index_p = Primitive(
    "index",
    eval=lambda x, index: x[decode_index(index)],
    aval=_index_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, index: (bind(embed_p, (ct,), (index, x.shape)),),
    batch=lambda operands, _, index: bind(index_p, operands, (past_batch(index),)),
    params=("index",),
    view=True,
    written="{0}[{index}]",
)


def _embed_eval(x: Any, index: StaticIndex, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    out[decode_index(index)] = x
    return out


embed_p = Primitive(
    "embed",
    eval=_embed_eval,
    aval=lambda x, index, shape: ShapeDtype(shape, x.dtype),
    jvp=LINEAR,
    transpose=lambda ct, x, index, shape: (bind(index_p, (ct,), (index,)),),
    batch=lambda operands, _, index, shape: bind(
        embed_p, operands, (past_batch(index), (operands[0].shape[0], *shape))
    ),
    params=("index", "shape"),
)


def index_static(x: Any, index: StaticIndex) -> Any:
    """Read a part given by a static basic index."""
    return bind(index_p, (x,), (index,))
