"""The rows of activations: ``relu``, ``gelu``, ``leaky_relu``, ``softmax`` and their relatives.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import reductions as core_reductions
from functrace.ops.indexing import index_static
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply, recorded_gradient
from functrace.torch.dispatch.promotion import arithmetic, for_kinds
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.dispatch.unseen import unseen
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import factories, in_place, picking, reductions, shaping
from functrace.torch.functions.spatial import in_single
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, limits_of
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.torch.tensors.views import write
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_SELF = (("self", 0),)
_OF_SELF = (("grad_output", 0), ("self", 1))


def _details(*names: str) -> Callable[..., dict[str, Any]]:
    """Return the saved fields of an op's static parameters."""
    return lambda _specs, params: dict(zip(names, params, strict=False))


def _op(
    name: str,
    function: Callable[..., Any],
    kernel: str,
    *params: str,
    kinds: str = "f",
    refusal: type[Exception] = NotImplementedError,
    second: str = "",
    node: str = "",
) -> Op:
    """Return the op of an activation of one operand, which PyTorch saves."""
    return Op(
        f"{node or name}Backward0",
        in_single(function),
        _SELF,
        arithmetic.checked(for_kinds(kinds, kernel, refusal)),
        details=_details(*params) if params else None,
        gradient=recorded_gradient(f"{second or name}BackwardBackward0", *_OF_SELF)
        if second != "no"
        else None,
    )


# -- piecewise linear ------------------------------------------------------------------------------


def _hardtanh(x: Array, low: float, high: float) -> Any:
    if x.dtype.kind not in "fV":
        low, high = int(low), int(high)
    inside = ew.logical_and(ew.greater(x, low), ew.less(x, high))
    bounded = ew.minimum(ew.maximum(x, low), high)
    if x.dtype.kind not in "fV":
        return bounded
    unknown = ew.isnan(x)
    return ew.where(ew.logical_or(inside, unknown), x, ew.stop_gradient(bounded))


def _leaky(x: Array, slope: float) -> Any:
    return ew.where(ew.greater(x, 0), x, ew.mul(x, slope))


def _threshold(x: Array, threshold: complex, value: complex, *_kinds: type) -> Any:
    bound, value = threshold.real, value.real
    return ew.where(ew.less_equal(x, bound), x.dtype.type(value), x)


def _real_numbers(*given: Any) -> tuple[Any, ...]:
    """Return numbers for `_threshold`, and their types: 1 and True are saved as they are given.

    Raises:
        TypeError: for tensors that require grad, or have several elements.
        RuntimeError: for numbers that are not real.
    """
    found = []
    for name, place, x in zip(("threshold", "value"), (1, 2), given, strict=True):
        if isinstance(x, Tensor):
            if x.requires_grad or x.dim():
                raise TypeError(errors.must_be("threshold", name, place, "Number", "Tensor"))
            x = x.item()
        if isinstance(x, complex) and x.imag:
            raise RuntimeError("value cannot be converted to type float without overflow")
        found.append(x)
    return *found, *map(type, found)


def _hardshrink(x: Array, bound: float) -> Any:
    small = ew.logical_and(ew.greater_equal(x, -bound), ew.less_equal(x, bound))
    return ew.where(small, 0, x)


def _softshrink(x: Array, bound: float) -> Any:
    right, left = ew.greater(x, bound), ew.less(x, -bound)
    inside = ew.where(ew.isnan(x), ew.stop_gradient(x), 0)
    return ew.where(right, ew.sub(x, bound), ew.where(left, ew.add(x, bound), inside))


def _hardsigmoid(x: Array) -> Any:
    return ew.div(_hardtanh(ew.add(x, 3), 0, 6), 6)


def _hardswish(x: Array) -> Any:
    right, left = ew.greater_equal(x, 3), ew.less_equal(x, -3)
    middle = ew.div(ew.mul(x, ew.add(x, 3)), 6)
    return ew.where(left, ew.stop_gradient(ew.mul(x, 0)), ew.where(right, x, middle))


# -- smooth ----------------------------------------------------------------------------------------


def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Any:
    # At 0, PyTorch's first derivative is that of the left part, and the second is 0.
    left = ew.less(x, 0)
    inner = ew.where(left, x, 0)
    curved = ew.mul(ew.expm1(inner if input_scale == 1 else ew.mul(inner, input_scale)),
                    alpha * scale)  # fmt: skip
    slope = ew.where(ew.greater(x, 0), scale, alpha * scale * input_scale)
    return ew.where(left, curved, ew.mul(x, convert(slope, x.dtype)))


