"""``reduce``, ``accumulate`` and ``reduceat`` of any binary ufunc: one operation per element.

For ufuncs without an entry in the table of ufunc methods (``np.add.reduce`` …). NumPy itself,
called with ones, determines if the reduction exists, and its dtype.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import ConcretizationError, DtypeError
from functrace.ir.primitive import Primitive
from functrace.numpy.arrays.layout import UNKNOWN
from functrace.numpy.arrays.masked import mask_of
from functrace.numpy.arrays.views import laid_out
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    DtypeLike,
    Flag,
    Operand,
    along,
    arrayed,
    exact_axis,
    known,
    normalize_axes,
    one_axis,
)
from functrace.numpy.protocol.tables import UFUNC_METHODS
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate, stack
from functrace.ops.reductions import kept_shape, merge_reduced
from functrace.ops.segments import sum_segments
from functrace.ops.shaping import broadcast_to, convert, moveaxis, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value

_WRONG_IN_NUMPY = frozenset({np.power, np.pow, np.arctan2})
"""For these, NumPy 2.4 skips all elements between first and last on machines with AVX-512."""


def fold_method(ufunc: np.ufunc, name: str) -> Callable[..., Any] | None:
    """Return a ufunc method without an entry in the table; ``None`` if it cannot be implemented."""
    primitive = ew.UFUNCS.get(ufunc)
    if ufunc in _WRONG_IN_NUMPY and name != "accumulate":
        return None
    if primitive is None or ufunc.nin != 2 or ufunc.nout != 1:
        return None
    made = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat}.get(name)
    return None if made is None else made(ufunc, primitive)


def _in_loop(ufunc: np.ufunc, name: str, x: Arrayed, dtype: np.dtype[Any]) -> Any:
    """Return the operand in the dtype of the result, which is also the working dtype."""
    if ufunc.resolve_dtypes((dtype, dtype, None))[-1] != dtype:
        raise DtypeError(
            f"numpy.{ufunc.__name__}.{name} of {x.dtype} would compute in another dtype than that "
            f"of its result, {dtype}",
            fix="write the loop yourself",
        )
    return convert(x, dtype)


def _reduce(ufunc: np.ufunc, primitive: Primitive) -> Callable[..., Any]:
    def reduce(
        a: Operand,
        axis: Axis = 0,
        dtype: DtypeLike = None,
        keepdims: Flag = False,
        initial: Operand | None = NOT_GIVEN,
        where: Value = True,
    ) -> Any:
        x = arrayed(a)
        where = mask_of(where, f"numpy.{ufunc.__name__}.reduce")
        given = initial is not NOT_GIVEN and initial is not None
        options: dict[str, Any] = {"initial": 1} if given else {}
        if where is not True:
            options["where"] = np.ones((), bool)
        sample = np.ones(tuple(min(n, 1) for n in x.shape), x.dtype)
        expected: Any = ufunc.reduce(sample, axis=axis, dtype=dtype, **options)  # type: ignore[call-overload]
        axes = normalize_axes(exact_axis(axis), x.ndim)
        shape = (
            kept_shape(x.shape, axes)
            if keepdims
            else tuple(n for k, n in enumerate(x.shape) if k not in axes)
        )
        mask = None if where is True else merge_reduced(broadcast_to(where, x.shape), axes)
        x = merge_reduced(_in_loop(ufunc, "reduce", x, expected.dtype), axes)
        total: Any = None
        if initial is not NOT_GIVEN and initial is not None:
            total = broadcast_to(convert(arrayed(initial), expected.dtype), x.shape[:-1])
        elif mask is not None or not x.shape[-1]:
            total = broadcast_to(
                np.asarray(ufunc.identity).astype(expected.dtype)[()], x.shape[:-1]
            )
        for k in range(x.shape[-1]):
            part = index_static(x, (Ellipsis, k))
            new = part if total is None else bind(primitive, (total, part))
            total = new if mask is None else ew.where(index_static(mask, (Ellipsis, k)), new, total)
        return laid_out(reshape(total, shape), UNKNOWN)

    return reduce


def _accumulate(ufunc: np.ufunc, primitive: Primitive) -> Callable[..., Any]:
    def accumulate(a: Operand, axis: SupportsIndex = 0, dtype: DtypeLike = None) -> Any:
        x = arrayed(a)
        place = one_axis(exact_axis(axis), x.ndim)
        expected = ufunc.accumulate(np.ones(1, x.dtype), dtype=dtype).dtype
        x = _in_loop(ufunc, "accumulate", x, expected)
        parts: list[Any] = []
        for k in range(x.shape[place]):
            part = index_static(x, along(place, k))
            parts.append(bind(primitive, (parts[-1], part)) if parts else part)
        return laid_out(
            stack(parts, place) if parts else index_static(x, along(place, (0, 0, None))), UNKNOWN
        )

    return accumulate


def _reduceat(ufunc: np.ufunc, primitive: Primitive) -> Callable[..., Any]:
    def reduceat(
        a: Operand, indices: Operand, axis: SupportsIndex = 0, dtype: DtypeLike = None
    ) -> Any:
        x = arrayed(a)
        place = one_axis(exact_axis(axis), x.ndim)
        try:
            starts = known(indices)
        except ConcretizationError as error:
            raise ConcretizationError(
                f"numpy.{ufunc.__name__}.reduceat needs the values of its indices, which are not "
                "known here",
                made=error.made,
                fix="pass indices that are not traced; sums of segments are np.add.at(np.zeros(n, "
                "like=x), segment, x)",
            ) from error
        size = x.shape[place]
        # NumPy itself checks the indices.
        expected = ufunc.reduceat(np.ones(size, x.dtype), starts, dtype=dtype).dtype  # type: ignore[arg-type]
        starts = starts.astype(np.intp)
        stops = np.append(starts[1:], size)
        stops = np.where(stops > starts, stops, starts + 1)
        x = _in_loop(ufunc, "reduceat", x, expected)
        if ufunc is np.add and len(starts):  # all segments at once
            return laid_out(
                moveaxis(sum_segments(moveaxis(x, place, 0), starts, stops), 0, place), UNKNOWN
            )
        reduce: Any = UFUNC_METHODS.get((ufunc, "reduce")) or _reduce(ufunc, primitive)
        segments = [
            index_static(x, along(place, (i, j, None)))
            for i, j in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        parts = [
            s if s.shape[place] == 1 else reduce(s, axis=place, keepdims=True) for s in segments
        ]
        if not parts:
            return index_static(x, along(place, (0, 0, None)))
        return laid_out(concatenate([convert(part, expected) for part in parts], place), UNKNOWN)

    return reduceat
