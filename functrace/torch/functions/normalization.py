"""The rows of normalizations: ``layer_norm``, ``batch_norm``, ``group_norm`` and their relatives.

Each is one op, whose results are the normalized tensor, the means and the reciprocals of the
standard deviations; its derivative uses these.

Layer: 9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ir.primitive import Primitive, absent
from functrace.ops import elementwise as ew
from functrace.ops.edges import rsqrt as core_rsqrt
from functrace.ops.reductions import expand_reduced, reduce_sum
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.dispatch.applying import Op, apply, recorded_gradient
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.plans import OpPlan
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.dispatch.unseen import unseen
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import in_place, picking, pooling, reductions, shaping
from functrace.torch.functions.padding import pad
from functrace.torch.functions.spatial import keeping_channels_last
from functrace.torch.tensors.dtypes import DTYPES, is_half
from functrace.torch.tensors.orders import channels_lie_last
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.tracing import Tracer, bind
from functrace.typing import Array

ROWS = FunctionTable()
Statistics = tuple[Any, Any]


def _wide(x: Array) -> Any:
    """Return half precision as single precision, in which PyTorch computes statistics."""
    return convert(x, np.float32) if x.dtype == np.float16 else x


def _statistics(dtype: np.dtype[Any], *parameters: Any) -> np.dtype[Any]:
    """Return the dtype of statistics: that of the input, but single precision with parameters of
    that.
    """
    single = any(p is not None and p.dtype == np.float32 for p in parameters)
    return np.dtype(np.float32) if dtype == np.float16 and single else dtype


def _rounded(
    made: Any, mean: Any, scale: Any, dtype: np.dtype[Any], *parameters: Any
) -> tuple[Any, Any, Any]:
    """Return a result and statistics in their dtypes; see `_statistics`."""
    own = _statistics(dtype, *parameters)
    made, mean, scale = (
        r if r.dtype == kind else convert(r, kind)
        for r, kind in ((made, dtype), (mean, own), (scale, own))
    )
    return made, mean, scale


def _centred(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any, Any]:
    """Return ``x`` less its mean; the mean, and the reciprocal of the standard deviation; and both
    with axes of size 1.
    """
    kept = tuple([1 if k in axes else n for k, n in enumerate(x.shape)])
    count = math.prod([x.shape[k] for k in axes])
    mean = ew.div(reduce_sum(x, axes), count or math.nan)
    wide = core_reshape(mean, kept)
    inner = ew.sub(x, wide)
    spread = ew.div(reduce_sum(ew.square(inner), axes), count or math.nan)
    scale = core_rsqrt(ew.add(spread, eps))
    return inner, mean, scale, wide, core_reshape(scale, kept)


class NormalizingOp(Op):
    """Op of a normalization, which saves statistics for its derivative.

    PyTorch does not differentiate these results. The derivative of the derivative depends on them:
    they are recomputed then, from the saved input.
    """

    def pull_tensors(self, plan: OpPlan, saved: list[Any], grads: list[Any]) -> list[Tensor | None]:
        """Run the backward program on tensors; see `Op`."""
        names = [name for name, _ in plan.derivation.saves]
        given, *params = plan.case.params
        if self.function is not _batch or params[0]:
            absent = (False,) * len(given)
            x = saved[names.index("input")]
            for k in (1, 2):
                op = _statistic(self.function, k)
                saved[names.index(f"result{k}")] = apply(op, (x,), (absent, *params))
        return super().pull_tensors(plan, saved, grads)


@functools.lru_cache(maxsize=8)
def _statistic(function: Callable[..., Any], k: int) -> Op:
    """Return the op of one statistic, by the function of a normalization."""
    return Op("StatisticBackward0", lambda x, *params: function(x, *params)[k], (("input", 0),))


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = ew.mul(x, weight)
    return x if bias is None else ew.add(x, bias)


def _parameters(rest: tuple[Any, ...], given: tuple[bool, ...]) -> list[Any]:
    """Return the optional operands at the front, ``None`` for those that are not given."""
    left = iter(rest)
    return [_wide(next(left)) if there else None for there in given]


def _saves(names: Sequence[str], results: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return (
        *[(name, k) for k, name in enumerate(names)],
        *[(name, -2 - k) for k, name in enumerate(results)],
    )


def _present(names: Sequence[str], given: Sequence[bool]) -> list[str]:
    return [name for name, there in zip(names, given, strict=True) if there]


def _gradient_op(name: str, saved: Sequence[str]) -> Op:
    """Return the op of the input's gradient, which depends on the statistics, too."""
    op = recorded_gradient(
        f"{name}BackwardBackward0", *[(x, k) for k, x in enumerate(("grad_out", *saved))]
    )
    edges = (0, 1, len(saved) - 1, len(saved))
    return replace(op, edges=edges, called=f"{name.lower()}_gradient")


