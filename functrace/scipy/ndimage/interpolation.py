"""Spline interpolation of images; see `functrace.scipy.ndimage`.

Note [Splines of images]
    An image is first transformed to the coefficients of the spline through its elements
    (`functrace.ops.cosines`), extended beyond the edges by its mode; for modes without such a SciPy
    filter it is padded before. Then each point reads ``order + 1`` coefficients along each axis,
    weighted by the B-splines there. So the result is differentiable by the image, by the points and
    by ``cval``.

Layer: 9.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
import scipy.ndimage
import scipy.special

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer, one_axis
from functrace.ops.cosines import spline_coefficients
from functrace.ops.indexing import ARRAY, gather
from functrace.scipy.dispatch import on_traced
from functrace.scipy.ndimage.reading import Output, each, finished, image
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.typing import Array

MODES = (
    "reflect",
    "grid-mirror",
    "constant",
    "grid-constant",
    "nearest",
    "mirror",
    "grid-wrap",
    "wrap",
)
_FILTERS = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "nearest": "reflect",
    "grid-wrap": "grid-wrap",
}
"""Extension of the spline beyond the edges, by mode; mirrored for all others."""
_AHEAD = 12
"""Number of elements by which SciPy pads images for the modes "nearest" and "grid-constant"."""


def _checked(name: str, order: int, mode: str) -> None:
    if not 0 <= order <= 5:
        raise ShapeError(
            f"scipy.ndimage.{name}: spline order {order} not supported", fix="pass 0 to 5"
        )
    if mode not in MODES:
        raise ShapeError(
            f"scipy.ndimage.{name}: boundary mode {mode!r} not supported",
            fix=f"pass one of {MODES}",
        )


@on_traced(scipy.ndimage.spline_filter1d)
def spline_filter1d(
    input: Numeric[X, "*image"] | Nested,
    order: int = 3,
    axis: SupportsIndex = -1,
    output: Output = np.float64,
    mode: str = "mirror",
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.spline_filter1d``: coefficients of the spline through the elements along an
    axis.

    Args:
        input: shape (n, m, ...), real or complex.
        order: degree of the spline, 0 to 5; the coefficients are the elements for 0 and 1.
        axis: the axis of the spline.
        output: dtype of the result, or a traced array to write it into.
        mode: extension beyond the edges: "mirror", "reflect", "grid-mirror", "nearest", "wrap",
            "grid-wrap", "constant" or "grid-constant".

    Returns:
        the coefficients, of the shape of ``input``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.jit(ndimage.spline_filter1d)(np.arange(4.0)), 4)
        array([-0.6,  1.2,  1.8,  3.6])
    """
    _checked("spline_filter1d", order, mode)
    x = image("spline_filter1d", input)
    if order > 1:
        x = spline_coefficients(x, order, _FILTERS.get(mode, "mirror"), one_axis(axis, x.ndim))
    return finished("spline_filter1d", x, input, _promoted(x, output))


def _promoted(x: Array, output: Output) -> Any:
    return np.complex128 if x.dtype.kind == "c" and output is np.float64 else output


