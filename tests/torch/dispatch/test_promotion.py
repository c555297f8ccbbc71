"""Type promotion, and dtypes of gradients. (Expected: PyTorch 2.13's.)"""

from __future__ import annotations

from typing import Any

import pytest

import functrace.torch as torch


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (torch.float32, torch.float64, torch.float64),
        (torch.int64, torch.float32, torch.float32),
        (torch.int32, torch.float16, torch.float16),
        (torch.bool, torch.int32, torch.int32),
        (torch.uint8, torch.int8, torch.int16),
    ],
)
def test_dtypes_of_operands_are_promoted(a: Any, b: Any, expected: Any) -> None:
    x, y = torch.ones(2, dtype=a), torch.ones(2, dtype=b)
    assert (x * y).dtype == (y * x).dtype == expected


def test_numbers_and_scalars_are_weak() -> None:
    x = torch.ones(2, dtype=torch.float32)
    n = torch.ones(2, dtype=torch.int32)
    scalar = torch.tensor(2.0, dtype=torch.float64)
    assert (x * 2.5).dtype == (x * scalar).dtype == torch.float32
    assert (n * 2).dtype == torch.int32
    assert (n * 2.5).dtype == (n / 2).dtype == (n / n).dtype == torch.exp(n).dtype == torch.float32
    assert torch.add(x, 1, alpha=2).dtype == x.sub(1.5, alpha=2).dtype == torch.float32
    assert n.add(1, alpha=2).dtype == torch.int32 and torch.sub(x, 1, alpha=2).tolist() == [
        -1.0,
        -1.0,
    ]
    assert (n * scalar).dtype == torch.float64
    assert (torch.tensor(1) + torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float64


def test_gradients_have_the_dtype_of_the_operand() -> None:
    x = torch.ones(2, requires_grad=True)
    y = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    assert y.grad is not None and y.grad.dtype == torch.float64


def test_default_dtype_may_change_after_an_operation_was_traced() -> None:
    x = torch.tensor([1, 2])
    assert (x * 0.5).dtype == torch.float32 and torch.exp(x).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (x * 0.5).dtype == torch.float64 and torch.exp(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x * 0.5).dtype == torch.float32 and torch.exp(x).dtype == torch.float32
