"""The rows of convolutions: ``conv1d`` to ``conv3d``, transposed ones, and ``conv_tbc``.

The products are the core's (`functrace.ops.convolution`), and so are their derivatives.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.convolution import correlate, correlate_input
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.shaping import convert, permute
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import padding as pads
from functrace.torch.functions import shaping
from functrace.torch.functions.spatial import (
    Sizes,
    each,
    in_c_order,
    integer,
    integers,
    keeping_channels_last,
    spelled,
)
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Value
from functrace.tracing import bind
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)


def _added(y: Array, bias: Array) -> Any:
    """Add a bias per channel, into the new array itself if it is no traced value."""
    column = core_reshape(bias, (bias.shape[0], *(1,) * (y.ndim - 2)))
    if type(y) is np.ndarray and type(bias) is np.ndarray and y.dtype == bias.dtype:
        y += column
        return y
    return ew.add(y, column)


def _convolved(*given: Any) -> Any:
    *operands, stride, padding, dilation, transposed, output_padding, groups = given
    dtype = operands[0].dtype
    x, w, *bias = [convert(v, np.float32) if dtype == np.float16 else v for v in operands]
    if transposed:
        sizes = _transposed_sizes(x.shape, w.shape, stride, padding, dilation, output_padding)
        if all(m < s for m, s in zip(output_padding, stride, strict=True)):
            y = correlate_input(x, w, stride, padding, dilation, groups, sizes)
        else:
            y = _cut_out(x, w, stride, padding, dilation, groups, sizes)
    else:
        y = correlate(x, w, stride, padding, dilation, groups)
    if bias:
        y = _added(y, bias[0])
    return convert(y, dtype) if dtype == np.float16 else y


_keeping_channels_last = keeping_channels_last(_convolved, operands=2)


def _laid_out(*given: Any) -> Any:
    """Return `_convolved` in PyTorch's memory layout: ``channels_last`` if images or filters are,
    except that of double precision over three axes.
    """
    x = given[0]
    if type(x) is np.ndarray and x.ndim == 5 and x.dtype in (np.float64, np.complex128):
        return in_c_order(_convolved(*given))
    return _keeping_channels_last(*given)


def _cut_out(
    x: Array,
    w: Array,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    sizes: tuple[int, ...],
) -> Any:
    """Return a transposed convolution as part of the one without padding: with so many elements at
    the end that there would be another window.
    """
    none = (0,) * len(sizes)
    whole = _transposed_sizes(x.shape, w.shape, stride, none, dilation, none)
    y = correlate_input(x, w, stride, none, dilation, groups, whole)
    ends = [min(p + n, m) for p, n, m in zip(padding, sizes, whole, strict=True)]
    part = tuple([(p, end, None) for p, end in zip(padding, ends, strict=True)])
    y = index_static(y, (_ALL, _ALL, *part))
    place = tuple([(0, end - p, None) for p, end in zip(padding, ends, strict=True)])
    return bind(embed_p, (y,), ((_ALL, _ALL, *place), (*y.shape[:2], *sizes)))


def _transposed_sizes(
    shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[int, ...]:
    every = zip(shape[2:], kernel[2:], stride, padding, dilation, output_padding, strict=True)
    return tuple([(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, d, more in every])


_FIELDS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def _details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    bias = specs[2].shape if len(specs) == 3 else (0,)
    return dict(zip(_FIELDS, params, strict=True)) | {"bias_sym_sizes_opt": bias}


_SAVES = ("input", 0), ("weight", 1)
CONVOLUTION = {
    biased: Op(
        "ConvolutionBackward0",
        _laid_out,
        _SAVES,
        edges=(0, 1, 2 if biased else None),
        keeps=("input", "weight"),
        details=_details,
    )
    for biased in (False, True)
}


def _check_dtypes(
    axes: int, transposed: bool, input: Operand, weight: Operand, bias: Operand | None
) -> None:
    """Check that dtypes agree.

    Raises:
        RuntimeError: in PyTorch's words.
        NotImplementedError: for bools.
    """
    x, w = (DTYPES[f.dtype_of(v)] for v in (input, weight))
    if x is not w:
        if x.printed == "Float":
            kinds = f"torch.{x.printed}Tensor", f"torch.{w.printed}Tensor"
            raise RuntimeError(
                "Input type ({}) and weight type ({}) should be the same or input should be a "
                "MKLDNN tensor and weight is a dense tensor".format(*kinds)
            )
        raise RuntimeError(errors.scalar_types(x.printed, w.printed))
    if bias is not None and f.dtype_of(bias) != f.dtype_of(input):
        b = DTYPES[f.dtype_of(bias)]
        if x.printed == "Float":
            kinds = x.printed.lower(), b.printed.lower()
            raise RuntimeError(
                "Input type ({}) and bias type ({}) should be the same".format(*kinds)
            )
        raise RuntimeError(errors.scalar_types(x.printed, b.printed))
    if f.dtype_of(input) == np.bool_:
        name = f"slow_conv{max(axes, 2)}d_cpu"
        if transposed:
            name = f"slow_conv_transpose{max(axes, 2)}d_out_cpu"
        raise NotImplementedError(errors.no_kernel(name).format("Bool"))


def _check_positive(params: dict[str, tuple[int, ...]], groups: int) -> None:
    if min(params["padding"], default=0) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(params["output_padding"], default=0) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(params["stride"], default=1) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(params["dilation"], default=1) <= 0:
        raise RuntimeError(
            f"dilation should be greater than zero, but got {list(params['dilation'])}"
        )
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _check_shapes(
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    bias: tuple[int, ...] | None,
    params: dict[str, tuple[int, ...]],
    transposed: bool,
    groups: int,
) -> None:
    """Check that input, weight and bias fit.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    if len(weight) != len(shape):
        raise RuntimeError(
            f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight "
            f"{list(weight)}, but got {len(shape)}-dimensional input of size {list(shape)} instead"
        )
    given = f"Given transposed={int(transposed)}" if transposed else f"Given groups={groups}"
    if weight[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(weight)} instead"
        )
    if weight[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{list(weight)}] instead"
        )
    wanted = weight[0] if transposed else weight[1] * groups
    if shape[1] != wanted:
        raise RuntimeError(
            f"{given}, weight of size {list(weight)}, expected input{list(shape)} to have {wanted} "
            f"channels, but got {shape[1]} channels instead"
        )
    outputs = weight[1] * groups if transposed else weight[0]
    if bias is not None and bias != (outputs,):
        begin = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{begin} of size {list(weight)}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {list(bias)} instead"
        )
    if 0 in shape[2:]:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(shape)}"
        )
    if transposed:
        _check_transposed(shape, weight, params)
        return
    padded = [n + 2 * p for n, p in zip(shape[2:], params["padding"], strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(weight[2:], params["dilation"], strict=True)]
    if any(n < k for n, k in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({spelled(padded)}). Kernel size: "
            f"({spelled(reach)}). Kernel size can't be greater than actual input size"
        )


def _check_transposed(
    shape: tuple[int, ...], weight: tuple[int, ...], params: dict[str, tuple[int, ...]]
) -> None:
    more, stride, dilation = params["output_padding"], params["stride"], params["dilation"]
    if any(m >= s and m >= d for m, s, d in zip(more, stride, dilation, strict=True)):
        words = ("depth", "height", "width")[-max(len(more), 2) :]
        parts = [
            f"{name}_{word}: {n}"
            for name, numbers in (
                ("output_padding", more),
                ("stride", stride),
                ("dilation", dilation),
            )
            for word, n in zip(words, (*(int(name != "output_padding"),) * (2 - len(numbers)), *numbers),
                               strict=True)
        ]  # fmt: skip
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            + " ".join(parts)
        )
    sizes = _transposed_sizes(shape, weight, stride, params["padding"], dilation, more)
    if min(sizes) < 1:
        line = (1,) if len(sizes) == 1 else ()  # PyTorch computes one axis as two
        raise RuntimeError(
            f"Given input size per channel: ({spelled((*line, *shape[2:]))}). Calculated output "
            f"size per channel: ({spelled((*line, *sizes))}). Output size is too small"
        )


