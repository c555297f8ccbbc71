"""Strides and offsets of tensors without elements, and along dimensions of size 1 (recorded from
PyTorch 2.13.0).

Layer: 9.
"""

from __future__ import annotations

import pytest

import functrace.torch as torch

VIEWS = {
    "torch.zeros(2, 0, 3)": (3, 3, 1),
    "torch.zeros(2, 0, 3).transpose(0, 2)": (1, 3, 3),
    "torch.zeros(0, 2, 2).transpose(1, 2)": (4, 1, 2),
    "torch.zeros(3, 2, 1, 0).select(1, 1)": (2, 1, 1),
    "torch.zeros(2, 0).expand(2, 2, 0)": (0, 1, 1),
    "torch.zeros(0, 3, 3, 0).view(0, 9)": (9, 1),
    "torch.zeros(1, 1, 2)[:, 2:0:2]": (2, 4, 1),
    "torch.zeros(3)[2:2:2]": (2,),
    "torch.zeros(3, 3).unsqueeze(-1)": (3, 1, 1),
    "torch.zeros(3, 3).unsqueeze(1)": (3, 3, 1),
    "torch.zeros(2, 1, 2).unsqueeze(0)[2:1]": (4, 2, 2, 1),
    "torch.zeros(4, 0)[None, ..., None]": (4, 1, 1, 1),
    "torch.zeros(4, 1, 0).squeeze(1)": (1, 1),
    "torch.zeros(0, 4, 4).diagonal(1, 1, 2)": (16, 5),
    "torch.zeros(0, 4).unfold(1, 2, 2)": (4, 2, 1),
    "torch.zeros(2, 0, dtype=torch.complex64).real": (2, 2),
    "torch.view_as_real(torch.zeros(0, 2, dtype=torch.complex64))": (4, 2, 1),
    "torch.ones(0).as_strided((0, 1), (1, 0), 0)": (1, 0),
    "torch.zeros(0, 2, 2).transpose(1, 2).clone()": (4, 1, 2),
    "torch.zeros(0, 2, 2).transpose(1, 2).detach()": (4, 1, 2),
    "torch.empty_like(torch.zeros(0, 2, 2).transpose(1, 2))": (4, 1, 2),
    "torch.zeros(0, 2, 2).transpose(1, 2).contiguous()": (4, 1, 2),
}


@pytest.mark.parametrize("expression", VIEWS)
def test_strides_follow_the_views(expression: str) -> None:
    assert eval(expression, {"torch": torch}).stride() == VIEWS[expression]


OFFSETS = {
    "x[3:3]": 18,
    "x[:, 5:5]": 5,
    "x[1:][2:][1:]": 24,
    "x.t()[2:2]": 2,
    "x.view(2, 12)[1, 3:3]": 15,
    "x[2].narrow(0, 4, 0)": 16,
    "x.as_strided((0,), (1,), 7)": 7,
}


@pytest.mark.parametrize("expression", OFFSETS)
def test_an_empty_view_knows_its_offset(expression: str) -> None:
    empty = eval(expression, {"x": torch.zeros(4, 6)})
    assert empty.storage_offset() == OFFSETS[expression]


def test_an_empty_view_can_be_viewed_at_its_offset() -> None:
    x = torch.arange(24.0).view(4, 6)
    assert x[2:2].as_strided((3,), (1,)).tolist() == [12.0, 13.0, 14.0]


def test_unfold_of_a_scalar_in_windows_of_nothing() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    empty = x.unfold(0, 0, 1)
    assert empty.shape == (0,)
    empty.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == 0.0
