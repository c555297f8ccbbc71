"""In-place views, resizing and storages: what PyTorch's logs (in_place_views.log) do not show."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError


def test_tensors_of_a_graph_keep_the_order_of_their_elements_without_recording() -> None:
    leaf = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        leaf.t_()
    computed = leaf * 2
    for tensor in (leaf, computed):
        with torch.no_grad(), pytest.raises(UnsupportedFunctionError, match="grad mode"):
            tensor.t_()
        with torch.no_grad():
            tensor.unsqueeze_(0).squeeze_(0)


def test_gradients_of_a_tensor_of_another_shape_are_refused_by_the_pass() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    computed = leaf * 2
    with torch.no_grad():
        computed.t_()
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        computed.exp().sum().backward()


def test_resize_refuses_to_leave_others_behind() -> None:
    x = torch.arange(4.0)
    held = x.detach()
    with pytest.raises(UnsupportedFunctionError, match="more memory"):
        x.resize_(6)
    assert held.tolist() == x.tolist() == [0.0, 1.0, 2.0, 3.0]
    del held
    assert x.resize_(6).tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]


def test_resized_tensors_keep_their_views() -> None:
    x = torch.arange(6.0).reshape(2, 3).clone()
    column = x[:, 1]
    x.resize_(3)
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    with pytest.raises(RuntimeError):
        x.resize_(-1)
    column.detach().mul_(10)
    assert x.tolist() == [0.0, 10.0, 2.0]
    assert (column * weight).sum().item() == 140.0


def test_storages_are_memory() -> None:
    x = torch.arange(4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = x[1:].storage()
    storage[0] = 5.0
    assert storage.tolist() == [5.0, 1.0, 2.0, 3.0] == x.tolist()
    assert (len(storage), storage.nbytes(), storage.element_size(), storage.dtype) == (
        4,
        16,
        4,
        torch.float32,
    )
    assert storage.untyped() is x.untyped_storage()
    storage.fill_(1.0)
    assert x.tolist() == [1.0] * 4
    assert (
        repr(storage).splitlines()[-1]
        == "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 4]"
    )


def test_traced_values_have_no_memory() -> None:
    def part(x: torch.Tensor) -> torch.Tensor:
        return x.clone().as_strided((2,), (2,), 1).sum()

    x = torch.arange(6.0)
    assert torch.func.grad(part)(x).tolist() == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]

    def looks(x: np.ndarray) -> object:
        return torch.as_tensor(x).untyped_storage()

    with pytest.raises(UnsupportedFunctionError, match="no memory"):
        ft.grad(looks)(np.ones(3))


@pytest.mark.parametrize("name", ["t_", "squeeze_", "unsqueeze_"])
def test_in_place_views_are_traced(name: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        row = y[0]
        getattr(y, name)(*((1,) if name == "unsqueeze_" else ()))
        y.mul_(3)
        return (row * row).sum() + (y * torch.arange(3.0)).sum()

    x = torch.tensor([[1.0, 2.0, 3.0]])
    if name == "t_":
        x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    leaf = x.clone().requires_grad_()
    loss(leaf).backward()
    assert torch.func.grad(loss)(x).tolist() == leaf.grad.tolist()


def test_a_tensor_grows_if_its_array_is_the_only_view_of_its_memory() -> None:
    x, template = torch.rand((1,)), torch.zeros(3)  # a random tensor is a view of the numbers drawn
    value = x.item()
    assert x.resize_((1, 2)).shape == (1, 2)
    assert x._version == 1
    assert x.resize_as_(template)._version == 2
    assert x.resize_((3,))._version == 2
    assert x[0].item() == value


def test_a_tensor_does_not_grow_out_of_an_array_that_is_held() -> None:
    held = np.ones((2, 2), np.float32)
    x = torch.from_numpy(held.reshape(4))
    with pytest.raises(UnsupportedFunctionError, match="more memory"):
        x.resize_(8)
    assert held.tolist() == [[1.0, 1.0], [1.0, 1.0]]
