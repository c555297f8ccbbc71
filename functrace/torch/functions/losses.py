"""The rows of neural network functions: ``linear`` and losses.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import gather as core_gather
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply, recorded_gradient
from functrace.torch.dispatch.promotion import arithmetic, check_broadcast, for_kinds
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import products, shaping
from functrace.torch.functions.reductions import log_softmax
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = FunctionTable()
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name: str) -> int:
    if name not in _REDUCTIONS:
        raise ValueError(f"{name} is not a valid value for reduction")
    return _REDUCTIONS[name]


@ROWS.function("nn.functional")
def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``.

    Args:
        input: shape (..., n).
        weight: shape (m, n).
        bias: shape (m,).
    """
    if bias is None:
        return products.matmul(input, shaping.t(weight))
    shape = f.shape_of(input)
    if len(shape) == 2:
        return products.addmm(bias, input, shaping.t(weight))
    flat = products.addmm(bias, shaping.reshape(input, (-1, shape[-1])), shaping.t(weight))
    return shaping.reshape(flat, (*shape[:-1], f.shape_of(weight)[0]))


def _nll(x: Array, target: Array, *rest: Any) -> Any:
    *weights, reduction, ignored = rest
    axis = 0 if x.ndim == 1 else 1
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
    return (
        ew.div(reduce_sum(losses, axes), total) if reduction == 1 else reduce_sum(losses, axes)
    ), total


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


@ROWS.function("nn.functional")
def nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int = -100,
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
    shape, wanted = f.shape_of(input), f.shape_of(target)
    how = _reduction(reduction)
    count = wanted[0] if wanted else 0
    if len(shape) >= 2 and shape[0] != count:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({count})."
        )
    if f.dtype_of(input).kind != "f":
        raise NotImplementedError(
            errors.no_kernel("nll_loss_out_frame").format(DTYPES[f.dtype_of(input)].printed)
        )
    if f.dtype_of(target) not in (np.int64, np.uint8):
        raise RuntimeError(errors.class_dtype(DTYPES[f.dtype_of(target)].printed))
    if weight is not None and f.dtype_of(weight) != f.dtype_of(input):
        found, given = (DTYPES[f.dtype_of(x)].printed for x in (weight, input))
        raise RuntimeError(f"expected scalar type {given} but found {found}")
    _check_targets(target, shape[0 if len(shape) == 1 else 1], ignore_index)
    op = _NLL[len(shape) > 2][weight is not None]
    operands = (input, target) if weight is None else (input, target, weight)
    return apply(op, operands, (how, ignore_index))[0]


def _check_targets(target: Operand, classes: int, ignored: int) -> None:
    array = target._array if isinstance(target, Tensor) else target
    if isinstance(array, np.ndarray):
        bad = array[((array < 0) | (array >= classes)) & (array != ignored)]
        if bad.size:
            raise IndexError(f"Target {bad.flat[0]} is out of bounds.")


@ROWS.function("nn.functional")
def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Value:
    """Return ``nll_loss(log_softmax(input))`` for class positions; see `nll_loss`."""
    axis = 0 if len(f.shape_of(input)) == 1 else 1
    return nll_loss(
        log_softmax(input, axis), target, weight, ignore_index=ignore_index, reduction=reduction
    )


def _mse(x: Array, y: Array, reduction: int) -> Any:
    losses = ew.square(ew.sub(x, y))
    if reduction == 0:
        return losses
    total = reduce_sum(losses, tuple(range(losses.ndim)))
    return ew.div(total, math.prod(losses.shape)) if reduction == 1 else total


MSE = Op(
    "MseLossBackward0",
    _mse,
    (("self", 0), ("target", 1)),
    arithmetic.checked(for_kinds("f", "mse_cpu")),
    keeps=("self", "target"),
    details=lambda specs, params: {"reduction": params[0]},
)


@ROWS.function("nn.functional")
def mse_loss(input: Operand, target: Operand, *, reduction: str = "mean") -> Value:
    """Return the (mean) squared difference."""
    f.tensors_only("mse_loss", input=input, target=target)
    shape, wanted = f.shape_of(input), f.shape_of(target)
    how = _reduction(reduction)
    if shape != wanted:
        warn(errors.target_size(shape, wanted))
        check_broadcast(shape, wanted)
        full = np.broadcast_shapes(shape, wanted)
        input, target = shaping.expand(input, full), shaping.expand(target, full)
    return apply(MSE, (input, target), (how,))
