"""The rows of resampling: ``interpolate``, ``grid_sample``, ``unfold`` and relatives.

``interpolate`` applies one sparse matrix per axis (`functrace.ops.windows.map_axis`). ``grid_sample``
is composed of the core's gather and arithmetic, and so is its derivative.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul
from functrace.ops.indexing import ARRAY, index_static
from functrace.ops.indexing import gather as core_gather
from functrace.ops.shaping import convert, permute
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.windows import col2im, im2col, map_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import pooling
from functrace.torch.functions.spatial import (
    Sizes,
    check_kinds,
    each,
    integer,
    integers,
    keeping_channels_last,
)
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = FunctionTable()


def _named(function: Callable[..., Any], name: str, says: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = says
    return function


# -- interpolation ---------------------------------------------------------------------------------

Scales = tuple[float | None, ...]


def _ratio(n: int, count: int, scale: float | None) -> float:
    """Return the step in the input per element of the output."""
    return n / count if scale is None or scale <= 0 else 1.0 / scale


def _nearest(exact: bool) -> Callable[..., Any]:
    def function(given: Array, counts: tuple[int, ...], scales: Scales) -> Any:
        x = given
        for k in range(len(counts) - 1, -1, -1):
            axis = x.ndim - len(counts) + k
            n, count = x.shape[axis], counts[k]
            if n != count or scales[k] not in (None, 1.0):
                how = ("nearest", n, count, _ratio(n, count, scales[k]), exact)
                x = map_axis(x, axis, how)
        if x is not given:
            return x
        return ew.mul(x, 1) if x.dtype == np.uint8 else ew.mul(x, 1.0)

    return function


def _smooth(kind: str) -> Callable[..., Any]:
    def function(x: Array, counts: tuple[int, ...], scales: Scales, corners: bool) -> Any:
        dtype = x.dtype
        if dtype == np.uint8:
            return _of_bytes(x, counts, scales, corners, kind)
        if dtype == np.float16:
            x = convert(x, np.float32)
        for k in range(len(counts) - 1, -1, -1):
            axis = x.ndim - len(counts) + k
            n, count = x.shape[axis], counts[k]
            ratio = _ratio(n, count, scales[k])
            how = (kind, n, count, ratio, corners, x.dtype == np.float64)
            if kind in ("linear smoothed", "cubic smoothed", "lanczos smoothed"):
                how = ("smoothed", n, count, ratio, corners, kind.split()[0])
            x = map_axis(x, axis, how)
        return convert(x, dtype) if x.dtype != dtype else x

    return function


def _of_bytes(x: Array, counts: tuple[int, ...], scales: Scales, corners: bool, kind: str) -> Any:
    """Interpolate uint8 images: weights are rounded, and so is the result of each axis."""
    for k in range(len(counts) - 1, -1, -1):
        axis = x.ndim - len(counts) + k
        n, count = x.shape[axis], counts[k]
        if n == count:
            continue
        how = ("fixed point", n, count, _ratio(n, count, scales[k]), corners, kind)
        # float64 holds the sums without rounding
        sums = map_axis(convert(x, np.float64), axis, how)
        x = convert(ew.clip(ew.floor(ew.add(sums, 0.5)), 0.0, 255.0), np.uint8)
    return x


def _letters(axes: int) -> list[str]:
    return ["scales"] if axes == 1 else [f"scales_{c}" for c in "dhw"[-axes:]]


def _details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    counts, scales, *corners = params
    found = {"output_size": counts, "self_sym_sizes": specs[0].shape}
    if corners:
        found["align_corners"] = corners[0]
    return found | dict(zip(_letters(len(counts)), scales, strict=True))


def _op(node: str, function: Callable[..., Any], called: str) -> Op:
    laid = keeping_channels_last(function)
    return Op(f"Upsample{node}Backward0", laid, details=_details, called=called)


_EXACT = {False: "", True: "Exact"}
NEAREST = {
    (axes, exact): _op(
        f"Nearest{_EXACT[exact]}{axes}D",
        _nearest(exact),
        f"_upsample_nearest_exact{axes}d" if exact else f"upsample_nearest{axes}d",
    )
    for axes in (1, 2, 3)
    for exact in (False, True)
}
SMOOTH = {
    "linear": _op("Linear1D", _smooth("linear"), "upsample_linear1d"),
    "bilinear": _op("Bilinear2D", _smooth("linear"), "upsample_bilinear2d"),
    "trilinear": _op("Trilinear3D", _smooth("linear"), "upsample_trilinear3d"),
    "bicubic": _op("Bicubic2D", _smooth("cubic"), "upsample_bicubic2d"),
    "bilinear aa": _op("Bilinear2DAa", _smooth("linear smoothed"), "_upsample_bilinear2d_aa"),
    "bicubic aa": _op("Bicubic2DAa", _smooth("cubic smoothed"), "_upsample_bicubic2d_aa"),
    "lanczos aa": _op("Lanczos2DAa", _smooth("lanczos smoothed"), "_upsample_lanczos2d_aa"),
}
_AXES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}
_KERNELS = {
    "linear": "compute_indices_weights_linear",
    "bilinear": "upsample_bilinear2d_channels_last",
    "trilinear": "compute_indices_weights_linear",
    "bicubic": "compute_indices_weights_cubic",
    "lanczos": "compute_indices_weights_lanczos",
}


def _check_upsampled(shape: tuple[int, ...], counts: tuple[int, ...]) -> None:
    """Check sizes before and after.

    Raises:
        RuntimeError: if one is 0.
    """
    axes = len(counts)
    if len(shape) != axes + 2:
        raise RuntimeError(
            f"It is expected input_size equals to {axes + 2}, but got size {len(shape)}"
        )
    if min(shape[2:]) <= 0 or min(counts) <= 0:
        before, after = (
            ", ".join(f"{c}: {n}" for c, n in zip("DHW"[-axes:], sizes, strict=True))
            for sizes in (shape[2:], counts)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({before})"
            f"{' and' * (axes == 1)} output ({after})"
        )
    if math.prod((*shape[:2], *counts)) >= 1 << 61:
        sizes = [*shape[:2], *counts]
        raise RuntimeError(f"Storage size calculation overflowed with sizes={sizes}")
    if shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {axes + 2}D data tensor expected but got a tensor with sizes {list(shape)}"
        )


def _resized(
    mode: str,
    input: Operand,
    counts: tuple[int, ...],
    scales: Scales,
    corners: bool,
    antialias: bool,
) -> Value:
    axes = len(counts)
    _check_upsampled(f.shape_of(input), counts)
    if mode in ("nearest", "nearest-exact"):
        kernel = "upsample_nearest2d_channels_last" if axes == 2 else ""
        uint8 = np.dtype(np.uint8)
        check_kinds(input, "f", kernel or "compute_indices_weights_nearest", uint8)
        return apply(NEAREST[axes, mode == "nearest-exact"], (input,), (counts, scales))
    if not (axes == 2 and f.dtype_of(input) == np.uint8):
        check_kinds(input, "f", _KERNELS[mode])
    if mode == "lanczos" and corners:
        raise RuntimeError("Lanczos mode does not support align_corners=True")
    op = SMOOTH[f"{mode} aa" if antialias else mode]
    return apply(op, (input,), (counts, scales, bool(corners)))


_ALIGNING = "linear | bilinear | bicubic | trilinear"
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def _listed(name: str, value: object, shape: tuple[int, ...]) -> list[Any]:
    """Return a size or scale factor for each axis.

    Raises:
        ValueError: if there are more or fewer than axes.
    """
    axes = len(shape) - 2
    if not isinstance(value, (tuple, list)):
        return [value] * axes
    if len(value) != axes:
        if name == "size":
            name, what, given = "output", "output size of", "output size in (o1, o2, ...,oK)"
        else:
            name, what, given = name, "scale_factor of shape", "scale_factor in (s1, s2, ...,sK)"
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(shape[2:])} and {what} {value}. Please provide input "
            f"tensor in (N, C, d1, d2, ...,dK) format and {given} format."
        )
    return list(value)


def _sizes_of(
    shape: tuple[int, ...], size: object, scale_factor: object, mode: str, recompute: bool | None
) -> tuple[tuple[int, ...], Scales]:
    """Return the sizes of the output, and the scale factors as they are used.

    Raises:
        ValueError, TypeError: for arguments that do not fit.
    """
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        sizes = _listed("size", size, shape)
        if isinstance(size, (tuple, list)) and not all(
            f.dtype_of(n).kind in "iu"
            if isinstance(n, Tensor)
            else isinstance(n, (int, np.integer))
            for n in sizes
        ):
            kinds = [type(n) for n in size]
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, "
                f"int, int], but got size with types {kinds}"
            )
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        found = tuple([integer("interpolate", "size", n) for n in sizes])
        return found, (None,) * len(found)
    scales = [float(s) for s in _listed("scale_factor", scale_factor, shape)]
    exact = [float(n) * s for n, s in zip(shape[2:], scales, strict=True)]
    if not all(abs(n) < 1 << 63 for n in exact):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    found = tuple([math.floor(n) for n in exact])
    used = recompute or mode == "area"
    return found, (None,) * len(found) if used else tuple(scales)


@ROWS.function("nn.functional")
def interpolate(
    input: Operand,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Value:
    """Return images with other sizes.

    Args:
        input: shape (N, C, *sizes), with one to three sizes.
        size: sizes of the result, for all axes or each.
        scale_factor: or factors of the sizes.
        mode: ``"nearest"``, ``"nearest-exact"`` (from centers), ``"linear"`` (1 axis),
            ``"bilinear"``, ``"bicubic"``, ``"lanczos"`` (2), ``"trilinear"`` (3), ``"area"``
            (means).
        align_corners: True if the first and last elements stay where they are.
        recompute_scale_factor: True to compute positions from the sizes, not from the factors.
        antialias: True for means over as much as a step, where images become smaller.
    """
    f.tensors_only("interpolate", input=input)
    shape = f.shape_of(input)
    axes = len(shape) - 2
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: " + _ALIGNING
        )
    counts, scales = _sizes_of(shape, size, scale_factor, mode, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and axes == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if 1 <= axes <= 3:
        if mode in ("nearest", "nearest-exact"):
            return _resized(mode, input, counts, scales, False, False)
        if mode == "area":
            pools: tuple[Any, ...] = (
                pooling.adaptive_avg_pool1d,
                pooling.adaptive_avg_pool2d,
                pooling.adaptive_avg_pool3d,
            )
            return pools[axes - 1](input, counts)
        if _AXES.get(mode) == axes:
            return _resized(mode, input, counts, scales, bool(align_corners), antialias)
        if mode in ("linear", "bilinear", "trilinear"):
            raise NotImplementedError(
                f"Got {len(shape)}D input, but {mode} mode needs {_AXES[mode] + 2}D input"
            )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {len(shape)}D) for the "
        f"modes: {_MODES} (got {mode})"
    )


@ROWS.function("nn.functional")
def upsample(
    input: Operand,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Value:
    """Return images with other sizes: `interpolate` under its old name."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


