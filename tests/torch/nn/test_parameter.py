"""`Parameter`, `Buffer`, and subclasses of `Tensor` that are made in ``__new__``."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch import nn


class Tagged(torch.Tensor):
    tag: Any

    def __new__(cls, data: Any, requires_grad: bool = False, tag: Any = None) -> Any:
        made = torch.Tensor._make_subclass(cls, data, requires_grad)
        made.tag = tag
        return made


class Constructed(torch.Tensor):
    @staticmethod
    def __new__(cls: type, data: Any, tag: str) -> Any:
        return super().__new__(cls, data)

    def __init__(self, data: Any, tag: str) -> None:
        self.tag = tag


def test_a_parameter_is_a_leaf_in_the_memory_of_its_data() -> None:
    data = torch.ones(2)
    p = nn.Parameter(data)
    assert p.is_leaf and p.requires_grad and p.data_ptr() == data.data_ptr()
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    with torch.no_grad():
        data.add_(1)
    assert p._version == data._version == 1
    (p * p).sum().backward()
    assert p.grad is not None and p.grad.tolist() == [4.0, 4.0]
    assert type(p * 2) is torch.Tensor
    assert not nn.Parameter(torch.ones(2), requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)


def test_parameters_of_integers_are_refused() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(torch.arange(3))
    assert nn.Parameter(torch.arange(3), requires_grad=False).tolist() == [0, 1, 2]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_of_parameters(copied: Any) -> None:
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    made = copied(p)
    assert type(made) is nn.Parameter and made.requires_grad and made.grad is None
    assert made.data_ptr() != p.data_ptr() and made.tolist() == [1.0, 1.0]


def test_a_pickled_parameter_keeps_its_users_attributes() -> None:
    p = nn.Parameter(torch.ones(2))
    p.tag = "mine"
    assert pickle.loads(pickle.dumps(p)).tag == "mine"


def test_buffers_are_plain_tensors_with_a_mark() -> None:
    b = nn.Buffer(torch.ones(2), persistent=False)
    assert type(b) is torch.Tensor and isinstance(b, nn.Buffer) and not b.persistent
    assert not isinstance(torch.ones(2), nn.Buffer)
    assert copy.deepcopy(nn.Buffer(torch.ones(1))).tolist() == [1.0]


def test_a_parameter_of_a_subclass_keeps_its_class() -> None:
    p = nn.Parameter(torch.ones(2).as_subclass(Tagged))
    assert type(p) is Tagged and isinstance(p, nn.Parameter) and p.requires_grad
    assert not isinstance(torch.ones(2).as_subclass(Tagged), nn.Parameter)


def test_subclasses_with_arguments_of_their_own() -> None:
    made = Tagged(torch.ones(2), True, tag=3)
    assert made.tag == 3 and made.is_leaf and made.requires_grad
    for data in (torch.ones(2), [1.0, 1.0]):
        other = Constructed(data, "t")
        assert other.tag == "t" and other.tolist() == [1.0, 1.0]


def test_a_subclass_alias_is_in_the_graph() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(Tagged)
    assert type(y) is Tagged and type(y.grad_fn).__name__ == "AliasBackward0" and y._base is x
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "message"), [(int, "does not inherit from Tensor"), (3, "cls must be a type")]
)
def test_what_is_no_subclass_is_refused(kind: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        torch.Tensor._make_subclass(kind, torch.ones(1))
    with pytest.raises(TypeError, match=message):
        torch.ones(1).as_subclass(kind)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        torch.Tensor._make_subclass(Tagged, 3)


def test_uninitialized_parameters_get_a_shape() -> None:
    p = nn.UninitializedParameter()
    assert isinstance(p, nn.Parameter) and repr(p) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        _ = p.shape
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.requires_grad
    b = nn.UninitializedBuffer()
    b.materialize((2,))
    assert type(b) is torch.Tensor and isinstance(b, nn.Buffer)


def test_a_missing_name_of_nn_says_so() -> None:
    with pytest.raises(AttributeError, match="Linnear"):
        nn.Linnear


def test_a_parameter_without_a_shape_takes_part_in_no_operation() -> None:
    layer = torch.nn.LazyLinear(3)
    for refused in (
        lambda: layer.weight + 1, layer.weight.numel, layer.weight.detach, layer.weight.zero_,
        lambda: len(layer.weight), lambda: 2 * layer.weight,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            refused()
    layer.double()
    assert layer(torch.ones(2, 4, dtype=torch.float64)).shape == (2, 3)
    assert (layer.weight + 1).shape == (3, 4)
    assert layer.weight.numel() == 12
