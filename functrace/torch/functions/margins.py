"""The rows of losses with margins, of pairs and of triplets.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.cumulative import cumsum
from functrace.ops.indexing import gather as core_gather
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import activations, factories, reductions
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.distances import CLAMP_MIN, pairwise_distance
from functrace.torch.functions.losses import ADD_NUMBER, eq, ne, reduced, reduction_number, total
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = FunctionTable()


def _above(x: Any, low: float = 0) -> Any:
    return apply(CLAMP_MIN, (x,), (low,))


def _plus(x: Any, number: float) -> Any:
    return apply(ADD_NUMBER, (x, number))


@ROWS.function("nn.functional", name="hinge_embedding_loss")
def hinge_embedding_loss(
    input: Operand,
    target: Operand,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""
    how = reduction_number(reduction, size_average, reduce)
    return plain_hinge_embedding_loss(input, target, margin, how)


@ROWS.function("function", name="hinge_embedding_loss")
def plain_hinge_embedding_loss(
    input: Operand, target: Operand, margin: float = 1.0, reduction: int = 0
) -> Value:
    """Return the hinge loss of distances; see ``nn.functional.hinge_embedding_loss``."""
    f.tensors_only("hinge_embedding_loss", input=input, target=target)
    zeros = factories.zeros_like(input)
    apart = f.where(ne(target, 1), _above(f.rsub(input, margin)), zeros)
    return reduced(f.add(apart, f.where(ne(target, -1), input, zeros)), reduction)


@ROWS.function("nn.functional", name="margin_ranking_loss")
def margin_ranking_loss(
    input1: Operand,
    input2: Operand,
    target: Operand,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``max(0, -target * (input1 - input2) + margin)`` for targets 1 and -1.

    Raises:
        RuntimeError: for other numbers of dimensions.
    """
    how = reduction_number(reduction, size_average, reduce)
    shapes = [f.shape_of(x) for x in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise RuntimeError(errors.ranking_sizes(*shapes))
    return plain_margin_ranking_loss(input1, input2, target, margin, how)


@ROWS.function("function", name="margin_ranking_loss")
def plain_margin_ranking_loss(
    input1: Operand, input2: Operand, target: Operand, margin: float = 0.0, reduction: int = 0
) -> Value:
    """Return the ranking loss; see ``nn.functional.margin_ranking_loss``."""
    f.tensors_only("margin_ranking_loss", input1=input1, input2=input2, target=target)
    losses = _above(_plus(f.mul(f.neg(target), f.sub(input1, input2)), margin))
    return reduced(losses, reduction)


@ROWS.function("nn.functional", name="cosine_embedding_loss")
def cosine_embedding_loss(
    input1: Operand,
    input2: Operand,
    target: Operand,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1.

    Args:
        input1, input2: shape (N, D) or (D,).
        target: shape (N,) or ().
        margin: the largest cosine without loss.

    Raises:
        RuntimeError: for other numbers of dimensions.
    """
    how = reduction_number(reduction, size_average, reduce)
    return plain_cosine_embedding_loss(input1, input2, target, margin, how)


_COSINE_EPSILON = 1e-12


@ROWS.function("function", name="cosine_embedding_loss")
def plain_cosine_embedding_loss(
    input1: Operand, input2: Operand, target: Operand, margin: float = 0.0, reduction: int = 0
) -> Value:
    """Return the loss of cosines; see ``nn.functional.cosine_embedding_loss``."""
    f.tensors_only("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    first, second, wanted = (f.shape_of(x) for x in (input1, input2, target))
    if len(wanted) > 1:
        raise RuntimeError(errors.MULTIPLE_TARGETS)
    if len(wanted) == 1 and not len(first) == len(second) == 2:
        raise RuntimeError(errors.several_targets(first, second))
    if not wanted and not len(first) == len(second) == 1:
        raise RuntimeError(errors.single_target(first, second))
    axis = len(wanted)
    inner = reductions.sum(f.mul(input1, input2), axis)
    sizes = [_plus(reductions.sum(f.mul(x, x), axis), _COSINE_EPSILON) for x in (input1, input2)]
    cosines = f.div(inner, f.sqrt(f.mul(*sizes)))
    zeros = factories.zeros_like(cosines)
    near = f.where(eq(target, 1), f.rsub(cosines, 1), zeros)
    apart = f.where(eq(target, -1), _above(f.sub(cosines, margin)), zeros)
    return reduced(f.add(near, apart), reduction)


# -- triplets --------------------------------------------------------------------------------------


def _check_triplet(anchor: Operand, positive: Operand, negative: Operand) -> None:
    dims = [len(f.shape_of(x)) for x in (anchor, positive, negative)]
    if len(set(dims)) > 1:
        raise RuntimeError(errors.triplet_dimensions(*dims))


@ROWS.function("nn.functional", name="triplet_margin_loss")
def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        anchor, positive, negative: shape (N, D) or (D,).
        p, eps: of the distance; see `pairwise_distance`.
        swap: True to take the distance of positive and negative, if that is smaller.

    Raises:
        ValueError: if the margin is not positive.
        RuntimeError: for different numbers of dimensions.
    """
    how = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return plain_triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, how)


@ROWS.function("function", name="triplet_margin_loss")
def plain_triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 0,
) -> Value:
    """Return the loss of triplets; see ``nn.functional.triplet_margin_loss``."""
    _check_triplet(anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    apart = pairwise_distance(anchor, negative, p, eps)
    if swap:
        apart = f.minimum(apart, pairwise_distance(positive, negative, p, eps))
    return reduced(_above(f.sub(_plus(near, margin), apart)), reduction)


@ROWS.function("nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    """Return `triplet_margin_loss` with another distance.

    Args:
        distance_function: distance of two tensors; `pairwise_distance` by default.

    Raises:
        ValueError: if the margin is not positive, or the reduction is another word.
        RuntimeError: for different numbers of dimensions.
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    how = reduction_number(reduction)
    _check_triplet(anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, apart = distance(anchor, positive), distance(anchor, negative)
    if swap:
        apart = f.minimum(apart, distance(positive, negative))
    return reduced(_above(f.sub(f.add(near, margin), apart)), how)


# -- margins between classes -----------------------------------------------------------------------


def _multi_margin(x: Array, target: Array, *rest: Any) -> Any:
    *weights, p, margin, how = rest
    rows = x if x.ndim == 2 else core_reshape(x, (1, *x.shape))
    labels = core_reshape(target, (rows.shape[0], 1))
    classes = rows.shape[1]
    own = take_along_axis(rows, labels, 1)
    others = ew.not_equal(np.arange(classes), labels)
    gap = ew.add(ew.sub(rows, own), margin)
    counts = ew.logical_and(others, ew.greater(gap, 0))
    gap = ew.where(counts, gap, 0)
    terms = gap if p == 1 else ew.square(gap)
    if weights:
        terms = ew.mul(terms, core_gather(weights[0], ("array",), (labels,)))
    losses = ew.div(reduce_sum(terms, (1,)), classes)
    return total(core_reshape(losses, target.shape), how)


def _multi_margin_op(weighted: bool) -> Op:
    names = ("self", "target", "weight") if weighted else ("self", "target")
    return Op(
        "MultiMarginLossBackward0",
        _multi_margin,
        tuple((name, k) for k, name in enumerate(names)),
        edges=(0,),
        keeps=names,
        details=lambda specs, params: (
            dict(zip(("p", "margin", "reduction"), params, strict=True))
            | ({} if weighted else {"weight": None})
        ),
    )


_MULTI_MARGIN = [_multi_margin_op(False), _multi_margin_op(True)]


@ROWS.function("nn.functional", name="multi_margin_loss")
def multi_margin_loss(
    input: Operand,
    target: Operand,
    p: int = 1,
    margin: float = 1.0,
    weight: Operand | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return the mean over the other classes of ``max(0, margin - own + other) ** p``.

    Args:
        input: scores, shape (N, C) or (C,).
        target: class positions, shape (N,) or ().
        p: 1 or 2.
        weight: one per class.

    Raises:
        ValueError: for another ``p``.
        RuntimeError: for shapes, dtypes and targets that do not fit.
    """
    how = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and len(f.shape_of(weight)) != 1:
        raise ValueError("weight must be one-dimensional")
    return plain_multi_margin_loss(input, target, p, margin, weight, how)


@ROWS.function("_C._nn", name="multi_margin_loss")
def plain_multi_margin_loss(
    input: Operand,
    target: Operand,
    p: int = 1,
    margin: float = 1,
    weight: Operand | None = None,
    reduction: int = 0,
) -> Value:
    """Return the loss of margins between classes; see ``nn.functional.multi_margin_loss``."""
    f.tensors_only("multi_margin_loss", input=input, target=target)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if not len(shape) <= 2 or 0 in shape[1:]:
        raise RuntimeError(errors.margin_input(shape))
    rows = shape[0] if len(shape) == 2 else 1
    classes = shape[-1] if shape else 1
    if len(wanted) > 1 or (wanted[0] if wanted else 1) != rows:
        raise RuntimeError(errors.margin_target(rows, wanted, shape))
    if weight is not None and f.shape_of(weight) != (classes,):
        given = list(f.shape_of(weight))
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {given}")
    _check_dtype("multi_margin_loss", input)
    array = target._array if isinstance(target, Tensor) else target
    if isinstance(array, np.ndarray) and not ((array >= 0) & (array < classes)).all():
        raise RuntimeError("target out of range")
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(_MULTI_MARGIN[weight is not None], operands, (p, margin, reduction))


def _check_dtype(name: str, input: Operand) -> None:
    dtype = f.dtype_of(input)
    if dtype.kind not in "fV":
        raise NotImplementedError(errors.no_kernel(name).format(DTYPES[dtype].printed))


def _multilabel_margin(x: Array, target: Array, how: int) -> Any:
    rows = x if x.ndim == 2 else core_reshape(x, (1, x.shape[0] if x.ndim else 1))
    labels = core_reshape(target, rows.shape)
    classes = rows.shape[1]
    # Labels end at the first -1.
    ends = ew.equal(cumsum(convert(ew.less(labels, 0), np.int64), 1), 0)
    counted = convert(ends, x.dtype)
    safe = ew.where(ends, labels, 0)
    picks = ew.logical_and(
        ew.equal(core_reshape(safe, (*safe.shape, 1)), np.arange(classes)),
        core_reshape(ends, (*safe.shape, 1)),
    )
    is_target = ew.greater(reduce_sum(convert(picks, x.dtype), (1,)), 0)
    own = core_reshape(take_along_axis(rows, safe, 1), (*safe.shape, 1))
    gap = ew.add(ew.sub(core_reshape(rows, (rows.shape[0], 1, classes)), own), 1)
    free = core_reshape(ew.logical_not(is_target), (rows.shape[0], 1, classes))
    keeps = ew.logical_and(free, ew.greater(gap, 0))
    terms = ew.mul(ew.where(keeps, gap, 0), core_reshape(counted, (*safe.shape, 1)))
    losses = ew.div(reduce_sum(terms, (1, 2)), classes)
    flags = core_reshape(convert(is_target, x.dtype), target.shape)
    return total(core_reshape(losses, ()) if x.ndim < 2 and how == 0 else losses, how), flags


MULTILABEL_MARGIN = Op(
    "MultilabelMarginLossBackward0",
    _multilabel_margin,
    (("self", 0), ("target", 1), ("is_target", -2)),
    edges=(0,),
    keeps=("self", "target", "is_target"),
    constants=(1,),
    details=lambda specs, params: {"reduction": params[0]},
)


@ROWS.function("nn.functional", name="multilabel_margin_loss")
def multilabel_margin_loss(
    input: Operand,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return the mean of ``max(0, 1 - own + other)`` over pairs of a label and another class.

    Args:
        input: scores, shape (N, C) or (C,).
        target: labels, then -1: shape of the input.

    Raises:
        RuntimeError: for shapes and labels that do not fit.
    """
    how = reduction_number(reduction, size_average, reduce)
    return plain_multilabel_margin_loss(input, target, how)


@ROWS.function("_C._nn", name="multilabel_margin_loss")
def plain_multilabel_margin_loss(input: Operand, target: Operand, reduction: int = 0) -> Value:
    """Return the loss of several labels; see ``nn.functional.multilabel_margin_loss``."""
    f.tensors_only("multilabel_margin_loss", input=input, target=target)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    if len(shape) > 2 or 0 in shape[-1:]:
        raise RuntimeError(errors.margin_input(shape))
    if shape != wanted:
        raise RuntimeError(
            f"inconsistent target size: {list(wanted)} for input of size: {list(shape)}"
        )
    _check_dtype("multilabel_margin_loss_forward_out_frame", input)
    array = target._array if isinstance(target, Tensor) else target
    classes = shape[-1] if shape else 1
    if isinstance(array, np.ndarray) and not ((array >= -1) & (array < classes)).all():
        raise RuntimeError("argument #2 'target' is out of range")
    return apply(MULTILABEL_MARGIN, (input, target), (reduction,))[0]


@ROWS.function("nn.functional")
def multilabel_soft_margin_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Value:
    """Return the mean over classes of the cross-entropy of ``sigmoid(input)``.

    Args:
        input: logits, shape (N, C) or (C,).
        target: 0 and 1, shape of the input.
        weight: one per class.
    """
    how = reduction_number(reduction, size_average, reduce)
    one = f.mul(target, activations.logsigmoid(input))
    zero = f.mul(f.rsub(target, 1), activations.logsigmoid(f.neg(input)))
    losses = f.neg(f.add(one, zero))
    if weight is not None:
        losses = f.mul(losses, weight)
    shape = f.shape_of(input)
    axis = len(shape) - 1
    return reduced(f.div(reductions.sum(losses, axis), shape[axis]), how)
