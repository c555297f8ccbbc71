"""Gradients, bounded.

Layer: 9.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.tensors.tensor import Tensor

Tensors: TypeAlias = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of several tensors.

    Args:
        tensors: a tensor, or several.
        norm_type: order of the norm; may be ``inf``.
        error_if_nonfinite: whether a norm that is not finite raises.
        foreach: has no effect.

    Raises:
        RuntimeError: with ``error_if_nonfinite``.
    """
    with no_grad():
        order = float(norm_type)
        norms = [torch.norm(x, order) for x in _listed(tensors)]
        total = torch.norm(torch.stack(norms), order) if norms else torch.tensor(0.0)
        if error_if_nonfinite and not bool(torch.isfinite(total)):
            raise RuntimeError(
                f"The total norm of order {order} for gradients from `parameters` is non-finite, "
                "so it cannot be clipped. To disable this error and scale the gradients by the "
                "non-finite norm anyway, set `error_if_nonfinite=False`"
            )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients whose norm is known, so that it is at most a number.

    Args:
        parameters: a tensor, or several, with gradients.
        max_norm: the number.
        total_norm: the norm of all gradients.
        foreach: has no effect.
    """
    with no_grad():
        factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their norm is at most a number; returns the norm before.

    Args:
        parameters: a tensor, or several, with gradients.
        max_norm: the number.
        norm_type: order of the norm; may be ``inf``.
        error_if_nonfinite: whether a norm that is not finite raises.
        foreach: has no effect.

    Raises:
        RuntimeError: with ``error_if_nonfinite``.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(4, requires_grad=True)
        >>> x.sum().backward()
        >>> torch.nn.utils.clip_grad_norm_(x, 1.0), x.grad
        (tensor(2.), tensor([0.5000, 0.5000, 0.5000, 0.5000]))
    """
    given = _listed(parameters)
    if not given and isinstance(parameters, types.GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    total = get_total_norm(_gradients(given), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """Call `clip_grad_norm_`: the older name."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bound each element of the gradients.

    Args:
        parameters: a tensor, or several, with gradients.
        clip_value: the largest magnitude.
        foreach: has no effect.
    """
    bound = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(min=-bound, max=bound)