@ROWS.function("nn.functional")
def upsample_nearest(input: Operand, size: object = None, scale_factor: object = None) -> Value:
    """Return ``interpolate(input, size, scale_factor, "nearest")``."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


@ROWS.function("nn.functional")
def upsample_bilinear(input: Operand, size: object = None, scale_factor: object = None) -> Value:
    """Return ``interpolate`` with mode ``"bilinear"`` and aligned corners."""
    warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _of_c(name: str, mode: str, axes: int, antialias: bool = False) -> None:
    """Add the function that PyTorch's ``interpolate`` calls."""

    def run(input: Operand, output_size: object, corners: bool, scales: tuple[Any, ...]) -> Value:
        f.tensors_only(name, input=input)
        shape = f.shape_of(input)
        apart = len(scales) == axes and not any(isinstance(s, (tuple, list)) for s in scales)
        if apart and output_size is not None:
            counts = integers(name, "output_size", output_size)
            return _resized(mode, input, counts, scales, corners, antialias)
        factors: Any = scales[0] if scales else None
        if (output_size is None) == (factors is None):
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        if output_size is None:
            every = zip(shape[2:], factors, strict=True)
            counts = tuple([math.floor(float(n) * s) for n, s in every])
            return _resized(mode, input, counts, tuple(map(float, factors)), corners, antialias)
        counts = integers(name, "output_size", output_size)
        return _resized(mode, input, counts, (None,) * axes, corners, antialias)

    def nearest(input: Operand, output_size: object, *scale_factors: object) -> Value:
        return run(input, output_size, False, scale_factors)

    def smooth(
        input: Operand, output_size: object, align_corners: bool, *scale_factors: object
    ) -> Value:
        return run(input, output_size, align_corners, scale_factors)

    function = nearest if "nearest" in mode else smooth
    ROWS.function("_C._nn")(_named(function, name, f"Return `interpolate` with mode {mode!r}."))


