"""The rows of arrangements: stacks of rows and columns, splits, windows, rotations, differences,
integrals of samples, blocks and combinations.

Layer: 9.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, index_static, scatter_set
from functrace.ops.joining import concatenate
from functrace.ops.shaping import permute as core_permute
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import arithmetic, common_dtype, floating, for_kinds
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, products, reductions, shaping
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of
from functrace.torch.functions.reductions import Extreme
from functrace.torch.functions.statistics import nansum
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.steps import view_written
from functrace.torch.tensors.strides import Geometry, stride_rule
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh, wrap
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)
_NAMED = {row.name: row.function for row in f.ROWS}
_RUNNING = {row.name: row.function for row in picking.ROWS}
cumsum, cumprod = _RUNNING["cumsum"], _RUNNING["cumprod"]


def _number_field(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
    return {"other": specs[1][1]}


MUL_NUMBER = Op(
    "MulBackward1",
    ew.mul,
    promote=arithmetic,
    edges=(0,),
    static_numbers=True,
    details=_number_field,
)
DIV_NUMBER = Op(
    "DivBackward1",
    ew.div,
    promote=floating,
    edges=(0,),
    static_numbers=True,
    details=_number_field,
)


def _part(x: Operand, dim: int, start: int, stop: int) -> Any:
    """Return a slice of a dimension."""
    return apply(shaping.SLICE, (x,), ((*(_ALL,) * dim, (start, stop, 1), ...),))


# -- more dimensions -------------------------------------------------------------------------------


def _at_least(count: int) -> None:
    def one(x: Operand) -> Any:
        ndim = len(shape_of(x))
        if ndim >= count:
            return x
        if ndim == 0:
            return shaping.view(x, (1,) * count)
        if count == 2:
            return shaping.unsqueeze(x, 0)
        return shaping.unsqueeze(shaping.unsqueeze(x, 0) if ndim == 1 else x, -1)

    def function(*tensors: Any) -> Any:
        given = tensors
        if len(tensors) == 1:
            if not isinstance(tensors[0], (tuple, list)):
                f.tensors_only(f"atleast_{count}d", tensor=tensors[0])
                return one(tensors[0])
            given = tuple(tensors[0])
        return tuple(one(x) for x in given)

    function.__name__ = function.__qualname__ = f"atleast_{count}d"
    function.__doc__ = f"Return tensors with at least {count} dimensions, as views."
    ROWS.function("function")(function)


for _count in (1, 2, 3):
    _at_least(_count)
at_least = {row.name: row.function for row in ROWS}


@ROWS.function("function")
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape to which shapes broadcast.

    Raises:
        RuntimeError: if they do not.
    """
    found: list[int] = []
    for place, shape in enumerate(shapes):
        given = (shape,) if isinstance(shape, int) else tuple(shape)
        wide = [1] * (len(given) - len(found)) + found
        for k in range(-1, -len(given) - 1, -1):
            n = operator.index(given[k])
            if n < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({n}): ({n})")
            if n in (1, wide[k]):
                continue
            if wide[k] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {k}! Mismatching "
                    f"argument at index {place} had {given}; but expected shape should be "
                    f"broadcastable to {found}"
                )
            wide[k] = n
        found = wide
    return Size(found)


ROWS.function("method", name="broadcast_to")(shaping.expand)


@ROWS.function("method")
def sum_to_size(self: Tensor, *size: int | Sequence[int]) -> Value:
    """Return the tensor summed to a shape that broadcasts to its own.

    Raises:
        RuntimeError: for any other shape.
    """
    shape, wanted = self._array.shape, shaping.sizes(size)
    extra = len(shape) - len(wanted)
    if extra < 0 or any(
        n not in (1, m) for n, m in zip(wanted, shape[max(extra, 0) :], strict=True)
    ):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    axes = [k for k, n in enumerate(shape) if k < extra or (wanted[k - extra] == 1 and n != 1)]
    if not axes:
        return self
    found: Any = reductions.sum(self, axes, True)
    return shaping.view(found, wanted) if extra else found


