"""`allow_mutation_on_saved_tensors` where it knows more than PyTorch; the rest is in the parity
script.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import functrace.torch as torch

CHANGES: dict[str, Callable[[Any], object]] = {
    "second element": lambda b: b.__setitem__(1, 5.0),
    "tail": lambda b: b[1:].mul_(2),
    "every other": lambda b: b[::2].zero_(),
    "data of the tail": lambda b: b.data[1:].add_(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_parts_that_are_overwritten_are_noticed(change: Callable[[Any], object]) -> None:
    """PyTorch compares addresses, misses these and returns other gradients."""
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = a.clone()
        out = (b**2).sum()
        change(b)
        assert len(context.cloned) == 1
        out.backward()
    assert a.grad.tolist() == [2.0, 4.0, 6.0]


def test_memory_that_is_not_shared_is_not_copied() -> None:
    a = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        b = a.clone()
        _out = (b[:2] ** 2).sum()
        b[2:].mul_(2)
        torch.ones(3).add_(1)
        assert len(context.cloned) == 0