for _axes in (1, 2, 3):
    _of_c(f"upsample_nearest{_axes}d", "nearest", _axes)
    _of_c(f"_upsample_nearest_exact{_axes}d", "nearest-exact", _axes)
for _mode, _axes in _AXES.items():
    if _mode != "lanczos":
        _of_c(f"upsample_{_mode}{_axes}d", _mode, _axes)
for _mode in ("bilinear", "bicubic", "lanczos"):
    _of_c(f"_upsample_{_mode}2d_aa", _mode, 2, antialias=True)


# -- sampling at points ----------------------------------------------------------------------------

_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_ALL = (None, None, None)


def _unnormalized(g: Array, n: int, corners: bool) -> Any:
    """Return positions from coordinates in [-1, 1]."""
    if corners:
        return ew.mul(ew.div(ew.add(g, 1.0), 2.0), float(n - 1))
    return ew.div(ew.sub(ew.mul(ew.add(g, 1.0), float(n)), 1.0), 2.0)


def _clipped(p: Array, n: int) -> Any:
    """Return positions inside; the derivative is 0 at the first and last one, and outside."""
    top = float(n - 1)
    inside = ew.where(ew.greater_equal(p, top), top, p)
    # nan is outside, too
    return ew.where(ew.greater(p, 0.0), inside, 0.0)