def _celu(x: Array, alpha: float) -> Any:
    return _elu(x, alpha, 1.0, 1.0 / alpha)


def _gelu(x: Array, approximate: str) -> Any:
    half = ew.mul(x, 0.5)
    if approximate == "tanh":
        inner = ew.add(x, ew.mul(ew.mul(ew.square(x), x), 0.044715))
        return ew.mul(half, ew.add(ew.tanh(ew.mul(inner, math.sqrt(2 / math.pi))), 1))
    from functrace.ops.special.errors import erf

    tail = erf(ew.mul(x, math.sqrt(0.5)))
    return ew.mul(half, ew.add(tail if tail.dtype == x.dtype else convert(tail, x.dtype), 1))


def _silu(x: Array) -> Any:
    if x.dtype.kind == "c":
        return ew.div(x, ew.add(ew.exp(ew.neg(x)), 1))
    return ew.mul(x, ew.sigmoid(x))


def _mish(x: Array) -> Any:
    return ew.mul(x, ew.tanh(ew.logaddexp(x, ew.mul(x, 0))))


def _softplus(x: Array, beta: float, threshold: float) -> Any:
    scaled = ew.mul(x, beta)
    linear = ew.greater(scaled, threshold)
    inner = ew.where(linear, 0, scaled)
    return ew.where(linear, x, ew.div(ew.log1p(ew.exp(inner)), beta))


def log_sigmoid_of(x: Array) -> Any:
    """Return the logarithm of the sigmoid of an array."""
    left = ew.less(x, 0)
    rest = ew.exp(ew.where(left, x, ew.neg(x)))
    return ew.sub(ew.where(left, x, 0), ew.log1p(rest))


def _log_sigmoid(x: Array) -> Any:
    result = log_sigmoid_of(x)
    return result, ew.stop_gradient(ew.mul(result, 0))


def part(x: Array, axis: int, start: int, stop: int) -> Any:
    """Return the elements of an array from ``start`` to ``stop`` along an axis."""
    return index_static(x, (*((None, None, None),) * axis, (start, stop, None)))


def _glu(x: Array, dim: int) -> Any:
    size = x.shape[dim] // 2
    first, second = (part(x, dim, k * size, (k + 1) * size) for k in (0, 1))
    return ew.mul(first, ew.sigmoid(second))


HARDTANH = _op(
    "Hardtanh",
    _hardtanh,
    "hardtanh_cpu",
    "min_val",
    "max_val",
    kinds="uif",
)
LEAKY_RELU = _op("LeakyRelu", _leaky, "leaky_relu_cpu", "negative_slope")
THRESHOLD = _op("Threshold", _threshold, "threshold_cpu", "threshold", kinds="uif")
HARDSHRINK = _op("Hardshrink", _hardshrink, "hardshrink_cpu", "lambd")
SOFTSHRINK = _op("Softshrink", _softshrink, "softshrink_check", "lambd")
HARDSIGMOID = _op("Hardsigmoid", _hardsigmoid, "hardsigmoid_cpu", second="no")
HARDSWISH = _op("Hardswish", _hardswish, "hardswish_cpu")
ELU = _op("Elu", _elu, "elu_cpu", "alpha", "scale", "input_scale")
CELU = _op("Celu", _celu, "elu_cpu", "alpha", second="Elu")
GELU = _op("Gelu", _gelu, "GeluKernelImpl", "approximate")
SILU = _op("Silu", _silu, "silu_cpu", kinds="fc", second="no")
MISH = _op("Mish", _mish, "mish_cpu", second="no")
SOFTPLUS = _op("Softplus", _softplus, "softplus_cpu", "beta", "threshold")
GLU = _op("Glu", _glu, "glu_cpu", "dim")
LOG_SIGMOID = Op(
    "LogSigmoidBackward0",
    in_single(_log_sigmoid),
    (("self", 0), ("buffer", -2)),
    arithmetic.checked(for_kinds("f", "log_sigmoid_cpu")),
    keeps=("buffer",),
    constants=(1,),
    in_rows=True,
    gradient=recorded_gradient("LogSigmoidBackwardBackward0", ("grad_output", 0), ("self", 1)),
)
IN_PLACE_NODES = {ELU: "Elu", CELU: "Celu", LEAKY_RELU: "LeakyRelu", THRESHOLD: "Threshold"}
_IN_PLACE = {op: replace(op, node=f"{name}Backward1") for op, name in IN_PLACE_NODES.items()}


