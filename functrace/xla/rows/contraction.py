"""Lowerings of `functrace.ops.contraction`.

Functions of ``jax.numpy`` are programs of their own, which JAX traces and lowers one by one: products
of two arrays are ``lax.dot_general``.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, typed

PRECISION = "highest"
"""Precision of products; by default TPUs round operands to bfloat16."""


def paired(
    x: Value, y: Value, left: Sequence[Any], right: Sequence[Any], out: Sequence[Any]
) -> Any:
    """Return the contraction of two arrays of one dtype.

    Args:
        x, y: the arrays.
        left, right, out: labels of the axes of ``x``, ``y`` and of the result. Each label that is
            missing in the result is in both arrays, and none is twice in one of them.
    """
    both = [label for label in left if label in right]
    batch = [label for label in both if label in out]
    summed = [label for label in both if label not in out]
    axes = [
        tuple([tuple(map(side.index, part)) for side in (left, right)]) for part in (summed, batch)
    ]
    made = lax.dot_general(x, y, (axes[0], axes[1]), precision=PRECISION)  # type: ignore[arg-type]
    alone = [*[a for a in left if a not in both], *[a for a in right if a not in both]]
    order = [[*batch, *alone].index(label) for label in out]
    return made if order == sorted(order) else lax.transpose(made, order)


def matmul(x: Value, y: Value) -> Any:
    """Return the product of two arrays of one dtype, as ``np.matmul``."""
    stacks, most = (x.shape[:-2], y.shape[:-2]), max(len(x.shape), len(y.shape)) - 2
    if x.dtype == bool or x.dtype != y.dtype or (all(stacks) and stacks[0] != stacks[1]):
        return jnp.matmul(x, y, precision=PRECISION)
    stack = list(range(most))
    rows, columns = ["rows"] * (len(x.shape) > 1), ["columns"] * (len(y.shape) > 1)
    left = [*(stack if stacks[0] else ()), *rows, "inner"]
    right = [*(stack if stacks[1] else ()), "inner", *columns]
    return paired(x, y, left, right, [*stack, *rows, *columns])


def _dot(x: Value, y: Value) -> Any:
    if max(len(x.shape), len(y.shape)) <= 2 and x.shape and y.shape:
        return matmul(x, y)
    return jnp.dot(x, y, precision=PRECISION)


register(PRIMITIVES["matmul"])(typed(matmul))
register(PRIMITIVES["matmul_in_parts"])(typed(lambda x, y, *_: matmul(x, y)))
register(PRIMITIVES["dot"])(typed(_dot))


@register(PRIMITIVES["einsum"])
def _einsum(op: Operation, *rest: Value) -> Any:
    count = len(op.specs)
    subscripts, given = rest[count], [cast(x, op.dtype) for x in rest[:count]]
    if count == 2 and op.dtype != bool and subscripts.replace(",", "").replace("->", "").isalpha():
        operands, _, out = subscripts.partition("->")
        left, right = operands.split(",")
        shared = set(left) & set(right)
        of_x, of_y = (
            dict(zip(p, x.shape, strict=True)) for p, x in zip((left, right), given, strict=True)
        )
        if (
            len(of_x) == len(left)
            and len(of_y) == len(right)
            and set(left) ^ set(right) <= set(out)
            and all(of_x[label] == of_y[label] for label in shared)
        ):
            return paired(given[0], given[1], left, right, out)
    return jnp.einsum(subscripts, *given, precision=PRECISION)
