"""Norms of any order, with PyTorch's derivatives, which use the result and so agree at the edges.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Values, absent
from functrace.ops import counts
from functrace.ops.edges import sgn
from functrace.ops.elementwise import (
    absolute,
    conj,
    div,
    equal,
    mul,
    power,
    real,
    reciprocal,
    where,
)
from functrace.ops.linalg import norm_eval
from functrace.ops.reductions import dropped_shape, expand_reduced, reduce_sum, same_p
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _across(t: Array, direction: Array) -> Any:
    """Return the real part of the products of tangents and conjugate directions."""
    return real(mul(t, conj(direction))) if t.dtype.kind == "c" else mul(t, direction)


def _vector_norm_eval(x: Array, axes: tuple[int, ...], order: float) -> Any:
    if order == 2:
        return norm_eval(x, axes)
    sizes = np.absolute(x)
    if order == math.inf:
        return np.maximum.reduce(sizes, axis=axes)
    if order == -math.inf:
        return np.minimum.reduce(sizes, axis=axes)
    if order == 1:
        return np.add.reduce(sizes, axis=axes)
    total = np.add.reduce(np.power(sizes, order), axis=axes)
    return np.power(total, 1.0 / order)


def _vector_norm_jvp(
    primals: Values, outputs: Values, tangents: tuple[Array], axes: tuple[int, ...], order: float
) -> Any:
    (x,), (norm,), (t,) = primals, outputs, tangents
    none = equal(norm, 0)
    if order == 2:
        return mul(reduce_sum(_across(t, x), axes), where(none, 0.0, reciprocal(norm)))
    direction = sgn(x)
    if order == 1:
        return reduce_sum(_across(t, direction), axes)
    sizes = absolute(x)
    if math.isinf(order):
        is_best = convert(bind(same_p, (sizes, expand_reduced(norm, x.shape, axes))), sizes.dtype)
        return div(reduce_sum(mul(_across(t, direction), is_best), axes), reduce_sum(is_best, axes))
    if order < 1:
        parts, share = (
            where(equal(x, 0), 0.0, mul(direction, power(sizes, order - 1))),
            power(norm, 1 - order),
        )
    elif order < 2:
        parts = mul(direction, power(sizes, order - 1))
        share = where(none, 0.0, reciprocal(power(norm, order - 1)))
    else:
        parts = mul(x, power(sizes, order - 2))
        share = where(none, 0.0, reciprocal(power(where(none, 1.0, norm), order - 1)))
    return mul(reduce_sum(_across(t, parts), axes), share)


vector_norm_p = Primitive(
    "vector_norm",
    eval=_vector_norm_eval,
    aval=lambda x, axes, order: ShapeDtype(
        dropped_shape(x.shape, axes), x.dtype.type(0).real.dtype
    ),
    jvp=_vector_norm_jvp,
    transpose=absent(
        because="norms are not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    ),
    batch=lambda operands, _, axes, order: vector_norm(
        operands[0], tuple(k + 1 for k in axes), order
    ),
    params=("axes", "norm_order"),
    flops=counts.twice_per_input,
)


def vector_norm(x: Value, axes: tuple[int, ...], order: float) -> Any:
    """Compute ``sum(abs(x)**order)**(1 / order)`` over axes; the extreme size for an infinite
    order.

    The derivative uses the result, like PyTorch's: 0 where the result is 0; tied extremes share it.

    Args:
        x: an array of floats.
        axes: sorted, non-negative.
        order: not 0.
    """
    return bind(vector_norm_p, (x,), (axes, order))