def _mirrored(p: Array, n: int, corners: bool) -> Any:
    """Return positions reflected at the borders until they are inside."""
    low, span = (0.0, float(n - 1)) if corners else (-0.5, float(n))
    if span == 0:
        return ew.mul(p, 0.0)
    distance = ew.sub(p, low)
    distance = ew.where(ew.less(distance, 0.0), ew.neg(distance), distance)
    flips = ew.floor(ew.div(distance, span))
    rest = ew.sub(distance, ew.mul(flips, span))
    is_odd = ew.not_equal(ew.mul(ew.floor(ew.div(flips, 2.0)), 2.0), flips)
    return ew.add(ew.where(is_odd, ew.sub(span, rest), rest), low)


def _placed(p: Array, n: int, padding: int, corners: bool) -> Any:
    """Return positions as the padding wants them."""
    if padding == 2:
        p = _mirrored(p, n, corners)
    return p if padding == 0 else _clipped(p, n)


def _weights(t: Array) -> list[Any]:
    """Return the four weights of cubic interpolation at distance ``t`` from the second element."""
    a = -0.75

    def near(d: Array) -> Any:
        return ew.add(ew.mul(ew.mul(ew.sub(ew.mul(d, a + 2), a + 3), d), d), 1.0)

    def far(d: Array) -> Any:
        inner = ew.add(ew.mul(ew.sub(ew.mul(d, a), 5 * a), d), 8 * a)
        return ew.sub(ew.mul(inner, d), 4 * a)

    back = ew.sub(1.0, t)
    return [far(ew.add(t, 1.0)), near(t), near(back), far(ew.add(back, 1.0))]


