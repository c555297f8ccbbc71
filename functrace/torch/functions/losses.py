"""The rows of losses, and ``linear``. (Losses with margins: margins.py; alignments: ctc.py.)

``nn.functional`` takes the reduction as a word, and the older ``size_average=`` and ``reduce=``;
``torch`` and ``torch._C._nn`` take it as a number: 0 for none, 1 for the mean, 2 for the sum.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops import elementwise as ew
from functrace.ops.indexing import gather as core_gather
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, no_grad
from functrace.torch.dispatch.applying import Op, apply, recorded_gradient
from functrace.torch.dispatch.promotion import arithmetic, check_broadcast, for_kinds
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, products, reductions, shaping
from functrace.torch.functions.activations import log_sigmoid_of
from functrace.torch.functions.reductions import log_softmax
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_NAMED = {row.name: row.function for row in f.ROWS}
eq, ne, le, logical_not = (_NAMED[name] for name in ("eq", "ne", "le", "logical_not"))
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction_number(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> int:
    """Return the number of a reduction: 0 for none, 1 for the mean, 2 for the sum.

    Raises:
        ValueError: for another word.
    """
    if size_average is not None or reduce is not None:
        averages = size_average is None or size_average
        word = "none" if reduce is not None and not reduce else "mean" if averages else "sum"
        warn(errors.legacy_reduction(word))
        return _REDUCTIONS[word]
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return 1
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def reduced(losses: Value, how: int) -> Value:
    """Return losses, their mean, or their sum."""
    if how == 0:
        return losses
    return reductions.mean(losses) if how == 1 else reductions.sum(losses)


def total(losses: Any, how: int) -> Any:
    """Return an array of losses, their mean, or their sum."""
    if how == 0:
        return losses
    found = reduce_sum(losses, tuple(range(losses.ndim)))
    if how == 2:
        return found
    count = math.prod(losses.shape)
    return ew.div(found, count) if count else ew.div(found, 0.0)


def _fields(*names: str) -> Callable[..., dict[str, Any]]:
    return lambda specs, params: dict(zip(names, params, strict=False))


@ROWS.function("nn.functional _C._nn")
def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``.

    Args:
        input: shape (..., n).
        weight: shape (m, n).
        bias: shape (m,).
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        f.tensors_only("linear", input=input, weight=weight)
    if not (f.shape_of(input) and f.shape_of(weight)):
        raise RuntimeError(errors.linear_scalars(len(f.shape_of(input)), len(f.shape_of(weight))))
    if bias is None:
        return products.matmul(input, shaping.t(weight))
    shape = f.shape_of(input)
    given = f.shape_of(bias)
    rows = f.shape_of(weight)[0] if f.shape_of(weight) else 1
    if len(shape) == 2 and len(given) == 1 and given[0] not in (1, rows):
        shaping.expand(bias, (shape[0], rows))  # refused, with PyTorch's message
    if len(shape) == 2:
        return products.addmm(bias, input, shaping.t(weight))
    if len(f.shape_of(weight)) == 1:
        if len(shape) == 1:
            raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
        return f.add(products.matmul(input, weight), bias)
    flat = products.addmm(bias, shaping.reshape(input, (-1, shape[-1])), shaping.t(weight))
    return shaping.reshape(flat, (*shape[:-1], f.shape_of(weight)[0]))


# -- classes ---------------------------------------------------------------------------------------


def _nll(x: Array, target: Array, *rest: Any) -> Any:
    *weights, reduction, ignored = rest
    axis = 0 if x.ndim == 1 else 1
    if type(x) is type(target) is np.ndarray and x.ndim == 2 and not weights and reduction:
        found = _nll_of_rows(x, target, reduction, ignored)
        if found is not None:
            return found
    valid = ew.not_equal(target, ignored)
    safe = ew.where(valid, target, 0)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    picked = core_reshape(take_along_axis(x, core_reshape(safe, shape), axis), target.shape)
    # Converting a bool to the dtype of x: weight 1 where the target counts.
    counted = convert(valid, x.dtype)
    weight = ew.mul(core_gather(weights[0], ("array",), (safe,)), counted) if weights else counted
    losses = ew.neg(ew.mul(picked, weight))
    axes = tuple(range(len(target.shape)))
    total = reduce_sum(weight, axes)
    if reduction == 0:
        return losses, ew.mul(total, 0.0)
    found = reduce_sum(losses, axes)
    if reduction == 2:
        return found, total
    none = ew.equal(total, 0)  # the mean of no losses is nan, and its gradient 0
    return ew.where(none, np.nan, ew.div(found, ew.where(none, 1, total))), total


def _nll_of_rows(x: Array, target: Array, reduction: int, ignored: int) -> Any:
    """Return `_nll` of an array whose targets all count, in fewer steps; None if one does not."""
    count = target.size
    if not 0 < count < 1 << 24 or (target == ignored).any():  # (float32 counts so far)
        return None
    losses = np.negative(x[np.arange(count), target])
    total = x.dtype.type(count)
    found = np.add.reduce(losses)
    return found if reduction == 2 else np.divide(found, total), total


def _nll_op(name: str, weighted: bool) -> Op:
    saves = (
        ("self", 0),
        ("target", 1),
        *((("weight", 2),) if weighted else ()),
        ("total_weight", -2),
    )
    return Op(
        f"{name}Backward0",
        _nll,
        saves,
        edges=(0,),
        keeps=tuple(name for name, _ in saves),
        constants=(1,),
        details=lambda specs, params: (
            {"reduction": params[0], "ignore_index": params[1] % (1 << 64)}
            | ({} if weighted else {"weight": None})
        ),
        gradient=recorded_gradient(
            f"{name}BackwardBackward0", ("target", 2), ("weight", 3), ("total_weight", 4)
        ),
    )


_NLL = [
    [_nll_op(name, weighted) for weighted in (False, True)] for name in ("NllLoss", "NllLoss2D")
]


@ROWS.function("nn.functional", name="nll_loss")
def nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return the negative log-likelihood of classes.

    Args:
        input: log-probabilities, shape (N, C), (C,) or (N, C, ...).
        target: class positions, shape (N,), () or (N, ...).
        weight: one per class.
        ignore_index: targets that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """
    how = reduction_number(reduction, size_average, reduce)
    return _nll_of(input, target, weight, how, ignore_index)[0]


