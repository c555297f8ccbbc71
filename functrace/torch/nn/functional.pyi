# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.nn.functional`.

import builtins

from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "celu",
    "celu_",
    "cross_entropy",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

def celu(input: Operand, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""

def celu_(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """`celu`, in place."""

def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: builtins.int = -100,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``nll_loss(log_softmax(input))`` for class positions; see `nll_loss`."""

def elu(input: Operand, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""

def elu_(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """`elu`, in place."""

def gelu(input: Operand, *, approximate: builtins.str = "none") -> Value:
    """Return ``input`` times the normal distribution function of it."""

def glu(input: Operand, dim: builtins.int = -1) -> Value:
    """Return the first half along a dimension times the sigmoid of the second half."""

def gumbel_softmax(
    logits: Operand,
    tau: builtins.float = 1,
    hard: builtins.bool = False,
    eps: builtins.float = 1e-10,
    dim: builtins.int = -1,
) -> Value:
    """Return samples of the Gumbel-softmax distribution."""

def hardshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, but 0 between ``-lambd`` and ``lambd``."""

def hardsigmoid(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``relu6(input + 3) / 6``."""

def hardswish(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * relu6(input + 3) / 6``."""

def hardtanh(
    input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False
) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 0."""

def hardtanh_(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Value:
    """`hardtanh`, in place."""

def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""

def leaky_relu_(input: Operand, negative_slope: builtins.float = 0.01) -> Value:
    """`leaky_relu`, in place."""

def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``."""

def log_softmax(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the logarithm of the softmax along a dimension."""

def logsigmoid(input: Operand) -> Value:
    """Return the logarithm of the sigmoid, accurate where the sigmoid rounds to 0 or 1."""

def mish(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * tanh(softplus(input))``."""

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

def prelu(input: Operand, weight: Operand) -> Value:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere."""

def relu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

def relu6(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return each element, limited to the range from 0 to 6."""

def relu_(input: Operand) -> Value:
    """`relu`, in place."""

def rrelu(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
    inplace: builtins.bool = False,
) -> Value:
    """Return ``input`` where it is positive, elsewhere ``slope * input``: a random slope between the bounds for each element, or their mean outside of training."""

def rrelu_(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
) -> Value:
    """`rrelu`, in place."""

def selu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return the scaled ELU of self-normalizing networks: ``1.0507 * elu(input, 1.6733)``."""

def selu_(input: Operand) -> Value:
    """`selu`, in place."""

def sigmoid(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

def silu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * sigmoid(input)``."""

def softmax(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the softmax along a dimension."""

def softmin(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the softmax of ``-input`` along a dimension."""

def softplus(input: Operand, beta: builtins.float = 1, threshold: builtins.float = 20) -> Value:
    """Return ``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above the threshold."""

def softshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, moved towards 0 by ``lambd``, and 0 where that is not possible."""

def softsign(input: Operand) -> Value:
    """Return ``input / (1 + |input|)``."""

def tanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic tangent of each element."""

def tanhshrink(input: Operand) -> Value:
    """Return ``input - tanh(input)``."""

def threshold(input: Operand, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is above the threshold, ``value`` elsewhere."""

def threshold_(input: Operand, threshold: builtins.float, value: builtins.float) -> Value:
    """`threshold`, in place."""