_OF_SLOPES = {ELU: "elu", CELU: "elu", LEAKY_RELU: "leakyReLu"}
"""Activations in place whose derivative PyTorch computes from the result, which a negative slope
makes ambiguous."""


def _apply(op: Op, input: Operand, params: tuple[Any, ...], inplace: bool, name: str) -> Value:
    """Apply an activation, or write its result into the tensor."""
    if not isinstance(input, Tensor):
        f.tensors_only(name, input=input)
    if not inplace:
        return apply(op, (input,), params)
    made = _write(op, input, params)
    if op in _OF_SLOPES and params[0] < 0:
        _refuse_derivative(made, _OF_SLOPES[op])
    return made


def _refuse_derivative(made: Value, name: str) -> None:
    """Make the backward pass refuse to pass a result that does not determine the input's sign."""

    def refuse(_gradients: Any) -> None:
        raise RuntimeError(errors.elu_in_place(name))

    if isinstance(made, Tensor) and made.grad_fn is not None:
        made.grad_fn.register_prehook(refuse)


def _write(op: Op, input: Operand, params: tuple[Any, ...] = ()) -> Value:
    if not isinstance(input, Tensor):
        f.tensors_only(op.node, input=input)
    return write(_IN_PLACE.get(op, op), (input,), params)


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _plain(
    name: str, op: Op, doc: str, forms: str = "_C._nn", in_place_forms: str = "_C._nn"
) -> None:
    """Add an activation without parameters, with its in-place form."""

    def in_functional(input: Operand, inplace: bool = False) -> Value:
        return _apply(op, input, (), inplace, name)

    def plain(input: Operand) -> Value:
        return _apply(op, input, (), False, name)

    def writing(input: Operand) -> Value:
        return _write(op, input)

    ROWS.function("nn.functional", name=name)(_named(in_functional, name, doc))
    ROWS.function(forms, name=name)(_named(plain, name, doc))
    ROWS.function(in_place_forms, name=f"{name}_")(
        _named(writing, f"{name}_", f"`{name}`, in place.")
    )


_plain("silu", SILU, "Return ``input * sigmoid(input)``.")
_plain("mish", MISH, "Return ``input * tanh(softplus(input))``.")
_plain("hardswish", HARDSWISH, "Return ``input * relu6(input + 3) / 6``.")
_plain("hardsigmoid", HARDSIGMOID, "Return ``relu6(input + 3) / 6``.")


@ROWS.function("nn.functional", name="relu")
def relu(input: Operand, inplace: bool = False) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""
    return relu_(input) if inplace else _relu(input)


@ROWS.function("function nn.functional")
def relu_(input: Operand) -> Value:
    """`relu`, in place."""
    if not isinstance(input, Tensor):
        f.tensors_only("relu_", input=input)
    method: Any = input
    return method.relu_()


_relu = f.relu


@ROWS.function("function")
def sigmoid_(input: Tensor) -> Value:
    """`sigmoid`, in place."""
    return input.sigmoid_()


@ROWS.function("function")
def tanh_(input: Tensor) -> Value:
    """`tanh`, in place."""
    return input.tanh_()


def _check_hardtanh(input: Operand, low: float) -> None:
    dtype = f.dtype_of(input)
    if dtype == np.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if dtype.kind == "c":
        raise NotImplementedError(errors.CLAMP_OF_COMPLEX)
    if dtype.kind == "u" and low < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