def _nll_of(
    input: Operand, target: Operand, weight: Operand | None, how: int, ignore_index: int
) -> tuple[Value, Value]:
    """Return the loss, and the sum of the weights."""
    f.tensors_only("nll_loss_nd", input=input, target=target)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    count = wanted[0] if wanted else 0
    if len(shape) >= 2 and shape[0] != count:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({count})."
        )
    if len(shape) == 1 and wanted not in ((), (1,)):
        if len(wanted) == 1:
            raise ValueError(errors.target_of_row(wanted[0]))
        raise RuntimeError(errors.MULTIPLE_TARGETS)
    if len(shape) == 2 and len(wanted) > 1:
        raise RuntimeError(errors.MULTIPLE_TARGETS)
    if len(shape) > 2:
        out = (shape[0], *shape[2:])
        if len(shape) == 4 and len(wanted) != 3:
            raise RuntimeError(errors.spatial_targets(len(wanted)))
        if wanted != out:
            raise RuntimeError(f"Expected target size {list(out)}, got {list(wanted)}")
    if f.dtype_of(input).kind not in "fV":
        raise NotImplementedError(
            errors.no_kernel("nll_loss_out_frame").format(DTYPES[f.dtype_of(input)].printed)
        )
    if f.dtype_of(target) not in (np.int64, np.uint8):
        raise RuntimeError(errors.class_dtype(DTYPES[f.dtype_of(target)].printed))
    classes = shape[0 if len(shape) == 1 else 1]
    if weight is not None:
        if f.shape_of(weight) != (classes,):
            raise RuntimeError(errors.class_weights(classes, f.shape_of(weight)))
        if f.dtype_of(weight) != f.dtype_of(input):
            found, given = (DTYPES[f.dtype_of(x)].printed for x in (weight, input))
            raise RuntimeError(f"expected scalar type {given} but found {found}")
    _check_targets(target, classes, ignore_index)
    flat = len(shape) == 1 and wanted == (1,)
    if flat:
        target = shaping.reshape(target, ())
    op = _NLL[len(shape) > 2][weight is not None]
    operands = (input, target) if weight is None else (input, target, weight)
    found = apply(op, operands, (how, ignore_index))
    if flat and how == 0:
        return shaping.reshape(found[0], (1,)), found[1]
    return found


