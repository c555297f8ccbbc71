"""Factories given traced values, or tensors that require grad: no derivative is lost.

The grid of arguments is compared with PyTorch's log in ``tests/peers/torch/scripts/factories.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import FunctraceError

LIKE: dict[str, Callable[[Any], Any]] = {
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "empty_like": torch.empty_like,
    "full_like": lambda x: torch.full_like(x, 2.0),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 2),
}
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": ft.grad,
    "jit": lambda f: ft.jit(ft.grad(f)),
    "vmap": lambda f: lambda x: ft.vmap(ft.grad(f))(np.stack([x, x]))[0],
    "twice": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) * x)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", LIKE)
def test_like_a_traced_value(name: str, transform: str) -> None:
    def loss(x: Any) -> Any:
        made = LIKE[name](x)
        assert made.shape == x.shape
        assert made.dtype == torch.float64
        return torch.sum((made * 0.0 + 3.0) * x)

    found = TRANSFORMS[transform](loss)(np.ones((2, 3)))
    np.testing.assert_array_equal(np.asarray(found), np.full((2, 3), 3.0))


FILLED: dict[str, Callable[[Any], Any]] = {
    "full": lambda x: torch.full((2,), x),
    "full_like": lambda x: torch.full_like(torch.ones(2), x),
    "new_full": lambda x: torch.ones(2).new_full((2,), x),
    "scalar_tensor": torch.scalar_tensor,
    "arange": torch.arange,
    "arange from": lambda x: torch.arange(x, 5.0),
    "linspace": lambda x: torch.linspace(0.0, x, 3),
    "logspace": lambda x: torch.logspace(0.0, x, 3),
    "logspace base": lambda x: torch.logspace(0.0, 1.0, 3, x),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("name", FILLED)
def test_a_number_that_requires_grad_raises(name: str, recording: bool) -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with torch.set_grad_enabled(recording), pytest.raises(TypeError, match="must be Number"):
        FILLED[name](x)
    assert FILLED[name](x.detach()).dtype == torch.float32


@pytest.mark.parametrize("name", FILLED)
def test_a_traced_number_raises(name: str) -> None:
    with pytest.raises((TypeError, FunctraceError)):
        ft.grad(lambda x: torch.sum(FILLED[name](x)))(3.0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("step", [0.7, 1.5, 2.9, -1.2])
def test_integer_ranges_have_integer_steps(dtype: Any, step: float) -> None:
    start, end = (20, 1) if step < 0 else (1, 20)
    if dtype == torch.int64 and not int(step):
        with pytest.raises(ValueError, match="step must be nonzero"):
            torch.arange(start, end, step, dtype=dtype)
        return
    made = torch.arange(start, end, step, dtype=dtype)
    assert made.tolist() == [start + int(step) * i for i in range(len(made))]


@pytest.mark.parametrize("seed", range(5))
def test_ranges_and_spaces_equal_numpys_to_the_last_digits(seed: int) -> None:
    draws = np.random.default_rng(seed)
    low, high = draws.normal(size=2) * 10.0 ** draws.integers(-3, 6)
    count = int(draws.integers(1, 50))
    kwargs: dict[str, Any] = {"dtype": torch.float64}
    spaced = torch.linspace(low, high, count, **kwargs).numpy()
    np.testing.assert_allclose(spaced, np.linspace(low, high, count), rtol=1e-12, atol=1e-9)
    step = (high - low) / (count + 0.5)
    stepped = torch.arange(low, high, step, **kwargs).numpy()
    np.testing.assert_allclose(stepped, np.arange(low, high, step), rtol=1e-12, atol=1e-9)
