"""Rows: functions of matrices, chains of products, transposes.

Layer: 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.results import put_out
from functrace.torch.errors import algebra
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import products, shaping
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.linear_algebra.checks import (
    BOTH_FORMS,
    ROWS,
    check_floats,
    check_square,
)
from functrace.torch.functions.linear_algebra.solving import inverse_of
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.typing import Array


def _exponential(x: Array) -> Any:
    from functrace.ops.matrix_functions import matrix_function

    if x.dtype == np.float16:
        return convert(matrix_function(convert(x, np.float32), "expm"), x.dtype)
    return matrix_function(x, "expm")


MATRIX_EXP = Op("LinalgMatrixExpBackward0", _exponential, (("self", 0),), keeps=("self",))


@ROWS.function(BOTH_FORMS)
def matrix_exp(input: Operand) -> Value:
    """Return the exponential of square matrices.

    Args:
        input: shape (..., n, n).
    """
    check_square("linalg.matrix_exp", input)
    check_floats("linalg.matrix_exp", input, half=True)
    return apply(MATRIX_EXP, (input,))


@ROWS.function(BOTH_FORMS, out=True)
def matrix_power(input: Operand, n: int) -> Value:
    """Return an integer power of square matrices; of the inverses, if it is negative.

    Args:
        input: shape (..., m, m).
        n: the power.
    """
    shape = check_square("linalg.matrix_power", input)
    power = f.whole("linalg_matrix_power", "n", n, 1)
    if power == 0:
        identity = np.broadcast_to(np.eye(shape[-1], dtype=dtype_of(input)), shape)
        return f.clone(input).copy_(wrap(identity.copy()))
    if power == 1:
        return f.clone(input)
    base: Any = inverse_of("linalg.inv", input) if power < 0 else input
    power = abs(power)
    if power == 3:
        return products.matmul(products.matmul(base, base), base)
    result: Any = None
    square: Any = None
    while power:
        square = base if square is None else products.matmul(square, square)
        if power & 1:
            result = square if result is None else products.matmul(result, square)
        power >>= 1
    return result


@ROWS.function("linalg", out=True)
def multi_dot(tensors: Sequence[Operand]) -> Value:
    """Return the product of several matrices, in the order with the fewest operations.

    Args:
        tensors: at least two; matrices, and possibly a vector at either end.
    """
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    shapes = [shape_of(x) for x in tensors]
    for k, shape in enumerate(shapes):
        if k in (0, count - 1):
            if len(shape) not in (1, 2):
                which = "first" if k == 0 else "last"
                raise RuntimeError(
                    f"multi_dot(): the {which} tensor must be 1D or 2D but got {len(shape)}D"
                )
        elif len(shape) != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {len(shape)}D")
        if dtype_of(tensors[k]) != dtype_of(tensors[0]):
            names = [algebra.C_NAMES.get(dtype_of(x).name, "") for x in (tensors[0], tensors[k])]
            raise RuntimeError(algebra.multi_dot_dtypes(k, *names))
    given: list[Any] = list(tensors)
    if len(shapes[0]) == 1:
        given[0] = shaping.unsqueeze(given[0], 0)
    if len(shapes[-1]) == 1:
        given[-1] = shaping.unsqueeze(given[-1], -1)
    sizes = [shape_of(x) for x in given]
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        if a[1] != b[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(shapes[k])} and "
                f"{list(shapes[k + 1])} cannot be multiplied"
            )
    found = _chained(given, _best_splits([s[0] for s in sizes] + [sizes[-1][1]]), 0, count - 1)
    wanted = (
        *((sizes[0][0],) if len(shapes[0]) == 2 else ()),
        *((sizes[-1][1],) if len(shapes[-1]) == 2 else ()),
    )
    return shaping.view(found, wanted)


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return where to split each part of a chain of matrices, by dynamic programming."""
    n = len(sizes) - 1
    cost = {(k, k): 0 for k in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = min(
                range(i, j),
                key=lambda k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1],
            )
            cost[i, j] = (
                cost[i, best] + cost[best + 1, j] + sizes[i] * sizes[best + 1] * sizes[j + 1]
            )
            splits[i, j] = best
    return splits


def _chained(
    tensors: Sequence[Any], splits: dict[tuple[int, int], int], first: int, last: int
) -> Any:
    if first == last:
        return tensors[first]
    middle = splits[first, last]
    return products.mm(
        _chained(tensors, splits, first, middle), _chained(tensors, splits, middle + 1, last)
    )


@ROWS.function("function")
def chain_matmul(*matrices: Operand, out: Tensor | None = None) -> Value:
    """Return the product of several matrices; the older form of `linalg.multi_dot`."""
    warn_once(algebra.CHAIN_MATMUL)
    if len(matrices) == 1:
        return f.clone(matrices[0])
    if out is not None:
        return put_out(out, "chain_matmul", matrices, lambda: multi_dot(matrices))
    return multi_dot(matrices)


@ROWS.function()
def adjoint(input: Operand) -> Value:
    """Return the conjugate transpose of matrices, a view."""
    shape = shape_of(input)
    if len(shape) == 1:
        raise RuntimeError(errors.only_matrices("adjoint()", 1))
    if not shape:
        return f.conj(input)
    return f.conj(shaping.transpose(input, -2, -1))


@ROWS.function("property", name="mH")
def conjugate_transposed(self: Tensor) -> Value:
    """The conjugate transpose of matrices, a view."""
    if self._array.ndim < 2:
        if not self._array.ndim:
            warn_once("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().")
            return adjoint(self)
        raise RuntimeError(errors.only_matrices("mH", self._array.ndim))
    return adjoint(self)
