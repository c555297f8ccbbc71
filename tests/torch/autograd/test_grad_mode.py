"""Consistency of a thread's grad modes; the parity scripts check their behaviour."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import functrace.torch as torch

SOURCE = Path(torch.__file__).parent


def test_recording_is_switched_off_so_that_inference_mode_stays() -> None:
    """In inference mode ``MODES.recording`` is None: whoever sets it to False, for a while, leaves
    that mode.
    """
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"MODES\.recording = (recording, )?False\b", line)
    ]
    assert not found, "write `MODES.recording = MODES.recording and False`"


def test_functions_and_backward_passes_run_in_inference_mode() -> None:
    seen: list[bool] = []

    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            seen.append((x * 2).is_inference())
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            seen.append((gradient * 2).is_inference())
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    y = Asking.apply(x)
    assert seen == [False]
    y.register_hook(lambda gradient: seen.append((gradient * 2).is_inference()))
    with torch.inference_mode():
        Asking.apply(x)
        y.sum()
        y.backward(torch.ones(2))
        torch.utils.checkpoint.checkpoint(Asking.apply, x, use_reentrant=True)
    assert seen == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("make", "after"),
    [
        (torch.no_grad, False),
        (torch.enable_grad, False),
        (lambda: torch.set_grad_enabled(False), True),
        (lambda: torch.set_grad_enabled(True), True),
    ],
    ids=["no_grad", "enable_grad", "off", "on"],
)
def test_a_mode_may_be_left_without_being_entered(make: Any, after: bool) -> None:
    """Recorded: the modes that PyTorch 2.13.0 leaves behind."""
    try:
        make().__exit__(None, None, None)
        assert torch.is_grad_enabled() is after
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1),
        lambda x: x.transpose(0, 1),
        lambda x: x[0],
        lambda x: x.expand(2, 2, 3),
        lambda x: x.unbind(1)[0],
        lambda x: torch.ops.aten.alias(x),
    ],
)
def test_views_of_inference_tensors_have_no_history(view: Any, requires_grad: bool) -> None:
    """As in PyTorch 2.13, also outside inference mode and if the tensor requires grad."""
    with torch.inference_mode():
        x = torch.ones(1, 2, 3, requires_grad=requires_grad)
    made = view(x)
    assert made.is_inference()
    assert made.is_leaf
    assert not made.requires_grad
    assert not made._is_view()