@ROWS.function("nn.functional")
def hardtanh(
    input: Operand, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 0.

    Raises:
        ValueError: if the bounds are in the wrong order.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    f.tensors_only("hardtanh", input=input)
    _check_hardtanh(input, min_val)
    return _apply(HARDTANH, input, (min_val, max_val), inplace, "hardtanh")


@ROWS.function("nn.functional _C._nn")
def hardtanh_(input: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """`hardtanh`, in place."""
    return hardtanh(input, min_val, max_val, True)


@ROWS.function("_C._nn", name="hardtanh")
def plain_hardtanh(input: Operand, min_val: float = -1, max_val: float = 1) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 0."""
    return hardtanh(input, min_val, max_val)


@ROWS.function("nn.functional")
def relu6(input: Operand, inplace: bool = False) -> Value:
    """Return each element, limited to the range from 0 to 6."""
    f.tensors_only("relu6", input=input)
    _check_hardtanh(input, 0)
    return _apply(HARDTANH, input, (0, 6), inplace, "relu6")


@ROWS.function("_C._nn", name="relu6")
def plain_relu6(input: Operand) -> Value:
    """Return each element, limited to the range from 0 to 6."""
    return relu6(input)


@ROWS.function("_C._nn")
def relu6_(input: Operand) -> Value:
    """`relu6`, in place."""
    return relu6(input, True)


@ROWS.function("nn.functional")
def elu(input: Operand, alpha: float = 1.0, inplace: bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return _apply(ELU, input, (alpha, 1, 1), inplace, "elu")


@ROWS.function("nn.functional")
def elu_(input: Operand, alpha: float = 1.0) -> Value:
    """`elu`, in place."""
    return elu(input, alpha, True)


@ROWS.function("_C._nn", name="elu")
def plain_elu(input: Operand, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """Return ``scale * input`` where it is positive, ``scale * alpha * (exp(input_scale *
    input) - 1)`` elsewhere.
    """
    return _apply(ELU, input, (alpha, scale, input_scale), False, "elu")


@ROWS.function("_C._nn", name="elu_")
def plain_elu_(input: Operand, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """``_C._nn.elu``, in place."""
    return _apply(ELU, input, (alpha, scale, input_scale), True, "elu_")


_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)


@ROWS.function("nn.functional", name="selu")
def selu(input: Operand, inplace: bool = False) -> Value:
    """Return the scaled ELU of self-normalizing networks: ``1.0507 * elu(input, 1.6733)``."""
    return _apply(ELU, input, _SELU, inplace, "selu")


@ROWS.function("function", name="selu")
def plain_selu(input: Operand) -> Value:
    """Return the scaled ELU of self-normalizing networks: ``1.0507 * elu(input, 1.6733)``."""
    return selu(input)


@ROWS.function("function nn.functional")
def selu_(input: Operand) -> Value:
    """`selu`, in place."""
    return selu(input, True)


@ROWS.function("nn.functional", name="celu")
def celu(input: Operand, alpha: float = 1.0, inplace: bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere.

    Raises:
        RuntimeError: if ``alpha`` is 0.
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _apply(CELU, input, (alpha,), inplace, "celu")


@ROWS.function("function", name="celu")
def plain_celu(input: Operand, alpha: float = 1.0) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    return celu(input, alpha)


@ROWS.function("function nn.functional")
def celu_(input: Operand, alpha: float = 1.0) -> Value:
    """`celu`, in place."""
    return celu(input, alpha, True)


@ROWS.function("nn.functional", name="leaky_relu")
def leaky_relu(input: Operand, negative_slope: float = 0.01, inplace: bool = False) -> Value:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    return _apply(LEAKY_RELU, input, (negative_slope,), inplace, "leaky_relu")


@ROWS.function("_C._nn", name="leaky_relu")
def plain_leaky_relu(input: Operand, negative_slope: float = 0.01) -> Value:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    return leaky_relu(input, negative_slope)


@ROWS.function("nn.functional _C._nn")
def leaky_relu_(input: Operand, negative_slope: float = 0.01) -> Value:
    """`leaky_relu`, in place."""
    return leaky_relu(input, negative_slope, True)


@ROWS.function("nn.functional", name="threshold")
def threshold(input: Operand, threshold: float, value: float, inplace: bool = False) -> Value:
    """Return ``input`` where it is above the threshold, ``value`` elsewhere."""
    return _apply(THRESHOLD, input, _real_numbers(threshold, value), inplace, "threshold")


@ROWS.function("function", name="threshold")
def plain_threshold(input: Operand, threshold: float, value: float) -> Value:
    """Return ``input`` where it is above the threshold, ``value`` elsewhere."""
    return _apply(THRESHOLD, input, _real_numbers(threshold, value), False, "threshold")


@ROWS.function("function nn.functional")
def threshold_(input: Operand, threshold: float, value: float) -> Value:
    """`threshold`, in place."""
    return _apply(THRESHOLD, input, _real_numbers(threshold, value), True, "threshold_")


@ROWS.function("function method nn.functional")
def hardshrink(input: Operand, lambd: float = 0.5) -> Value:
    """Return ``input``, but 0 between ``-lambd`` and ``lambd``."""
    return _apply(HARDSHRINK, input, (lambd,), False, "hardshrink")


@ROWS.function("nn.functional _C._nn")
def softshrink(input: Operand, lambd: float = 0.5) -> Value:
    """Return ``input``, moved towards 0 by ``lambd``, and 0 where that is not possible.

    Raises:
        RuntimeError: if ``lambd`` is negative.
    """
    f.tensors_only("softshrink", input=input)
    dtype = f.dtype_of(input)
    if dtype.kind in "fV" and not 0 <= lambd <= float(limits_of(dtype).max):
        raise RuntimeError(errors.softshrink_range(lambd, dtype.name, float(limits_of(dtype).max)))
    return _apply(SOFTSHRINK, input, (lambd,), False, "softshrink")


@ROWS.function("nn.functional")
def tanhshrink(input: Operand) -> Value:
    """Return ``input - tanh(input)``."""
    return f.sub(input, f.tanh(input))


@ROWS.function("nn.functional")
def softsign(input: Operand) -> Value:
    """Return ``input / (1 + |input|)``."""
    return f.div(input, f.add(f.abs(input), 1))


@ROWS.function("nn.functional _C._nn")
def softplus(input: Operand, beta: float = 1, threshold: float = 20) -> Value:
    """Return ``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above the
    threshold.
    """
    return _apply(SOFTPLUS, input, (beta, threshold), False, "softplus")


@ROWS.function("nn.functional _C._nn")
def gelu(input: Operand, *, approximate: str = "none") -> Value:
    """Return ``input`` times the normal distribution function of it.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for an approximation of the distribution function.

    Raises:
        RuntimeError: for another word.
    """
    return _gelu_of(input, approximate, False)


@ROWS.function("_C._nn")
def gelu_(input: Operand, *, approximate: str = "none") -> Value:
    """`gelu`, in place."""
    return _gelu_of(input, approximate, True)


def _gelu_of(input: Operand, approximate: str, inplace: bool) -> Value:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _apply(GELU, input, (approximate,), inplace, "gelu")


@ROWS.function("nn.functional", name="logsigmoid")
def logsigmoid(input: Operand) -> Value:
    """Return the logarithm of the sigmoid, accurate where the sigmoid rounds to 0 or 1."""
    f.tensors_only("logsigmoid", input=input)
    return apply(LOG_SIGMOID, (input,))[0]


@ROWS.function("_C._nn")
def log_sigmoid(input: Operand) -> Value:
    """Return the logarithm of the sigmoid, accurate where the sigmoid rounds to 0 or 1."""
    return logsigmoid(input)


@ROWS.function("nn.functional _C._nn")
def glu(input: Operand, dim: int = -1) -> Value:
    """Return the first half along a dimension times the sigmoid of the second half.

    Raises:
        RuntimeError: if the size is odd.
    """
    f.tensors_only("glu", input=input)
    shape = f.shape_of(input)
    if not shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = f.dimension(f.whole("glu", "dim", dim, 1), len(shape))
    if shape[axis] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {axis} is size {shape[axis]}"
        )
    return apply(GLU, (input,), (axis,))


# -- with weights ----------------------------------------------------------------------------------


def _prelu(x: Array, weight: Array) -> Any:
    return ew.where(ew.greater(x, 0), x, ew.mul(weight, x))


PRELU = Op(
    "PreluKernelBackward0",
    _prelu,
    (("self", 0), ("weight", 1)),
    arithmetic.checked(for_kinds("f", "prelu_cpu")),
    keeps=("self", "weight"),
)


@ROWS.function("function method nn.functional")
def prelu(input: Operand, weight: Operand) -> Value:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere.

    Args:
        input: shape (N, C, ...) or (...).
        weight: one number, or one per channel.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    f.tensors_only("prelu", input=input, weight=weight)
    shape, given = f.shape_of(input), f.shape_of(weight)
    if f.dtype_of(input) != f.dtype_of(weight):
        names = [DTYPES[f.dtype_of(x)].printed for x in (input, weight)]
        raise RuntimeError(f"prelu: Type promoting not supported. Got {names[0]} and {names[1]}")
    if len(given) > 1:
        raise RuntimeError(errors.prelu_weight(len(given)))
    count = math.prod(given)
    if count != 1:
        if not shape:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = shape[1] if len(shape) > 1 else 1
        if channels != count:
            raise RuntimeError(errors.prelu_channels(count, channels))
    if len(shape) > 1 and len(given) == 1:
        weight = shaping.reshape(weight, (1, count, *(1,) * (len(shape) - 2)))
    elif len(shape) != len(given):
        weight = shaping.reshape(weight, (1,) * len(shape))
    return apply(PRELU, (input, weight))


def _rrelu(x: Array, noise: Array, lower: float, upper: float, training: bool) -> Any:
    return ew.mul(x, noise) if training else _leaky(x, (lower + upper) / 2)


RRELU = Op(
    "RreluWithNoiseBackward0",
    _rrelu,
    (("self", 0), ("noise", 1)),
    edges=(0,),
    keeps=("self", "noise"),
    details=lambda specs, params: dict(zip(("lower", "upper", "training"), params, strict=True)),
    gradient=recorded_gradient(
        "RreluWithNoiseBackwardBackward0", ("grad_output", 0), ("self", 1), ("noise", 2)
    ),
    in_rows=True,
)
_RRELU_ = replace(RRELU, node="RreluWithNoiseBackward1")


def _rrelu_with(
    input: Operand,
    noise: Any,
    lower: float,
    upper: float,
    training: bool,
    inplace: bool,
    generator: Any = None,
) -> Value:
    f.tensors_only("rrelu_with_noise", input=input, noise=noise)
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    dtype = f.dtype_of(input)
    if dtype.kind not in "fV":
        kernel = "rrelu_with_noise_out_cpu" if training else "leaky_relu_cpu"
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[dtype].printed))
    if training:
        left: Any = ew.less_equal(input._array if isinstance(input, Tensor) else input, 0)
        if isinstance(left, Tracer):
            raise NotImplementedError("rrelu draws random slopes, which a transform cannot record")
        with unseen():
            drawn = factories.empty(int(left.sum()), dtype=DTYPES[np.dtype(np.float64)])
            drawn.uniform_(generator=generator)
        least, most = float(dtype.type(lower)), float(dtype.type(upper))
        values = np.ones(left.shape, dtype)
        values[left] = drawn._array * (most - least) + least
        with unseen():
            in_place.copy_(noise, wrap(values))
    run: Run = write if inplace else apply
    op = _RRELU_ if inplace else RRELU
    made = run(op, (input, noise), (float(lower), float(upper), bool(training)))
    if inplace and not training and lower + upper < 0:
        _refuse_derivative(made, "leakyReLu")
    return made


@ROWS.function("nn.functional", name="rrelu")
def rrelu(
    input: Operand,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    inplace: bool = False,
) -> Value:
    """Return ``input`` where it is positive, elsewhere ``slope * input``: a random slope between
    the bounds for each element, or their mean outside of training.
    """
    f.tensors_only("rrelu", input=input)
    noise = factories.empty_like(input)
    return _rrelu_with(input, noise, lower, upper, training, inplace)


@ROWS.function("function", name="rrelu")
def plain_rrelu(
    input: Operand,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    generator: Any = None,
) -> Value:
    """Return ``input`` where it is positive, elsewhere ``slope * input``; see ``nn.functional``."""
    return rrelu(input, lower, upper, training)


@ROWS.function("function nn.functional")
def rrelu_(
    input: Operand,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
) -> Value:
    """`rrelu`, in place."""
    return rrelu(input, lower, upper, training, True)


@ROWS.function("_C._nn")
def rrelu_with_noise(
    input: Operand,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    generator: Any = None,
) -> Value:
    """`rrelu`, which writes its slopes into ``noise``."""
    return _rrelu_with(input, noise, lower, upper, training, False)


@ROWS.function("_C._nn")
def rrelu_with_noise_(
    input: Operand,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    generator: Any = None,
) -> Value:
    """`rrelu_with_noise`, in place."""
    return _rrelu_with(input, noise, lower, upper, training, True)


# -- softmax ---------------------------------------------------------------------------------------


def _chosen_dim(name: str, input: Operand, dim: int | None, level: int) -> int:
    """Return the dimension; without one, that which old programs mean, with a warning."""
    if dim is not None:
        return dim
    warn(errors.implicit_dim(name))
    return 0 if len(f.shape_of(input)) in (0, 1, 3) else 1


def _masked(x: Array, mask: Array, dim: int) -> Any:
    return core_reductions.softmax(ew.where(mask, x.dtype.type(-np.inf), x), dim)


MASKED_SOFTMAX = Op(
    "MaskedSoftmaxBackward0",
    in_single(_masked),
    (("mask", 1), ("result", -1)),
    edges=(0,),
    keeps=("mask", "result"),
    details=lambda specs, params: {"dim": params[0]},
    in_rows=True,
)


@ROWS.function("function")
def _masked_softmax(
    input: Operand, mask: Operand, dim: int | None = None, mask_type: int | None = None
) -> Value:
    """Return the softmax along a dimension of the elements that are not masked.

    Args:
        input: scores; of attention, shape (N, heads, L, L).
        mask: True for elements that do not count.
        dim: the dimension, by default the last one.
        mask_type: shape of the mask: 0 for (L, L), 1 for (N, L), 2 for that of the input; masks of
            the input's shape may have any type.
    """
    f.tensors_only("_masked_softmax", input=input, mask=mask)
    shape, given = f.shape_of(input), f.shape_of(mask)
    if f.dtype_of(mask) != np.bool_:
        raise RuntimeError("Mask should be a boolean tensor")
    if given != shape:
        if mask_type is None:
            raise RuntimeError("Mask Type should be defined")
        if mask_type == 2 or len(shape) != 4:
            raise RuntimeError("For mask_type == 2 mask shape should match input shape")
        wanted, word = (shape[-2:], "L, L") if mask_type == 0 else ((shape[0], shape[-1]), "B, L")
        if given != wanted:
            raise RuntimeError(f"For mask_type == {mask_type} mask shape should be ({word})")
        whole = (1, 1, *given) if mask_type == 0 else (given[0], 1, 1, given[1])
        mask = shaping.expand(shaping.reshape(mask, whole), shape)
    kind = f.dtype_of(input)
    if kind.kind not in "fV":
        raise NotImplementedError(errors.no_kernel("masked_softmax").format(DTYPES[kind].printed))
    axis = f.dimension(len(shape) - 1 if dim is None else dim, len(shape))
    return apply(MASKED_SOFTMAX, (input, mask), (axis,))


def _softmax_row(name: str, function: Callable[..., Any], doc: str, negates: bool = False) -> None:
    def computed(
        input: Operand,
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: DtypeLike | None = None,
    ) -> Value:
        f.tensors_only(name, input=input)
        axis = _chosen_dim(name, input, dim, _stacklevel)
        return function(f.neg(input) if negates else input, axis, dtype=dtype)

    ROWS.function("nn.functional", name=name)(_named(computed, name, doc))


_softmax_row("softmax", reductions.softmax, "Return the softmax along a dimension.")
_softmax_row(
    "log_softmax", reductions.log_softmax, "Return the logarithm of the softmax along a dimension."
)
_softmax_row(
    "softmin", reductions.softmax, "Return the softmax of ``-input`` along a dimension.", True
)


@ROWS.function("nn.functional")
def gumbel_softmax(
    logits: Operand, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Value:
    """Return samples of the Gumbel-softmax distribution.

    Args:
        logits: logarithms of unnormalized probabilities, shape (..., n).
        tau: temperature.
        hard: True for one-hot samples, with the derivative of the soft ones.
        dim: the dimension along which the softmax is computed.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    drawn = factories.empty_like(logits).exponential_()
    dtype = f.dtype_of(drawn)
    wide = f.to(drawn, np.dtype(np.float64)) if dtype == np.float32 else drawn
    noise = f.neg(f.to(f.log(wide), dtype))  # rounded once: NumPy's logarithm of float32 is not
    soft = reductions.softmax(f.div(f.add(logits, noise), tau), dim)
    if not hard:
        return soft
    axis = f.dimension(dim, len(f.shape_of(soft)))
    index = apply(reductions.MAX_DIM, (soft,), (axis, True))[1]
    chosen = picking.scatter(factories.zeros_like(logits), dim, index, 1.0)
    return f.add(f.sub(chosen, soft.detach()), soft)