def _check_targets(target: Operand, classes: int, ignored: int) -> None:
    array = target._array if isinstance(target, Tensor) else target
    if isinstance(array, np.ndarray):
        # Negative ones are large as unsigned numbers.
        if array.dtype == np.int64 and (array.view(np.uint64) < classes).all():
            return
        bad = array[((array < 0) | (array >= classes)) & (array != ignored)]
        if bad.size:
            raise IndexError(f"Target {bad.flat[0]} is out of bounds.")


@ROWS.function("_C._nn")
def nll_loss_nd(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: int = 0,
    ignore_index: int = -100,
) -> Value:
    """Return the negative log-likelihood of classes; see ``nn.functional.nll_loss``."""
    return _nll_of(input, target, weight, reduction, ignore_index)[0]


@ROWS.function("_C._nn", name="nll_loss", aliases="nll_loss2d")
def plain_nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: int = 0,
    ignore_index: int = -100,
) -> Value:
    """Return the negative log-likelihood of classes; see ``nn.functional.nll_loss``."""
    return _nll_of(input, target, weight, reduction, ignore_index)[0]


@ROWS.function("nn.functional")
def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Value:
    """Return the cross-entropy between logits and classes, or probabilities of classes.

    Args:
        input: logits, shape (N, C), (C,) or (N, C, ...).
        target: class positions, shape (N,), () or (N, ...); or probabilities, shape of the input.
        weight: one per class.
        ignore_index: class positions that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: share of the uniform distribution in the target.

    Raises:
        ValueError, RuntimeError, IndexError: for shapes, dtypes and targets that do not fit.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.zeros(1, 2)
        >>> torch.nn.functional.cross_entropy(x, torch.tensor([1]), label_smoothing=0.1)
        tensor(0.6931)
    """
    how = reduction_number(reduction, size_average, reduce)
    return cross_entropy_loss(input, target, weight, how, ignore_index, label_smoothing)


@ROWS.function("_C._nn")
def cross_entropy_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: int = 0,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """Return the cross-entropy; see ``nn.functional.cross_entropy``."""
    f.tensors_only("cross_entropy_loss", input=input, target=target)
    shape = f.shape_of(input)
    axis = 0 if len(shape) <= 1 else 1
    if shape == f.shape_of(target):
        if f.dtype_of(target).kind not in "fcV":
            raise RuntimeError(errors.class_probabilities(DTYPES[f.dtype_of(target)].printed))
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _of_probabilities(input, target, weight, reduction, label_smoothing, axis)
    if label_smoothing == 0.0:
        return _nll_of(log_softmax(input, axis), target, weight, reduction, ignore_index)[0]
    return _smoothed(input, target, weight, reduction, ignore_index, label_smoothing, axis)


def _per_class(weight: Operand, ndim: int, axis: int) -> Value:
    return shaping.view(weight, tuple([-1 if k == axis else 1 for k in range(ndim)]))


