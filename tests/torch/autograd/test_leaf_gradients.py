"""Gradients of leaves: their dtype, and attributes that cannot be deleted (recorded from PyTorch
2.13.0).

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch import Tensor


class Widened(torch.autograd.Function):
    """Returns a gradient of twice the precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.to(torch.float64)


@pytest.mark.parametrize(
    ("wanted", "widened", "plain"),
    [
        (None, torch.float64, torch.float32),
        (torch.float16, torch.float16, torch.float16),
        (torch.float64, torch.float64, torch.float64),
        (torch.float32, torch.float32, torch.float32),
    ],
)
def test_gradients_have_the_dtype_that_the_leaf_wants(
    wanted: Any, widened: Any, plain: Any
) -> None:
    for function, expected in ((Widened.apply, widened), (lambda x: x * 2, plain)):
        leaf = torch.ones(2, requires_grad=True)
        result = function(leaf)  # the graph may be older than the setting
        leaf.grad_dtype = wanted
        seen: list[Any] = []
        leaf.register_hook(lambda grad, seen=seen: seen.append(grad.dtype))
        (found,) = torch.autograd.grad(result.sum(), leaf, retain_graph=True)
        assert found.dtype is expected
        result.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype is expected
        assert seen == [expected] * 2


def test_the_dtype_of_a_gradient_is_that_of_its_leaf_by_default() -> None:
    leaf = torch.ones(2, requires_grad=True)
    assert leaf.grad_dtype is torch.float32
    leaf.grad_dtype = torch.float16
    assert leaf.detach().grad_dtype is torch.float32
    leaf.grad = torch.ones(2, dtype=torch.float16)
    leaf.grad_dtype = None
    assert leaf.grad_dtype is None
    leaf.grad = torch.ones(2, dtype=torch.float64)
    assert leaf.grad.dtype is torch.float64


def test_refusals_of_a_dtype_of_gradients() -> None:
    leaf = torch.ones(2, requires_grad=True)
    computed = leaf * 2
    with pytest.raises(RuntimeError, match=r"^grad_dtype can only be accessed on leaf tensors.$"):
        computed.grad_dtype
    with (
        pytest.raises(RuntimeError, match=r"^grad_dtype can only be set on leaf tensors.$"),
        pytest.warns(UserWarning, match="not a leaf Tensor"),
    ):
        computed.grad_dtype = torch.float16
    with pytest.raises(
        RuntimeError, match=r"^grad_dtype must be a torch.dtype or None, but got int$"
    ):
        leaf.grad_dtype = 3  # type: ignore[assignment]
    leaf.grad_dtype = torch.float16
    with pytest.raises(RuntimeError, match="dtype 'float' to a tensor with grad_dtype 'Half'"):
        leaf.grad = torch.ones(2)
    leaf.grad = torch.ones(2, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'Double' because there is"):
        leaf.grad_dtype = torch.float64


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("data", "Deleting tensor data is not allowed. Delete tensor instead!"),
        ("requires_grad", "requires_grad must be a bool"),
        ("_grad_fn", "Deletion of _grad_fn not allowed. Detach tensor instead!"),
        ("_backward_hooks", "Deletion of _backwards_hooks not allowed!"),
    ],
)
def test_attributes_that_cannot_be_deleted(name: str, sentence: str) -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        delattr(x, name)
    assert str(caught.value) == sentence
    x.grad = torch.ones(2)
    del x.grad
    assert x.grad is None


def test_the_private_node_can_be_reset() -> None:
    x = torch.ones(2, requires_grad=True) * 2
    assert x._grad_fn is x.grad_fn
    with pytest.raises(RuntimeError, match="_grad_fn can be only set to None"):
        x._grad_fn = 3
    x._grad_fn = None
    assert not x.requires_grad
