"""The rows of operations that exist only in place: ``copy_``, ``fill_``, ``x[i] = v``.

The in-place forms of other functions are in those functions' rows.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import gather, scatter_each
from functrace.ops.shaping import broadcast_to, convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import check_broadcast, check_fits
from functrace.torch.dispatch.rows import FunctionSpec, FunctionTable
from functrace.torch.functions import elementwise
from functrace.torch.functions.shaping import (
    basic_part,
    expand,
    index_entries,
    index_operands,
    view,
)
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.torch.tensors.views import check_memory, wanting, write
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def _copied(x: Array, source: Array) -> Any:
    if type(source) is np.ndarray and source.dtype == x.dtype:  # the write copies it
        return source if source.shape == x.shape else np.broadcast_to(source, x.shape)
    value = convert(source, x.dtype) if source.dtype != x.dtype else source
    return (
        broadcast_to(value, x.shape)
        if value.shape != x.shape
        else ew.positive(value)
        if x.dtype.kind != "b"
        else value
    )


def _filled(x: Array, value: Array | complex) -> Any:
    return broadcast_to(
        np.asarray(value if x.dtype.kind in "cb" else value.real).astype(x.dtype)
        if isinstance(value, (bool, int, float, complex))
        else convert(value, x.dtype),
        x.shape,
    )


COPY = Op("CopyBackwards", _copied)
FILL = Op("FillBackward2", _filled, edges=(0,), repeats=True)
FILL_TENSOR = Op("FillBackward3", _filled, repeats=True)
FILLED = Op("FillBackward0", _filled, edges=(0,))
FILLED_TENSOR = Op("FillBackward1", _filled)
ZERO = Op("ZeroBackward0", lambda x: _filled(x, 0), edges=(0,), repeats=True)
PUT = Op(
    "IndexPutBackward0",
    lambda x, value, *rest: scatter_each(x, rest[-1], convert(value, x.dtype), rest[:-1]),
    tuple((f"indices[{k}]", k + 2) for k in range(8)),
    edges=(0, 1),
    keeps=tuple(f"indices[{k}]" for k in range(8)),
    repeats=True,
)


@ROWS.function("method")
def copy_(self: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """Overwrite with another tensor's elements, broadcast and converted."""
    number = number_of(src)
    if not isinstance(src, Tensor) and type(number) not in NUMBERS:
        raise TypeError(errors.must_be_tensor("copy_", "other", 0, errors.kind_of(src)))
    source = src if isinstance(src, Tensor) else wrap(np.asarray(number))
    shape = source._array.shape
    wanting((self, source))
    if shape != self._array.shape:
        check_broadcast(self._array.shape, shape)
        full = np.broadcast_shapes(self._array.shape, shape)
        if full != self._array.shape:
            raise RuntimeError(errors.output_shape(self._array.shape, full))
    return write(COPY, (self, source))


@ROWS.function("function method")
def fill_(self: Tensor, value: Operand) -> Tensor:
    """Overwrite every element with a number.

    Raises:
        RuntimeError: for a number that does not fit the dtype, and a tensor that is not 0-d.
    """
    number = number_of(value)
    if type(number) in NUMBERS:
        check_fits(number, self._array.dtype)
        return write(FILL, (self, number))
    if not isinstance(value, Tensor):
        raise TypeError(errors.invalid_combination("fill_", (value,)))
    if value._array.ndim:
        raise RuntimeError(errors.fill_dimensions(value._array.ndim))
    wanting((self, value))
    check_memory(self._array, (), ())
    return write(FILL_TENSOR, (self, value))


@ROWS.function("function method")
def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    return write(ZERO, (self,))


