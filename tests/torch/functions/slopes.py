"""First and second derivatives of functions of tensors against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrace.torch as torch


def total(function: Callable[..., Any], arrays: Sequence[Any]) -> float:
    """Return the weighted sum of a function's results."""
    found = function(*[torch.from_numpy(a) for a in arrays])
    return sum(
        float((x.numpy() * weights(x.shape)).sum())
        for x in (found if isinstance(found, tuple) else (found,))
        if x.is_floating_point()
    )


def weights(shape: Sequence[int]) -> Any:
    """Return the fixed weights of a result."""
    return np.random.default_rng(3).uniform(0.5, 1.5, tuple(shape))


def gradients(function: Callable[..., Any], arrays: Sequence[Any], *, graph: bool = False) -> Any:
    """Return the tensors and their gradients."""
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    found = function(*tensors)
    parts = [
        (x * torch.from_numpy(weights(x.shape))).sum()
        for x in (found if isinstance(found, tuple) else (found,))
        if x.requires_grad
    ]
    return tensors, torch.autograd.grad(sum(parts[1:], parts[0]), tensors, create_graph=graph)


def check_slopes(
    function: Callable[..., Any], arrays: Sequence[Any], *, twice: bool = True, step: float = 1e-5
) -> None:
    """Check the gradients, and the gradients of their sum, along random directions.

    Raises:
        AssertionError: if differences differ.
    """
    rng = np.random.default_rng(7)
    ways = [rng.uniform(-1, 1, a.shape) for a in arrays]
    ends = [[a + sign * step * w for a, w in zip(arrays, ways, strict=True)] for sign in (1, -1)]
    expected = (total(function, ends[0]) - total(function, ends[1])) / (2 * step)
    _, grads = gradients(function, arrays)
    found = sum(float((g.numpy() * w).sum()) for g, w in zip(grads, ways, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    if not twice:
        return
    sums = [sum(float((g.numpy() ** 2).sum()) for g in gradients(function, end)[1]) for end in ends]
    expected = (sums[0] - sums[1]) / (2 * step)
    tensors, grads = gradients(function, arrays, graph=True)
    squares: Any = sum((g * g).sum() for g in grads)
    if not squares.requires_grad:
        found = 0.0
    else:
        second = torch.autograd.grad(squares, tensors, allow_unused=True)
        found = sum(
            float((g.numpy() * w).sum()) for g, w in zip(second, ways, strict=True) if g is not None
        )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