class _Reader:
    """Reads images at integer positions.

    Args:
        x: images (N, C, *sizes).
        count: number of points of an image.
    """

    def __init__(self, x: Array, count: int) -> None:
        self.sizes = x.shape[2:]
        n, c = x.shape[:2]
        # Rows of channels: they are read, and added to in the derivative, as a whole.
        line = core_reshape(x, (n, c, math.prod(self.sizes)))
        self.rows = permute(line, (0, 2, 1))
        self.images: Any = np.broadcast_to(np.arange(n)[:, None], (n, count))

    def at(self, places: Sequence[Array]) -> tuple[Any, Any]:
        """Return elements (N, points, C), and which points are inside, (N, points)."""
        flat: Any = None
        inside: Any = None
        for p, n in zip(places, self.sizes, strict=True):
            within = ew.logical_and(ew.greater_equal(p, 0.0), ew.less_equal(p, float(n - 1)))
            inside = within if inside is None else ew.logical_and(inside, within)
            k = convert(ew.where(within, p, 0.0), np.int64)
            flat = k if flat is None else ew.add(ew.mul(flat, n), k)
        return core_gather(self.rows, (ARRAY, ARRAY), (self.images, flat)), inside


def _sampled(x: Array, grid: Array, mode: int, padding: int, corners: bool) -> Any:
    dtype = x.dtype
    if dtype == np.float16:
        x, grid = convert(x, np.float32), convert(grid, np.float32)
    axes, (n, *counts, _) = x.ndim - 2, grid.shape
    count = math.prod(counts)
    points = core_reshape(grid, (n, count, axes))
    reader = _Reader(x, count)
    places: list[Any] = []
    for k, size in enumerate(x.shape[2:]):
        # The last coordinate belongs to the first axis.
        j = axes - 1 - k
        column = core_reshape(index_static(points, (_ALL, _ALL, (j, j + 1, None))), (n, count))
        p = _unnormalized(column, size, corners)
        places.append(p if mode == 2 else _placed(p, size, padding, corners))
    if mode == 1:
        values, inside = reader.at([ew.rint(p) for p in places])
        total = ew.where(core_reshape(inside, (n, count, 1)), values, 0.0)
    else:
        total = _interpolated(reader, places, mode, padding, corners, x.shape[2:])
    y = core_reshape(permute(total, (0, 2, 1)), (n, x.shape[1], *counts))
    return convert(y, dtype) if y.dtype != dtype else y


def _interpolated(
    reader: _Reader,
    places: Sequence[Array],
    mode: int,
    padding: int,
    corners: bool,
    sizes: Sequence[int],
) -> Any:
    """Return the sum of the elements around each point by weights, (N, points, C)."""
    first = [ew.floor(p) for p in places]
    taps: list[list[tuple[Any, Any]]] = []  # of each axis, positions and weights
    for p, low, size in zip(places, first, sizes, strict=True):
        t = ew.sub(p, low)
        if mode == 0:
            taps.append([(low, ew.sub(1.0, t)), (ew.add(low, 1.0), t)])
        else:
            spots = [_placed(ew.add(low, float(d)), size, padding, corners) for d in (-1, 0, 1, 2)]
            taps.append(list(zip(spots, _weights(t), strict=True)))
    total: Any = None
    for corner in np.ndindex(*[len(each_) for each_ in taps]):
        chosen = [options[k] for options, k in zip(taps, corner, strict=True)]
        weight = chosen[0][1]
        for _, w in chosen[1:]:
            weight = ew.mul(weight, w)
        values, inside = reader.at([place for place, _ in chosen])
        weight = ew.where(inside, weight, 0.0)
        term = ew.mul(values, core_reshape(weight, (*weight.shape, 1)))
        total = term if total is None else ew.add(total, term)
    return total


