"""Lowerings of `functrace.ops.convolution`: convolutions of XLA, transposed by hand, so that
integers have them, too.

Layer: 7.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.ops.convolution import Shape
from functrace.xla.lowering import Operation, Value, cast, register
from functrace.xla.rows.contraction import PRECISION


def convolved(op: Operation, x: Value, w: Value, **params: Value) -> Any:
    """Apply XLA's convolution in the dtype of the result; an empty sum is 0.

    Args:
        op: the operation.
        x, w: the operands, in XLA's order.
        params: of ``lax.conv_general_dilated``.
    """
    if not (math.prod(op.shape) and np.size(x) and np.size(w)):
        return jnp.zeros(op.shape, op.dtype)
    dtype = np.dtype(np.int32) if op.dtype == np.bool_ else op.dtype
    found = lax.conv_general_dilated(
        jnp.asarray(cast(x, dtype)), jnp.asarray(cast(w, dtype)), precision=PRECISION, **params
    )
    return found != 0 if op.dtype == np.bool_ else found


@register(PRIMITIVES["correlate"])
def _correlate(
    op: Operation,
    x: Value,
    w: Value,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    return convolved(
        op,
        x,
        w,
        window_strides=stride,
        padding=[(p, p) for p in padding],
        rhs_dilation=dilation,
        feature_group_count=groups,
    )


@register(PRIMITIVES["correlate_input"])
def _correlate_input(
    op: Operation,
    y: Value,
    w: Value,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    sizes: Shape,
) -> Any:
    """Turned filters over an output with zeros between its elements."""
    out, channels, *kernel = np.shape(w)
    of_group = out // groups if groups else 0
    turned = jnp.reshape(w, (groups, of_group, channels, *kernel)).swapaxes(1, 2)
    turned = jnp.flip(turned, tuple(range(3, turned.ndim)))
    turned = turned.reshape(groups * channels, of_group, *kernel)
    ends = []
    counts = np.shape(y)[2:]
    for n, count, k, s, p, d in zip(sizes, counts, kernel, stride, padding, dilation, strict=True):
        ends.append((d * (k - 1) - p, n + p - (count - 1) * s - 1))
    return convolved(
        op,
        y,
        turned,
        window_strides=(1,) * len(kernel),
        padding=ends,
        lhs_dilation=stride,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )


@register(PRIMITIVES["correlate_filters"])
def _correlate_filters(
    op: Operation,
    x: Value,
    y: Value,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    kernel: Shape,
) -> Any:
    """The output as filters over the input, whose images are summed like channels."""
    ends = []
    sizes, counts = np.shape(x)[2:], np.shape(y)[2:]
    for n, count, k, s, p, d in zip(sizes, counts, kernel, stride, padding, dilation, strict=True):
        ends.append((p, (count - 1) * s + d * (k - 1) + 1 - n - p))
    axes = tuple(range(2, 2 + len(kernel)))
    order = (1, 0, *axes)  # channels, images
    return convolved(
        op,
        x,
        y,
        window_strides=dilation,
        padding=ends,
        rhs_dilation=stride,
        batch_group_count=groups,
        dimension_numbers=lax.ConvDimensionNumbers(order, order, order),
    )