# -- stacks ----------------------------------------------------------------------------------------


def _listed(name: str, tensors: Sequence[Operand]) -> Sequence[Operand]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(
            errors.must_be(name, "tensors", 0, "tuple of Tensors", errors.kind_of(tensors))
        )
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@ROWS.function("function", out=True)
def hstack(tensors: Sequence[Operand]) -> Value:
    """Return tensors joined along the second dimension; vectors, along their only one."""
    given = [at_least["atleast_1d"](x) for x in _listed("hstack", tensors)]
    return shaping.cat(given, 0 if len(shape_of(given[0])) == 1 else 1)


@ROWS.function("function", aliases="row_stack", out=True)
def vstack(tensors: Sequence[Operand]) -> Value:
    """Return tensors joined along the first dimension; vectors are rows."""
    return shaping.cat([at_least["atleast_2d"](x) for x in _listed("vstack", tensors)], 0)


@ROWS.function("function", out=True)
def dstack(tensors: Sequence[Operand]) -> Value:
    """Return tensors joined along the third dimension."""
    return shaping.cat([at_least["atleast_3d"](x) for x in _listed("dstack", tensors)], 2)


@ROWS.function("function", out=True)
def column_stack(tensors: Sequence[Operand]) -> Value:
    """Return tensors joined along the second dimension; vectors are columns."""
    given = [
        shaping.reshape(x, (math.prod(shape_of(x)), 1)) if len(shape_of(x)) < 2 else x
        for x in _listed("column_stack", tensors)
    ]
    return shaping.cat(given, 1)


for _name in ("concat", "concatenate"):
    ROWS.function("function", name=_name, out=True)(shaping.cat)


def _splitting(name: str, dim: int, least: int) -> None:
    def function(input: Operand, indices_or_sections: Any) -> tuple[Any, ...]:
        shape = shape_of(input)
        if len(shape) < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {len(shape)} dimensions!"
            )
        axis = 0 if name == "hsplit" and len(shape) == 1 else dim
        if isinstance(indices_or_sections, int) and (
            indices_or_sections <= 0 or shape[axis] % indices_or_sections
        ):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {shape[axis]} is not divisible by the split_size "
                f"{indices_or_sections}!"
            )
        return picking.tensor_split(input, indices_or_sections, axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return pieces of the tensor along dimension {dim}, as views."
    ROWS.function()(function)


_splitting("hsplit", 1, 1)
_splitting("vsplit", 0, 2)
_splitting("dsplit", 2, 3)


# -- windows and rotations -------------------------------------------------------------------------


def _windows(x: Array, dim: int, size: int, step: int) -> Any:
    if not x.shape:
        return index_static(core_reshape(x, (1,)), ((0, size, 1),))
    if isinstance(x, np.ndarray):
        count = (x.shape[dim] - size) // step + 1
        strides = list(x.strides)
        strides[dim] *= step
        return np.lib.stride_tricks.as_strided(
            x,
            (*x.shape[:dim], count, *x.shape[dim + 1 :], size),
            (*strides, x.strides[dim]),
        )
    windows: Any = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return windows[(slice(None),) * dim + (slice(None, None, step),)]


def _with_windows(base: Array, value: Array, dim: int, size: int, step: int) -> Any:
    if not base.shape:
        return core_reshape(value, ()) if size else base
    count = (base.shape[dim] - size) // step + 1
    positions = np.arange(count)[:, None] * step + np.arange(size)
    order = (*range(dim + 1), value.ndim - 1, *range(dim + 1, value.ndim - 1))
    template = (*(_ALL,) * dim, ARRAY)
    return scatter_set(base, template, core_permute(value, order), (positions,))


view_written(_windows, _with_windows, is_strided=True)


def _window_strides(given: Geometry, _node: str, dim: int, size: int, step: int) -> Geometry:
    shape, strides, begin = given
    if not shape:
        return (size,), (1,), begin
    count = (shape[dim] - size) // step + 1
    return (
        (*shape[:dim], count, *shape[dim + 1 :], size),
        (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim]),
        begin,
    )


