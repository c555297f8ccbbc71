"""``functional_call`` inside functrace's transforms: a module has its tensors back when it is
traced, and when it raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch


class Scale:
    """A module of one parameter and one buffer."""

    training = True

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {"weight": torch.tensor([2.0, 3.0], requires_grad=True)}
        self._buffers: dict[str, Any] = {"calls": torch.zeros(())}

    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        return self._parameters.items()

    def named_buffers(self, *, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        return self._buffers.items()

    def __call__(self, x: Any) -> Any:
        self._buffers["calls"] = self._buffers["calls"] + 1
        if x.shape[0] == 1:
            raise ValueError("one element")
        return (self._parameters["weight"] * x).exp().sum()


WEIGHT, X = np.array([0.5, -1.0], np.float32), np.array([1.0, 2.0], np.float32)


def loss(module: Scale, weight: Any, x: Any) -> Any:
    state = {"weight": torch.as_tensor(weight)}
    return torch.func.functional_call(
        module, (state, {"calls": torch.zeros(())}), torch.as_tensor(x)
    )._array


def test_core_transforms_differentiate_with_respect_to_arguments() -> None:
    module = Scale()
    before = module._parameters["weight"], module._buffers["calls"]
    gradient = ft.grad(lambda weight: loss(module, weight, X))(WEIGHT)
    np.testing.assert_allclose(gradient, X * np.exp(WEIGHT * X), rtol=1e-6)
    each = ft.vmap(ft.grad(lambda weight, x: loss(module, weight, x)), in_axes=(None, 0))(
        WEIGHT, np.stack([X, 2 * X])
    )
    np.testing.assert_allclose(
        each, [X * np.exp(WEIGHT * X), 2 * X * np.exp(WEIGHT * 2 * X)], rtol=1e-6
    )
    assert (module._parameters["weight"], module._buffers["calls"]) == before
    assert float(module._buffers["calls"]) == 0


def test_the_module_has_its_tensors_back_when_it_raises_among_traced_values() -> None:
    module = Scale()
    before = module._parameters["weight"], module._buffers["calls"]
    with pytest.raises(ValueError, match="one element"):
        ft.grad(lambda weight: loss(module, weight, X[:1]))(WEIGHT)
    assert module._parameters["weight"] is before[0]
    assert module._buffers["calls"] is before[1]
