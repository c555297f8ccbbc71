"""Gradients add up in place, and become ``.grad`` as they are, only where nobody else has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd import accumulation

SIZES = (3, 1 << 19)
"""Few, and so many that they are added over all cores."""


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The gradients that are copied into a ``.grad``."""
    seen: list[Any] = []
    original = accumulation.copy_like

    def copy_like(variable: Any, gradient: Any) -> Any:
        seen.append(gradient)
        return original(variable, gradient)

    monkeypatch.setattr(accumulation, "copy_like", copy_like)
    return seen


def leaf(size: int) -> torch.Tensor:
    return torch.tensor(np.linspace(0.5, 1.5, size), requires_grad=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
def test_an_unshared_gradient_is_not_copied(size: int, copies: list[Any]) -> None:
    x, y = leaf(size), leaf(size)
    for _ in range(20):  # interpreted, compiled, and by generated code
        x.grad = y.grad = None
        (torch.sin(x) * y + x * 2.0 + torch.exp(x)).sum().backward()
        np.testing.assert_allclose(
            x.grad.numpy(), (torch.cos(x) * y + 2.0 + torch.exp(x)).detach().numpy(), rtol=1e-12
        )
        np.testing.assert_array_equal(y.grad.numpy(), torch.sin(x).detach().numpy())
    assert not copies


def both(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (torch.sin(x + y) * 3.0).sum()


def twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.exp(x) + y
    return (z + x + (z + y)).sum()


def views(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (torch.exp(x.reshape(-1, 1)).reshape(-1) + y + torch.sin(x) * 1.0).sum()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [both, twice, views])
def test_no_gradient_shares_memory_with_another_one(
    size: int, function: Callable[..., Any]
) -> None:
    for _ in range(20):
        x, y = leaf(size), leaf(size)
        expected = [g.numpy().copy() for g in torch.autograd.grad(function(x, y), (x, y))]
        function(x, y).backward()
        for changed, other, value in ((x, y, expected[1]), (y, x, expected[0])):
            changed.grad.fill_(7.0)
            np.testing.assert_array_equal(other.grad.numpy(), value)
            changed.grad, other.grad = None, None
            function(x, y).backward()


@pytest.mark.parametrize("size", SIZES)
def test_a_gradient_that_is_passed_on_to_two_is_not_added_to(size: int) -> None:
    x, y = leaf(size), leaf(size)
    for _ in range(20):
        x.grad = y.grad = None
        z = torch.exp(y)  # has its gradient when the second one arrives at x
        doubled = x * 2.0
        ((x + z + doubled) * 1.5).sum().backward()
        assert (x.grad.numpy() == 4.5).all()
        np.testing.assert_array_equal(y.grad.numpy(), (z * 1.5).detach().numpy())


KEPT: tuple[Callable[..., Any], ...] = (
    lambda g: g,
    lambda g: g.detach(),
    lambda g: g.numpy(),
    lambda g: g.reshape(1, -1),
    lambda g: memoryview(g.numpy()),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keep", KEPT)
def test_gradients_kept_by_hooks_are_not_reused_as_grad(
    size: int, keep: Callable[..., Any]
) -> None:
    x = leaf(size)
    kept: list[Any] = []
    x.register_hook(lambda g: kept.append(keep(g)))
    (torch.exp(x) * 2.0).sum().backward()
    expected = x.grad.numpy().copy()
    x.grad.fill_(7.0)
    (value,) = kept
    found = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    np.testing.assert_array_equal(found.reshape(-1), expected)


@pytest.mark.parametrize("size", SIZES)
def test_tensors_of_the_user_are_not_overwritten(size: int) -> None:
    x = leaf(size)
    kept: list[Any] = []
    given = torch.tensor(np.full(size, 2.0))
    (x + 0.0).backward(given)
    x.backward(given)
    x.grad.fill_(7.0)
    assert (given.numpy() == 2.0).all()

    x.grad = None
    x.register_hook(kept.append)
    middle = torch.exp(x)
    middle.register_hook(lambda g: kept.append(g.numpy()))
    middle.retain_grad()
    ((middle * 2.0).sum() + (middle * middle).sum() + (x * x).sum()).backward()
    before = [
        np.array(k.numpy() if isinstance(k, torch.Tensor) else k) for k in (*kept, middle.grad)
    ]
    x.grad.fill_(7.0)
    for value, expected in zip((*kept, middle.grad), before, strict=True):
        np.testing.assert_array_equal(
            value.numpy() if isinstance(value, torch.Tensor) else value, expected
        )


@pytest.mark.parametrize("size", SIZES)
def test_hooks_that_keep_partial_sums(size: int) -> None:
    """The gradients of one tensor that arrive one after the other, kept by hooks of nodes on the
    way.
    """
    x = leaf(size)
    kept: list[tuple[Any, np.ndarray]] = []

    def keep(_given: Any, outgoing: tuple[Any, ...]) -> None:
        kept.extend((g, g.numpy().copy()) for g in (*_given, *outgoing) if g is not None)

    terms = [torch.sin(x), x * 3.0, torch.exp(x), x * x]
    for term in terms:
        term.grad_fn.register_hook(keep)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    total.sum().backward()
    for gradient, value in kept:
        np.testing.assert_array_equal(gradient.numpy(), value)
    assert len(kept) >= 8


def test_repeated_backward_of_a_retained_graph_gives_equal_gradients() -> None:
    x = leaf(5)
    y = (torch.sin(x) * x + torch.exp(x) * x).sum()
    found = []
    for _ in range(4):
        x.grad = None
        y.backward(retain_graph=True)
        found.append(x.grad.numpy().copy())
        x.grad.fill_(0.0)
    assert all(np.array_equal(g, found[0]) for g in found)


def test_adding_up_is_silent() -> None:
    x = torch.tensor(np.array([1e308]), requires_grad=True)
    for _ in range(2):
        (x * 1e308).sum().backward()
    assert np.isinf(x.grad.numpy()).all()
