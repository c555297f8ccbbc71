"""Sums of segments along the first axis: ``numpy.add.reduceat``, in NumPy's order of additions.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, absent
from functrace.ir.tape import Spec
from functrace.ops.indexing import ARRAY, gather, scatter_add
from functrace.ops.shaping import moveaxis
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _aval(x: ShapeDtype, starts: ShapeDtype, _segment: Spec, _source: Spec) -> ShapeDtype:
    return ShapeDtype((*starts.shape, *x.shape[1:]), x.dtype)


def _transpose(ct: Array, x: Operand, _starts: Array, segment: Array, source: Array) -> Any:
    return (
        scatter_add(gather(ct, (ARRAY,), (segment,)), (ARRAY,), (source,), shape_of(x)),
        None,
        None,
        None,
    )


def _batch(operands: Values, is_batched: Flags) -> Any:
    if any(is_batched[1:]):
        return absent(
            because="the segments of reduceat are the same for all examples",
            instead="use numpy.add.at",
        )()
    x, *places = operands
    return moveaxis(bind(sum_segments_p, (moveaxis(x, 0, 1), *places)), 1, 0)


def _jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    return bind(sum_segments_p, (tangents[0], *primals[1:]))


sum_segments_p = Primitive(
    "sum_segments",
    eval=lambda x, starts, segment, source: np.add.reduceat(x, starts, axis=0, dtype=x.dtype),
    aval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    flops=lambda inputs, outputs, params: inputs[0].size,
    written="np.add.reduceat({0}, {1}, axis=0, dtype={0}.dtype)",
)
"""``sum_segments x starts segment source``: ``x[source[k]]`` is added to the sum ``segment[k]``."""


def sum_segments(x: Value, starts: Array, stops: Array) -> Any:
    """Return the sums of ``x[start:stop]``.

    Args:
        x: along its first axis.
        starts, stops: bounds of the segments. A stop is the next start if that is larger, or the
            end; otherwise it is the start + 1.
    """
    lengths = stops - starts
    segment = np.repeat(np.arange(len(starts)), lengths)
    source = (
        np.arange(len(segment)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + starts[segment]
    )
    return bind(sum_segments_p, (x, starts, segment, source))
