"""Rank filters of images; see `functrace.scipy.ndimage`.

All windows are materialized, which costs window size times memory, unlike in SciPy. The selected
element has the derivative; for the largest and the smallest, ties share it.

Layer: 9.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import scipy.ndimage

from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.numpy.protocol.operands import arrayed, one_axis
from functrace.scipy.dispatch import on_traced
from functrace.scipy.ndimage.reading import Modes, Output, each, finished, padded, places, reach
from functrace.scipy.operands import Axis, Nested, Numeric, Operand, X
from functrace.typing import Array

Size: TypeAlias = int | Sequence[int] | None
Origin: TypeAlias = int | Sequence[int]
Rank: TypeAlias = Callable[[int], int]


def _smallest(_: int) -> int:
    return 0


def _largest(count: int) -> int:
    return count - 1


def _filtered(
    name: str,
    input: Operand,
    size: Size,
    footprint: Operand | None,
    output: Output | None,
    mode: Modes,
    cval: Operand,
    origin: Origin,
    axes: Axis,
    rank: Rank,
) -> Any:
    """Select an element of each window.

    Args:
        rank: rank of the element, from their number; negative ones count from the largest.
    """
    x: Any = arrayed(input)
    if x.dtype.kind == "c":
        raise DtypeError(
            f"scipy.ndimage.{name}: complex type not supported", fix="pass real and imaginary parts"
        )
    along = places(name, axes, x.ndim)
    modes, origins = each(name, mode, len(along)), each(name, origin, len(along))
    if footprint is None and size is None:
        raise ArgumentError(
            f"scipy.ndimage.{name}: no footprint or filter size provided",
            fix="pass size= or footprint=",
        )
    sizes = tuple(map(operator.index, each(name, size, len(along)))) if footprint is None else ()
    taken = np.ones(sizes, bool) if footprint is None else np.asarray(footprint, bool)
    if taken.ndim != len(along) or not taken.any():
        raise ShapeError(
            f"scipy.ndimage.{name}: footprint.ndim ({taken.ndim}) must match len(axes) "
            f"({len(along)})",
            fix="pass one axis of the footprint per axis, with at least one element set",
        )
    count = int(np.count_nonzero(taken))
    at = rank(count)
    at = at + count if at < 0 else at
    if not 0 <= at < count:
        raise ArgumentError(
            f"scipy.ndimage.{name}: rank not within filter footprint size",
            fix=f"pass one from 0 to {count - 1}",
        )
    is_extreme = rank in (_smallest, _largest)
    if not isinstance(mode, str) and not (is_extreme and taken.all()):
        raise ArgumentError(
            f"scipy.ndimage.{name}: a sequence of modes is not supported for non-separable "
            "footprints",
            fix="pass one mode",
        )
    in_order = (
        along if footprint is None and is_extreme else sorted(along)
    )  # axes of footprints are in order
    named = dict(zip(in_order, taken.shape, strict=True))
    shape = tuple(named.get(k, 1) for k in range(x.ndim))
    rooms = {k: reach(name, shape[k], moved) for k, moved in zip(along, origins, strict=True)}
    whole = padded(name, x, rooms, dict(zip(along, modes, strict=True)), cval)
    windows = np.lib.stride_tricks.sliding_window_view(whole, shape).reshape((*x.shape, -1))
    windows = windows[..., np.flatnonzero(taken)]
    if at == 0:
        found = np.min(windows, axis=-1)
    else:
        found = np.max(windows, axis=-1) if at == count - 1 else np.sort(windows, axis=-1)[..., at]
    return finished(name, found, x, output)


@on_traced(scipy.ndimage.maximum_filter)
def maximum_filter(
    input: Numeric[X, "*image"] | Nested,
    size: Size = None,
    footprint: Operand | None = None,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    origin: Origin = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.maximum_filter``: the largest element of a window; differentiable by the
    input and ``cval``.

    Args:
        input: shape (n, m, ...), real.
        size: size of the window, or one per axis; not used with a footprint.
        footprint: bools, shape of the window; True for the elements that count. Its axes are in the
            order of the image's.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError: if there is neither ``size`` nor ``footprint``, or several modes with a
            footprint of another shape than a box.
        ShapeError: if the window does not have one axis per axis, or ``mode`` or ``origin`` is
            invalid, or ``cval`` is not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda x: np.sum(ndimage.maximum_filter(x, 3)))(np.array([1.0, 3.0, 2.0]))
        array([0., 3., 0.])
    """
    return _filtered(
        "maximum_filter", input, size, footprint, output, mode, cval, origin, axes, _largest
    )


