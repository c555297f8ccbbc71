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


@pytest.mark.filterwarnings("ignore:.* draws random numbers while jit")
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


@pytest.mark.parametrize(
    ("made", "recorded"),
    [
        (
            lambda: torch.linspace(0.1, 5, 20)[6:9],
            ["0x1.a5b9f20000000p+0", "0x1.e7bf560000000p+0", "0x1.14e25c0000000p+1"],
        ),
        (
            lambda: torch.linspace(0.1, 5, 9, dtype=torch.float64)[2:5],
            ["0x1.5333333333334p+0", "0x1.f000000000001p+0", "0x1.4666666666666p+1"],
        ),
        (
            lambda: torch.arange(0.3, 3.9, 0.1)[13:16],
            ["0x1.99999a0000000p+0", "0x1.b333340000000p+0", "0x1.ccccce0000000p+0"],
        ),
        (
            lambda: torch.arange(0.3, 2, 0.1, dtype=torch.float64)[5:8],
            ["0x1.9999999999999p-1", "0x1.cccccccccccccp-1", "0x1.0000000000000p+0"],
        ),
        (
            lambda: torch.logspace(-0.3, 2, 7)[2:5],
            ["0x1.76ddd20000000p+1", "0x1.c515d80000000p+2", "0x1.11d0020000000p+4"],
        ),
    ],
)
def test_spaces_have_pytorchs_roundings(made: Any, recorded: list[str]) -> None:
    # Recorded from PyTorch 2.13.0, which rounds product and sum once.
    assert [x.hex() for x in made().double().tolist()] == recorded
