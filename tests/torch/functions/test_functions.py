"""Functions of tensors: first and second derivatives against differences; functional transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch

F = torch.nn.functional
RNG = np.random.default_rng(5)
X = RNG.uniform(0.3, 1.7, (2, 3))
Y = RNG.uniform(0.4, 1.6, (2, 3)) + 0.01
V = RNG.uniform(-1.0, 1.0, 3)
W = RNG.uniform(-1.0, 1.0, (4, 3))
B = RNG.uniform(-1.0, 1.0, 4)
LABELS = torch.tensor([0, 2])
PICKS = torch.tensor([[0, 0], [2, 1]])

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add": (lambda x, v: x + v, (X, V)),
    "sub": (lambda x, y: x - 2 * y, (X, Y)),
    "rsub": (lambda x: 1.0 - x, (X,)),
    "mul": (lambda x, v: x * v, (X, V)),
    "div": (lambda x, y: x / y, (X, Y)),
    "rdiv": (lambda x: 3.0 / x, (X,)),
    "pow": (lambda x, y: x**y, (X, Y)),
    "pow number": (lambda x: x**2.5, (X,)),
    "number pow": (lambda x: 2.0**x, (X,)),
    "exp log": (lambda x: torch.log(torch.exp(x) + 1.0), (X,)),
    "sin cos": (lambda x: torch.sin(x) * torch.cos(x), (X,)),
    "tanh sigmoid": (lambda x: torch.tanh(x) * torch.sigmoid(x), (X,)),
    "sqrt": (torch.sqrt, (X,)),
    "relu": (lambda x: torch.relu(x - 1.0) * x, (X,)),
    "abs": (lambda x: torch.abs(x - 1.0) * x, (X,)),
    "maximum": (lambda x, y: torch.maximum(x, y) * x, (X, Y)),
    "clamp": (lambda x: torch.clamp(x, 0.5, 1.2) * x, (X,)),
    "where": (lambda x, y: torch.where(x > 1.0, x * y, x**2), (X, Y)),
    "sum": (lambda x: torch.sum(x, 1) ** 2, (X,)),
    "mean": (lambda x: torch.mean(x, 0, keepdim=True) ** 3, (X,)),
    "prod": (torch.prod, (X,)),
    "max": (lambda x: torch.max(x) ** 2, (X,)),
    "max dim": (lambda x: torch.max(x, 1)[0] ** 2, (X,)),
    "softmax": (lambda x: torch.softmax(x, 1), (X,)),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), (X,)),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), (X,)),
    "matmul": (lambda x, w: torch.matmul(x, torch.t(w)), (X, W)),
    "mv": (torch.mv, (X, V)),
    "linear": (F.linear, (X, W, B)),
    "permute": (lambda x: torch.permute(x, (1, 0)) ** 2, (X,)),
    "reshape": (lambda x: torch.reshape(torch.t(x), (6,)) ** 2, (X,)),
    "select": (lambda x: torch.select(x, 0, 1) ** 2, (X,)),
    "cat": (lambda x, y: torch.cat([x, y * y, x]), (X, Y)),
    "stack": (lambda x, y: torch.stack([x * x, y], 1), (X, Y)),
    "gather": (lambda x: torch.gather(x, 1, PICKS) ** 2, (X,)),
    "nll_loss": (lambda x: F.nll_loss(x**2, LABELS), (X,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS), (X,)),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), (X, Y)),
}


def weighted(result: Any) -> Any:
    """A scalar of which every element of the result has a different share."""
    shape = tuple(result.shape)
    weight = np.cos(np.arange(int(np.prod(shape))).reshape(shape) + 1.0)
    return torch.sum(
        result * (torch.tensor(weight) if isinstance(result, torch.Tensor) else weight)
    )


def difference(function: Callable[..., float], args: list[Any], k: int, step: float) -> Any:
    """The gradient by ``args[k]``, by central differences."""
    out = np.zeros_like(args[k])
    for i in np.ndindex(args[k].shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in args]
            moved[k][i] += sign * step
            ends.append(function(*moved))
        out[i] = (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_differences(name: str) -> None:
    function, args = FUNCTIONS[name]

    def value(*arrays: Any) -> float:
        return weighted(function(*(torch.tensor(a) for a in arrays))).item()

    def gradients(arrays: Any, create_graph: bool) -> tuple[list[Any], Any]:
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        found = torch.autograd.grad(
            weighted(function(*tensors)), tensors, create_graph=create_graph
        )
        return tensors, found

    def slope(*arrays: Any) -> float:
        return sum(float((g.detach().numpy() ** 2).sum()) for g in gradients(arrays, False)[1])

    tensors, first = gradients(args, True)
    for k, g in enumerate(first):
        np.testing.assert_allclose(
            g.detach().numpy(), difference(value, list(args), k, 1e-6), rtol=1e-6, atol=1e-8
        )
    total = torch.sum(first[0] ** 2)
    for g in first[1:]:
        total = total + torch.sum(g**2)
    if total.requires_grad:
        second = torch.autograd.grad(total, tensors, allow_unused=True, materialize_grads=True)
    else:
        second = [torch.zeros_like(t) for t in tensors]
    for k, h in enumerate(second):
        np.testing.assert_allclose(
            h.numpy(), difference(slope, list(args), k, 1e-6), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functional_transforms_agree_with_backward(name: str) -> None:
    function, args = FUNCTIONS[name]
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    expected = torch.autograd.grad(weighted(function(*tensors)), tensors)
    loss = lambda *arrays: weighted(function(*arrays))
    plain = ft.grad(loss, argnums=tuple(range(len(args))))(*args)
    staged = ft.jit(ft.grad(loss, argnums=tuple(range(len(args)))))(*args)
    for e, g, s in zip(expected, plain, staged, strict=True):
        np.testing.assert_allclose(g, e.numpy(), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(s, e.numpy(), rtol=1e-12, atol=1e-14)


def test_raw_values_stay_raw() -> None:
    assert isinstance(torch.sin(X), np.ndarray)
    assert isinstance(torch.sin(torch.tensor(X)), torch.Tensor)


def test_operands_of_einsum_need_not_broadcast() -> None:
    a, b = torch.ones(2, 3, requires_grad=True), torch.full((3, 4), 2.0)
    torch.einsum("ij,jk->ik", a, b).sum().backward()
    assert a.grad.tolist() == [[8.0] * 3] * 2
