"""``view_copy``, ``transpose_copy`` and their like: what a view function returns, in memory of its own.

Layer: 9.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import arranging, picking, shaping
from functrace.torch.functions.elementwise import (
    clone,
    dimension,
    shape_of,
    tensors_only,
    whole,
)
from functrace.torch.tensors import memory, pairs
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.formats import contiguous_format
from functrace.torch.tensors.tensor import Operand, Tensor, Value

ROWS = FunctionTable()


@functools.lru_cache(maxsize=256)
def _copying(op: Op, name: str, node: str = "") -> Op:
    """Return the op that copies the view, or the views, of another one.

    Args:
        op: the op of a view.
        name: name of the function, which dispatch modes get.
        node: name of the node, if it is not that of the view with ``_copy``.
    """

    def copied(*operands: Any) -> Any:
        found = op.function(*operands)
        if isinstance(found, tuple):
            return tuple([x.copy() if isinstance(x, np.ndarray) else x for x in found])
        return found.copy() if isinstance(found, np.ndarray) else found

    return dataclasses.replace(
        op,
        node=node or f"{op.node}_copy",
        function=copied,
        derived=op.function,
        is_view=False,
        called=name,
    )


def _copy(name: str, view: Callable[..., Any], input: Operand, *args: Any, node: str = "") -> Value:
    """Return a copy of a view, as one op.

    Args:
        name: name of the function, for refusals.
        view: the view function.
        input: its tensor.
        args: its further arguments.
        node: name of the node; see `_copying`.
    """
    tensors_only(name, input=input)
    if not isinstance(input, Tensor):
        return view(input, *args)
    before, MODES.dispatch = MODES.dispatch, None
    try:
        made = view(input._alias(), *args)  # only to learn the op and its parameters
    finally:
        MODES.dispatch = before
    steps = () if made._view is None else made._view.steps
    if len(steps) == 1 and isinstance(steps[0][2], Op):
        _, params, op = steps[0]
        return apply(_copying(op, name, node), (input,), params)
    return clone(view(input, *args), memory_format=contiguous_format)


def _copies(
    name: str, op: Op, view: Callable[..., Any], input: Operand, *args: Any, **details: Any
) -> Any:
    """Return copies of several views, as one op.

    Args:
        name: name of the function, for refusals.
        op: the op of the views.
        view: the view function.
        input: its tensor.
        args: its further arguments.
        details: fields of the node.
    """
    tensors_only(name, input=input)
    if not isinstance(input, Tensor):
        return view(input, *args)
    before, MODES.dispatch = MODES.dispatch, None
    try:
        made = view(input._alias(), *args)  # only to learn the positions
    finally:
        MODES.dispatch = before
    if any(x._view is None or len(x._view.steps) != 1 for x in made):
        return tuple([clone(x, memory_format=contiguous_format) for x in view(input, *args)])
    indices = tuple([x._view.steps[0][1][0] for x in made])
    return apply(_copying(op, name), (input,), (indices, tuple(details.items())))


@ROWS.function("function", out=True)
def alias_copy(input: Tensor) -> Value:
    """Return a copy of a tensor."""
    tensors_only("alias_copy", input=input)
    return apply(_copying(shaping.ALIAS, "alias_copy"), (input,), ((...,),))


@ROWS.function("function", out=True)
def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Return a copy of `as_strided`."""
    return _copy("as_strided_copy", memory.as_strided, input, size, stride, storage_offset)


