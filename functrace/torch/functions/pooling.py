"""The rows of pooling: maxima, means and powers of windows, and ``max_unpool1d`` to ``3d``.

Windows are the core's (`functrace.ops.windows`): maxima come with their positions, by which the
derivative is distributed; means are linear maps along each axis.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.reductions import argmax
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.ops.windows import map_axis, max_windows, put_flat, take_flat
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.dispatch.unseen import unseen
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import padding as padding_of
from functrace.torch.functions import reductions, shaping
from functrace.torch.functions.spatial import (
    Sizes,
    channels_last,
    check_kinds,
    each,
    in_single,
    integer,
    integers,
    keeping_channels_last,
)
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.orders import channels_lie_last
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = FunctionTable()
_sign = next(row.function for row in f.ROWS if row.name == "sign")
_COUNTS = {1: "one int", 2: "two ints", 3: "three ints"}


def _fields(*names: str) -> Callable[..., dict[str, Any]]:
    return lambda _specs, params: dict(zip(names, params, strict=False))


# -- arguments -------------------------------------------------------------------------------------


def _numbers(
    name: str, kernel: object, stride: object, axes: int, **others: object
) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, tuple[int, ...]]]:
    """Return the kernel, the strides as they are given (none: those of the kernel), and others.

    Raises:
        RuntimeError: if there are more or fewer numbers than axes.
    """
    count = f"a tuple of {_COUNTS[axes]}"
    size = each(name, "kernel_size", kernel, axes)
    steps = () if stride is None else integers(name, "stride", stride)
    steps = steps * axes if len(steps) == 1 else steps
    if len(size) != axes:
        raise RuntimeError(f"{name}: kernel_size must either be a single int, or {count}")
    if len(steps) not in (0, axes):
        raise RuntimeError(f"{name}: stride must either be omitted, a single int, or {count}")
    found: dict[str, tuple[int, ...]] = {}
    for argument, value in others.items():
        found[argument] = each(name, argument, value, axes)
        if len(found[argument]) != axes:
            raise RuntimeError(f"{name}: {argument} must be either be a single int, or {count}")
    return size, steps, found


def _pooled_size(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """Return the number of windows along an axis: with ``ceil_mode`` one more for the rest, unless
    it begins in the padding.
    """
    count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    return count - 1 if ceil_mode and (count - 1) * s >= n + p else count


def _check_windows(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> None:
    """Check windows and the tensor.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    axes = len(kernel)
    if min(kernel) <= 0 and stride and min(stride) > 0:
        words = " ".join(f"k{c}: {k}" for c, k in zip("THW"[-axes:], kernel, strict=True))
        raise RuntimeError(f"kernel size should be greater than zero, but got {words}")
    if 0 in (stride or kernel):
        raise RuntimeError("stride should not be zero")
    steps = stride or kernel
    if min(dilation) <= 0:
        words = " ".join(f"dilation{c}: {d}" for c, d in zip("THW"[-axes:], dilation, strict=True))
        raise RuntimeError(f"dilation should be greater than zero, but got {words}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={p}, kernel_size={k} and dilation={d}"
            )
    if 0 in shape[len(shape) - axes - 1 :]:
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got:{list(shape)}"
        )
    sizes = shape[-axes:]
    every = zip(sizes, kernel, steps, padding, dilation, strict=True)
    counts = [_pooled_size(*numbers, ceil_mode) for numbers in every]
    if min(counts) < 1:
        if name == "avg_pool3d":
            letters = "T", "H", "W"
            image = " ".join(f"{c}: {n}" for c, n in zip(letters, sizes, strict=True))
            window = " ".join(f"k{c}: {n}" for c, n in zip(letters, kernel, strict=True))
            raise RuntimeError(f"input image ({image}) smaller than kernel size ({window})")
        channels = shape[-axes - 1]
        given, made = ("x".join(map(str, (channels, *s))) for s in (sizes, counts))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too "
            "small"
        )


def _check_rank(shape: tuple[int, ...], axes: int) -> None:
    if len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"non-empty {axes + 1}D or {axes + 2}D (batch mode) tensor expected for input"
        )


# -- maxima ----------------------------------------------------------------------------------------