@on_traced(scipy.ndimage.minimum_filter)
def minimum_filter(
    input: Numeric[X, "*image"] | Nested,
    size: Size = None,
    footprint: Operand | None = None,
    output: Output | None = None,
    mode: Modes = "reflect",
    cval: Operand = 0.0,
    origin: Origin = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.minimum_filter``: the smallest element of a window; differentiable by the
    input and ``cval``.

    Args:
        input: shape (n, m, ...), real.
        size: size of the window, or one per axis; not used with a footprint.
        footprint: bools, shape of the window; True for the elements that count. Its axes are in the
            order of the image's.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic); or one per axis.
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError: if there is neither ``size`` nor ``footprint``, or several modes with a
            footprint of another shape than a box.
        ShapeError: if the window does not have one axis per axis, or ``mode`` or ``origin`` is
            invalid, or ``cval`` is not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda x: np.sum(ndimage.minimum_filter(x, 3)))(np.array([1.0, 3.0, 2.0]))
        array([2., 0., 1.])
    """
    return _filtered(
        "minimum_filter", input, size, footprint, output, mode, cval, origin, axes, _smallest
    )


@on_traced(scipy.ndimage.maximum_filter1d)
def maximum_filter1d(
    input: Numeric[X, "*image"] | Nested,
    size: int,
    axis: SupportsIndex = -1,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int = 0,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.maximum_filter1d``: the largest of neighbours along an axis; differentiable
    by the input and ``cval``.

    Args:
        input: shape (n, m, ...), real.
        size: number of neighbours, at least 1.
        axis: the axis to filter.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, from -(k // 2) to (k - 1) // 2 for k weights.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError, ShapeError: if ``size``, ``mode`` or ``origin`` is invalid, or ``cval`` is
            not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda x: np.sum(ndimage.maximum_filter1d(x, 3)))(np.array([1.0, 3.0, 2.0]))
        array([0., 3., 0.])
    """
    along = one_axis(axis, arrayed(input).ndim)
    return _filtered(
        "maximum_filter1d", input, size, None, output, mode, cval, origin, along, _largest
    )