@ROWS.function("function", out=True)
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return a copy of `diagonal`."""
    return _copy("diagonal_copy", picking.diagonal, input, offset, dim1, dim2)


@ROWS.function("function", out=True)
def expand_copy(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Value:
    """Return a copy of `expand`; ``implicit`` has no effect."""
    return _copy("expand_copy", shaping.expand, input, size)


@ROWS.function("function method", out=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Value:
    """Return a copy of `narrow`."""
    return _copy(
        "narrow_copy", shaping.narrow, input, dim, start, length, node="NarrowCopyBackward0"
    )


@ROWS.function("function", out=True)
def permute_copy(input: Tensor, dims: Sequence[int]) -> Value:
    """Return a copy of `permute`."""
    return _copy("permute_copy", shaping.permute, input, dims)


@ROWS.function("function", out=True)
def select_copy(input: Tensor, dim: int, index: int) -> Value:
    """Return a copy of `select`."""
    return _copy("select_copy", shaping.select, input, dim, index)


@ROWS.function("function", out=True)
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """Return a copy of the positions from ``start`` to ``end`` along a dimension."""
    tensors_only("slice_copy", input=input)
    place = (slice(None),) * dimension(dim, len(shape_of(input)))
    return _copy("slice_copy", lambda x: x[(*place, slice(start, end, step))], input)


@ROWS.function("function")
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Return copies of the pieces of `split`."""
    size = whole("split_copy", "split_size", split_size, 1)
    sizes = {"self_sym_sizes": shape_of(input), "split_size": size}
    return _copies(
        "split_copy", picking.SPLIT, picking.split, input, size, dim, dim=dim % (1 << 64), **sizes
    )


@ROWS.function("function")
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Any, ...]:
    """Return copies of the pieces of `split_with_sizes`."""
    wanted = tuple(split_sizes)
    return _copies(
        "split_with_sizes_copy",
        picking.SPLIT_SIZES,
        picking.split_with_sizes,
        input,
        wanted,
        dim,
        dim=dim % (1 << 64),
        self_sym_sizes=shape_of(input),
        split_sizes=wanted,
    )


@ROWS.function("function", out=True)
def squeeze_copy(input: Tensor, dim: int | Sequence[int] | None = None) -> Value:
    """Return a copy of `squeeze`."""
    return _copy("squeeze_copy", shaping.squeeze, input, *(() if dim is None else (dim,)))


@ROWS.function("function", out=True)
def t_copy(input: Tensor) -> Value:
    """Return a copy of `t`."""
    return _copy("t_copy", shaping.t, input)


@ROWS.function("function", out=True)
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Value:
    """Return a copy of `transpose`."""
    return _copy("transpose_copy", shaping.transpose, input, dim0, dim1)


@ROWS.function("function")
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Any, ...]:
    """Return copies of the positions of `unbind`."""
    return _copies("unbind_copy", picking.UNBIND, picking.unbind, input, dim, dim=dim % (1 << 64))


@ROWS.function("function", out=True)
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Value:
    """Return a copy of `unfold`."""
    return _copy("unfold_copy", arranging.unfold, input, dimension, size, step)


@ROWS.function("function", out=True)
def unsqueeze_copy(input: Tensor, dim: int) -> Value:
    """Return a copy of `unsqueeze`."""
    return _copy("unsqueeze_copy", shaping.unsqueeze, input, dim)


@ROWS.function("function", out=True)
def view_as_complex_copy(input: Tensor) -> Value:
    """Return a copy of `view_as_complex`.

    Raises:
        RuntimeError: for a tensor that requires gradients, as in PyTorch.
    """
    tensors_only("view_as_complex_copy", input=input)
    if MODES.recording and input.requires_grad:
        raise RuntimeError(
            "view_as_complex_copy does not support automatic differentiation for outputs with "
            "complex dtype."
        )
    return _copy("view_as_complex_copy", pairs.view_as_complex, input)


@ROWS.function("function", out=True)
def view_as_real_copy(input: Tensor) -> Value:
    """Return a copy of `view_as_real`."""
    return _copy("view_as_real_copy", pairs.view_as_real, input)


@ROWS.function("function", out=True)
def view_copy(
    input: Tensor, size: Sequence[int] | Dtype | None = None, *, dtype: Dtype | None = None
) -> Value:
    """Return a copy in another shape, or of the memory as another dtype.

    Args:
        input: the tensor, in any memory layout.
        size: the sizes, of which one may be -1; or the dtype.
        dtype: the dtype.
    """
    tensors_only("view_copy", input=input)
    kind = size if isinstance(size, Dtype) else dtype
    if kind is not None:
        return clone(shaping.view(input, kind), memory_format=contiguous_format)
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.invalid_combination("view_copy", (input, size)))
    wanted = shaping.completed(shaping.sizes((size,)), shape_of(input))
    return apply(_copying(shaping.VIEW, "view_copy"), (input,), (wanted,))
