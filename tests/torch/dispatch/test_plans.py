"""Plans are shared and bounded; numbers of every kind are Python numbers; arrays beside tensors are
refused.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.dispatch import plans


class Level(enum.IntEnum):
    TWO = 2


class Weight(float):
    pass


NUMBERS = [
    (np.float64(2.5), 2.5), (np.float32(2.5), 2.5), (np.float16(2.5), 2.5), (np.int64(2), 2),
    (np.uint8(2), 2),
    (np.bool_(True), True), (Level.TWO, 2), (Weight(2.5), 2.5), (np.complex128(2 + 1j), 2 + 1j),
]  # fmt: skip


def add_(x: Any, n: Any) -> Any:
    return (x * 1.0).add_(n)


def imul(x: Any, n: Any) -> Any:
    y = x * 1.0
    y *= n
    return y


def fill_(x: Any, n: Any) -> Any:
    return (x * 1.0).fill_(n)


def setitem(x: Any, n: Any) -> Any:
    y = x * 1.0
    y[0] = n
    return y


USES: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "eq": torch.eq,
    "plus": lambda x, n: x + n, "minus": lambda x, n: x - n, "minus from": lambda x, n: n - x,
    "times": lambda x, n: n * x,
    "over": lambda x, n: n / x, "power of": lambda x, n: n**x, "is": lambda x, n: x == n,
    "where": lambda x, n: torch.where(x > 1, x, n), "method": lambda x, n: x.mul(n),
}  # fmt: skip
REAL = {
    "lt": torch.lt, "clamp": torch.clamp, "less": lambda x, n: x < n, "add_": add_, "imul": imul,
    "fill_": fill_,
    "setitem": setitem,
}  # fmt: skip


def seen(use: Callable[[Any, Any], Any], number: Any) -> Any:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = use(x, number)
    gradient = None
    if y.requires_grad and not y.dtype.is_complex:
        (gradient,) = torch.autograd.grad(y.sum(), x)
    return (
        type(y),
        y.dtype,
        y.tolist(),
        type(y.grad_fn).__name__,
        None if gradient is None else gradient.tolist(),
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name, number, plain",
    [
        pytest.param(name, number, plain, id=f"{name}-{type(number).__name__}")
        for name in (*USES, *REAL)
        for number, plain in NUMBERS
        if name in USES or not isinstance(plain, complex)
        if not (isinstance(plain, bool) and name in ("sub", "minus", "minus from"))
    ],
)
def test_numbers_of_every_kind_are_python_numbers(name: str, number: Any, plain: Any) -> None:
    use = USES.get(name) or REAL[name]
    found, expected = seen(use, number), seen(use, plain)
    assert repr(found) == repr(expected)
    assert found[3] != "NoneType" or found[1] is torch.bool  # no gradient is lost


@pytest.mark.parametrize(
    "use", [torch.add, torch.mul, torch.maximum, torch.eq], ids=lambda f: f.__name__
)
def test_arrays_mixed_with_tensors_raise(use: Any) -> None:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    with pytest.raises(
        TypeError,
        match=rf"{use.__name__}\(\): argument 'other' \(position 2\) must be Tensor, not numpy.ndarray",
    ):
        use(x, np.ones(2))
    with pytest.raises(
        TypeError,
        match=rf"{use.__name__}\(\): argument 'input' \(position 1\) must be Tensor, not list",
    ):
        use([1.0], x)
    in_place = getattr(x.detach(), f"{use.__name__}_", None)
    if in_place is not None:
        with pytest.raises(
            TypeError,
            match=rf"{use.__name__}_\(\): argument 'other' \(position 1\) must be Tensor, not numpy",
        ):
            in_place(np.ones(2))


def test_arrays_mixed_with_tracers_are_constants() -> None:
    a = np.array([1.0, 3.0])
    assert np.allclose(ft.grad(lambda v: np.sum(torch.mul(v, a)))(a), a)
    assert np.allclose(torch.mul(a, np.float64(2.0)), [2.0, 6.0])


def test_changing_numbers_share_a_plan() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * 0.5 + 0.25 - 1.5).sum().backward()
    before = len(plans.PLANS)
    for k in range(50):
        y = x * (k + 0.125) + k * 1.5 - k * 0.5
        (g,) = torch.autograd.grad(y.sum(), x)
        assert g.tolist() == [k + 0.125] * 2
    assert len(plans.PLANS) == before


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans.PLANS, "most", 20)
    for n in range(1001, 1060):
        x = torch.ones(n, requires_grad=True)
        (g,) = torch.autograd.grad((x * 3.0).sum(), x)
        assert g.tolist() == [3.0] * n
    assert len(plans.PLANS) <= 20