GRID_SAMPLER = {
    axes: Op(
        f"GridSampler{axes}DBackward0",
        _sampled,
        (("grid", 1), ("input", 0)),
        keeps=("grid", "input"),
        details=lambda specs, params: dict(
            zip(("interpolation_mode", "padding_mode", "align_corners"), params, strict=True)
        ),
        in_rows=True,
        called=f"grid_sampler_{axes}d",
    )
    for axes in (2, 3)
}


@ROWS.function("function", aliases="grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback")
def grid_sampler(
    input: Operand,
    grid: Operand,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    """Return `grid_sample`, with numbers for the modes."""
    f.tensors_only("grid_sampler", input=input, grid=grid)
    shape, points = f.shape_of(input), f.shape_of(grid)
    axes = len(shape) - 2
    if not points or not shape or shape[0] != points[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(shape)} and grid with sizes {list(points)}"
        )
    if points[-1] != axes:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {axes} in last dimension, but got grid "
            f"with sizes {list(points)}"
        )
    for k in range(2, len(shape)):
        if shape[k] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(shape)} with dimension {k} being empty"
            )
    if axes not in (2, 3) or len(points) != len(shape):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {list(shape)} and grid with sizes {list(points)}"
        )
    if axes == 3 and interpolation_mode == 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if f.dtype_of(grid) != f.dtype_of(input):
        x, g = (DTYPES[f.dtype_of(v)].printed for v in (input, grid))
        raise RuntimeError(errors.scalar_types(x, g))
    kernel = "grid_sampler_2d_cpu_kernel_impl" if axes == 2 else "grid_sampler3d_cpu"
    check_kinds(input, "f", kernel)
    params = (int(interpolation_mode), int(padding_mode), bool(align_corners))
    return apply(GRID_SAMPLER[axes], (input, grid), params)


_CORNERS_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)


@ROWS.function("nn.functional")
def grid_sample(
    input: Operand,
    grid: Operand,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Value:
    """Return images at the points of a grid.

    Args:
        input: shape (N, C, H, W) or (N, C, D, H, W).
        grid: points (x, y) or (x, y, z) from -1 to 1, shape (N, H', W', 2) or (N, D', H', W', 3).
        mode: ``"bilinear"``, ``"nearest"``, or ``"bicubic"`` (two axes only).
        padding_mode: for points outside, ``"zeros"``, ``"border"`` (the nearest element), or
            ``"reflection"``.
        align_corners: True if -1 and 1 are the centers of the first and last element, False if
            they are the borders.
    """
    if mode not in _INTERPOLATIONS:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warn(_CORNERS_CHANGED)
    modes = _INTERPOLATIONS.index(mode), _PADDINGS.index(padding_mode)
    return grid_sampler(input, grid, *modes, bool(align_corners))


def _base(size: tuple[int, ...], corners: bool, dtype: np.dtype[Any]) -> Any:
    """Return the homogeneous coordinates of all points, (points, axes + 1)."""
    lines: list[Any] = []
    for n in size[2:]:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        lines.append(line if corners else line * (n - 1) / n)
    mesh = np.meshgrid(*lines, indexing="ij")
    return np.stack([*[m.ravel() for m in reversed(mesh)], np.ones(mesh[0].size)], 1).astype(dtype)


def _affine(theta: Array, size: tuple[int, ...], corners: bool) -> Any:
    n, axes = theta.shape[0], len(size) - 2
    points = matmul(_base(size, corners, theta.dtype), permute(theta, (0, 2, 1)))
    return core_reshape(points, (n, *size[2:], axes))


AFFINE_GRID = Op(
    "AffineGridGeneratorBackward0",
    _affine,
    details=lambda specs, params: {"size": params[0], "align_corners": params[1]},
    in_rows=True,
)


@ROWS.function("function")
def affine_grid_generator(theta: Operand, size: Sequence[int], align_corners: bool) -> Value:
    """Return `affine_grid`."""
    f.tensors_only("affine_grid_generator", theta=theta)
    numbers = integers("affine_grid_generator", "size", size)
    shape, axes = f.shape_of(theta), len(numbers) - 2
    if axes not in (2, 3):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    if len(shape) != 3 or shape[1:] != (axes, axes + 1) or shape[0] != numbers[0]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{numbers[0]}, {axes + 1}] but got: [{shape[0]}, {shape[-1]}]."
        )
    return apply(AFFINE_GRID, (theta,), (numbers, bool(align_corners)))