# -- normalized values -----------------------------------------------------------------------------


def _normalized_jvp(
    primals: tuple[Any, ...], outputs: tuple[Any, ...], tangents: tuple[Any, ...], axes: Any
) -> Any:
    (_, _, scale), (out,), (t, *_) = primals, outputs, tangents
    if t is None:
        return None
    count = math.prod([out.shape[k] for k in axes]) or math.nan

    def mean(x: Any) -> Any:
        return expand_reduced(ew.div(reduce_sum(x, axes), count), out.shape, axes)

    return ew.mul(scale, ew.sub(ew.sub(t, mean(t)), ew.mul(out, mean(ew.mul(t, out)))))


def _normalized_batch(operands: tuple[Any, ...], is_batched: tuple[bool, ...], axes: Any) -> Any:
    count = next(x.shape[0] for x, there in zip(operands, is_batched, strict=True) if there)
    every = [
        x if there else broadcast_to(x, (count, *x.shape))
        for x, there in zip(operands, is_batched, strict=True)
    ]
    return bind(normalized_p, tuple(every), (tuple([k + 1 for k in axes]),))


normalized_p = Primitive(
    "normalized",
    eval=lambda x, mean, scale, axes: np.multiply(np.subtract(x, mean), scale),
    aval=lambda x, mean, scale, axes: x,
    jvp=_normalized_jvp,
    transpose=absent(because="it is not linear", instead="differentiate with functrace.vjp"),
    batch=_normalized_batch,
    params=("axes",),
)
"""``(x - mean) * scale``, for the mean of ``x`` along axes and the reciprocal of its standard
deviation: its derivative with respect to ``x`` contains what passes through these two."""


# -- layers ----------------------------------------------------------------------------------------


def _layer(x: Array, *rest: Any, stops: bool = False) -> Any:
    *operands, given, shape, eps = rest
    weight, bias = _parameters(tuple(operands), given)
    dtype, x = x.dtype, _wide(x)
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    inner, _, _, mean, scale = _centred(x, axes, eps)
    if stops:
        mean, scale = ew.stop_gradient(mean), ew.stop_gradient(scale)
    if isinstance(x, np.ndarray):
        inner *= scale
    else:
        inner = bind(normalized_p, (x, mean, scale), (axes,))
    made = _scaled(inner, weight, bias)
    return _rounded(made, mean, scale, dtype, *operands)


def _layer_op(given: tuple[bool, bool]) -> Op:
    names = _present(("weight", "bias"), given)
    missing = {name: None for name in ("weight", "bias") if name not in names}
    return NormalizingOp(
        "NativeLayerNormBackward0",
        _layer,
        _saves(["input", *names], ["result1", "result2"]),
        keeps=("input", *names, "result1", "result2"),
        constants=(1, 2),
        details=lambda specs, params: {"normalized_shape": params[1], **missing},
        in_rows=True,
        derived=functools.partial(_layer, stops=True),  # PyTorch's statistics are constants
        gradient=_gradient_op("NativeLayerNorm", ("input", *names, "mean", "rstd")),
    )


_LAYER = {(w, b): _layer_op((w, b)) for w in (False, True) for b in (False, True)}


STOPPED = Op("DetachBackward0", ew.stop_gradient)