stride_rule(_windows, _window_strides)
UNFOLD = Op(
    "UnfoldBackward0",
    _windows,
    is_view=True,
    details=lambda specs, params: {
        "dimension": params[0],
        "size": params[1],
        "step": params[2],
        "self_sym_sizes": specs[0].shape,
    },
)


@ROWS.function("method")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Value:
    """Return a view of all windows of a dimension, as a new last dimension.

    Args:
        dimension: the dimension.
        size: the number of elements of a window.
        step: the distance between windows.
    """
    shape = self._array.shape
    axis = f.dimension(dimension, len(shape))
    whole = shape[axis] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > whole:
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is {whole} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return apply(UNFOLD, (self,), (axis, int(size), int(step)))


ROT90 = Op(
    "Rot90Backward0",
    lambda x, k, dims: np.rot90(x, k, dims),
    in_rows=True,
    details=lambda specs, params: {"dims": params[1], "k": params[0]},
)


@ROWS.function()
def rot90(input: Operand, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value:
    """Return the tensor rotated by ``k`` times 90 degrees, from the first to the second
    dimension.
    """
    ndim = len(shape_of(input))
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    axes = tuple(dimension(d, ndim) for d in dims)
    return apply(ROT90, (input,), (int(k) % 4, axes))


@ROWS.function()
def diagflat(input: Operand, offset: int = 0) -> Value:
    """Return a matrix with all elements on a diagonal."""
    return picking.diag_embed(shaping.reshape(input, (-1,)), offset)


# -- differences and integrals of samples ----------------------------------------------------------


@ROWS.function(out=True)
def diff(
    input: Operand,
    n: int = 1,
    dim: int = -1,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> Value:
    """Return the differences of neighbours along a dimension, ``n`` times.

    Args:
        n: how many times.
        prepend, append: elements before and after those of ``input``.
    """
    ndim = len(shape_of(input))
    if ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    axis = dimension(dim, ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for extra in (prepend, append):
        if extra is not None and len(shape_of(extra)) != ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    parts = [x for x in (prepend, input, append) if x is not None]
    found: Any = shaping.cat(parts, axis) if len(parts) > 1 else input
    if n == 0:
        return f.clone(found)
    for _ in range(min(n, shape_of(found)[axis])):
        size = shape_of(found)[axis]
        later, earlier = _part(found, axis, 1, size), _part(found, axis, 0, max(size - 1, 0))
        if dtype_of(found).kind == "b":
            found = _NAMED["logical_xor"](later, earlier)
        else:
            found = f.sub(later, earlier)
    return found


@ROWS.function("function")
def gradient(
    input: Operand, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Return estimates of the derivatives of samples, one for each dimension.

    Args:
        spacing: the distance of samples, one for each dimension; or their coordinates.
        dim: the dimensions; all by default.
        edge_order: 1 or 2, the order of the estimates at the edges.
    """
    shape = shape_of(input)
    ndim = len(shape)
    if dtype_of(input) == np.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    axes = f.dimensions(dim if dim is not None else None, ndim)
    if isinstance(dim, (tuple, list)):
        axes = tuple(dimension(k, ndim) for k in dim)
    several = isinstance(spacing, (tuple, list))
    if several and len(spacing) != len(axes):
        wanted = (
            "length equal to 'self.dim() = " + f"{ndim}', since dim argument was not given"
            if dim is None
            else f"length equal to the length of dim argument = {len(axes)}"
        )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of "
            f"{wanted}, but got a list of length {len(spacing)}"
        )
    steps = list(spacing) if several else [1 if spacing is None else spacing] * len(axes)
    for axis in axes:
        if shape[axis] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    found = [
        _derivative(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True)
    ]
    return tuple(found)


def _derivative(x: Any, axis: int, step: Any, order: int) -> Any:
    n = shape_of(x)[axis]

    def at(start: int, stop: int) -> Any:
        return _part(x, axis, start, stop)

    if isinstance(step, Tensor) and step._array.ndim:
        return _derivative_at(x, axis, step, order)
    number = step.item() if isinstance(step, Tensor) else step
    inner = apply(DIV_NUMBER, (f.sub(at(2, n), at(0, n - 2)), number * 2))
    if order == 1:
        first = apply(DIV_NUMBER, (f.sub(at(1, 2), at(0, 1)), number))
        last = apply(DIV_NUMBER, (f.sub(at(n - 1, n), at(n - 2, n - 1)), number))
    else:
        first, last = (
            apply(
                DIV_NUMBER,
                (
                    f.add(
                        f.add(f.mul(at(a, a + 1), -1.5 * sign), f.mul(at(b, b + 1), 2 * sign)),
                        f.mul(at(c, c + 1), -0.5 * sign),
                    ),
                    number,
                ),
            )
            for a, b, c, sign in ((0, 1, 2, 1.0), (n - 1, n - 2, n - 3, -1.0))
        )
    return shaping.cat([first, inner, last], axis)


def _derivative_at(x: Any, axis: int, places: Tensor, order: int) -> Any:
    """Estimate derivatives of samples at given coordinates."""
    n = shape_of(x)[axis]
    wide = (-1, *(1,) * (len(shape_of(x)) - axis - 1))
    gaps: Any = diff(places)
    a, b = (shaping.reshape(g, wide) for g in (gaps[:-1], gaps[1:]))

    def at(start: int, stop: int) -> Any:
        return _part(x, axis, start, stop)

    inner = (
        at(0, n - 2) * (-b / (a * (a + b)))
        + at(1, n - 1) * ((b - a) / (a * b))
        + at(2, n) * (a / (b * (a + b)))
    )
    if order == 1:
        first = (at(1, 2) - at(0, 1)) / gaps[0]
        last = (at(n - 1, n) - at(n - 2, n - 1)) / gaps[-1]
    else:
        c, d = gaps[0], gaps[1]
        first = (
            at(0, 1) * (-(2 * c + d) / (c * (c + d)))
            + at(1, 2) * ((c + d) / (c * d))
            + at(2, 3) * (-c / (d * (c + d)))
        )
        c, d = gaps[-2], gaps[-1]
        last = (
            at(n - 3, n - 2) * (d / (c * (c + d)))
            + at(n - 2, n - 1) * (-(d + c) / (c * d))
            + at(n - 1, n) * ((2 * d + c) / (d * (c + d)))
        )
    return shaping.cat([first, inner, last], axis)


def _gaps(name: str, y: Operand, x: Any, axis: int) -> Any:
    """Return the distances of samples, to be multiplied with them."""
    if not shape_of(x):
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    given: Any = x
    if len(shape_of(x)) == 1:
        if shape_of(x)[0] != shape_of(y)[axis]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        given = shaping.view(x, (-1, *(1,) * (len(shape_of(y)) - axis - 1)))
    elif shape_of(x)[axis - len(shape_of(y))] != shape_of(y)[axis]:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    place = axis - len(shape_of(y)) + len(shape_of(given))
    n = shape_of(given)[place]
    return f.sub(_part(given, place, 1, n), _part(given, place, 0, n - 1))


def _refuse_bools(name: str, y: Operand, x: Any) -> None:
    kinds = [dtype_of(v).kind for v in (y, x) if isinstance(v, Tensor)]
    if "b" in kinds:
        which = "`y`" if len(kinds) == 1 else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")


def _sample_axis(y: Operand, dim: int) -> int:
    if not shape_of(y):
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return dimension(dim, len(shape_of(y)))


def _spacing(name: str, x: Any, dx: Any) -> tuple[Any, Any]:
    """Return coordinates and distance: the second argument may be either."""
    if x is not None and not isinstance(x, Tensor) and not isinstance(x, (Tracer, np.ndarray)):
        return None, x
    return x, 1 if dx is None else dx


def _trapezoids(y: Any, x: Any, dx: Any, axis: int, name: str, collect: Any) -> Any:
    n = shape_of(y)[axis]
    sides = f.add(_part(y, axis, 0, n - 1), _part(y, axis, 1, n))
    if x is not None:
        return apply(DIV_NUMBER, (collect(f.mul(_gaps(name, y, x, axis), sides)), 2.0))
    return collect(apply(MUL_NUMBER, (sides, dx / 2.0)))


def _trapezoid(name: str) -> None:
    def function(y: Operand, x: Any = None, *, dx: Any = None, dim: int = -1) -> Value:
        axis = _sample_axis(y, dim)
        _refuse_bools("trapezoid", y, x)
        places, step = _spacing("trapezoid", x, dx)
        n = shape_of(y)[axis]
        if not n:
            rest = tuple(m for k, m in enumerate(shape_of(y)) if k != axis)
            return fresh(np.zeros(rest, dtype_of(y)))
        if places is not None:
            return _trapezoids(
                y, places, None, axis, "trapezoid", lambda v: reductions.sum(v, axis)
            )
        ends = f.add(shaping.select(y, axis, 0), shaping.select(y, axis, n - 1))
        inner = f.sub(reductions.sum(y, axis), apply(MUL_NUMBER, (ends, 0.5)))
        return apply(MUL_NUMBER, (inner, step))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Return the integral of samples along a dimension, by the trapezoidal rule."
    ROWS.function("function")(function)


_trapezoid("trapezoid")
_trapezoid("trapz")


@ROWS.function("function")
def cumulative_trapezoid(y: Operand, x: Any = None, *, dx: Any = None, dim: int = -1) -> Value:
    """Return the cumulative integral of samples along a dimension, by the trapezoidal rule."""
    _refuse_bools("cumulative_trapezoid", y, x)
    if not shape_of(y):
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    axis = dimension(dim, len(shape_of(y)))
    places, step = _spacing("cumulative_trapezoid", x, dx)
    return _trapezoids(y, places, step, axis, "cumulative_trapezoid", lambda v: cumsum(v, axis))


# -- running extremes ------------------------------------------------------------------------------


def _running_logsumexp(x: Array, axis: int) -> Any:
    if not x.ndim:
        return ew.positive(x)
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, axis)
    top = np.max(ew.stop_gradient(ew.real(x)), axis, keepdims=True)
    return ew.add(ew.log(np.cumsum(ew.exp(ew.sub(x, top)), axis)), top)


LOGcumsumEXP = Op(
    "LogcumsumexpBackward0",
    _running_logsumexp,
    (("self", 0), ("result", -1)),
    arithmetic.checked(for_kinds("fc", "logcumsumexp_out_cpu")),
    keeps=("self", "result"),
    in_rows=True,
    details=lambda specs, params: {"dim": params[0]},
)


@ROWS.function(out=True)
def logcumsumexp(input: Operand, dim: int) -> Value:
    """Return the logarithms of cumulative sums of exponentials along a dimension."""
    axis = dimension(dim, len(shape_of(input)))
    return apply(LOGcumsumEXP, (input,), (axis,))


class _Cummax(Extreme):
    __slots__ = ()


class _Cummin(Extreme):
    __slots__ = ()


_Cummax.__name__, _Cummin.__name__ = "cummax", "cummin"


def _running_extreme(accumulate: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Array, axis: int) -> Any:
        if not x.ndim:
            same = ew.positive(x) if x.dtype.kind != "b" else ew.stop_gradient(x)
            return same, np.zeros((), np.int64) * np.asarray(0)
        shape = tuple(x.shape[axis] if k == axis else 1 for k in range(x.ndim))
        places = np.arange(x.shape[axis]).reshape(shape)
        held = ew.stop_gradient(x)
        running = accumulate(held, axis)
        changes = ew.equal(held, running)
        if x.dtype.kind in "fV":
            changes = ew.logical_or(changes, ew.isnan(held))
        found = np.maximum.accumulate(ew.where(changes, places, 0), axis)
        return np.take_along_axis(x, found, axis), found

    return function


def _cumulative(name: str, made: type[Extreme], accumulate: Callable[..., Any]) -> None:
    op = Op(
        f"{name.title()}Backward0",
        _running_extreme(accumulate),
        (("self", 0), ("indices", -2)),
        arithmetic.checked(for_kinds("buif", f"{name}_cpu")),
        keeps=("self", "indices"),
        in_rows=True,
        details=lambda specs, params: {"dim": params[0]},
    )

    def function(input: Operand, dim: int) -> Any:
        f.tensors_only(name, input=input)
        axis = dimension(dim, len(shape_of(input)))
        if not shape_of(input) and dtype_of(input).kind == "c":
            return made(f.clone(input), fresh(np.zeros((), np.int64)))
        if 0 in shape_of(input):
            shape = shape_of(input)
            return made(fresh(np.zeros(shape, dtype_of(input))), fresh(np.zeros(shape, np.int64)))
        return made(*apply(op, (input,), (axis,)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return the {name[3:]}imum of all elements so far along a dimension, and its index."
    )
    ROWS.function(out=True)(function)


_cumulative("cummax", _Cummax, np.maximum.accumulate)
_cumulative("cummin", _Cummin, np.minimum.accumulate)


# -- blocks and combinations -----------------------------------------------------------------------


def _blocks(*blocks: Array) -> Any:
    rows = [np.atleast_2d(x) if x.ndim < 2 else x for x in blocks]
    width = sum(x.shape[1] for x in rows)
    found, start = [], 0
    for x in rows:
        height, own = x.shape
        zeros = [np.zeros((height, n), x.dtype) for n in (start, width - start - own)]
        found.append(concatenate((zeros[0], x, zeros[1]), 1))
        start += own
    return concatenate(found, 0)


BLOCK_DIAG = Op("BlockDiagBackward0", _blocks)


@ROWS.function("function")
def block_diag(*tensors: Operand) -> Value:
    """Return a matrix with these matrices on its diagonal; vectors are rows."""
    for k, x in enumerate(tensors):
        if len(shape_of(x)) > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{k} has {len(shape_of(x))} dimensions"
            )
    if not tensors:
        return fresh(np.zeros((1, 0), np.float32))
    common = common_dtype([ShapeDtype((1,), dtype_of(x)) for x in tensors])
    return apply(BLOCK_DIAG, tuple(f.to(x, common) for x in tensors))


def _check_vector(x: Operand) -> None:
    if len(shape_of(x)) != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(shape_of(x))}")


@ROWS.function("function")
def cartesian_prod(*tensors: Operand) -> Value:
    """Return all combinations of elements of vectors, as rows."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    for x in given:
        _check_vector(x)
    if len(given) == 1:
        return given[0]
    grids = picking.meshgrid(*given, indexing="ij")
    return shaping.stack([shaping.flatten(x) for x in grids], 1)


@ROWS.function("function")
def combinations(input: Operand, r: int = 2, with_replacement: bool = False) -> Value:
    """Return all combinations of ``r`` elements of a vector, as rows."""
    _check_vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return fresh(np.zeros(0, dtype_of(input)))
    n = shape_of(input)[0]
    places = np.indices((n,) * r)
    mask = np.ones((n,) * r, np.bool_)
    for a, b in itertools.pairwise(places):
        mask &= a <= b if with_replacement else a < b
    grids = picking.meshgrid(*(input,) * r, indexing="ij")
    return shaping.stack([picking.masked_select(x, wrap(mask)) for x in grids], 1)


@ROWS.function("function")
def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Value:
    """Return the powers of the elements of a vector as columns, in descending order by default."""
    f.tensors_only("vander", x=x)
    if len(shape_of(x)) != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = shape_of(x)[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    given: Any = f.to(x, np.dtype(np.int64)) if dtype_of(x).kind in "bui" else x
    rows = shape_of(x)[0]
    ones = fresh(np.ones((rows, min(count, 1)), dtype_of(given)))
    found: Any = ones
    if count > 1:
        wide = shaping.expand(shaping.unsqueeze(given, 1), (rows, count - 1))
        found = shaping.cat([ones, cumprod(wide, 1)], 1)
    return found if increasing else picking.flip(found, 1)


# -- statistics of rows ----------------------------------------------------------------------------


@ROWS.function()
def cov(
    input: Operand,
    *,
    correction: int = 1,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
) -> Value:
    """Return the covariances of variables, which are rows; columns are observations.

    Args:
        input: shape (n, m) or (m,).
        correction: difference between the number of observations and degrees of freedom.
        fweights: how often each observation was made; integers, shape (m,).
        aweights: weights of observations, shape (m,).
    """
    f.tensors_only("cov", input=input)
    shape = shape_of(input)
    if len(shape) > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{len(shape)} dimensions"
        )
    if dtype_of(input).kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows: Any = shaping.view(input, (1, -1)) if len(shape) < 2 else input
    count = shape_of(rows)[1]
    weights: Any = None
    if fweights is not None:
        if dtype_of(fweights).kind not in "ui":
            raise RuntimeError(
                "cov(): expected fweights to have integral dtype but got fweights with "
                f"{DTYPES[dtype_of(fweights)].printed} dtype"
            )
        weights = fweights
    if aweights is not None:
        if dtype_of(aweights).kind not in "fV":
            raise RuntimeError(
                "cov(): expected aweights to have floating point dtype but got aweights with "
                f"{DTYPES[dtype_of(aweights)].printed} dtype"
            )
        weights = aweights if weights is None else f.mul(weights, aweights)
    if weights is None:
        mean: Any = f.div(reductions.sum(rows, 1), count)
        total: Any = count
    else:
        total = reductions.sum(weights)
        mean = f.div(reductions.sum(f.mul(rows, weights), 1), total)
    if weights is not None and aweights is not None and correction:
        norm: Any = total - f.div(
            f.mul(reductions.sum(f.mul(weights, aweights)), correction), total
        )
    else:
        norm = total - correction
    value = norm.item() if isinstance(norm, Tensor) else norm
    if value <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
        norm = 0
    centred = f.sub(rows, shaping.unsqueeze(mean, 1))
    other: Any = f.conj(centred if weights is None else f.mul(centred, weights))
    found = f.div(products.mm(centred, shaping.t(other)), norm)
    return shaping.squeeze(found)


@ROWS.function()
def corrcoef(input: Operand) -> Value:
    """Return the correlations of variables, which are rows; columns are observations.

    Args:
        input: shape (n, m) or (m,).
    """
    f.tensors_only("corrcoef", input=input)
    if len(shape_of(input)) > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(shape_of(input))} dimensions"
        )
    found: Any = cov(input)
    if not shape_of(found):
        return f.div(found, found)
    spread: Any = picking.diagonal(found)
    spread = _NAMED["sqrt"](spread.real if dtype_of(found).kind == "c" else spread)
    found = f.div(found, shaping.view(spread, (-1, 1)))
    found = f.div(found, shaping.view(spread, (1, -1)))
    if dtype_of(found).kind == "c":
        return _NAMED["complex"](found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return _NAMED["clamp"](found, -1, 1)


@ROWS.function()
def nanmean(input: Operand, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """Return the mean of the elements that are not nan."""
    f.tensors_only("nanmean", input=input)
    if dtype_of(input).kind not in "fcV":
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{DTYPES[dtype_of(input)].printed}"
        )
    count = reductions.sum(_NAMED["logical_not"](_NAMED["isnan"](input)), dim, keepdim)
    return f.div(nansum(input, dim, keepdim, dtype=dtype), count)


@ROWS.function("function")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Any, ...]:
    """Return the positions in a shape of positions among all elements.

    Raises:
        TypeError: if they are no integers.
    """
    f.tensors_only("unravel_index", indices=indices)
    if dtype_of(indices).kind not in "ui":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    return tuple(
        f.to(_NAMED["remainder"](_NAMED["floor_divide"](indices, step), n), np.dtype(np.int64))
        for n, step in zip(sizes, steps, strict=True)
    )
