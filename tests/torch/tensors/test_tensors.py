"""Tensors: what they print, what they know, how they alias; factories. (Expected texts: PyTorch
2.13's.)
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch

TEXTS: list[tuple[Any, str]] = [
    (lambda: torch.tensor(3), "tensor(3)"),
    (lambda: torch.tensor([1, 2]), "tensor([1, 2])"),
    (lambda: torch.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
    (
        lambda: torch.tensor([[1.0, 2.0]], requires_grad=True).exp(),
        "tensor([[2.7183, 7.3891]], grad_fn=<ExpBackward0>)",
    ),
    (lambda: torch.zeros(0), "tensor([])"),
    (lambda: torch.tensor([True]), "tensor([True])"),
    (lambda: torch.tensor(1.5, dtype=torch.float64), "tensor(1.5000, dtype=torch.float64)"),
    (lambda: torch.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
    (lambda: torch.tensor([100000.0, 0.5]), "tensor([1.0000e+05, 5.0000e-01])"),
    (lambda: torch.tensor([float("nan"), 1.0, float("inf")]), "tensor([nan, 1., inf])"),
    (lambda: torch.ones(2000), "tensor([1., 1., 1.,  ..., 1., 1., 1.])"),
    (lambda: torch.tensor([1, 2], dtype=torch.int32), "tensor([1, 2], dtype=torch.int32)"),
    (lambda: torch.tensor([1.0, 2.0], requires_grad=True), "tensor([1., 2.], requires_grad=True)"),
    (
        lambda: torch.tensor([[1.0, 2.0], [3.0, 4.5]]),
        "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])",
    ),
    (
        lambda: torch.tensor([1.0, 2.0], requires_grad=True) * 2,
        "tensor([2., 4.], grad_fn=<MulBackward0>)",
    ),
]


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=[text.split("\n")[0] for _, text in TEXTS])
def test_tensor_prints_as_in_pytorch(make: Any, text: str) -> None:
    assert repr(make()) == text


def test_tensor_has_shape_and_dtype() -> None:
    x = torch.zeros(2, 3)
    assert repr(x.shape) == "torch.Size([2, 3])"
    assert x.size(1) == 3 and x.dim() == x.ndim == 2 and x.numel() == 6 and len(x) == 2
    assert (
        repr(x.dtype) == "torch.float32" and x.t().stride() == (1, 3) and not x.t().is_contiguous()
    )


def test_tensor_copies_and_from_numpy_shares() -> None:
    array = np.ones(3)
    copied, shared = torch.tensor(array), torch.from_numpy(array)
    array[0] = 5.0
    assert copied.tolist() == [1.0, 1.0, 1.0] and shared.tolist() == [5.0, 1.0, 1.0]
    shared.mul_(2)
    assert array.tolist() == [10.0, 2.0, 2.0] and shared.numpy() is array


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1, 2], "int64"),
        ([True], "bool"),
        (np.ones(2), "float64"),
        (np.ones(2, np.float16), "float16"),
    ],
)
def test_dtype_of_new_tensors(data: Any, dtype: str) -> None:
    assert torch.tensor(data).dtype == getattr(torch, dtype)


def test_factories() -> None:
    assert torch.arange(3).tolist() == [0, 1, 2] and torch.arange(0, 1, 0.5).dtype == torch.float32
    assert torch.full((2,), 7).dtype == torch.int64 and torch.eye(2).tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
    ]
    assert torch.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert torch.zeros_like(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    torch.manual_seed(3)
    first = torch.randn(4)
    torch.manual_seed(3)
    assert torch.equal(first, torch.randn(4)) and torch.randint(5, (100,)).max().item() < 5
    assert torch.allclose(torch.ones(2), torch.ones(2) + 1e-9) and not torch.allclose(
        torch.ones(2), torch.zeros(2)
    )


def test_detach_shares_memory_and_version_and_data_only_memory() -> None:
    x = torch.zeros(2, requires_grad=True) * 1
    alias, data = x.detach(), x.data
    alias.add_(1)
    assert x.tolist() == [1.0, 1.0] and x._version == alias._version == 1 and data._version == 0
    data.add_(1)
    assert x.tolist() == [2.0, 2.0] and x._version == 1 and not alias.requires_grad


def test_views_share_memory_and_have_a_base() -> None:
    x = torch.arange(6).view(2, 3)
    row = x[1]
    assert row._base is x._base and row._is_view()
    row[0] = 9
    assert x.tolist() == [[0, 1, 2], [9, 4, 5]]
    part = x.t()[0:2]
    part.zero_()
    assert x.tolist() == [[0, 0, 2], [0, 0, 5]]


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, None), (slice(None), 1), (..., 0), None, (1, slice(0, 2)), (slice(None, None,
    2), -1), [1, 0],
     (slice(None), [0, 2]), np.array([[True, False, True], [False, True, False]]), (0, np.array([2,
     1])), True],
    ids=str,
)  # fmt: skip
def test_indexing_is_numpys(index: Any) -> None:
    array = np.arange(6.0).reshape(2, 3)
    given = torch.tensor(index) if isinstance(index, np.ndarray) else index
    np.testing.assert_array_equal(torch.tensor(array)[given].numpy(), array[index])


@pytest.mark.parametrize(
    ("attempt", "kind", "text"),
    [
        (lambda x: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (lambda x: x[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
        (lambda x: x[::-1], ValueError, "step must be greater than zero"),
        (lambda x: x.view(4), RuntimeError, "shape '[4]' is invalid for input of size 6"),
        (lambda x: x.sum(2), IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (lambda x: x.mm(x), RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        (lambda x: x + torch.ones(2), RuntimeError,
         "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1"),
        (lambda x: x.item(), RuntimeError,
        "a Tensor with 6 elements cannot be converted to Scalar"),
        (lambda x: x.t().view(6), RuntimeError,
        "view size is not compatible with input tensor's size and stride"),
    ],
)  # fmt: skip
def test_errors_have_pytorchs_messages(attempt: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        attempt(torch.zeros(2, 3))
    assert text in str(caught.value)


def test_deepcopy_copies_leaves_only() -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    x.grad = None
    assert y.requires_grad and y.grad is not None and y.grad.tolist() == [3.0, 3.0] and y.is_leaf
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_numbers_on_both_sides() -> None:
    x = torch.tensor([1.0, 4.0])
    assert (
        (2 - x).tolist() == [1.0, -2.0]
        and (2 / x).tolist() == [2.0, 0.5]
        and (2**x).tolist() == [2.0, 16.0]
    )
    assert (np.float64(2.0) * x).tolist() == [2.0, 8.0] and (x > 2).tolist() == [False, True]
    assert float(x[0]) == 1.0 and bool(x[1]) and int(x[1]) == 4


def test_empty_tensors_print_their_dtype() -> None:
    """As PyTorch 2.13.0 prints them."""
    assert repr(torch.empty(0, dtype=torch.int64)) == "tensor([], dtype=torch.int64)"
    assert repr(torch.empty(0, dtype=torch.bool)) == "tensor([], dtype=torch.bool)"
    assert repr(torch.empty(2, 0)) == "tensor([], size=(2, 0))"
    assert (
        repr(torch.empty(2, 0, dtype=torch.int32)) == "tensor([], size=(2, 0), dtype=torch.int32)"
    )