@ROWS.function("", operators="setitem")
def setitem(self: Tensor, index: Any, value: Operand) -> None:
    """Write ``self[index] = value``: through a view, or element by element if the index has
    tensors or masks.
    """
    if MODES.dispatch is not None and type(value) in NUMBERS:
        value = MODES.dispatch.lift(wrap(np.asarray(value, self._array.dtype)))
    number = number_of(value)
    if type(number) in NUMBERS:
        check_fits(number, self._array.dtype)
        value = number
    elif not isinstance(value, (Tensor, Tracer)):
        raise TypeError(errors.assigned_data(errors.kind_of(value), self.type()))
    entries = index_entries(index)
    if not np.ndim(value._array if isinstance(value, Tensor) else value):
        for entry in entries:
            if isinstance(entry, Tensor) and entry._array.dtype == np.uint8 and entry._array.ndim:
                raise RuntimeError(errors.FILL_BY_BYTES)
    whole = all(
        k is Ellipsis or k == slice(None) for k in entries if k is Ellipsis or isinstance(k, slice)
    )
    if whole and not [k for k in entries if k is not Ellipsis and not isinstance(k, slice)]:
        target, arrays = self, {}
    else:
        target, arrays = basic_part(self, entries)
    if not arrays:
        if not np.ndim(value._array if isinstance(value, Tensor) else value):
            wanting((target, value))
            check_memory(target._array, (), ())
        if type(value) in NUMBERS:
            write(FILL_TENSOR, (target, value))
        else:
            source = value if isinstance(value, Tensor) else wrap(np.asarray(value))
            if not source._array.ndim and target._array.ndim:
                fill_(target, source)
                return
            if source._array.shape != target._array.shape:
                source = expand(
                    view(source, without_leading_ones(source._array.shape)), target._array.shape
                )
            copy_(target, source)
        return
    operands, template = index_operands(target, arrays)
    if type(value) in NUMBERS:
        number = value if target._array.dtype.kind in "bc" else number.real
        value = np.asarray(number).astype(target._array.dtype)
    source = value if isinstance(value, Tensor) else wrap(value)
    if source._array.dtype != target._array.dtype:
        raise RuntimeError(errors.index_put_dtypes(target.dtype.printed, source.dtype.printed))
    sliced = without_leading_ones(source._array.shape)
    if sliced != source._array.shape:
        source = view(source, sliced)
    wanting((target, source))
    check_put(target, source, operands, template)
    write(PUT, (target, source, *operands), (template,))


def without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without leading ones."""
    return shape[next((k for k, n in enumerate(shape) if n != 1), len(shape)) :]


def check_put(
    target: Tensor, source: Tensor, operands: Sequence[Tensor], template: tuple[Any, ...]
) -> None:
    """Check that values broadcast to the target, and that it overlaps no operand.

    Raises:
        RuntimeError: with PyTorch's message.
    """
    wanted = gather(target._array, template, tuple([x._array for x in operands])).shape
    given = source._array.shape
    if wanted != given and (
        len(given) > len(wanted)
        or any(n not in (1, m) for n, m in zip(reversed(given), reversed(wanted), strict=False))
    ):
        raise RuntimeError(errors.put_shape(given, wanted))
    if source._array is target._array:
        raise RuntimeError(errors.OVERLAPPING_OPERAND)
    check_memory(target._array, (source,), (source._array,))
    check_memory(target._array, operands, [x._array for x in operands], moves=True)


# -- functions that work in place ------------------------------------------------------------------


@ROWS.function("function")
def fill(input: Operand, value: Operand) -> Value:
    """Return a tensor of this shape and dtype, filled with a number or a 0-d tensor."""
    elementwise.tensors_only("fill", input=input)
    number = number_of(value)
    if type(number) in NUMBERS:
        check_fits(number, elementwise.dtype_of(input))
        return apply(FILLED, (input, number))
    if elementwise.shape_of(number):
        raise RuntimeError(errors.fill_dimensions(len(elementwise.shape_of(number))))
    return apply(FILLED_TENSOR, (input, number))


_IN_PLACE = (
    "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp "
    "clip cos cosh exp exp2 expm1 fix floor log log10 log1p log2 neg negative round "
    "rsqrt sin sinh sqrt tan trunc"
)
"""Functions of ``torch`` whose in-place form is a function as well."""

for _row in list(elementwise.ROWS):
    for _name in (_row.name, *_row.aliases):
        if _name in _IN_PLACE.split() and _row.in_place is not None:
            ROWS.add(
                FunctionSpec(_name, ("function_in_place",), _row.function, in_place=_row.in_place)
            )
