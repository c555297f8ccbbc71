# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.nn.functional`.

import builtins

from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "cross_entropy",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]

def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: builtins.int = -100,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``nll_loss(log_softmax(input))`` for class positions; see `nll_loss`."""

def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``."""

def log_softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the log of the softmax along a dimension."""

def mse_loss(input: Operand, target: Operand, *, reduction: builtins.str = "mean") -> Value:
    """Return the (mean) squared difference."""

def nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: builtins.int = -100,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the negative log-likelihood of classes."""

def relu(input: Operand) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

def sigmoid(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

def softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the softmax along a dimension."""

def tanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic tangent of each element."""
