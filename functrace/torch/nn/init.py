"""``torch.nn.init``: functions that fill parameters, with PyTorch's draws in PyTorch's order.

Every function changes its tensor in place, without recording, and returns it.

Layer: 9.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.random import Generator
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

T = TypeVar("T", bound=Tensor)
_NO_ELEMENTS = "Initializing zero-element tensors is a no-op"
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid",
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which a nonlinearity's weights are scaled.

    Args:
        nonlinearity: name of its function.
        param: its parameter: the negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises:
        ValueError: for an unknown name, or a slope that is no number.
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        param = 0.01
    elif isinstance(param, bool) or not isinstance(param, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + param**2))


def uniform_(tensor: T, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> T:
    """Draw from the uniform distribution on [a, b)."""
    with no_grad():
        tensor.uniform_(a, b, generator=generator)
    return tensor


def normal_(
    tensor: T, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> T:
    """Draw from the normal distribution."""
    with no_grad():
        tensor.normal_(mean, std, generator=generator)
    return tensor


def trunc_normal_(
    tensor: T,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> T:
    """Draw from the normal distribution, restricted to [a, b].

    Args:
        tensor: the tensor.
        mean: mean of the normal distribution.
        std: its standard deviation.
        a: lower bound.
        b: upper bound.
        generator: source of random numbers.

    Numbers are drawn for the whole tensor until each has been accepted once: normal ones if more
    than 0.3 of them are in [a, b], uniform ones otherwise.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    low, high = ((1.0 + math.erf((bound - mean) / std / math.sqrt(2.0))) / 2.0 for bound in (a, b))
    with no_grad():
        draw = _normal_proposals if high - low > 0.3 else _uniform_proposals
        is_drawn = draw(tensor, mean, std, a, b, generator)
        while not is_drawn.all():
            others = torch.empty_like(tensor)
            is_accepted = draw(others, mean, std, a, b, generator)
            tensor.copy_(torch.where(is_drawn, tensor, others))
            is_drawn |= is_accepted
    return tensor


def _normal_proposals(
    x: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """Fill a tensor with normal numbers; returns which of them are in [a, b]."""
    x.normal_(mean, std, generator=generator)
    return (x >= a) & (x <= b)


def _uniform_proposals(
    x: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """Fill a tensor with numbers uniform in [a, b); returns which of them are accepted, with a
    probability proportional to the normal density.
    """
    x.uniform_(a, b, generator=generator)
    threshold = torch.empty_like(x).uniform_(generator=generator)
    nearest = min(max(mean, a), b)
    distance: Any = (x - mean) ** 2
    return threshold <= torch.exp(((nearest - mean) ** 2 - distance) / (2 * std * std))


def constant_(tensor: T, val: float) -> T:
    """Fill with a number."""
    with no_grad():
        tensor.fill_(val)
    return tensor


def ones_(tensor: T) -> T:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: T) -> T:
    """Fill with zeros."""
    with no_grad():
        tensor.zero_()
    return tensor


def eye_(tensor: T) -> T:
    """Make a matrix the identity.

    Raises:
        ValueError: if it has not two axes.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.copy_(torch.eye(*tensor.shape, dtype=tensor.dtype))
    return tensor


def dirac_(tensor: T, groups: int = 1) -> T:
    """Make the weight of a convolution return as many of its input channels as it can.

    Args:
        tensor: the weight, with 3 to 5 axes.
        groups: number of groups of channels.

    Raises:
        ValueError: for another number of axes, or groups that do not divide the channels.
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = sizes[0] // groups
    count = min(each, sizes[1])
    middle = tuple(n // 2 for n in sizes[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for k in range(count):
                tensor[(group * each + k, k, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return the number of inputs of each output of a weight, and of outputs of each input."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    sizes = tensor.shape
    field = math.prod(sizes[2:])
    return sizes[1] * field, sizes[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    lowered = mode.lower()
    modes = ["fan_in", "fan_out"]
    if lowered not in modes:
        raise ValueError(f"Mode {lowered} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(lowered)]


def xavier_uniform_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Draw uniformly, with a variance of ``gain² · 2 / (fan_in + fan_out)``."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Draw normally, with a variance of ``gain² · 2 / (fan_in + fan_out)``."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: T,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Draw uniformly, with a variance of ``gain² / fan``.

    Args:
        tensor: the weight.
        a: negative slope of ``leaky_relu``.
        mode: ``"fan_in"`` or ``"fan_out"``.
        nonlinearity: name of the function that follows; see `calculate_gain`.
        generator: source of random numbers.
    """
    if 0 in tensor.shape:
        warnings.warn(_NO_ELEMENTS, stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: T,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Draw normally, with a variance of ``gain² / fan``.

    Args:
        tensor: the weight.
        a: negative slope of ``leaky_relu``.
        mode: ``"fan_in"`` or ``"fan_out"``.
        nonlinearity: name of the function that follows; see `calculate_gain`.
        generator: source of random numbers.
    """
    if 0 in tensor.shape:
        warnings.warn(_NO_ELEMENTS, stacklevel=2)
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: T, gain: float = 1, generator: Generator | None = None) -> T:
    """Make rows or columns orthonormal, times a gain; axes after the first are flattened.

    Raises:
        ValueError: for fewer than two axes.
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        flat = torch.empty((rows, columns), dtype=tensor.dtype).normal_(0, 1, generator=generator)
        drawn = flat.numpy()
        q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
        q = q * np.sign(np.diag(r))
        made = torch.from_numpy(q.T if rows < columns else q)
        tensor.copy_(made.reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor: T, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> T:
    """Draw a matrix normally, and make a share of each column zero.

    Args:
        tensor: the matrix.
        sparsity: share of each column that is zero.
        std: standard deviation of the rest.
        generator: source of random numbers.

    Raises:
        ValueError: if it has not two axes.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            chosen = torch.randperm(rows)[:zeros]
            tensor[chosen, column] = 0
    return tensor


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the older name of a function, which warns."""
    new = function.__name__
    old = new[:-1]

    def renamed(*args: object, **kwargs: object) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"Call `{new}`: the older name."
    return renamed


uniform, normal, constant = map(_deprecated, (uniform_, normal_, constant_))
eye, dirac, orthogonal, sparse = map(_deprecated, (eye_, dirac_, orthogonal_, sparse_))
xavier_uniform, xavier_normal = map(_deprecated, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_deprecated, (kaiming_uniform_, kaiming_normal_))
