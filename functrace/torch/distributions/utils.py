"""Helpers of distributions: broadcasting of parameters, probabilities and their logarithms.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import functrace.torch as torch
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def standard_normal(shape: Sizes, dtype: Parameter, device: Parameter = None) -> Tensor:
    """Return standard normal numbers."""
    zeros = torch.zeros(shape, dtype=dtype)
    return torch.normal(zeros, torch.ones(shape, dtype=dtype))


_standard_normal = standard_normal


def broadcast_all(*values: Parameter) -> tuple[Tensor, ...]:
    """Return parameters as tensors of one shape: numbers have the dtype of the first tensor, or the
    default one.

    Args:
        values: tensors and numbers.

    Raises:
        ValueError: for anything else.

    Example:
        >>> import functrace.torch as torch
        >>> broadcast_all(torch.zeros(2), 1.0)
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(isinstance(x, (Tensor, int, float)) for x in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    tensors = [x for x in values if isinstance(x, Tensor)]
    dtype = tensors[0].dtype if tensors else torch.get_default_dtype()
    made = [x if isinstance(x, Tensor) else torch.tensor(x, dtype=dtype) for x in values]
    return tuple(torch.broadcast_tensors(*made))


def sum_rightmost(value: Values, count: int) -> Any:
    """Return sums over the last axes.

    Args:
        value: a tensor; a number stays as it is.
        count: how many axes.
    """
    if not count:
        return value
    required = tuple(value.shape[:-count])
    return value.reshape((*required, -1)).sum(-1)


_sum_rightmost = sum_rightmost


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities of their logarithms, up to a constant, or of log-odds.

    Args:
        logits: shape (..., n), or any for log-odds.
        is_binary: True for log-odds.
    """
    if is_binary:
        return torch.sigmoid(logits)
    return torch.nn.functional.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities away from 0 and 1, by the precision of their dtype."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logarithms of probabilities, or their log-odds.

    Args:
        probs: the probabilities.
        is_binary: True for log-odds.
    """
    clamped = clamp_probs(probs)
    if is_binary:
        return torch.log(clamped) - torch.log1p(-clamped)
    return torch.log(clamped)


class lazy_property:
    """Property that is computed on first access, with grad mode on.

    Args:
        wrapped: the function.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.name = wrapped.__name__
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Instance, owner: Instance = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        vars(instance)[self.name] = value
        return value

    if TYPE_CHECKING:  # attributes of the instance are found first, since there is no __set__

        def __set__(self, instance: Instance, value: Values) -> None: ...


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangle of matrices, row by row.

    Args:
        mat: shape (..., n, n).
        diag: the uppermost diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = torch.arange(n)
    mask = places < places.view(-1, 1) + (diag + 1)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return lower triangular matrices of their elements, row by row.

    Args:
        vec: shape (..., k).
        diag: the uppermost diagonal.
    """
    count = vec.shape[-1]
    n = round(
        (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5)
        / 2
    )
    made = torch.zeros((*vec.shape[:-1], n, n), dtype=vec.dtype)
    places = torch.arange(n)
    mask = places < places.view(-1, 1) + (diag + 1)
    made[..., mask] = vec
    return made