@ROWS.function("nn.functional")
def affine_grid(theta: Operand, size: Sequence[int], align_corners: bool | None = None) -> Value:
    """Return the grid of an affine map, for `grid_sample`.

    Args:
        theta: matrices, shape (N, 2, 3) or (N, 3, 4).
        size: sizes (N, C, H, W) or (N, C, D, H, W) of the images to sample.
        align_corners: see `grid_sample`.
    """
    f.tensors_only("affine_grid", theta=theta)
    if align_corners is None:
        warn(_CORNERS_CHANGED)
        align_corners = False
    dtype, shape, sizes = f.dtype_of(theta), f.shape_of(theta), tuple(size)
    if dtype.kind not in "fcV":
        raise ValueError(f"Expected theta to have floating point type, but got torch.{dtype.name}")
    axes = len(sizes) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if len(shape) != 3 or shape[1:] != (axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size "
            f"{size}. Got torch.Size({list(shape)})."
        )
    if align_corners and min(sizes[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details."
        )
    elif min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, sizes, align_corners)


# -- columns ---------------------------------------------------------------------------------------

_COLUMNS = ("kernel_size", "dilation", "padding", "stride")


def _pairs(name: str, given: dict[str, Any]) -> list[tuple[int, int]]:
    """Return two numbers for each argument.

    Raises:
        RuntimeError: if there are more or fewer, or they are too small.
    """
    found: list[Any] = []
    for argument, value in given.items():
        numbers = each(name, argument, value, 2)
        if len(numbers) != 2:
            raise RuntimeError(
                f"It is expected {argument} equals to 2, but got size {len(numbers)}"
            )
        found.append(numbers)
    words = {"kernel_size": ("kernel size", "kernel"), "dilation": ("dilation", "dilation"),
             "padding": ("padding", "pad"), "stride": ("stride", "stride")}  # fmt: skip
    for argument in ("kernel_size", "dilation", "padding", "stride"):
        numbers = found[list(given).index(argument)]
        if min(numbers) < (0 if argument == "padding" else 1):
            word, short = words[argument]
            least = "non-negative" if argument == "padding" else "greater than zero"
            raise RuntimeError(
                f"{word} should be {least}, but got {short}_height: {numbers[0]} {short}_width: "
                f"{numbers[1]}"
            )
    return found


def _windows_of(sizes: Sequence[int], params: Sequence[tuple[int, int]]) -> list[int]:
    kernel, dilation, padding, stride = params
    every = zip(sizes, kernel, dilation, padding, stride, strict=True)
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in every]