def _run(
    name: str,
    rank: int,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    numbers: dict[str, Any],
    groups: Any,
    transposed: bool,
) -> Value:
    """Check the arguments of a batched convolution, and apply it."""
    shape, filters = f.shape_of(input), f.shape_of(weight)
    axes = len(filters) - 2
    params: dict[str, tuple[int, ...]] = {}
    for argument, value in numbers.items():
        found = each(name, argument, value, rank)
        if len(found) != axes:
            raise RuntimeError(
                f"expected {argument} to be a single integer value or a list of {axes} values to "
                f"match the convolution dimensions, but got {argument}={list(found)}"
            )
        params[argument] = found
    count = integer(name, "groups", groups)
    _check_positive(params, count)
    _check_shapes(
        shape, filters, None if bias is None else f.shape_of(bias), params, transposed, count
    )
    _check_dtypes(axes, transposed, input, weight, bias)
    operands = (input, weight) if bias is None else (input, weight, bias)
    every = {**params, "transposed": transposed, "groups": count}
    return apply(CONVOLUTION[bias is not None], operands, tuple([every[k] for k in _FIELDS]))


def _batched(name: str, axes: int, input: Operand) -> tuple[Operand, bool]:
    """Return the input with a batch axis, and True if it had one."""
    shape = f.shape_of(input)
    if len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {name}, but got "
            f"input of size: {list(shape)}"
        )
    return (input, True) if len(shape) == axes + 2 else (shaping.unsqueeze(input, 0), False)