def _check_smoothing(value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {value:g}")


def _of_probabilities(
    input: Operand, target: Operand, weight: Operand | None, how: int, smoothing: float, axis: int
) -> Value:
    shape = f.shape_of(input)
    classes = shape[axis] if shape else 1
    if weight is not None and f.shape_of(weight) != (classes,):
        raise RuntimeError("cross_entropy: " + errors.class_weights(classes, f.shape_of(weight)))
    _check_smoothing(smoothing)
    if smoothing > 0:
        target = f.add(f.mul(target, 1 - smoothing), smoothing / max(classes, 1))
    terms = f.mul(log_softmax(input, axis), target)
    if weight is not None:
        terms = f.mul(terms, _per_class(weight, len(shape), axis))
    if how == 0:
        return f.neg(reductions.sum(terms, axis))
    loss = f.neg(reductions.sum(terms))
    if how == 2:
        return loss
    if not math.prod(shape):
        return f.mul(loss, math.nan)
    return apply(DIV_NUMBER, (loss, math.prod(shape) // classes))


def _smoothed(
    input: Operand, target: Operand, weight: Operand | None, how: int, ignored: int,
    smoothing: float, axis: int,
) -> Value:  # fmt: skip
    _check_smoothing(smoothing)
    shape = f.shape_of(input)
    classes = shape[axis]
    logs = log_softmax(input, axis)
    nll = _nll_of(logs, target, weight, how, ignored)[0]
    terms = logs if weight is None else f.mul(logs, _per_class(weight, len(shape), axis))
    smooth = f.neg(reductions.sum(terms, axis))
    left_out = eq(target, ignored)
    smooth = picking.masked_fill(smooth, left_out, 0.0)
    if how == 1:
        if weight is None:
            kept = reductions.sum(f.to(logical_not(left_out), f.dtype_of(input)))
        else:
            safe = picking.masked_fill(target, left_out, 0)
            taken = picking.index_select(weight, 0, shaping.reshape(safe, (-1,)))
            kept = reductions.sum(
                picking.masked_fill(shaping.reshape(taken, f.shape_of(target)), left_out, 0.0)
            )
        smooth = f.div(reductions.sum(smooth), kept)
    elif how == 2:
        smooth = reductions.sum(smooth)
    first = apply(MUL_NUMBER, (nll, 1 - smoothing))
    return f.add(first, apply(MUL_NUMBER, (smooth, smoothing / classes)))


ADD_NUMBER = Op("AddBackward1", ew.add, promote=arithmetic, edges=(0,))
MUL_NUMBER = Op("MulBackward1", ew.mul, promote=arithmetic, edges=(0,))
DIV_NUMBER = Op("DivBackward1", ew.div, promote=arithmetic, edges=(0,))
"""Operations with numbers, as PyTorch's C++ functions apply them."""


@ROWS.function("nn.functional")
def linear_cross_entropy(
    input: Operand,
    linear_weight: Operand,
    target: Operand,
    *,
    linear_bias: Operand | None = None,
    weight: Operand | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Value:
    """Return ``cross_entropy(linear(input, linear_weight, linear_bias), target)``."""
    if options is not None:
        raise NotImplementedError(
            "linear_cross_entropy: the logits are computed as a whole, not in chunks: pass options=None"
        )
    logits = linear(input, linear_weight, linear_bias)
    if ignore_index is None:
        ignore_index = -100
    return cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


# -- differences -----------------------------------------------------------------------------------


def broadcast(
    input: Operand, target: Operand, name: str, weight: Operand | None = None
) -> tuple[Operand, Operand]:
    """Return both tensors in their common shape; another shape of the target gives a warning.

    Raises:
        RuntimeError: if the shapes do not broadcast.
        ValueError: if the weights have another shape than the input.
    """
    f.tensors_only(name, input=input, target=target)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if weight is not None and f.shape_of(weight) != shape:
        raise ValueError("Weights and input must have the same size.")
    if shape != wanted:
        warn(errors.target_size(shape, wanted))
        check_broadcast(shape, wanted)
        full = np.broadcast_shapes(shape, wanted)
        input, target = shaping.expand(input, full), shaping.expand(target, full)
    return input, target


def _weighted(losses: Value, weight: Operand, how: int) -> Value:
    """Return losses times weights; their mean is divided by the sum of the weights."""
    terms = f.mul(losses, weight)
    if how == 0:
        return terms
    found = reductions.sum(terms)
    return f.div(found, reductions.sum(weight)) if how == 1 else found


def _op_of_pairs(
    name: str, function: Callable[..., Any], kernel: str, *params: str, node: str = ""
) -> Op:
    """Return the op of a loss of input and target with a reduction."""
    return Op(
        f"{name}Backward0",
        lambda x, y, how, *rest: total(function(x, y, *rest), how),
        (("self", 0), ("target", 1)),
        arithmetic.checked(for_kinds("f", kernel)),
        keeps=("self", "target"),
        details=_fields("reduction", *params),
    )


def _apply_in(dtype: np.dtype[Any], op: Op, operands: tuple[Any, ...], how: int, *rest: Any) -> Any:
    """Apply the op of a loss whose values have a certain dtype, before they are reduced.

    Raises:
        RuntimeError: if the operands' common dtype is of a higher kind.
    """
    kinds = [f.dtype_of(x) for x in operands]
    if all(kind == dtype for kind in kinds):
        return apply(op, operands, (how, *rest))
    common = arithmetic.dtype([ShapeDtype((1,), kind) for kind in kinds])
    if _RANKS[common.kind] > _RANKS[dtype.kind]:
        raise RuntimeError(errors.result_cast(DTYPES[common].printed, DTYPES[dtype].printed))
    return reduced(f.to(apply(op, operands, (0, *rest)), dtype), how)


_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


def _gradient_op(name: str, *names: str) -> Op:
    """Return the op of a loss's gradient, which depends on input and target."""
    saves = [(x, k) for k, x in enumerate(("grad_output", "self", "target", *names))]
    return replace(recorded_gradient(f"{name}BackwardBackward0", *saves), edges=(0, 1, 2))


def _pulls(op: Op) -> Op:
    """Add the op of the gradient under ``create_graph``."""
    op.gradient = _gradient_op(op.node.removesuffix("Backward0"))
    return op


def _smooth_l1(x: Array, y: Array, beta: float) -> Any:
    difference = ew.sub(x, y)
    size = ew.absolute(difference)
    near = ew.less(size, beta)
    inner = ew.where(near, difference, 0)
    return ew.where(near, ew.div(ew.mul(ew.square(inner), 0.5), beta), ew.sub(size, 0.5 * beta))


def _huber(x: Array, y: Array, delta: float) -> Any:
    difference = ew.sub(x, y)
    size = ew.absolute(difference)
    near = ew.less_equal(size, delta)
    return ew.where(near, ew.mul(ew.mul(size, 0.5), size), ew.mul(ew.sub(size, 0.5 * delta), delta))


def _soft_margin(x: Array, y: Array) -> Any:
    return ew.log1p(ew.exp(ew.neg(ew.mul(x, y))))


MSE = _pulls(_op_of_pairs("MseLoss", lambda x, y: ew.square(ew.sub(x, y)), "mse_cpu"))
SMOOTH_L1 = _pulls(_op_of_pairs("SmoothL1Loss", _smooth_l1, "smooth_l1_cpu", "beta"))
HUBER = _pulls(_op_of_pairs("HuberLoss", _huber, "huber_cpu", "delta"))
SOFT_MARGIN = _pulls(_op_of_pairs("SoftMarginLoss", _soft_margin, "soft_margin"))


@ROWS.function("nn.functional", name="mse_loss")
def mse_loss(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Operand | None = None,
) -> Value:
    """Return the (mean) squared difference, weighted if there are weights of the input's shape."""
    how = reduction_number(reduction, size_average, reduce)
    input, target = broadcast(input, target, "mse_loss", weight)
    if weight is None:
        return apply(MSE, (input, target), (how,))
    return _weighted(f.square(f.sub(input, target)), weight, how)


@ROWS.function("_C._nn", name="mse_loss")
def plain_mse_loss(input: Operand, target: Operand, reduction: int = 0) -> Value:
    """Return the squared difference; see ``nn.functional.mse_loss``."""
    return apply(MSE, (input, target), (reduction,))


@ROWS.function("nn.functional", name="l1_loss")
def l1_loss(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Operand | None = None,
) -> Value:
    """Return the (mean) absolute difference, weighted if there are weights of the input's
    shape.
    """
    how = reduction_number(reduction, size_average, reduce)
    input, target = broadcast(input, target, "l1_loss", weight)
    losses = f.abs(f.sub(input, target))
    return reduced(losses, how) if weight is None else _weighted(losses, weight, how)


@ROWS.function("_C._nn", name="l1_loss")
def plain_l1_loss(input: Operand, target: Operand, reduction: int = 0) -> Value:
    """Return the absolute difference; see ``nn.functional.l1_loss``."""
    return reduced(f.abs(f.sub(input, target)), reduction)


@ROWS.function("nn.functional", name="smooth_l1_loss")
def smooth_l1_loss(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Value:
    """Return the absolute difference ``d``, less ``beta / 2``; ``d ** 2 / (2 * beta)`` below
    ``beta``.

    Raises:
        RuntimeError: if ``beta`` is negative.
    """
    how = reduction_number(reduction, size_average, reduce)
    input, target = broadcast(input, target, "smooth_l1_loss")
    if beta == 0.0:
        return plain_l1_loss(input, target, how)
    return plain_smooth_l1_loss(input, target, how, beta)


@ROWS.function("_C._nn", name="smooth_l1_loss")
def plain_smooth_l1_loss(
    input: Operand, target: Operand, reduction: int = 0, beta: float = 1.0
) -> Value:
    """Return the smoothed absolute difference; see ``nn.functional.smooth_l1_loss``."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return apply(SMOOTH_L1, (input, target), (reduction, beta))


@ROWS.function("nn.functional", name="huber_loss")
def huber_loss(
    input: Operand,
    target: Operand,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Operand | None = None,
) -> Value:
    """Return half the squared difference, but ``delta * (d - delta / 2)`` for absolute differences
    ``d`` above ``delta``.

    Raises:
        RuntimeError: if ``delta`` is not positive.
    """
    how = reduction_number(reduction)
    input, target = broadcast(input, target, "huber_loss", weight)
    if weight is None:
        return plain_huber_loss(input, target, how, delta)
    return reduced(f.mul(plain_huber_loss(input, target, 0, delta), weight), how)


@ROWS.function("_C._nn", name="huber_loss")
def plain_huber_loss(
    input: Operand, target: Operand, reduction: int = 0, delta: float = 1.0
) -> Value:
    """Return the Huber loss; see ``nn.functional.huber_loss``."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _apply_in(f.dtype_of(input), HUBER, (input, target), reduction, delta)


@ROWS.function("nn.functional", name="soft_margin_loss")
def soft_margin_loss(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``log(1 + exp(-target * input))`` for targets 1 and -1."""
    how = reduction_number(reduction, size_average, reduce)
    return plain_soft_margin_loss(input, target, how)


@ROWS.function("_C._nn", name="soft_margin_loss")
def plain_soft_margin_loss(input: Operand, target: Operand, reduction: int = 0) -> Value:
    """Return ``log(1 + exp(-target * input))`` for targets 1 and -1."""
    f.tensors_only("soft_margin_loss", input=input, target=target)
    if MODES.recording and isinstance(target, Tensor) and target.requires_grad:
        raise RuntimeError(errors.not_differentiable("soft_margin_loss", "target"))
    return _apply_in(f.dtype_of(input), SOFT_MARGIN, (input, target), reduction)


# -- probabilities ---------------------------------------------------------------------------------

_LOWEST, _EPSILON = -100.0, 1e-12


def _bce(x: Array, target: Array, *rest: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return _bce_derived(x, target, *rest)
    *weights, how = rest
    one, zero = (ew.maximum(ew.log(x), _LOWEST), ew.maximum(ew.log1p(ew.neg(x)), _LOWEST))
    losses = ew.sub(ew.mul(ew.sub(target, 1), zero), ew.mul(target, one))
    return total(ew.mul(losses, weights[0]) if weights else losses, how)


def _bce_derived(x: Array, target: Array, *rest: Any) -> Any:
    """Return the loss with PyTorch's derivative, which is large but finite at 0 and 1."""
    *weights, how = rest
    inside = ew.greater_equal(ew.mul(x, ew.sub(1, x)), _EPSILON)
    safe = ew.where(inside, x, 0.5)
    fixed = ew.stop_gradient(x)
    one = ew.where(inside, ew.log(safe), ew.maximum(ew.log(fixed), _LOWEST))
    zero = ew.where(inside, ew.log1p(ew.neg(safe)), ew.maximum(ew.log1p(ew.neg(fixed)), _LOWEST))
    losses = ew.sub(ew.mul(ew.sub(target, 1), zero), ew.mul(target, one))
    slope = ew.div(ew.stop_gradient(ew.sub(x, target)), _EPSILON)
    edge = ew.mul(ew.sub(x, fixed), ew.where(inside, 0, slope))
    losses = ew.add(losses, edge)
    return total(ew.mul(losses, weights[0]) if weights else losses, how)


def _bce_op(weighted: bool) -> Op:
    names = ("self", "target", "weight") if weighted else ("self", "target")
    return Op(
        "BinaryCrossEntropyBackward0",
        _bce,
        tuple((name, k) for k, name in enumerate(names)),
        edges=(0, 1),
        keeps=names,
        details=lambda specs, params: (
            {"reduction": params[0]} | ({} if weighted else {"weight": None})
        ),
        gradient=_gradient_op("BinaryCrossEntropy", "weight"),
    )  # fmt: skip


_BCE = [_bce_op(False), _bce_op(True)]


@ROWS.function("nn.functional", name="binary_cross_entropy")
def binary_cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``-(target * log(input) + (1 - target) * log(1 - input))``; logarithms are at least
    -100.

    Raises:
        ValueError: if the shapes differ.
        RuntimeError: for another dtype of the target, or inputs outside of 0 and 1.
    """
    how = reduction_number(reduction, size_average, reduce)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if shape != wanted:
        raise ValueError(errors.deprecated_target_size(shape, wanted))
    if weight is not None and f.shape_of(weight) != shape:
        weight = shaping.expand(weight, np.broadcast_shapes(shape, f.shape_of(weight)))
    return plain_binary_cross_entropy(input, target, weight, how)


@ROWS.function("_C._nn", name="binary_cross_entropy")
def plain_binary_cross_entropy(
    input: Operand, target: Operand, weight: Operand | None = None, reduction: int = 0
) -> Value:
    """Return the cross-entropy of probabilities; see ``nn.functional.binary_cross_entropy``."""
    f.tensors_only("binary_cross_entropy", input=input, target=target)
    dtype = f.dtype_of(input)
    for other in (target, *(() if weight is None else (weight,))):
        if f.dtype_of(other) != dtype:
            names = [DTYPES[d].printed for d in (f.dtype_of(other), dtype)]
            raise RuntimeError(f"Found dtype {names[0]} but expected {names[1]}")
    if dtype.kind not in "fV":
        raise NotImplementedError(
            errors.no_kernel("binary_cross_entropy").format(DTYPES[dtype].printed)
        )
    array = input._array if isinstance(input, Tensor) else input
    if isinstance(array, np.ndarray) and not ((array >= 0) & (array <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(_BCE[weight is not None], operands, (reduction,))


def _bce_of_logits(x: Array, target: Array, *rest: Any) -> Any:
    *others, weighted, how = rest
    logs = log_sigmoid_of(x)
    if len(others) > weighted:
        logs = ew.mul(logs, ew.add(ew.mul(ew.sub(others[-1], 1), target), 1))
    losses = ew.sub(ew.mul(ew.sub(1, target), x), logs)
    return total(ew.mul(losses, others[0]) if weighted else losses, how)


def _logits_op(weighted: bool, positive: bool) -> Op:
    names = ("self", "target", *("weight",) * weighted, *("pos_weight",) * positive)
    given = {"weight": weighted, "pos_weight": positive}
    return Op(
        "BinaryCrossEntropyWithLogitsBackward0",
        _bce_of_logits,
        tuple((name, k) for k, name in enumerate(names)),
        arithmetic.checked(for_kinds("f", "binary_cross_entropy_with_logits")),
        edges=(0, 1),
        keeps=names,
        details=lambda specs, params: (
            {"reduction": params[1]} | {name: None for name, there in given.items() if not there}
        ),
    )


_LOGITS = {(w, p): _logits_op(w, p) for w in (False, True) for p in (False, True)}


@ROWS.function("nn.functional", name="binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Operand | None = None,
) -> Value:
    """Return `binary_cross_entropy` of ``sigmoid(input)``, accurate for large logits.

    Args:
        input: logits.
        target: probabilities, shape of the input.
        weight: factors of the losses, which broadcast.
        pos_weight: factors of the terms with ``target``, which broadcast.

    Raises:
        ValueError: if the shapes differ.
    """
    how = reduction_number(reduction, size_average, reduce)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if shape != wanted:
        raise ValueError(errors.same_target_size(shape, wanted))
    return plain_binary_cross_entropy_with_logits(input, target, weight, pos_weight, how)


@ROWS.function("function", name="binary_cross_entropy_with_logits")
def plain_binary_cross_entropy_with_logits(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    pos_weight: Operand | None = None,
    reduction: int = 0,
) -> Value:
    """Return the cross-entropy of logits; see ``nn.functional``."""
    f.tensors_only("binary_cross_entropy_with_logits", input=input, target=target)
    if f.dtype_of(target).kind in "bui" and f.dtype_of(input).kind in "fV":
        names = [DTYPES[f.dtype_of(x)].printed for x in (input, target)]
        raise RuntimeError(errors.result_cast(*names))
    if f.dtype_of(input).kind not in "fV":
        name = DTYPES[f.dtype_of(input)].printed
        raise NotImplementedError(errors.no_kernel("log_sigmoid_cpu").format(name))
    if f.dtype_of(input) != f.dtype_of(target) and f.dtype_of(target).kind in "fV":
        operands = (input, target) if pos_weight is None else (input, target, pos_weight)
        losses = apply(_LOGITS[False, pos_weight is not None], operands, (False, 0))
        losses = f.to(losses, f.dtype_of(target))
        return reduced(losses if weight is None else f.mul(losses, weight), reduction)
    operands = [x for x in (input, target, weight, pos_weight) if x is not None]
    op = _LOGITS[weight is not None, pos_weight is not None]
    return apply(op, tuple(operands), (weight is not None, reduction))


@ROWS.function("nn.functional", name="kl_div")
def kl_div(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Value:
    """Return ``target * (log(target) - input)``: terms of the Kullback-Leibler divergence.

    Args:
        input: log-probabilities.
        target: probabilities; their logarithms with ``log_target``.
        reduction: also ``"batchmean"``: the sum, divided by the first size.
    """
    legacy = size_average is not None or reduce is not None
    if reduction == "mean" and not legacy:
        warn(errors.KL_MEAN)
    batch = reduction == "batchmean" and not legacy
    how = 2 if batch else reduction_number(reduction, size_average, reduce)
    found = plain_kl_div(input, target, how, log_target=log_target)
    shape = f.shape_of(input)
    return f.div(found, shape[0]) if batch and shape else found


def _xlogx(x: Array) -> Any:
    zero = ew.equal(x, 0)
    return ew.where(zero, 0, ew.mul(x, ew.log(ew.where(zero, 1, x))))


XLOGX = Op(
    "XlogyBackward0", _xlogx, (("other", 0), ("self", 0)), promote=arithmetic, called="xlogx"
)


@ROWS.function("function", name="kl_div")
def plain_kl_div(
    input: Operand, target: Operand, reduction: int = 0, *, log_target: bool = False
) -> Value:
    """Return terms of the Kullback-Leibler divergence; see ``nn.functional.kl_div``."""
    f.tensors_only("kl_div", input=input, target=target)
    kinds = f.dtype_of(input).kind + f.dtype_of(target).kind
    if "c" in kinds:
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not set(kinds) <= {"f", "V"}:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        difference = f.sub(target, input)
        losses = f.mul(f.exp(target), difference)
    else:
        product = f.mul(target, input)
        losses = f.sub(apply(XLOGX, (target,)), product)
    return reduced(losses, reduction)


@ROWS.function("nn.functional", name="poisson_nll_loss")
def poisson_nll_loss(
    input: Operand,
    target: Operand,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return the negative log-likelihood of counts of Poisson distributions.

    Args:
        input: expectations; their logarithms with ``log_input``.
        target: counts.
        full: True to add Stirling's approximation of ``log(target!)``.
        eps: added to expectations before the logarithm.
    """
    how = reduction_number(reduction, size_average, reduce)
    return plain_poisson_nll_loss(input, target, log_input, full, eps, how)


@ROWS.function("function", name="poisson_nll_loss")
def plain_poisson_nll_loss(
    input: Operand, target: Operand, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    """Return the negative log-likelihood of counts; see ``nn.functional.poisson_nll_loss``."""
    if log_input:
        product = f.mul(target, input)
        loss = f.sub(f.exp(input), product)
    else:
        loss = f.sub(input, f.mul(target, f.log(apply(ADD_NUMBER, (input, eps)))))
    if full:
        around: Any = f.log(apply(MUL_NUMBER, (target, 2 * math.pi)))
        around = apply(MUL_NUMBER, (around, 0.5))
        stirling = f.add(f.sub(f.mul(target, f.log(target)), target), around)
        loss = f.add(loss, picking.masked_fill(stirling, le(target, 1), 0))
    return reduced(loss, reduction)


@ROWS.function("nn.functional")
def gaussian_nll_loss(
    input: Operand,
    target: Operand,
    var: Operand,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Value:
    """Return the negative log-likelihood of numbers of normal distributions.

    Args:
        input: expectations.
        target: the numbers.
        var: variances, at least ``eps``: of the input's shape, or with one size 1, or the last
            missing.
        full: True to add the constant ``log(2 * pi) / 2``.

    Raises:
        ValueError: for another shape or negative variances.
    """
    if isinstance(var, (int, float)) and not isinstance(var, bool):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = f.mul(f.to(eq(input, input), f.dtype_of(input)), var)
    shape, given = f.shape_of(input), f.shape_of(var)
    if given != shape:
        if shape[:-1] == given:
            var = shaping.unsqueeze(var, -1)
        elif len(shape) != len(given) or [m for n, m in zip(shape, given) if n != m] != [1]:
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    array = var._array if isinstance(var, Tensor) else var
    if isinstance(array, np.ndarray) and (array < 0).any():
        raise ValueError("var has negative entry/entries")
    if isinstance(array, Tracer):
        var = f.clamp(var, min=eps)
    else:
        var = f.clone(var)
        with no_grad():
            var.clamp_(min=eps)  # type: ignore[union-attr]
    loss = f.mul(f.add(f.log(var), f.div(f.square(f.sub(input, target)), var)), 0.5)
    if full:
        loss = f.add(loss, 0.5 * math.log(2 * math.pi))
    return reduced(loss, _REDUCTIONS[reduction])