def _unfolded(x: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    batched = x if x.ndim == 4 else core_reshape(x, (1, *x.shape))
    y = im2col(batched, kernel, stride, padding, dilation)
    return y if x.ndim == 4 else core_reshape(y, y.shape[1:])


def _folded(x: Array, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    batched = x if x.ndim == 3 else core_reshape(x, (1, *x.shape))
    y = col2im(batched, sizes, kernel, stride, padding, dilation)
    return y if x.ndim == 3 else core_reshape(y, y.shape[1:])


IM2COL = Op(
    "Im2ColBackward0",
    _unfolded,
    called="im2col",
    details=lambda specs, params: (
        dict(zip(_COLUMNS, params, strict=True))
        | {f"self_sym_argsize_minus_{k}": specs[0].shape[-k] for k in (1, 2)}
    ),
    in_rows=True,
)
COL2IM = Op(
    "Col2ImBackward0",
    _folded,
    called="col2im",
    details=lambda specs, params: dict(zip(_COLUMNS, params[1:], strict=True)),
    in_rows=True,
)


@ROWS.function("nn.functional")
def unfold(
    input: Operand,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Value:
    """Return all windows of images as columns.

    Args:
        input: shape (N, C, H, W) or (C, H, W).
        kernel_size: sizes of a window.
        dilation: steps inside of a window.
        padding: zeros around the images.
        stride: steps from window to window.

    Returns:
        shape (N, C * elements of a window, windows), or without N.
    """
    f.tensors_only("unfold", input=input)
    shape = f.shape_of(input)
    given = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    params = _pairs("unfold", given)
    if len(shape) == 2:
        raise IndexError(errors.dimension_range(2, 2))
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    counts = _windows_of(shape[-2:], params)
    if min(counts) < 1:
        size = tuple(shape[-2:])
        kernel, steps, around, _ = params
        raise RuntimeError(
            f"Given input with spatial size {size}, kernel_size={kernel}, dilation={steps}, "
            f"padding={around}, calculated shape of the array of sliding blocks as "
            f"{tuple(counts)}, but its components must be at least one."
        )
    check_kinds(input, "bfc", "im2col_out_cpu")
    return apply(IM2COL, (input,), tuple(params))


@ROWS.function("nn.functional")
def fold(
    input: Operand,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Value:
    """Return images, to which windows are added: the transpose of `unfold`.

    Args:
        input: shape (N, C * elements of a window, windows), or without N.
        output_size: sizes of the images.
        kernel_size: sizes of a window.
        dilation: steps inside of a window.
        padding: elements left out around the images.
        stride: steps from window to window.
    """
    f.tensors_only("fold", input=input)
    shape = f.shape_of(input)
    given = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    params = _pairs("fold", given)
    sizes = each("fold", "output_size", output_size, 2)
    if len(sizes) != 2:
        raise RuntimeError(f"It is expected output_size equals to 2, but got size {len(sizes)}")
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    kernel, steps, around, stride_ = params
    first = len(shape) - 2
    if shape[first] % math.prod(kernel):
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[first]} and kernel_size={kernel}."
        )
    counts = _windows_of(sizes, params)
    if shape[-1] == math.prod(counts) and min(counts) < 1:
        raise RuntimeError(
            f"Given output_size={tuple(sizes)}, kernel_size={kernel}, dilation={steps}, "
            f"padding={around}, stride={stride_}, calculated shape of the array of sliding blocks "
            f"as {tuple(counts)}, which is too small (non-positive)"
        )
    if shape[-1] != math.prod(counts):
        raise RuntimeError(
            f"Given output_size={tuple(sizes)}, kernel_size={kernel}, dilation={steps}, "
            f"padding={around}, stride={stride_}, expected size of input's dimension 2 to match "
            f"the calculated number of sliding blocks {counts[0]} * {counts[1]} = "
            f"{math.prod(counts)}, but got input.size(2)={shape[-1]}."
        )
    check_kinds(input, "bfc", "col2im_out_cpu")
    return apply(COL2IM, (input,), (tuple(sizes), *params))


@ROWS.function("_C._nn", name="im2col")
def im2col_(
    input: Operand, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Value:
    """Return `unfold`."""
    return unfold(input, kernel_size, dilation, padding, stride)


@ROWS.function("_C._nn", name="col2im")
def col2im_(
    input: Operand,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes,
    padding: Sizes,
    stride: Sizes,
) -> Value:
    """Return `fold`."""
    return fold(input, output_size, kernel_size, dilation, padding, stride)
