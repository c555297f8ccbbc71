"""Rows: cross products, products along an axis, inverses of tensors; the functions that PyTorch removed.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.errors import algebra
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, products, reductions, shaping
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.linear_algebra.checks import ROWS, WHOLE_AXIS, check_floats
from functrace.torch.functions.linear_algebra.solving import inverse_of, solution_of
from functrace.torch.tensors.dtypes import DTYPES, is_half
from functrace.torch.tensors.tensor import Operand, Value, fresh
from functrace.typing import Array

# -- products --------------------------------------------------------------------------------------


def _crossed(x: Array, y: Array, dim: int) -> Any:
    """``x × y`` from shifted copies: coordinates (1, 2, 0) and (2, 0, 1)."""
    turned = [[_turned(v, dim, shift) for shift in (1, 2)] for v in (x, y)]
    return ew.sub(ew.mul(turned[0][0], turned[1][1]), ew.mul(turned[0][1], turned[1][0]))


def _turned(x: Array, dim: int, shift: int) -> Any:
    def part(a: int | None, b: int | None) -> Any:
        return index_static(x, (*(WHOLE_AXIS,) * dim, (a, b, None), ...))

    return concatenate((part(shift, None), part(None, shift)), dim)


CROSS = Op(
    "LinalgCrossBackward0",
    _crossed,
    (("self", 0), ("other", 1)),
    keeps=("self", "other"),
    details=lambda specs, params: {"dim": params[0]},
)


def _cross_product(input: Operand, other: Operand, dim: int) -> Value:
    a, b = shape_of(input), shape_of(other)
    if len(a) != len(b):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = f.dimension(dim, len(a))
    if a[axis] != 3 or b[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a[axis]} and {b[axis]}"
        )
    check_broadcast(a, b)
    full = np.broadcast_shapes(a, b)
    given = [x if shape_of(x) == full else shaping.expand(x, full) for x in (input, other)]
    kinds = dtype_of(input), dtype_of(other)
    if kinds[0].kind == "b":
        raise NotImplementedError(errors.no_kernel("cross").format("Bool"))
    if kinds[0] != kinds[1]:
        raise RuntimeError(errors.scalar_types(*(DTYPES[kind].printed for kind in kinds)))
    return apply(CROSS, tuple(given), (axis,))


@ROWS.function("linalg", out=True, name="cross")
def linalg_cross(input: Operand, other: Operand, *, dim: int = -1) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension."""
    f.tensors_only("linalg_cross", input=input, other=other)
    return _cross_product(input, other, dim)


@ROWS.function(out=True)
def cross(input: Operand, other: Operand, dim: int | None = None) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension: by default, the
    first one of size 3.
    """
    f.tensors_only("cross", input=input, other=other)
    if dim is None:
        warn_once(algebra.CROSS)
        dim = next((k for k, n in enumerate(shape_of(input)) if n == 3), -1)
        if dim < 0:
            raise RuntimeError("no dimension of size 3 in input")
    return _cross_product(input, other, dim)


@ROWS.function("linalg", out=True)
def vecdot(x: Operand, y: Operand, *, dim: int = -1) -> Value:
    """Return the products of vectors along a dimension: ``sum(conj(x) * y)``."""
    f.tensors_only("linalg_vecdot", x=x, y=y)
    check_floats("linalg.vecdot", x, half=True)
    if dtype_of(x) != dtype_of(y):
        names = [DTYPES[dtype_of(v)].printed for v in (x, y)]
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{names[0]} and y of type {names[1]} instead"
        )
    return reductions.sum(f.mul(f.conj(x), y), dim)


ROWS.function("linalg", name="matmul", out=True)(products.matmul)


@ROWS.function("linalg", name="diagonal")
def linalg_diagonal(A: Operand, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Return a view of a diagonal of two dimensions, as the last dimension."""
    return picking.diagonal(A, offset, dim1, dim2)


@ROWS.function("linalg", name="vander")
def linalg_vander(x: Operand, *, N: int | None = None) -> Value:
    """Return the powers 0 to ``N - 1`` of each element, along a new last dimension."""
    f.tensors_only("linalg_vander", x=x)
    if dtype_of(x).kind == "b" or is_half(dtype_of(x)):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{DTYPES[dtype_of(x)].printed}"
        )
    shape = shape_of(x)
    count = (shape[-1] if shape else 1) if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    given: Any = f.to(x, np.dtype(np.int64)) if dtype_of(x).kind in "bui" else x
    wide = shaping.expand(shaping.unsqueeze(given, -1), (*shape, count - 1))
    ones = fresh(np.ones((*shape, 1), dtype_of(given)))
    return shaping.cat([ones, wide.cumprod(-1)], -1)


@ROWS.function("linalg", out=True)
def tensorinv(A: Operand, ind: int = 2) -> Value:
    """Return the inverse of a tensor with respect to `tensordot` over ``ind`` dimensions."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = shape_of(A)
    first, last = shape[:ind], shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(last)} != {math.prod(first)}"
        )
    flat = shaping.reshape(A, (math.prod(first), math.prod(last)))
    return shaping.reshape(inverse_of("linalg.inv", flat), (*last, *first))


@ROWS.function("linalg", out=True)
def tensorsolve(A: Operand, B: Operand, dims: Sequence[int] | None = None) -> Value:
    """Return the tensor X with ``tensordot(A, X, X.ndim) == B``.

    Args:
        dims: dimensions of ``A`` that are moved to its end first.
    """
    given: Any = A
    if dims is not None:
        ndim = len(shape_of(A))
        given = picking.movedim(A, tuple(dims), tuple(range(ndim - len(dims), ndim)))
    b = shape_of(B)
    shape = shape_of(given)
    first, last = shape[: len(b)], shape[len(b) :]
    if math.prod(b) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(last)} != {math.prod(b)}"
        )
    flat = shaping.reshape(given, (math.prod(last), math.prod(first)))
    return shaping.reshape(
        solution_of("torch.linalg.solve", flat, shaping.reshape(B, (-1,)), True), last
    )


# -- functions that PyTorch has removed ------------------------------------------------------------


def _removed(name: str, forms: str) -> None:
    message = algebra.removed(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raise: PyTorch has removed ``{name}``."
    ROWS.function(forms, name=name)(function)


for _name in ("lstsq", "solve", "eig", "symeig"):
    _removed(_name, "function method")
_removed("matrix_rank", "function")