def _maxima(
    x: Array,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> Any:
    sizes = x.shape[x.ndim - len(kernel) :]
    every = zip(sizes, kernel, stride or kernel, padding, dilation, strict=True)
    windows = tuple(
        [(k, s, p, d, _pooled_size(n, k, s, p, d, ceil_mode)) for n, k, s, p, d in every]
    )
    return max_windows(x, windows)


_POSITIONS = ("result1", -2), ("self", 0)


_keeping_channels_last = keeping_channels_last(_maxima)


def _maxima_of_volumes(x: Array, *rest: Any) -> Any:
    """Return `_maxima`, in ``channels_last_3d`` if the input is, with or without a batch axis."""
    if type(x) is not np.ndarray or x.ndim != 4:
        return _keeping_channels_last(x, *rest)
    step = max(n * size for n, size in zip(x.shape, x.strides, strict=True))
    batch = np.lib.stride_tricks.as_strided(x, (1, *x.shape), (step, *x.strides))
    return tuple([r[0] for r in _keeping_channels_last(batch, *rest)])


def _max_op(node: str, called: str, function: Callable[..., Any], *fields: str) -> Op:
    return Op(
        f"{node}Backward0",
        function,
        _POSITIONS,
        edges=(0,),
        keeps=("result1", "self"),
        constants=(1,),
        details=_fields(*fields),
        called=called,
    )


_WINDOW = "kernel_size", "stride", "padding", "dilation", "ceil_mode"
MAX_POOL = {
    axes: _max_op(
        f"MaxPool{axes}DWithIndices",
        f"max_pool{axes}d_with_indices",
        function,
        *_WINDOW,
    )
    for axes, function in ((2, _keeping_channels_last), (3, _maxima_of_volumes))
}


def _max_pool(
    axes: int,
    input: Operand,
    kernel_size: object,
    stride: object,
    padding: object,
    dilation: object,
    ceil_mode: bool,
) -> tuple[Value, Value]:
    name = f"max_pool{axes}d"
    f.tensors_only(name, input=input)
    others = {"padding": padding, "dilation": dilation}
    size, steps, found = _numbers(name, kernel_size, stride, axes, **others)
    shape = f.shape_of(input)
    _check_rank(shape, axes)
    params = size, steps, found["padding"], found["dilation"], bool(ceil_mode)
    _check_windows(name, shape, *params)
    check_kinds(input, "iuf", name)
    return apply(MAX_POOL[axes], (input,), params)


def _max_pool_of_lines(
    input: Operand,
    kernel_size: object,
    stride: object,
    padding: object,
    dilation: object,
    ceil_mode: bool,
    indices: bool,
) -> tuple[Value, Value]:
    name = "max_pool1d"
    f.tensors_only(name, input=input)
    others = {"padding": padding, "dilation": dilation}
    (k,), steps, found = _numbers(name, kernel_size, stride, 1, **others)
    shape = f.shape_of(input)
    (p,), (d,), s = found["padding"], found["dilation"], (*steps, k)[0]
    if len(shape) not in (2, 3):
        raise RuntimeError(
            f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )
    if indices:
        plane_params = (1, k), (1, *steps) if steps else (), (0, p), (1, d), bool(ceil_mode)
        _check_windows(name, (*shape[:-1], 1, shape[-1]), *plane_params)
    else:
        for argument, number in (("kernel_size", k), ("stride", s), ("dilation", d)):
            if number <= 0:
                raise RuntimeError(
                    f"{name}() {argument} must be greater than zero, but got {number}"
                )
        if p < 0:
            raise RuntimeError(f"{name}() padding must be non-negative, but got {p}")
        if p > k // 2:
            raise RuntimeError(
                f"{name}() padding should be at most half of kernel size, but got padding={p} and "
                f"kernel_size={k}"
            )
        count = _pooled_size(shape[-1], k, s, p, d, bool(ceil_mode))
        if count < 1:
            raise RuntimeError(f"{name}() Invalid computed output size: {count}")
        check_kinds(input, "f", f"{name}_impl")
        if d > 1 and p >= shape[-1]:  # some windows contain no element, and have the maximum -inf
            input = padding_of.constant_pad_nd(input, (p, p), -math.inf)
            filled = _max_pool_of_lines(input, k, s, 0, d, ceil_mode, False)
            return shaping.narrow(filled[0], -1, 0, count), filled[1]
    plane = shaping.unsqueeze(input, -2)
    whole = ((1, k), (1, s), (0, p), (1, d), bool(ceil_mode))
    check_kinds(input, "iuf", "max_pool2d")
    values, positions = apply(MAX_POOL[2], (plane,), whole)
    return shaping.squeeze(values, -2), shaping.squeeze(positions, -2)


def _named(function: Callable[..., Any], name: str, says: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = says
    return function


_ARGS = """
    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        kernel_size: sizes of a window.
        stride: steps from window to window; by default the sizes of a window.
        padding: elements around the images, which never are the maximum.
        dilation: steps inside of a window.
        ceil_mode: True for a further window over the rest of each axis.
"""


def _max_pools(axes: int) -> None:
    name = f"max_pool{axes}d"
    pool: Callable[..., Any] = (
        partial(_max_pool_of_lines, indices=True) if axes == 1 else partial(_max_pool, axes)
    )
    values: Callable[..., Any] = (
        (lambda *args: _max_pool_of_lines(*args, indices=False)[0])
        if axes == 1
        else (lambda *args: pool(*args)[0])
    )

    def functional(
        input: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        given = (input, kernel_size, stride, padding, dilation, ceil_mode)
        return pool(*given) if return_indices else values(*given)

    def with_indices(
        input: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Any:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    def function(
        input: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Value:
        return values(input, kernel_size, stride, padding, dilation, ceil_mode)

    where = f"Return the maxima of windows over {axes} axes"
    more = "        return_indices: True to return their positions, too.\n    "
    ROWS.function("nn.functional")(_named(functional, name, f"{where}.\n{_ARGS}{more}"))
    ROWS.function("function")(_named(function, name, f"{where}.\n{_ARGS}    "))
    second = "function nn.functional" if axes == 1 else "nn.functional _C._nn"
    both = _named(
        with_indices, f"{name}_with_indices", f"{where}, and their positions.\n{_ARGS}    "
    )
    ROWS.function(second)(both)


for _axes in (1, 2, 3):
    _max_pools(_axes)


# -- means -----------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _divisors(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    counts: tuple[int, ...],
    padded: bool,
) -> Any:
    """Return the number of elements of each window: a number, if all are equal."""
    found: Any = np.ones((), np.int64)
    for n, k, s, p, count in zip(sizes, kernel, stride, padding, counts, strict=True):
        begin = np.arange(count) * s - p
        end = np.minimum(begin + k, n + p)
        length = end - begin if padded else np.minimum(end, n) - np.maximum(begin, 0)
        found = found[..., None] * length
    return int(found.flat[0]) if (found == found.flat[0]).all() else found


def _means(
    x: Array,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil_mode: bool,
    padded: bool,
    divisor: int | None,
) -> Any:
    first = x.ndim - len(kernel)
    sizes, steps = x.shape[first:], stride or kernel
    every = zip(sizes, kernel, steps, padding, strict=True)
    counts = tuple([_pooled_size(n, k, s, p, 1, ceil_mode) for n, k, s, p in every])
    made = x
    for axis in range(x.ndim - 1, first - 1, -1):
        j = axis - first
        if kernel[j] == steps[j] == 1 and not padding[j]:
            continue
        how = ("sums", sizes[j], counts[j], kernel[j], steps[j], padding[j])
        made = map_axis(made, axis, how)
    by = _divisors(sizes, kernel, steps, padding, counts, padded) if divisor is None else divisor
    if x.dtype.kind in "iu":  # as integers are divided in C
        by = np.asarray(by, x.dtype)
        return ew.floor_divide(ew.sub(made, ew.fmod(made, by)), by)
    if isinstance(by, int):
        return ew.div(made, float(by)) if by != 1 else ew.mul(made, 1.0)
    return ew.div(made, by.astype(x.dtype))


_AVERAGE = "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"
AVG_POOL = {
    axes: Op(
        f"AvgPool{axes}DBackward0",
        keeping_channels_last(in_single(_means)) if axes == 2 else in_single(_means),
        (("self", 0),),
        keeps=("self",),
        details=_fields(*_AVERAGE),
        in_rows=axes == 3,
        called=f"avg_pool{axes}d",
    )
    for axes in (2, 3)
}


def _avg_pool(
    axes: int,
    input: Operand,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    padded: bool,
    divisor: int | None,
) -> Value:
    name = f"avg_pool{axes}d"
    f.tensors_only(name, input=input)
    size, steps, found = _numbers(name, kernel_size, stride, axes, padding=padding)
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    shape = f.shape_of(input)
    if axes == 2 and len(shape) < 3:
        raise IndexError(errors.dimension_range(-3, len(shape)))
    _check_rank(shape, axes)
    if 0 in (steps or size):
        raise RuntimeError("stride should not be zero")
    _check_windows(name, shape, size, steps, found["padding"], (1,) * axes, bool(ceil_mode))
    check_kinds(input, "f", f"{name}_out_frame" if axes == 3 else name, np.dtype(np.int64))
    given = None if divisor is None else integer(name, "divisor_override", divisor)
    params = (size, steps, found["padding"], bool(ceil_mode), bool(padded), given)
    return apply(AVG_POOL[axes], (input,), params)


@ROWS.function("function nn.functional")
def avg_pool1d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value:
    """Return the means of windows along the last axis; see `avg_pool2d`."""
    f.tensors_only("avg_pool1d", input=input)
    _check_line("avg_pool1d", input)
    size, steps, found = _numbers("avg_pool1d", kernel_size, stride, 1, padding=padding)
    given = (1, *size), (1, *steps) if steps else None, (0, *found["padding"])
    y = _avg_pool(2, shaping.unsqueeze(input, -2), *given, ceil_mode, count_include_pad, None)
    return shaping.squeeze(y, -2)


def _avg_pools(axes: int) -> Callable[..., Any]:
    def function(
        input: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        given = (input, kernel_size, stride, padding, ceil_mode)
        return _avg_pool(axes, *given, count_include_pad, divisor_override)

    says = f"""Return the means of windows over {axes} axes.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        kernel_size: sizes of a window.
        stride: steps from window to window; by default the sizes of a window.
        padding: zeros around the images.
        ceil_mode: True for a further window over the rest of each axis.
        count_include_pad: True if zeros of the padding count as elements.
        divisor_override: what sums are divided by, in place of the number of elements.
    """
    return ROWS.function("nn.functional _C._nn")(_named(function, f"avg_pool{axes}d", says))


avg_pool2d, avg_pool3d = (_avg_pools(axes) for axes in (2, 3))


def _check_line(name: str, input: Operand) -> None:
    ndim = len(f.shape_of(input))
    if ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name})"
        )


# -- adaptive pooling ------------------------------------------------------------------------------


def _targets(name: str, output_size: object, shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Return the sizes of the output; ``None`` stands for those of the input."""
    if not isinstance(output_size, (tuple, list)):
        output_size = (output_size,) * axes
    if len(output_size) == 1:
        output_size = tuple(output_size) * axes
    if len(output_size) != axes:
        inner = "internal error: output_size.size()" if "max" in name else "output_size"
        begin = f"{name}():" if "max" in name else f"{name}:"
        raise RuntimeError(f"{begin} {inner} must be {axes}")
    given = zip(output_size, shape[-axes:] if len(shape) >= axes else (0,) * axes, strict=True)
    return tuple([n if k is None else integer(name, "output_size", k) for k, n in given])


def _check_adaptive(name: str, shape: tuple[int, ...], axes: int, counts: tuple[int, ...]) -> None:
    if len(shape) not in (axes + 1, axes + 2):
        colon = ":" if "max" in name else ""
        raise RuntimeError(
            f"{name}(): Expected {axes + 1}D or {axes + 2}D tensor, but got{colon} {list(shape)}"
        )
    for k in range(len(shape) - axes if name == "adaptive_avg_pool2d" else 1, len(shape)):
        if shape[k] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {k} being empty"
            )
    if min(counts) < 0:
        given = ", ".join(map(str, counts))
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{given}}}"
        )
    if math.prod((*shape[:-axes], *counts)) >= 1 << 61:
        found = [*shape[:-axes], *counts]
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={found}"
            if "max" in name
            else "numel: integer multiplication overflow"
        )


def _adapted(x: Array, counts: tuple[int, ...]) -> Any:
    for axis in range(x.ndim - 1, x.ndim - len(counts) - 1, -1):
        n, count = x.shape[axis], counts[axis - x.ndim]
        x = map_axis(x, axis, ("means", n, count))
    return x


ADAPTIVE_AVG = {
    axes: Op(
        f"AdaptiveAvgPool{axes}DBackward0",
        keeping_channels_last(in_single(_adapted)) if axes == 2 else in_single(_adapted),
        (("self", 0),),
        keeps=("self",),
        in_rows=axes == 3,
        called=f"_adaptive_avg_pool{axes}d",
    )
    for axes in (2, 3)
}


def _in_format_of(input: Operand, made: Any) -> Value:
    """Return one element per channel with the strides of ``channels_last`` if the input is."""
    if (
        isinstance(input, Tensor)
        and isinstance(x := input._array, np.ndarray)
        and isinstance(y := made._array, np.ndarray)
        and channels_lie_last(x)
    ):
        made._array = channels_last(y)
    return made


def _adaptive_avg_pool(axes: int, input: Operand, output_size: object) -> Value:
    name = f"adaptive_avg_pool{axes}d"
    f.tensors_only(name, input=input)
    shape = f.shape_of(input)
    counts = _targets(name, output_size, shape, axes)
    _check_adaptive(name, shape, axes, counts)
    check_kinds(input, "f", name if axes == 2 else f"{name}_cpu")
    if set(counts) == {1}:
        made = reductions.mean(input, tuple(range(-1, -axes - 1, -1)), keepdim=True)
        return _in_format_of(input, made)
    return apply(ADAPTIVE_AVG[axes], (input,), (counts,))


@ROWS.function("function nn.functional")
def adaptive_avg_pool1d(input: Operand, output_size: object) -> Value:
    """Return means of spans of the last axis; see `adaptive_avg_pool2d`."""
    f.tensors_only("adaptive_avg_pool1d", input=input)
    _check_line("adaptive_avg_pool1d", input)
    (count,) = _targets("adaptive_avg_pool1d", output_size, f.shape_of(input), 1)
    return shaping.squeeze(_adaptive_avg_pool(2, shaping.unsqueeze(input, -2), (1, count)), -2)


def _adaptive_avg_pools(axes: int) -> Callable[..., Any]:
    def function(input: Operand, output_size: object) -> Value:
        return _adaptive_avg_pool(axes, input, output_size)

    says = f"""Return means of spans that cover the last {axes} axes.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        output_size: numbers of spans; None for as many as elements.
    """
    name = f"adaptive_avg_pool{axes}d"

    def inner(input: Operand, output_size: object) -> Value:
        return _adaptive_avg_pool(axes, input, output_size)

    ROWS.function("function")(_named(inner, f"_{name}", f"Return `{name}`."))
    return ROWS.function("nn.functional _C._nn")(_named(function, name, says))


adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pools(axes) for axes in (2, 3))


def _adaptive_maxima(x: Array, counts: tuple[int, ...]) -> Any:
    return max_windows(x, tuple([(n,) for n in counts]))


ADAPTIVE_MAX = {
    axes: _max_op(
        f"AdaptiveMaxPool{axes}D",
        f"adaptive_max_pool{axes}d",
        keeping_channels_last(_adaptive_maxima) if axes == 2 else _adaptive_maxima,
    )
    for axes in (2, 3)
}


def _adaptive_max_pool(axes: int, input: Operand, output_size: object) -> tuple[Value, Value]:
    name = f"adaptive_max_pool{axes}d"
    f.tensors_only(name, input=input)
    shape = f.shape_of(input)
    counts = _targets(name, output_size, shape, axes)
    _check_adaptive(name, shape, axes, counts)
    check_kinds(input, "f", name if axes == 2 else f"{name}_cpu")
    return apply(ADAPTIVE_MAX[axes], (input,), (counts,))


def _adaptive_max_pool_of_lines(input: Operand, output_size: object) -> tuple[Value, Value]:
    f.tensors_only("adaptive_max_pool1d", input=input)
    _check_line("adaptive_max_pool1d", input)
    (count,) = _targets("adaptive_max_pool1d", output_size, f.shape_of(input), 1)
    values, positions = _adaptive_max_pool(2, shaping.unsqueeze(input, -2), (1, count))
    return shaping.squeeze(values, -2), shaping.squeeze(positions, -2)


def _adaptive_max_pools(axes: int) -> None:
    name = f"adaptive_max_pool{axes}d"
    pool: Callable[..., Any] = (
        _adaptive_max_pool_of_lines if axes == 1 else partial(_adaptive_max_pool, axes)
    )

    def functional(input: Operand, output_size: object, return_indices: bool = False) -> Any:
        return pool(input, output_size) if return_indices else pool(input, output_size)[0]

    def function(input: Operand, output_size: object) -> Any:
        return pool(input, output_size)

    says = f"""Return maxima of spans that cover the last {axes} axes{{}}.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        output_size: numbers of spans; None for as many as elements.
    """
    more = "    return_indices: True to return their positions, too.\n    "
    ROWS.function("nn.functional")(_named(functional, name, says.format("") + more))
    ROWS.function("function" if axes == 1 else "_C._nn")(
        _named(function, name, says.format(", and their positions"))
    )

    def with_indices(input: Operand, output_size: object, return_indices: bool = False) -> Any:
        return pool(input, output_size)

    ROWS.function("nn.functional")(
        _named(with_indices, f"{name}_with_indices", says.format(", and their positions"))
    )


for _axes in (1, 2, 3):
    _adaptive_max_pools(_axes)


# -- powers ----------------------------------------------------------------------------------------


def _lp_pools(axes: int) -> Callable[..., Any]:
    name = f"lp_pool{axes}d"
    average: Callable[..., Any] = (avg_pool1d, avg_pool2d, avg_pool3d)[axes - 1]

    def function(
        input: Operand,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Value:
        f.tensors_only(name, input=input)
        count = math.prod(each(name, "kernel_size", kernel_size, axes))
        mean = average(f.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
        magnitude = f.mul(_sign(mean), f.relu(f.abs(mean)))
        return f.pow(f.mul(magnitude, count), 1.0 / norm_type)

    says = f"""Return the sums of powers in windows over {axes} axes, and the root of these.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        norm_type: the power p of ``sum(x ** p) ** (1 / p)``.
        kernel_size: sizes of a window.
        stride: steps from window to window; by default the sizes of a window.
        ceil_mode: True for a further window over the rest of each axis.
    """
    return ROWS.function("nn.functional")(_named(function, name, says))


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pools(axes) for axes in (1, 2, 3))


# -- fractional pooling ----------------------------------------------------------------------------


def _begins(samples: Array, n: int, count: int, kernel: int) -> Any:
    """Return where each of ``count`` windows begins, (..., count), from random numbers (...)."""
    last = np.full((*samples.shape, 1), n - kernel, np.int64)
    if count == 1:
        return last
    alpha = samples.dtype.type(n - kernel) / samples.dtype.type(count - 1)
    u = core_reshape(samples, (*samples.shape, 1))
    steps = np.arange(count, dtype=samples.dtype)
    places = convert(ew.mul(ew.add(u, steps), alpha), np.int64)
    places = ew.sub(places, convert(ew.mul(u, alpha), np.int64))
    is_last = np.arange(count) == count - 1
    return ew.where(is_last, n - kernel, places)


def _fractional_positions(
    x: Array, samples: Array, kernel: tuple[int, ...], counts: tuple[int, ...]
) -> Any:
    axes = len(kernel)
    stack, sizes = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    planes = math.prod(stack)
    u = core_reshape(samples, (planes, axes))
    flat: Any = np.zeros((1,) * (1 + 2 * axes), np.int64)
    for k in range(axes):
        # In two dimensions, the first number is that of the last axis.
        column = axes - 1 - k if axes == 2 else k
        number = core_reshape(_column(u, column), (planes,))
        begin = _begins(number, sizes[k], counts[k], kernel[k])
        shape = [planes, *(1,) * (2 * axes)]
        shape[1 + k] = counts[k]
        inner = np.arange(kernel[k]).reshape([
            kernel[k] if j == axes + k else 1 for j in range(2 * axes)
        ])  # fmt: skip
        place = ew.add(core_reshape(begin, tuple(shape)), inner[None])
        flat = ew.add(ew.mul(flat, sizes[k]), place)
    spots, width = math.prod(counts), math.prod(kernel)
    flat = core_reshape(broadcast_to(flat, (planes, *counts, *kernel)), (planes, spots * width))
    line = core_reshape(x, (planes, math.prod(sizes)))
    inside = core_reshape(take_along_axis(line, flat, 1), (planes, spots, width))
    best = core_reshape(argmax(inside, 2), (planes, spots, 1))
    chosen = take_along_axis(core_reshape(flat, (planes, spots, width)), best, 2)
    return core_reshape(chosen, (*stack, *counts))


def _column(u: Array, k: int) -> Any:
    return index_static(u, ((None, None, None), (k, k + 1, None)))


def _taken(
    x: Array, positions: Array, samples: Array, kernel: tuple[int, ...], counts: tuple[int, ...]
) -> Any:
    return take_flat(x, positions, len(kernel))


FRACTIONAL_POSITIONS = Op("FractionalPositionsBackward0", _fractional_positions, in_rows=True)
FRACTIONAL = {
    axes: Op(
        f"FractionalMaxPool{axes}DBackward0",
        _taken,
        (("result1", 1), ("self", 0)),
        edges=(0,),
        keeps=("result1", "self"),
        details=_fields("kernel_size", "output_size"),
        in_rows=True,
        called=f"fractional_max_pool{axes}d",
    )
    for axes in (2, 3)
}


_ORDER_OF_CHECKS = ("time", -3), ("width", -1), ("height", -2)


def _fractional_pool(
    axes: int, input: Operand, kernel_size: object, output_size: object, samples: Operand
) -> tuple[Value, Value]:
    name = f"fractional_max_pool{axes}d"
    f.tensors_only(name, input=input, _random_samples=samples)
    shape, given = f.shape_of(input), f.shape_of(samples)
    kernel, counts = (
        each(name, argument, value, axes)
        for argument, value in (("kernel_size", kernel_size), ("output_size", output_size))
    )
    for argument, numbers, given_sizes in (
        ("kernel_size", kernel, kernel_size),
        ("output_size", counts, output_size),
    ):
        is_listed = isinstance(given_sizes, (tuple, list))
        if len(numbers) != axes or (is_listed and len(given_sizes) != axes):
            words = "Ints" if axes == 2 else "three Ints"
            raise RuntimeError(
                f"{name}: {argument} must either be a single Int or tuple of {words}"
            )
    if len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"{name}(): Expected {axes + 1}D or {axes + 2}D tensor, but got: {list(shape)}"
        )
    for k in range(1, len(shape)):
        if shape[k] == 0:
            raise RuntimeError(
                f"{name}{'_out' * (axes == 3)}(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got{list(shape)} with dimension {k} being empty."
            )
    if f.dtype_of(samples) != f.dtype_of(input):
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    channels, batch = shape[-axes - 1], shape[0] if len(shape) == axes + 2 else 1
    if len(given) != 3:
        raise RuntimeError("Expect _random_samples to have 3 dimensions got " + str(len(given)))
    if given[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if given[1] != channels:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if given[2] != axes:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {axes} got {given[2]}.")
    for word, k in (("height", -2), ("width", -1)) if axes == 2 else _ORDER_OF_CHECKS:
        # In three dimensions, PyTorch wants one more element.
        if counts[k] + kernel[k] - 1 > shape[k] - (axes == 3):
            raise RuntimeError(
                f"{name}{'_out' * (axes == 3)}(): pool {word} {kernel[k]} too large relative to "
                f"input {word} {shape[k]}"
            )
    check_kinds(input, "f", f"{name}_out_frame")
    if given[0] > batch:
        samples = shaping.narrow(samples, 0, 0, batch)
    with unseen():
        positions = apply(FRACTIONAL_POSITIONS, (input, samples), (kernel, counts))
    return apply(FRACTIONAL[axes], (input, positions, samples), (kernel, counts)), positions


def _fractional_pools(axes: int) -> None:
    name = f"fractional_max_pool{axes}d"

    def functional(
        input: Operand,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Operand | None = None,
    ) -> Any:
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        f.tensors_only(name, input=input)
        shape = f.shape_of(input)
        if output_size is None:
            ratios = output_ratio
            if axes == 3 and not isinstance(ratios, (tuple, list)):
                ratios = (ratios,) * 3
            if len(ratios) > axes:
                raise ValueError(
                    f"{name} requires output_ratio to either be a single Int or tuple of Ints."
                )
            output_size = [int(n * r) for n, r in zip(shape[-axes:], ratios, strict=True)]
        if _random_samples is None:
            from functrace.torch.random.factories import rand

            batch = 1 if len(shape) == axes + 1 else shape[0]
            dtype = DTYPES[f.dtype_of(input)]
            _random_samples = rand(batch, shape[-axes - 1], axes, dtype=dtype)
        found = _fractional_pool(axes, input, kernel_size, output_size, _random_samples)
        return found if return_indices else found[0]

    def function(
        input: Operand, kernel_size: Sizes, output_size: Sizes, random_samples: Operand
    ) -> Any:
        return _fractional_pool(axes, input, kernel_size, output_size, random_samples)

    says = f"""Return the maxima of windows at random places over {axes} axes.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        kernel_size: sizes of a window.
        output_size: numbers of windows.
        output_ratio: numbers of windows as parts of the sizes.
        return_indices: True to return the positions of the maxima, too.
        _random_samples: numbers from 0 to 1, shape (N, C, {axes}).
    """
    ROWS.function("nn.functional")(_named(functional, name, says))
    ROWS.function("_C._nn")(_named(function, name, f"Return the values and positions of `{name}`."))

    def with_indices(
        input: Operand,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: object = None,
        return_indices: bool = False,
        _random_samples: Operand | None = None,
    ) -> Any:
        return functional(input, kernel_size, output_size, output_ratio, True, _random_samples)

    ROWS.function("nn.functional")(
        _named(
            with_indices, f"{name}_with_indices", f"Return the values and positions of `{name}`."
        )
    )


for _axes in (2, 3):
    _fractional_pools(_axes)


# -- unpooling -------------------------------------------------------------------------------------

MAX_UNPOOL = {
    axes: Op(
        f"MaxUnpool{axes}DBackward0",
        keeping_channels_last(put_flat) if axes == 2 else put_flat,
        (("indices", 1),),
        edges=(0,),
        keeps=("indices",),
        in_rows=axes == 3,
        called=f"max_unpool{axes}d",
    )
    for axes in (2, 3)
}


def _unpool(axes: int, input: Operand, indices: Operand, output_size: Sequence[int]) -> Value:
    name = f"max_unpool{axes}d"
    f.tensors_only(name, input=input, indices=indices)
    shape, sizes = f.shape_of(input), tuple(output_size)
    if f.dtype_of(indices) != np.int64:
        found = DTYPES[f.dtype_of(indices)].printed
        raise RuntimeError(f"elements in indices should be type int64 but got: {found}")
    if len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Input to max_unpooling{axes}d should be a {axes + 1}d or {axes + 2}d Tensor, but got "
            f"a tensor with {len(shape)} dimensions."
        )
    if shape != f.shape_of(indices):
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) but "
            f"got indices tensor with shape: {list(f.shape_of(indices))}"
        )
    places = indices._array if isinstance(indices, Tensor) else indices
    if isinstance(places, np.ndarray):
        bad = places[(places < 0) | (places >= math.prod(sizes))]
        if bad.size:
            volumes = "x".join(map(str, sizes))
            raise RuntimeError(
                f"Found an invalid max index: {bad.flat[0]} (output volumes are of size {volumes})"
            )
    return apply(MAX_UNPOOL[axes], (input, indices), (sizes,))


def _unpooled_sizes(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    given: Any,
) -> tuple[int, ...]:
    """Return the sizes of the output: the given ones, if a pooling could have had such an input.

    Raises:
        ValueError: otherwise.
    """
    axes = len(kernel)
    inner = shape[len(shape) - axes :]
    usual = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(inner, kernel, stride, padding, strict=True)
    ]
    if given is None:
        return tuple(usual)
    sizes = tuple(given)
    if len(sizes) == axes + 2:
        sizes = sizes[2:]
    if len(sizes) != axes:
        raise ValueError(
            f"output_size should be a sequence containing {axes} or {axes + 2} elements, but it "
            f"has a length of '{len(sizes)}'"
        )
    for k, (n, m, s) in enumerate(zip(sizes, usual, stride, strict=True)):
        if not m - s < n < m + s:
            raise ValueError(
                f'invalid output_size "{sizes}" (dim {k} must be between {m - s} and {m + s})'
            )
    return sizes


_SPELLED = {2: "two elements (height, width)", 3: "three elements (depth, height, width)"}


def _unpools(axes: int) -> None:
    name = f"max_unpool{axes}d"

    def functional(
        input: Operand,
        indices: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: object = None,
    ) -> Value:
        f.tensors_only(name, input=input, indices=indices)
        kernel = each(name, "kernel_size", kernel_size, axes)
        steps = kernel if stride is None else each(name, "stride", stride, axes)
        around = each(name, "padding", padding, axes)
        if axes > 1 and len(kernel) < axes:
            raise RuntimeError(
                f"There should be exactly {_SPELLED[axes]} in output_size, but got {len(kernel)} "
                "elements."
            )
        if min(len(kernel), len(steps), len(around)) < axes or len(kernel) > axes:
            raise IndexError("tuple index out of range")
        sizes = _unpooled_sizes(f.shape_of(input), kernel, steps, around, output_size)
        if axes > 1:
            return _unpool(axes, input, indices, sizes)
        planes = shaping.unsqueeze(input, -1), shaping.unsqueeze(indices, -1)
        return shaping.squeeze(_unpool(2, *planes, (*sizes, 1)), -1)

    def function(input: Operand, indices: Operand, output_size: object, *rest: object) -> Value:
        return _unpool(axes, input, indices, integers(name, "output_size", output_size))

    says = f"""Return images with the maxima of a pooling over {axes} axes at their places, and 0.

    Args:
        input: maxima, shape (N, C, *counts) or (C, *counts).
        indices: their positions.
        kernel_size: sizes of a window of the pooling.
        stride: its steps; by default the sizes of a window.
        padding: its padding.
        output_size: sizes of the images, if these are not the smallest possible ones.
    """
    ROWS.function("nn.functional")(_named(functional, name, says))
    if axes > 1:
        ROWS.function("_C._nn")(_named(function, name, f"Return `{name}` for given sizes."))


for _axes in (1, 2, 3):
    _unpools(_axes)
