"""NestedIOFunction: nested tuples of tensors in and out."""

from __future__ import annotations

from typing import Any

import functrace as ft
import functrace.torch as torch
from functrace.torch.autograd.function import NestedIOFunction


class Mixed(NestedIOFunction):
    """``([a, b], c)`` to ``{"sum": a + b, "parts": [a * b, c * c]}``."""

    @staticmethod
    def forward_extended(ctx: Any, pair: Any, c: Any) -> Any:
        a, b = pair
        ctx.save_for_backward([a, b], c)
        return {"parts": [a * b, c * c], "sum": a + b}

    @staticmethod
    def backward_extended(ctx: Any, grads: Any) -> Any:
        (a, b), c = ctx.saved_tensors
        product, square = grads["parts"]
        return [product * b + grads["sum"], product * a + grads["sum"]], square * 2 * c


def test_nested_function_takes_and_returns_nested_containers() -> None:
    a, b, c = (torch.tensor([x], requires_grad=True) for x in (2.0, 3.0, 5.0))
    found = Mixed.apply([a, b], c)
    assert found["sum"].tolist() == [5.0]
    assert [x.tolist() for x in found["parts"]] == [[6.0], [25.0]]
    assert type(found["sum"].grad_fn).__name__ == "MixedBackward"
    (found["parts"][0] + 10 * found["parts"][1] + 100 * found["sum"]).sum().backward()
    assert [x.grad.tolist() for x in (a, b, c)] == [[103.0], [102.0], [100.0]]


def test_nested_function_without_gradients_for_some() -> None:
    a, b, c = (torch.tensor([x], requires_grad=True) for x in (2.0, 3.0, 5.0))
    assert [
        x.tolist() for x in torch.autograd.grad(Mixed.apply([a, b], c)["parts"][0], (a, b))
    ] == [[3.0], [2.0]]


def test_nested_function_under_transforms() -> None:
    gradient = ft.grad(lambda a: Mixed.apply([a, a], a)["parts"][0])(2.0)
    assert gradient == 4.0
