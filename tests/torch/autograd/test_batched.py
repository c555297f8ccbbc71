"""Backward passes with a batch of gradients, against one pass for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch import Tensor
from functrace.torch.autograd import functional

INDEX = torch.tensor([0, 2, 0])


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = y[1] * 2
    return y.mul_(x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: x.sin(), "matmul": lambda x: x @ x, "sum": lambda x: x.sum(0),
    "index": lambda x: x[INDEX],
    "mask": lambda x: x[x > 0.5], "cumsum": lambda x: x.cumsum(0), "prod": lambda x: x.prod(1),
    "max": lambda x: x.max(0)[0],
    "amax": lambda x: x.amax(1), "softmax": lambda x: x.softmax(0),
    "logsumexp": lambda x: x.logsumexp(1),
    "cat": lambda x: torch.cat([x, x * 2]), "reshape": lambda x: x.t().reshape(9),
    "in place": in_place,
    "std": lambda x: x.std(0), "sort": lambda x: x.sort(1)[0], "topk": lambda x: x.topk(2)[0],
    "median": lambda x: x.median(0)[0], "where": lambda x: torch.where(x > 0.5, x * 2, x.exp()),
    "power": lambda x: x**x,
    "diagonal": lambda x: x.diagonal(), "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "var": lambda x: x.var(1),
    "gather": lambda x: x.gather(0, torch.tensor([[0, 1, 2]])), "abs": lambda x: (x * 1j).abs(),
    "scatter": lambda x: x.scatter(0, torch.tensor([[0, 1, 2]]), x[:1] * 2),
    "split": lambda x: x.split(2)[1] * 2,
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp(), x,
    use_reentrant=False),
}  # fmt: skip


@pytest.fixture
def x() -> Tensor:
    return torch.tensor(np.random.default_rng(0).uniform(0.2, 0.9, (3, 3)))


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_vectorized_jacobians_and_hessians_are_those_of_a_loop(
    f: Callable[[Any], Any], x: Tensor
) -> None:
    expected = functional.jacobian(f, x).numpy()
    np.testing.assert_allclose(
        functional.jacobian(f, x, vectorize=True).numpy(), expected, atol=1e-12
    )
    recorded = functional.jacobian(f, x, vectorize=True, create_graph=True)
    np.testing.assert_allclose(recorded.detach().numpy(), expected, atol=1e-12)

    def number(x: Tensor) -> Any:
        return f(x).sin().sum()

    expected = functional.hessian(number, x).numpy()
    np.testing.assert_allclose(
        functional.hessian(number, x, vectorize=True).numpy(), expected, atol=1e-12
    )


def test_one_pass_runs_for_the_whole_batch(x: Tensor) -> None:
    calls: list[tuple[int, ...]] = []
    x.requires_grad_()
    y = x.sin()
    y.register_hook(lambda gradient: calls.append(tuple(gradient.shape)))
    (found,) = torch.autograd.grad(
        y, x, torch.ones(5, 3, 3, dtype=torch.float64), is_grads_batched=True
    )
    assert calls == [(3, 3)] and found.shape == (5, 3, 3)


def test_backward_that_cannot_be_batched_raises(x: Tensor) -> None:
    """PyTorch raises here, too: ``Batching rule not implemented``."""
    x.requires_grad_()
    y = x.sin()
    y.register_hook(lambda gradient: torch.tensor(gradient.numpy() * 2))
    with pytest.raises(Exception, match="traced"):
        torch.autograd.grad(y, x, torch.ones(5, 3, 3, dtype=torch.float64), is_grads_batched=True)