def _padded_alike(
    name: str, input: Operand, weight: Operand, stride: Any, dilation: Any
) -> tuple[Operand, tuple[int, ...]]:
    """Return the input and the padding for an output of the same size: an odd total is padded
    before, with one more zero after.
    """
    kernel = f.shape_of(weight)[2:]
    if set(integers(name, "stride", stride)) != {1}:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    steps = each(name, "dilation", dilation, len(kernel))
    total = [d * (k - 1) for k, d in zip(kernel, steps, strict=True)]
    if any(n % 2 for n in total):
        warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created"
        )
        extra = [n for t in reversed(total) for n in (0, t % 2)]
        input = pads.constant_pad_nd(input, extra)
    return input, tuple([n // 2 for n in total])


def _convolution(axes: int) -> Callable[..., Any]:
    name = f"conv{axes}d"

    def function(
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Value:
        f.tensors_only(name, input=input, weight=weight)
        input, is_batched = _batched(name, axes, input)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise RuntimeError(f"Invalid padding string: '{padding}'")
            if padding == "valid":
                padding = 0
            else:
                input, padding = _padded_alike(name, input, weight, stride, dilation)
        numbers = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "output_padding": 0,
        }
        y = _run(name, axes, input, weight, bias, numbers, groups, False)
        return y if is_batched else shaping.squeeze(y, 0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return the convolution of images with filters, over {axes} axes.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        weight: filters, shape (O, C / groups, *kernel).
        bias: shape (O,).
        stride: steps from window to window.
        padding: zeros around the images; or ``"valid"`` for none, ``"same"`` for as many as keep
            the sizes.
        dilation: steps inside of a window.
        groups: number of parts of the channels, each with its own filters.
    """
    return ROWS.function("function nn.functional")(function)


conv1d, conv2d, conv3d = (_convolution(axes) for axes in (1, 2, 3))


def _transposed(axes: int) -> Callable[..., Any]:
    name = f"conv_transpose{axes}d"

    def function(
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Value:
        f.tensors_only(name, input=input, weight=weight)
        input, is_batched = _batched(name, axes, input)
        numbers = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "output_padding": output_padding,
        }
        y = _run(name, axes, input, weight, bias, numbers, groups, True)
        return y if is_batched else shaping.squeeze(y, 0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return the transposed convolution over {axes} axes.

    Args:
        input: shape (N, C, *sizes) or (C, *sizes).
        weight: filters, shape (C, O / groups, *kernel).
        bias: shape (O,).
        stride: steps from window to window of the output.
        padding: elements left out around the output.
        output_padding: further elements at the end of each axis of the output.
        groups: number of parts of the channels, each with its own filters.
        dilation: steps inside of a window.
    """
    return ROWS.function("function nn.functional")(function)


conv_transpose1d, conv_transpose2d, conv_transpose3d = (_transposed(axes) for axes in (1, 2, 3))


@ROWS.function("function")
def convolution(
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Value:
    """Return the convolution (or the transposed one) of batched images of any rank."""
    f.tensors_only("convolution", input=input, weight=weight)
    numbers = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output_padding": output_padding,
    }
    axes = len(f.shape_of(weight)) - 2
    return _run("convolution", axes, input, weight, bias, numbers, groups, bool(transposed))


def _convolved_in_time(x: Array, w: Array, bias: Array, pad: int) -> Any:
    y = correlate(permute(x, (1, 2, 0)), permute(w, (2, 1, 0)), (1,), (pad,), (1,), 1)
    return permute(_added(y, bias), (2, 0, 1))


CONV_TBC = Op(
    "ConvTbcBackward0",
    _convolved_in_time,
    (("self", 0), ("weight", 1), ("bias", 2)),
    keeps=("self", "weight", "bias"),
    details=lambda specs, params: {"pad": params[0]},
    in_rows=True,
)


@ROWS.function("function nn.functional")
def conv_tbc(input: Operand, weight: Operand, bias: Operand, pad: int = 0) -> Value:
    """Return the convolution along the first axis.

    Args:
        input: shape (time, N, C).
        weight: shape (kernel, C, O).
        bias: shape (O,).
        pad: zeros before and after.
    """
    f.tensors_only("conv_tbc", input=input, weight=weight, bias=bias)
    shape, filters, b = f.shape_of(input), f.shape_of(weight), f.shape_of(bias)
    if len(shape) != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if len(filters) != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if len(b) != 1:
        raise RuntimeError("Bias must be 1-D")
    if shape[2] != filters[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if b[0] != filters[2]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    _check_dtypes(1, False, input, weight, bias)
    return apply(CONV_TBC, (input, weight, bias), (integer("conv_tbc", "pad", pad),))
