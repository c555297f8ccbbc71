"""Functions of layers refuse arguments as PyTorch 2.13.0 does, in its words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch.nn import functional as F

HUGE = 1 << 62
EMPTY = "Expected input to have non-zero size for non-batch dimensions"
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: F.adaptive_max_pool1d(torch.ones(1, 0, 50), 3), EMPTY),
    (lambda: F.adaptive_max_pool2d(torch.ones(2, 0, 5, 6), 3), EMPTY),
    (lambda: F.adaptive_avg_pool3d(torch.ones(1, 0, 5, 6, 7), 3), EMPTY),
    (lambda: F.fractional_max_pool2d(torch.ones(1, 0, 5, 6), 2, 2), EMPTY),
    (lambda: F.fractional_max_pool3d(torch.ones(1, 0, 5, 6, 7), 2, 2), EMPTY),
    (lambda: F.adaptive_max_pool1d(torch.ones(3, 4), HUGE), "Storage size calculation overflowed"),
    (lambda: F.adaptive_avg_pool2d(torch.ones(3, 4, 4), (HUGE, 2)), "multiplication overflow"),
    (lambda: F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 1).long(), [1, 1]),
     "There should be exactly three elements"),
    (lambda: F.linear(torch.tensor(1.0), torch.ones(2, 2)), "they are 0D and 2D"),
    (lambda: F.multilabel_margin_loss(torch.ones(0), torch.zeros(10).long()), "Expected non-empty"),
    (lambda: F.embedding_bag(torch.tensor([[-1, 1]]), torch.ones(10, 2), mode="max"),
     "Expected idx >= 0 && idx < num_embeddings but found idx to be -1"),
    (lambda: F.embedding_bag(torch.tensor([[1, 11]]), torch.ones(10, 2)), "Index 1 of input takes"),
    (lambda: F.embedding_bag(torch.tensor([[1, 11]]), torch.ones(10, 2).double()), "to be 11"),
    (lambda: F.embedding_bag(torch.tensor([[0, 2]]), torch.ones(10, 3), padding_idx=-11),
     "-10 through 9, but got -11"),
    (lambda: F.embedding_bag(torch.tensor([[0, 2]]), torch.ones(10, 3), mode="sum",
                             per_sample_weights=torch.ones(1, 2).double()),
     "type torch.FloatTensor does not equal torch.DoubleTensor"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CASES)
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_windows_without_elements_have_the_maximum_minus_infinity() -> None:
    one, two = torch.tensor([[1.0]]), torch.tensor([[1.0, 2.0]])
    assert torch.max_pool1d(one, 2, None, 1, 2).tolist() == [[-math.inf]]
    assert torch.max_pool1d(two, 2, 1, 1, 2).tolist() == [[2.0, 1.0]]
    assert torch.max_pool1d(two, 2, 2, 1, 2, True).tolist() == [[2.0, 2.0]]
