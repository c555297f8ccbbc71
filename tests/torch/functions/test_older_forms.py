"""Older forms of functions, numbers of tensors that require grad, and names found by use."""

from __future__ import annotations

import warnings

import pytest

import functrace.torch as torch


@pytest.mark.parametrize(
    ("name", "wanted"), [("addmm", 4.5), ("addmv", 4.5), ("addr", 2.5), ("baddbmm", 4.5)]
)
def test_factors_may_come_first(name: str, wanted: float) -> None:
    matrix, vector = torch.ones(2, 2), torch.ones(2)
    given = {
        "addmm": (matrix, matrix, matrix), "addmv": (vector, matrix, vector),
        "addr": (matrix, vector, vector), "baddbmm": (torch.ones(1, 2, 2),) * 3,
    }[name]  # fmt: skip
    x, *rest = given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            getattr(torch, name)(0.5, x, 2, *rest), getattr(x, name)(0.5, 2, *rest),
            getattr(x.clone(), f"{name}_")(0.5, 2, *rest),
        ]  # fmt: skip
    for y in found:
        assert y.flatten()[0].item() == wanted
    with pytest.raises(TypeError, match="positional arguments"):
        getattr(torch, name)(x, *rest, x)


def test_numbers_warn_only_while_operations_are_recorded() -> None:
    x = torch.tensor(2.5, requires_grad=True)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        assert (float(x), int(x), complex(x)) == (2.5, 2, 2.5 + 0j)


def test_private_functions_need_no_import() -> None:
    assert torch._VF.add(torch.ones(1), 1).item() == 2


def test_variances_broadcast_along_one_axis() -> None:
    loss = torch.nn.functional.gaussian_nll_loss
    x = torch.ones(3, 2)
    for shape in ((3, 1), (3,), (1, 2)):
        assert loss(x, 0 * x, torch.ones(shape)).item() == 0.5
    for shape in ((2,), (1, 1), (3, 2, 1)):
        with pytest.raises(ValueError, match="var is of incorrect size"):
            loss(x, 0 * x, torch.ones(shape))