@on_traced(scipy.ndimage.minimum_filter1d)
def minimum_filter1d(
    input: Numeric[X, "*image"] | Nested,
    size: int,
    axis: SupportsIndex = -1,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: int = 0,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.minimum_filter1d``: the smallest of neighbours along an axis; differentiable
    by the input and ``cval``.

    Args:
        input: shape (n, m, ...), real.
        size: number of neighbours, at least 1.
        axis: the axis to filter.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, from -(k // 2) to (k - 1) // 2 for k weights.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError, ShapeError: if ``size``, ``mode`` or ``origin`` is invalid, or ``cval`` is
            not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda x: np.sum(ndimage.minimum_filter1d(x, 3)))(np.array([1.0, 3.0, 2.0]))
        array([2., 0., 1.])
    """
    along = one_axis(axis, arrayed(input).ndim)
    return _filtered(
        "minimum_filter1d", input, size, None, output, mode, cval, origin, along, _smallest
    )


@on_traced(scipy.ndimage.rank_filter)
def rank_filter(
    input: Numeric[X, "*image"] | Nested,
    rank: int,
    size: Size = None,
    footprint: Operand | None = None,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: Origin = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.rank_filter``: the element of a window with a given rank; differentiable by
    the input and ``cval``.

    Args:
        input: shape (n, m, ...), real.
        rank: 0 for the smallest element; negative ones count from the largest, -1.
        size: size of the window, or one per axis; not used with a footprint.
        footprint: bools, shape of the window; True for the elements that count. Its axes are in the
            order of the image's.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError: if there is neither ``size`` nor ``footprint``, or ``rank`` exceeds the
            window.
        ShapeError: if the window does not have one axis per axis, or ``mode`` or ``origin`` is
            invalid, or ``cval`` is not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(lambda x: ndimage.rank_filter(x, 0, 3))(np.array([1.0, 3.0, 2.0]))
        array([1., 1., 2.])
    """
    at = operator.index(rank)
    return _filtered(
        "rank_filter", input, size, footprint, output, mode, cval, origin, axes, lambda _: at
    )


@on_traced(scipy.ndimage.median_filter)
def median_filter(
    input: Numeric[X, "*image"] | Nested,
    size: Size = None,
    footprint: Operand | None = None,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: Origin = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.median_filter``, which selects the upper of two middle elements.

    Args:
        input: shape (n, m, ...), real.
        size: size of the window, or one per axis; not used with a footprint.
        footprint: bools, shape of the window; True for the elements that count. Its axes are in the
            order of the image's.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError: if there is neither ``size`` nor ``footprint``.
        ShapeError: if the window does not have one axis per axis, or ``mode`` or ``origin`` is
            invalid, or ``cval`` is not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(lambda x: ndimage.median_filter(x, 3))(np.array([1.0, 3.0, 2.0]))
        array([1., 2., 2.])
    """
    return _filtered(
        "median_filter",
        input,
        size,
        footprint,
        output,
        mode,
        cval,
        origin,
        axes,
        lambda count: count // 2,
    )


@on_traced(scipy.ndimage.percentile_filter)
def percentile_filter(
    input: Numeric[X, "*image"] | Nested,
    percentile: float,
    size: Size = None,
    footprint: Operand | None = None,
    output: Output | None = None,
    mode: str = "reflect",
    cval: Operand = 0.0,
    origin: Origin = 0,
    *,
    axes: Axis = None,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.percentile_filter``, which rounds down to an element's rank.

    Args:
        input: shape (n, m, ...), real.
        percentile: from 0 to 100; negative ones count from 100.
        size: size of the window, or one per axis; not used with a footprint.
        footprint: bools, shape of the window; True for the elements that count. Its axes are in the
            order of the image's.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        mode: extension beyond the edges: "reflect" (mirrored, edge repeated), "constant",
            "nearest", "mirror" (edge not repeated) or "wrap" (periodic).
        cval: value beyond the edges for "constant".
        origin: shift of the filter's center, an integer, or one per axis.
        axes: the axes to filter; all by default.

    Returns:
        an array of the shape of ``input``, in its dtype or that of ``output``.

    Raises:
        ArgumentError: if there is neither ``size`` nor ``footprint``, or ``percentile`` is not from
            -100 to 100.
        ShapeError: if the window does not have one axis per axis, or ``mode`` or ``origin`` is
            invalid, or ``cval`` is not one number.
        DtypeError: if the input is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(lambda x: ndimage.percentile_filter(x, 50, 3))(np.array([1.0, 3.0, 2.0]))
        array([1., 2., 2.])
    """
    share = float(percentile) + (100.0 if percentile < 0 else 0.0)
    if not 0 <= share <= 100:
        raise ArgumentError(
            "scipy.ndimage.percentile_filter: invalid percentile", fix="pass one from -100 to 100"
        )

    def rank(count: int) -> int:
        return count - 1 if share == 100 else int(count * share / 100)

    return _filtered(
        "percentile_filter", input, size, footprint, output, mode, cval, origin, axes, rank
    )