@on_traced(scipy.ndimage.spline_filter)
def spline_filter(
    input: Numeric[X, "*image"] | Nested,
    order: int = 3,
    output: Output = np.float64,
    mode: str = "mirror",
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.spline_filter``: coefficients of the spline through all elements.

    Args:
        input: shape (n, m, ...), real or complex.
        order: degree of the spline, 2 to 5.
        output: dtype of the result, or a traced array to write it into.
        mode: extension beyond the edges: "mirror", "reflect", "grid-mirror", "nearest", "wrap",
            "grid-wrap", "constant" or "grid-constant".

    Returns:
        the coefficients, of the shape of ``input``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> np.round(ft.jit(ndimage.spline_filter)(np.arange(4.0)), 4)
        array([-0.6,  1.2,  1.8,  3.6])
    """
    _checked("spline_filter", order, mode)
    if order < 2:
        raise ShapeError(
            f"scipy.ndimage.spline_filter: spline order {order} not supported", fix="pass 2 to 5"
        )
    x = image("spline_filter", input)
    for axis in range(x.ndim):
        x = spline_coefficients(x, order, _FILTERS.get(mode, "mirror"), axis)
    return finished("spline_filter", x, input, _promoted(x, output))


def _coefficients(
    x: Array, order: int, mode: str, cval: Array, prefilter: bool, axes: Sequence[int]
) -> tuple[Any, int]:
    """Return spline coefficients, and by how many elements they are padded at either end."""
    if not prefilter or order < 2:
        return x, 0
    ahead = 0
    if mode in ("nearest", "grid-constant"):
        ahead = _AHEAD
        room = [(ahead, ahead) if k in axes else (0, 0) for k in range(x.ndim)]
        x = (
            np.pad(x, room, mode="edge")
            if mode == "nearest"
            else np.pad(x, room, constant_values=cval)
        )
    for axis in axes:
        x = spline_coefficients(x, order, _FILTERS.get(mode, "mirror"), axis)
    return x, ahead


# -- one axis --------------------------------------------------------------------------------------


def _brought_in(at: Array, n: int, mode: str) -> Any:
    """Map points into an image of ``n`` elements along an axis (or just beyond) by mode."""
    if n == 1 and mode not in ("constant", "grid-constant", "nearest"):
        return at * 0.0
    if mode == "mirror":
        turned = np.mod(at, 2.0 * (n - 1))
        return np.where(turned >= np.where(at < 0, n - 1, n), 2.0 * (n - 1) - turned, turned)
    if mode in ("reflect", "grid-mirror"):
        turned = np.mod(at, 2.0 * n)
        return np.where(turned >= n, 2.0 * n - 1.0 - turned, turned)
    if mode == "grid-wrap":
        return np.mod(at, float(n))
    if mode == "wrap":
        size = float(n - 1)
        below, above = at + size * (np.floor(-at / size) + 1.0), at - size * np.floor(at / size)
        return np.where(at < 0, below, np.where(at > size, above, at))
    return at


def _neighbours(start: Array, order: int, n: int, mode: str) -> Any:
    """Return integer positions of the coefficients to read, along a new last axis."""
    at = start[..., None] + np.arange(order + 1)
    if n == 1:
        return at * 0
    if mode in ("reflect", "grid-mirror"):
        at = at % (2 * n)
        return np.where(at >= n, 2 * n - 1 - at, at)
    if mode == "grid-wrap":
        return at % n
    if mode in ("nearest", "grid-constant"):
        return np.clip(at, 0, n - 1)
    at = at % (2 * n - 2)
    return np.where(at >= n, 2 * n - 2 - at, at)


def _splines(u: Array, order: int) -> Any:
    """Return the nonzero B-splines at the fraction ``u`` between knots, along a new axis.

    Source: C. de Boor, A Practical Guide to Splines, chapter X, for integer knots.
    """
    found: list[Any] = [u * 0.0 + 1.0]
    for d in range(1, order + 1):
        saved: Any = 0.0
        row: list[Any] = []
        for r in range(d):
            part = found[r] / d
            row.append(saved + (r + 1 - u) * part)
            saved = (u + (d - 1 - r)) * part
        found = [*row, saved]
    return np.stack(found, axis=-1)


def _read(at: Array, n: int, order: int, mode: str, ahead: int) -> tuple[Any, Any, Any, Any]:
    """Return the coefficients that points read along an axis.

    Returns:
        positions and weights (with a last axis), and which points, and which positions, are inside.
    """
    at = at + float(ahead)
    outside = (at < 0) | (at > n - 1) if mode == "constant" else None
    at = _brought_in(at if outside is None else np.where(outside, 0.0, at), n, mode)
    half = at if order % 2 else at + 0.5
    floor = np.floor(half)
    start = floor.astype(np.intp) - order // 2
    weights = _splines(half - floor, order)
    missing = None
    if mode == "grid-constant":
        steps = start[..., None] + np.arange(order + 1)
        missing = (steps < 0) | (steps >= n)
    return _neighbours(start, order, n, mode), weights, outside, missing


# -- several axes ----------------------------------------------------------------------------------


def _sampled(x: Array, at: Sequence[Any], order: int, mode: str, cval: Array, ahead: int) -> Any:
    """Sample an image along its last axes at points; axes before them are a stack.

    Args:
        x: coefficients, shape (..., n, m, ...).
        at: one array of coordinates per axis, all of one shape.
    """
    count = len(at)
    sizes = x.shape[x.ndim - count :]
    index: list[Any] = []
    factors: list[Any] = []
    outside, missing = None, None
    for k, (place, n) in enumerate(zip(at, sizes, strict=True)):
        steps, weights, out, without = _read(place, n, order, mode, ahead)
        shape = (*place.shape, *[order + 1 if j == k else 1 for j in range(count)])
        index.append(steps.reshape(shape))
        factors.append(weights)
        if out is not None:
            outside = out if outside is None else outside | out
        if without is not None:
            without = without.reshape(shape)
            missing = without if missing is None else missing | without
    found = gather(x, (Ellipsis, *[ARRAY] * count), tuple(index))
    if missing is not None:
        found = np.where(missing, cval, found)
    rank = len(at[0].shape)
    for k in reversed(range(count)):
        weights = factors[k]
        found = np.sum(
            found * weights.reshape(*weights.shape[:rank], *(1,) * k, order + 1), axis=-1
        )
    return found if outside is None else np.where(outside, cval, found)


def _one_by_one(
    x: Array, at: Mapping[int, Any], order: int, mode: str, cval: Array, ahead: int
) -> Any:
    """Sample an image on a grid of points, axis by axis.

    Args:
        x: coefficients.
        at: a vector of coordinates per axis.
    """
    outside: Any = None
    if (
        mode == "grid-constant"
    ):  # a coefficient outside along one axis is cval, whatever the other axes
        x = x - cval
    for axis, places in at.items():
        steps, weights, out, missing = _read(places, x.shape[axis], order, mode, ahead)
        if missing is not None:
            weights = np.where(missing, 0.0, weights)
        moved = gather(np.moveaxis(x, axis, -1), (Ellipsis, ARRAY), (steps,))
        x = np.moveaxis(np.sum(moved * weights, axis=-1), -1, axis)
        if out is not None:
            out = out.reshape(-1, *(1,) * (x.ndim - axis - 1))
            outside = out if outside is None else outside | out
    if mode == "grid-constant":
        return x + cval
    return x if outside is None else np.where(outside, cval, x)


def _fill(name: str, cval: Operand, x: Array) -> Any:
    made: Any = arrayed(cval)
    if made.ndim:
        raise ShapeError(
            f"scipy.ndimage.{name}: cval must be one number, got shape {made.shape}",
            fix="pass a number",
        )
    return made.astype(x.dtype) if x.dtype.kind == "c" or made.dtype.kind != "c" else np.real(made)


@on_traced(scipy.ndimage.map_coordinates)
def map_coordinates(
    input: Operand,
    coordinates: Numeric[X, "d *points"] | Nested,
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
) -> Numeric[Array, "*points"]:
    """``scipy.ndimage.map_coordinates``: values of an image between its elements.

    Differentiable by the input, the coordinates and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        coordinates: positions in elements, one row per axis: shape (d, ...).
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).

    Returns:
        an array of the shape of ``coordinates`` without its first axis.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, the rows of coordinates are not as many as
            axes, or ``cval`` is not one number.
        DtypeError: if the coordinates are complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda c: ndimage.map_coordinates(np.arange(4.0) ** 2, c, order=1)[0])(np.array([[1.5]]))
        array([[3.]])

    Cost:
        ``(order + 1) ** d`` reads per point.
    """
    name = "map_coordinates"
    _checked(name, order, mode)
    x, at = image(name, input), image(name, coordinates, real=True)
    if x.ndim < 1 or at.ndim < 2:
        raise ShapeError(
            "scipy.ndimage.map_coordinates: input and output rank must be > 0",
            fix="pass rows of coordinates",
        )
    if at.shape[0] != x.ndim:
        raise ShapeError(
            f"scipy.ndimage.map_coordinates: {at.shape[0]} rows of coordinates do not fit {x.ndim} "
            "axes",
            fix="pass one row per axis",
        )
    fill = _fill(name, cval, x)
    x, ahead = _coefficients(x, order, mode, fill, prefilter, range(x.ndim))
    found = _sampled(x, [at[k] for k in range(x.ndim)], order, mode, fill, ahead)
    return finished(name, found, input, output, whole=True)


@on_traced(scipy.ndimage.shift)
def shift(
    input: Numeric[X, "*image"] | Nested,
    shift: Numeric[X, ""] | Numeric[X, "d"] | Nested,
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
) -> Numeric[Array, "*image"]:
    """``scipy.ndimage.shift``: an image moved by fractions of elements; differentiable by the
    input, the shift and ``cval``.

    Args:
        input: shape (n, m, ...), real or complex.
        shift: distance in elements, a number, or one per axis, shape (d,).
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).

    Returns:
        an array of the shape of ``input``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, there is not one shift per axis, or
            ``cval`` is not one number.
        DtypeError: if the shift is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda s: ndimage.shift(np.arange(4.0) ** 2, s, order=1)[2])(0.5)
        np.float64(-3.0)
    """
    _checked("shift", order, mode)
    x, by = image("shift", input), image("shift", shift, real=True)
    if by.ndim > 1 or (by.ndim and by.shape[0] != x.ndim) or not x.ndim:
        raise ShapeError(
            f"scipy.ndimage.shift: {by.shape} shifts do not fit {x.ndim} axes",
            fix="pass one per axis",
        )
    fill = _fill("shift", cval, x)
    sizes = x.shape
    x, ahead = _coefficients(x, order, mode, fill, prefilter, range(x.ndim))
    at = {k: np.arange(float(n)) + -(by[k] if by.ndim else by) for k, n in enumerate(sizes)}
    return finished(
        "shift", _one_by_one(x, at, order, mode, fill, ahead), input, output, whole=True
    )


@on_traced(scipy.ndimage.zoom)
def zoom(
    input: Operand,
    zoom: float | Sequence[float],
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """``scipy.ndimage.zoom``: an image of another size, between the same corners.

    Args:
        input: shape (n, m, ...), real or complex.
        zoom: the new size over the old one, or one per axis; static, as the shape of the result
            depends on it.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).
        grid_mode: True to keep the outer borders of the corner elements in place, not their
            centers.

    Returns:
        an array with round(n * zoom) elements along an axis of n.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, there is not one factor per axis, or
            ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.jit(lambda x: ndimage.zoom(x, 2.0, order=1))(np.array([0.0, 3.0]))
        array([0., 1., 2., 3.])
    """
    _checked("zoom", order, mode)
    x = image("zoom", input)
    factors = each("zoom", zoom, x.ndim)
    shape = [round(n * float(factor)) for n, factor in zip(x.shape, factors, strict=True)]
    if all(factor == 1 for factor in factors) and prefilter:
        return finished("zoom", x, input, output, whole=True)
    if grid_mode and mode in ("constant", "wrap"):
        warnings.warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is "
            "True.",
            stacklevel=3,
        )
    fill = _fill("zoom", cval, x)
    grid_mode = grid_mode and x.dtype.kind != "c"  # SciPy ignores it for complex input
    at: dict[int, Any] = {}
    for k, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        whole, parts = (n, m) if grid_mode else (n - 1, m - 1)
        step = whole / parts if parts else 1.0
        places = np.arange(float(m))
        at[k] = (places + 0.5) * step - 0.5 if grid_mode else places * step
    x, ahead = _coefficients(x, order, mode, fill, prefilter, range(x.ndim))
    return finished("zoom", _one_by_one(x, at, order, mode, fill, ahead), input, output, whole=True)


def _affine(
    x: Array,
    matrix: Array,
    offset: Array,
    shape: Sequence[int],
    order: int,
    mode: str,
    fill: Array,
    ahead: int,
) -> Any:
    """Sample coefficients along the last axes at ``matrix @ place + offset``, for a grid."""
    grid = np.indices(shape, dtype=np.float64)
    at: list[Any] = []
    for row in range(matrix.shape[0]):
        total: Any = np.zeros(tuple(shape))
        for k in range(matrix.shape[1]):
            total = total + grid[k] * matrix[row, k]
        at.append(total + offset[row])
    return _sampled(x, at, order, mode, fill, ahead)


@on_traced(scipy.ndimage.affine_transform)
def affine_transform(
    input: Operand,
    matrix: Numeric[X, "_ _"] | Numeric[X, "_"] | Nested,
    offset: Numeric[X, ""] | Numeric[X, "d"] | Nested = 0.0,
    output_shape: Sequence[int] | None = None,
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
) -> Any:
    """``scipy.ndimage.affine_transform``: values of an image at ``matrix @ position + offset``.

    Differentiable by the input, the matrix, the offset and ``cval``.

    Args:
        input: shape (n, m, ...), d axes, real or complex.
        matrix: shape (d, d), or the diagonal (d,), or homogeneous (d, d + 1) or (d + 1, d + 1).
        offset: position of the result's origin in the input, a number or d of them.
        output_shape: shape of the result; the input's by default.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).

    Returns:
        an array of shape ``output_shape``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, the matrix does not fit the image, the last
            row of a homogeneous one is not (0, ..., 0, 1), or ``cval`` is not one number.
        DtypeError: if the matrix or the offset is complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> image = np.arange(9.0).reshape(3, 3)
        >>> moved = lambda offset: np.sum(ndimage.affine_transform(image, np.eye(2), offset, order=1))
        >>> ft.grad(moved)(np.array([0.25, 0.25]))
        array([12.,  4.])
    """
    name = "affine_transform"
    _checked(name, order, mode)
    x, map_, origin = (
        image(name, input),
        image(name, matrix, real=True),
        image(name, offset, real=True),
    )
    d = x.ndim
    if output_shape is not None:
        shape = tuple(output_shape)
    else:
        shape = tuple(output.shape) if hasattr(output, "shape") else x.shape  # type: ignore[union-attr]
    if not d or map_.ndim not in (1, 2):
        raise ShapeError(
            f"scipy.ndimage.{name}: no proper affine matrix provided: shape {map_.shape}",
            fix="pass (d, d)",
        )
    if map_.ndim == 2 and map_.shape[1] == d + 1 and map_.shape[0] in (d, d + 1):
        if (
            map_.shape[0] == d + 1
            and not holds_tracer(map_)
            and not np.all(map_[d] == [0] * d + [1])
        ):
            raise ShapeError(
                f"scipy.ndimage.{name}: the bottom row of a homogeneous matrix must be [0, …, 0, "
                "1]",
                fix="make it so",
            )
        origin, map_ = map_[:d, d], map_[:d, :d]
    if map_.shape[0] != d or (map_.ndim == 2 and map_.shape[1] != len(shape)):
        raise ShapeError(
            f"scipy.ndimage.{name}: a matrix of shape {map_.shape} does not fit {d} axes",
            fix="pass (d, d)",
        )
    origin = np.broadcast_to(origin, (d,))
    fill = _fill(name, cval, x)
    x, ahead = _coefficients(x, order, mode, fill, prefilter, range(d))
    if map_.ndim == 1:
        at = {k: (np.arange(float(shape[k])) + origin[k] / map_[k]) * map_[k] for k in range(d)}
        found = _one_by_one(x, at, order, mode, fill, ahead)
    else:
        found = _affine(x, map_, origin, shape, order, mode, fill, ahead)
    return finished(name, found, input, output, whole=True)


@on_traced(scipy.ndimage.rotate)
def rotate(
    input: Numeric[X, "*rest n m"] | Nested,
    angle: Operand,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
) -> Any:
    """``scipy.ndimage.rotate``; differentiable by the input, and with ``reshape=False`` by the
    angle, in degrees.

    Args:
        input: shape (n, m, ...), at least two axes, real or complex.
        angle: in degrees; a traced one only with ``reshape=False``.
        axes: the two axes of the plane of rotation.
        reshape: True for a result that contains the whole turned image; False to keep its shape.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).

    Returns:
        an array of the shape of ``input``, or with other sizes along the two axes for ``reshape``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, there are not two axes, ``angle`` is traced
            with ``reshape=True``, or ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> image = np.arange(9.0).reshape(3, 3)
        >>> turned = lambda angle: ndimage.rotate(image, angle, reshape=False, order=1)[0, 1]
        >>> np.round(ft.grad(turned)(10.0), 4)
        np.float64(0.0263)
    """
    _checked("rotate", order, mode)
    x = image("rotate", input)
    if x.ndim < 2 or len(axes) != 2:
        raise ShapeError(
            "scipy.ndimage.rotate: input array should be at least 2D, and axes two of them",
            fix="pass two axes",
        )
    plane = sorted(one_axis(k, x.ndim) for k in axes)
    if holds_tracer(angle):
        if reshape:
            raise ShapeError(
                "scipy.ndimage.rotate: with reshape=True the shape of the result depends on the "
                "angle",
                fix="pass reshape=False",
            )
        turn = image("rotate", angle, real=True) * (np.pi / 180)
        c, s = np.cos(turn), np.sin(turn)
    else:
        c, s = scipy.special.cosdg(angle), scipy.special.sindg(angle)
    sizes = np.array([x.shape[k] for k in plane])
    shape = sizes
    if reshape:
        corners = np.array([[c, s], [-s, c]]) @ np.array(
            [[0, 0, sizes[0], sizes[0]], [0, sizes[1], 0, sizes[1]]]
        )
        shape = (np.ptp(corners, axis=1) + 0.5).astype(int)
    turned = np.stack([np.stack([c, s]), np.stack([-s, c])])
    offset = (sizes - 1) / 2 - turned @ ((shape - 1) / 2)
    fill = _fill("rotate", cval, x)
    x = np.moveaxis(x, plane, (-2, -1))
    x, ahead = _coefficients(x, order, mode, fill, prefilter, (x.ndim - 2, x.ndim - 1))
    found = _affine(x, turned, offset, [int(n) for n in shape], order, mode, fill, ahead)
    return finished("rotate", np.moveaxis(found, (-2, -1), plane), input, output, whole=True)


@on_traced(scipy.ndimage.geometric_transform)
def geometric_transform(
    input: Operand,
    mapping: Callable[..., Sequence[float]],
    output_shape: Sequence[int] | None = None,
    output: Output | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Operand = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Operand, ...] = (),
    extra_keywords: Mapping[str, Operand] | None = None,
) -> Any:
    """``scipy.ndimage.geometric_transform``: values of an image at positions that a function
    computes.

    Differentiable by the input, ``cval``, and what the function captures or takes as extra
    arguments.

    Args:
        input: shape (n, m, ...), real or complex.
        mapping: a function from a tuple of integers, a position in the result, to d numbers, the
            position in the input; called once per element.
        output_shape: shape of the result; the input's by default.
        output: dtype of the result, the input's by default; or a traced array to write it into.
        order: degree of the spline, 0 to 5. With 0 the result is piecewise constant, without
            derivative by positions.
        mode: extension beyond the edges: "constant", "grid-constant", "nearest", "mirror",
            "reflect", "grid-mirror", "wrap" or "grid-wrap".
        cval: value beyond the edges for the first two.
        prefilter: True if the input is an image; False if it has the spline's coefficients
            (`spline_filter`).
        extra_arguments, extra_keywords: further arguments of ``mapping``.

    Returns:
        an array of shape ``output_shape``.

    Raises:
        ShapeError: if ``order`` or ``mode`` is unknown, positions do not have one number per axis,
            or ``cval`` is not one number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import ndimage
        >>> ft.grad(lambda x: ndimage.geometric_transform(x, lambda at: (at[0] - 0.5,), order=1)[1])(np.arange(3.0))
        array([0.5, 0.5, 0. ])
    """
    given: Any = arrayed(input)
    shape = tuple(given.shape if output_shape is None else output_shape)
    rows = [
        np.stack(
            [
                np.asarray(c) if not holds_tracer(c) else c
                for c in mapping(place, *extra_arguments, **(extra_keywords or {}))
            ]
        )
        for place in itertools.product(*map(range, shape))
    ]
    at = np.stack(rows, axis=1).reshape(-1, *shape)
    return map_coordinates(input, at, output, order, mode, cval, prefilter)