def _constant(found: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return the results of a normalization; traced statistics have no derivative, either."""
    out, *statistics = found
    array = out._array if isinstance(out, Tensor) else out
    if isinstance(array, Tracer):
        statistics = [apply(STOPPED, (x,)) for x in statistics]
    return out, statistics[0], statistics[1]


def _sizes(name: str, shape: Any, called: str = "normalized_shape") -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):
        raise TypeError(errors.must_be(name, called, 1, "tuple of ints", type(shape).__name__))
    return tuple(int(n) for n in shape)


def _check_layer(shape: tuple[int, ...], sizes: tuple[int, ...], what: str, **given: Any) -> None:
    if not sizes:
        raise RuntimeError(errors.NO_NORMALIZED_SHAPE)
    for name, x in given.items():
        if x is not None and f.shape_of(x) != sizes:
            raise RuntimeError(errors.normalized_parameter(name, f.shape_of(x), sizes))
    if shape[len(shape) - len(sizes) :] != sizes or len(shape) < len(sizes):
        raise RuntimeError(errors.normalized_shape(sizes, shape, what))


def _check_kind(kernel: str, input: Operand, *parameters: Any) -> None:
    """Check that the input is of floats, and parameters are too, in its precision."""
    dtype = f.dtype_of(input)
    if dtype.kind not in "fV":
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[dtype].printed))
    for x in parameters:
        if x is not None and f.dtype_of(x) not in (dtype, *[np.float32] * is_half(dtype)):
            single = f.dtype_of(x) == np.float32
            raise RuntimeError(errors.SHARED_DTYPE if single else errors.mixed_dtype("Float"))


@ROWS.function("function")
def native_layer_norm(
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return `layer_norm`, the means, and the reciprocals of the standard deviations."""
    f.tensors_only("native_layer_norm", input=input)
    sizes = _sizes("layer_norm", normalized_shape)
    _check_layer(f.shape_of(input), sizes, ", ", weight=weight, bias=bias)
    _check_kind("LayerNormKernelImpl", input, weight, bias)
    given = weight is not None, bias is not None
    operands = tuple([x for x in (input, weight, bias) if x is not None])
    return _constant(apply(_LAYER[given], operands, (given, sizes, float(eps))))


@ROWS.function("nn.functional", name="layer_norm")
def layer_norm(
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Value:
    """Return the input with mean 0 and variance 1 over the last dimensions.

    Args:
        input: shape (..., *normalized_shape).
        normalized_shape: sizes of these dimensions.
        weight, bias: factor and summand of the result, of these sizes.
        eps: added to the variance.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@ROWS.function("function", name="layer_norm")
def plain_layer_norm(
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Value:
    """Return the input with mean 0 and variance 1 over the last dimensions."""
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@ROWS.function("function nn.functional")
def rms_norm(
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None = None,
    eps: float | None = None,
) -> Value:
    """Return the input divided by its root mean square over the last dimensions.

    Args:
        input: shape (..., *normalized_shape).
        normalized_shape: sizes of these dimensions.
        weight: factor of the result, of these sizes.
        eps: added to the mean square; by default the precision of the dtype.
    """
    f.tensors_only("rms_norm", input=input)
    sizes = _sizes("rms_norm", normalized_shape)
    shape, dtype = f.shape_of(input), f.dtype_of(input)
    _check_layer(shape, sizes, "", weight=weight)
    _check_kind("rms_norm", input)
    rows = shaping.contiguous(input)
    wide = f.to(rows, np.dtype(np.float32)) if is_half(dtype) else rows
    dims = tuple(range(len(shape) - len(sizes), len(shape)))
    least = float(np.finfo(f.dtype_of(wide)).eps) if eps is None else eps
    mean = reductions.mean(f.square(wide), dims, keepdim=True)
    found = f.mul(wide, f.rsqrt(f.add(mean, least)))
    if weight is not None:
        found = f.mul(found, weight)
    return f.to(found, dtype)


# -- batches ---------------------------------------------------------------------------------------


def _channels(x: Any, values: Any) -> Any:
    """Return one value per channel in a shape that broadcasts against the tensor."""
    return core_reshape(values, (1, x.shape[1], *(1,) * (x.ndim - 2)))


def _batch(x: Array, *rest: Any) -> Any:
    *operands, given, training, eps = rest
    weight, bias, mean, var = _parameters(tuple(operands), given)
    dtype, x = x.dtype, _wide(x)
    weight, bias = (None if p is None else _channels(x, p) for p in (weight, bias))
    if training:
        axes = tuple(k for k in range(x.ndim) if k != 1)
        inner, *found, _, scale = _centred(x, axes, eps)
    else:
        inner = ew.sub(x, _channels(x, mean))
        scale = _channels(x, core_rsqrt(ew.add(var, eps)))
        empty = np.zeros(0, x.dtype)
        found = [empty, empty.copy()]
    made = _scaled(ew.mul(inner, scale), weight, bias)
    if isinstance(made, np.ndarray) and not (made.flags.c_contiguous or channels_lie_last(made)):
        made = np.ascontiguousarray(made)  # as PyTorch, of which only channels_last stays
    return _rounded(made, found[0], found[1], dtype, *operands)


def _batch_op(given: tuple[bool, ...]) -> Op:
    names = ("weight", "bias", "running_mean", "running_var")
    there = _present(names, given)
    shown = [name for name in there if name != "bias"]
    missing = {name: None for name in names if name not in there and name != "bias"}
    saves = [(name, k) for k, name in enumerate(("input", *there)) if name != "bias"]
    return NormalizingOp(
        "NativeBatchNormBackward0",
        _batch,
        (*saves, ("result1", -2), ("result2", -3)),
        edges=tuple(range(1 + given[0] + given[1])),
        keeps=("input", *shown, "result1", "result2"),
        constants=(1, 2),
        details=lambda specs, params: {"training": params[1], "eps": params[2], **missing},
        gradient=_gradient_op("NativeBatchNorm", ("input", *shown, "save_mean", "save_invstd")),
    )


_BATCH: dict[tuple[bool, ...], Op] = {}


def _apply_batch(
    input: Operand, parameters: tuple[Any, ...], training: bool, eps: float
) -> tuple[Any, Any, Any]:
    given = tuple([x is not None for x in parameters])
    if training:  # the running statistics are no operands
        parameters, given = (*parameters[:2], None, None), (*given[:2], False, False)
    op = _BATCH.get(given)
    if op is None:
        op = _BATCH[given] = _batch_op(given)
    operands = (input, *[x for x in parameters if x is not None])
    return _constant(apply(op, operands, (given, training, eps)))


@ROWS.function("function")
def native_batch_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return `batch_norm`, the means, and the reciprocals of the standard deviations; both empty
    outside of training.
    """
    f.tensors_only("batch_norm", input=input)
    if not isinstance(momentum, (int, float)):
        kind = errors.kind_of(momentum)
        raise TypeError(errors.must_be("batch_norm", "momentum", 6, "float", kind))
    shape = f.shape_of(input)
    if len(shape) < 2 and running_mean is None and weight is None and bias is None and training:
        raise IndexError(errors.dimension_range(1, len(shape)))
    channels = shape[1] if len(shape) > 1 else 0
    for name, x in (("running_mean", running_mean), ("running_var", running_var)):
        if x is None and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    if (running_mean is None) != (running_var is None):
        raise ValueError(errors.ONE_RUNNING_STATISTIC)
    named = {
        "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias,
    }  # fmt: skip
    for name, x in named.items():
        if x is not None and math.prod(f.shape_of(x)) != channels:
            raise RuntimeError(errors.channel_count(name, channels, math.prod(f.shape_of(x))))
    if math.prod(shape):
        _check_kind("batch_norm", input, *named.values())
    else:  # PyTorch has no kernel for it, and converts
        _check_kind("batch_norm", input)
        dtype = f.dtype_of(input)
        weight, bias, running_mean, running_var = (
            x if x is None or f.dtype_of(x) == dtype else f.to(x, DTYPES[dtype])
            for x in (weight, bias, running_mean, running_var)
        )
    if DUALS.level is not None and DUALS.level.concerns((input,)):
        running = tuple([x for x in (running_mean, running_var) if isinstance(x, Tensor)])
        if DUALS.level.concerns(running):
            raise RuntimeError(errors.RUNNING_TANGENT)
    found = _apply_batch(
        input, (weight, bias, running_mean, running_var), bool(training), float(eps)
    )
    if training and running_mean is not None and math.prod(shape):
        with unseen():
            _update(input, running_mean, running_var, float(momentum))
    return found


def _update(input: Operand, mean: Any, var: Any, momentum: float) -> None:
    """Move the running statistics towards those of the batch, in place."""
    shape = f.shape_of(input)
    axes = tuple(k for k in range(len(shape)) if k != 1)
    count = math.prod(shape) // shape[1]
    with no_grad():
        wide = input.detach() if isinstance(input, Tensor) else input
        now = reductions.mean(wide, axes)
        kept = tuple([-1 if k == 1 else 1 for k in range(len(shape))])
        inner = f.square(f.sub(wide, shaping.reshape(now, kept)))
        spread = (
            f.div(reductions.sum(inner, axes), count - 1) if count > 1 else f.mul(now, math.nan)
        )
        for running, found in ((mean, now), (var, spread)):
            moved = f.add(f.mul(running, 1 - momentum), f.mul(found, momentum))
            in_place.copy_(running, moved)


@ROWS.function("function")
def batch_norm_update_stats(
    input: Operand, running_mean: Operand | None, running_var: Operand | None, momentum: float
) -> tuple[Value, Value]:
    """Move running statistics towards those of a batch, in place, and return the batch's means and
    variances (divided by the number of elements).

    Raises:
        RuntimeError: if the batch has no elements.
    """
    f.tensors_only("batch_norm_update_stats", input=input)
    shape = f.shape_of(input)
    if not math.prod(shape):
        raise RuntimeError(errors.no_statistics(shape))
    _check_kind("batch_norm_update_stats_cpu", input, running_mean, running_var)
    with unseen(), no_grad():
        if running_mean is not None and running_var is not None:
            _update(input, running_mean, running_var, float(momentum))
        axes = tuple(k for k in range(len(shape)) if k != 1)
        means = reductions.mean(input, axes)
        kept = tuple([-1 if k == 1 else 1 for k in range(len(shape))])
        inner = f.square(f.sub(input, shaping.reshape(means, kept)))
        return means, reductions.mean(inner, axes)


@ROWS.function("nn.functional", name="batch_norm")
def batch_norm(
    input: Operand,
    running_mean: Operand | None,
    running_var: Operand | None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel.

    Args:
        input: shape (N, C, ...).
        running_mean, running_var: shape (C,): the statistics to use outside of training; in
            training, they are moved in place towards those of the batch.
        weight, bias: factor and summand per channel.
        training: True to use the statistics of the batch.
        momentum: share of the batch in the running statistics.
        eps: added to the variance.

    Raises:
        ValueError: for one value per channel in training.
        RuntimeError: if shapes or dtypes do not fit.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> torch.nn.functional.batch_norm(x, None, None, training=True, eps=0.0)
        tensor([[-1.],
                [ 1.]])
    """
    if training:
        _check_batch_size(f.shape_of(input))
    return plain_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def _check_batch_size(shape: Sequence[int]) -> None:
    if math.prod([shape[0], *shape[2:]]) == 1:
        raise ValueError(errors.one_value(shape, listed=isinstance(shape, list)))


@ROWS.function("function", name="batch_norm")
def plain_batch_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel; see ``nn.functional``."""
    return native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


@ROWS.function("nn.functional", name="instance_norm")
def instance_norm(
    input: Operand,
    running_mean: Operand | None = None,
    running_var: Operand | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel of each example.

    Args:
        input: shape (N, C, ...).
        running_mean, running_var, weight, bias, momentum, eps: as of `batch_norm`.
        use_input_stats: True to use the statistics of the input.
    """
    if use_input_stats:
        shape = f.shape_of(input)
        if math.prod(shape[2:]) == 1:
            raise ValueError(errors.one_spatial_element(shape))
    return plain_instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


@ROWS.function("function", name="instance_norm")
def plain_instance_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel of each example."""
    f.tensors_only("instance_norm", input=input)
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(errors.NO_RUNNING_STATISTICS)
    shape = f.shape_of(input)
    examples, channels = shape[:2]
    named = {
        "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias,
    }  # fmt: skip
    for name, x in named.items():
        if x is not None and math.prod(f.shape_of(x)) != channels:
            raise RuntimeError(errors.channel_count(name, channels, math.prod(f.shape_of(x))))
    repeated = {
        name: None if x is None else picking.repeat(x, examples) for name, x in named.items()
    }
    joined = shaping.view(shaping.contiguous(input), (1, examples * channels, *shape[2:]))
    found = native_batch_norm(
        joined, repeated["weight"], repeated["bias"], repeated["running_mean"],
        repeated["running_var"], use_input_stats, momentum, eps,
    )[0]  # fmt: skip
    if use_input_stats:
        with no_grad():
            for name in ("running_mean", "running_var"):
                running: Any = named[name]
                if running is not None:
                    moved = shaping.view(repeated[name], (examples, channels))  # type: ignore[arg-type]
                    in_place.copy_(running, reductions.mean(moved, 0))
    return shaping.view(found, shape)


# -- groups ----------------------------------------------------------------------------------------


def _groups(x: Array, *rest: Any) -> Any:
    *operands, given, groups, eps = rest
    weight, bias = _parameters(tuple(operands), given)
    dtype, shape, x = x.dtype, x.shape, _wide(x)
    rows = core_reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    inner, *flat, _, scale = _centred(rows, (2,), eps)
    whole = core_reshape(ew.mul(inner, scale), shape)
    weight, bias = (None if p is None else _channels(whole, p) for p in (weight, bias))
    made = _scaled(whole, weight, bias)
    return _rounded(made, *flat, dtype, *operands)


def _group_details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    n, channels, *rest = specs[0].shape
    return {
        "N": n, "C": channels, "HxW": math.prod(rest), "group": params[1], "eps": params[2],
    } | ({} if params[0][0] else {"weight": None})  # fmt: skip


def _group_op(given: tuple[bool, bool]) -> Op:
    there = _present(("weight", "bias"), given)
    saves = [(name, k) for k, name in enumerate(("input", *there)) if name != "bias"]
    return Op(
        "NativeGroupNormBackward0",
        keeping_channels_last(_groups),
        (*saves, ("result1", -2), ("result2", -3)),
        keeps=(*[name for name, _ in saves], "result1", "result2"),
        details=_group_details,
    )


_GROUPS = {(w, b): _group_op((w, b)) for w in (False, True) for b in (False, True)}


@ROWS.function("function")
def native_group_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return `group_norm`, the means, and the reciprocals of the standard deviations.

    Args:
        N, C, HxW: numbers of examples, channels, and elements of each channel.
        group: number of groups.
    """
    f.tensors_only("native_group_norm", input=input)
    shape = f.shape_of(input)
    if C % group:
        raise RuntimeError(errors.group_channels(shape, group))
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and f.shape_of(x) != (C,):
            stands = f.shape_of(x) if name == "weight" or weight is None else f.shape_of(weight)
            raise RuntimeError(errors.channel_vector(name, stands, shape))
    _check_kind("GroupNormKernelImpl", input, weight, bias)
    given = weight is not None, bias is not None
    operands = tuple([x for x in (input, weight, bias) if x is not None])
    return apply(_GROUPS[given], operands, (given, group, float(eps)))


@ROWS.function("nn.functional", name="group_norm")
def group_norm(
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Value:
    """Return the input with mean 0 and variance 1 in each group of channels of each example.

    Args:
        input: shape (N, C, ...).
        num_groups: number of groups, which divides C.
        weight, bias: factor and summand per channel.
        eps: added to the variance.

    Raises:
        ValueError: for one value per group.
        RuntimeError: if shapes or dtypes do not fit.
    """
    shape = f.shape_of(input)
    if len(shape) < 2:
        raise RuntimeError(errors.group_dimensions(len(shape)))
    merged = [shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]
    _check_batch_size(merged)
    return plain_group_norm(input, num_groups, weight, bias, eps)


@ROWS.function("function", name="group_norm")
def plain_group_norm(
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Value:
    """Return the input with mean 0 and variance 1 in each group of channels of each example."""
    shape = f.shape_of(input)
    if num_groups <= 0:
        raise RuntimeError(f"num groups should be greater than 0, got {num_groups}")
    sizes = shape[0], shape[1], math.prod(shape[2:])
    return native_group_norm(input, weight, bias, *sizes, num_groups, eps)[0]


# -- neighbours ------------------------------------------------------------------------------------


def _neighbour_means(x: Any, shape: tuple[int, ...], size: int) -> Any:
    """Return the means of ``size`` neighbouring channels; those outside count as 0."""
    beside = (size // 2, (size - 1) // 2)
    if len(shape) == 3:
        padded = pad(shaping.unsqueeze(x, 1), (0, 0, *beside))
        return shaping.squeeze(pooling.avg_pool2d(padded, (size, 1), 1), 1)
    flat = shaping.reshape(x, (shape[0], 1, shape[1], shape[2], -1))
    found = pooling.avg_pool3d(pad(flat, (0, 0, 0, 0, *beside)), (size, 1, 1), 1)
    return shaping.reshape(shaping.squeeze(found, 1), shape)


@ROWS.function("nn.functional")
def local_response_norm(
    input: Operand, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """Return ``input / (k + alpha * m) ** beta`` for the mean square ``m`` of neighbouring
    channels.

    Args:
        input: shape (N, C, ...).
        size: number of neighbours.

    Raises:
        ValueError: for less than three dimensions.
    """
    f.tensors_only("local_response_norm", input=input)
    shape = f.shape_of(input)
    if len(shape) < 3:
        raise ValueError(errors.response_dimensions(len(shape)))
    if not math.prod(shape):
        return input  # type: ignore[return-value]
    means: Any = _neighbour_means(f.mul(input, input), shape, size)
    return f.div(input, f.pow(f.add(f.mul(means, alpha), k), beta))
