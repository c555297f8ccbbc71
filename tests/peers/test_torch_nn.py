"""``functrace.nn`` against PyTorch at the edges: kinks, far out, masked rows, rows far from 0; and
where they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional
EDGES = np.array(
    [-800.0, -40.0, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 19.0, 40.0, 800.0]
)
ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (ft.nn.relu, functional.relu), "relu6": (ft.nn.relu6, functional.relu6),
    "leaky_relu": (ft.nn.leaky_relu, functional.leaky_relu),
    "leaky_relu(0.3)": (lambda x: ft.nn.leaky_relu(x, 0.3), lambda x: functional.leaky_relu(x,
    0.3)),
    "hard_tanh": (ft.nn.hard_tanh, functional.hardtanh), "hard_silu": (ft.nn.hard_silu,
    functional.hardswish),
    "hard_sigmoid": (ft.nn.hard_sigmoid, lambda x: functional.relu6(x + 3.0) / 6.0),  # its own has 1 / 6 in single precision
    "elu": (ft.nn.elu, functional.elu), "celu": (ft.nn.celu, functional.celu), "selu": (ft.nn.selu,
    functional.selu),
    "silu": (ft.nn.silu, functional.silu), "mish": (ft.nn.mish, functional.mish),
    "sigmoid": (ft.nn.sigmoid, torch.sigmoid),
    "log_sigmoid": (ft.nn.log_sigmoid, functional.logsigmoid), "soft_sign": (ft.nn.soft_sign,
    functional.softsign),
    "gelu": (ft.nn.gelu, lambda x: functional.gelu(x, approximate="tanh")),
    "gelu exact": (lambda x: ft.nn.gelu(x, approximate=False), functional.gelu),
}  # fmt: skip


def gradient(f: Callable[..., Any], *xs: Any) -> tuple[Any, ...]:
    """PyTorch's value and gradients."""
    inputs = [torch.tensor(x, requires_grad=True) for x in xs]
    value = f(*inputs)
    value.sum().backward()
    return (value.detach().numpy(), *[x.grad.numpy() for x in inputs if x.grad is not None])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_at_kinks_and_far_out(name: str) -> None:
    mine, theirs = ACTIVATIONS[name]
    value, slope = gradient(theirs, EDGES)
    np.testing.assert_allclose(mine(EDGES), value, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(mine(x)))(EDGES), slope, rtol=1e-9, atol=2e-15
    )
    np.testing.assert_allclose(
        ft.jvp(mine, (EDGES,), (np.ones_like(EDGES),))[1], slope, rtol=1e-9, atol=2e-15
    )


def test_second_derivative_of_mish() -> None:
    x = np.concatenate([np.linspace(-40.0, 25.0, 131), [-300.0, 300.0]])

    def slope(x: Any) -> Any:
        return torch.autograd.grad(functional.mish(x).sum(), x, create_graph=True)[0]

    _, expected = gradient(slope, x)
    second: Any = ft.elementwise_grad(ft.elementwise_grad(ft.nn.mish))
    np.testing.assert_allclose(second(x), expected, rtol=1e-9, atol=2e-14)
    _, far = gradient(slope, np.array([999.0]))
    assert np.isnan(far) and second(999.0) == 0.0  # the limit


def heads(x: Any) -> Any:
    """Positions before heads, as PyTorch does not have them."""
    return x.transpose(1, 2) if isinstance(x, torch.Tensor) else np.swapaxes(x, 1, 2)


@pytest.mark.parametrize("form", ["mask", "bias"])
def test_attention_of_rows_that_are_masked_altogether(form: str) -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 2, 3))
    mask = np.random.default_rng(1).random((4, 4)) > 0.4
    mask[1], mask[3] = False, True
    given = mask if form == "mask" else np.where(mask, 0.3, -np.inf)

    def theirs(q: Any, k: Any, v: Any) -> Any:
        found = functional.scaled_dot_product_attention(
            heads(q), heads(k), heads(v), attn_mask=torch.tensor(given)
        )
        return heads(found) ** 2

    def mine(*xs: Any) -> Any:
        how: dict[str, Any] = {form: given}
        return ft.nn.dot_product_attention(*xs, **how) ** 2

    expected = gradient(theirs, q, k, v)
    found = (mine(q, k, v), *ft.grad(lambda *xs: np.sum(mine(*xs)), argnums=(0, 1, 2))(q, k, v))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert not np.any(found[0][:, 1]) and not np.any(found[1][:, 1])


@pytest.mark.parametrize(
    "center, spread", [(1e8, 30.0), (1e8, 1e3), (1e4, 1e-2), (-1e6, 1.0), (0.0, 1.0)]
)
@pytest.mark.parametrize("size", [4, 1000])
def test_layer_norm_of_rows_far_from_0(center: float, spread: float, size: int) -> None:
    """In double precision PyTorch's; in single precision nearer to these than PyTorch's own."""
    rng = np.random.default_rng(0)
    single = (center + spread * rng.normal(size=(3, size))).astype(np.float32)
    weights = rng.normal(size=size)

    def norm(x: Any) -> Any:
        return functional.layer_norm(x, (size,)) * torch.tensor(weights).to(x.dtype)

    exact, narrow = (gradient(norm, single.astype(dtype)) for dtype in (np.float64, np.float32))
    for dtype in (np.float64, np.float32):
        x = single.astype(dtype)
        f = lambda x: ft.nn.layer_norm(x) * weights.astype(x.dtype)
        found = f(x), ft.grad(lambda x, f=f: np.sum(f(x)))(x)
        for one, other, theirs in zip(found, exact, narrow, strict=True):
            assert one.dtype == dtype
            scale = np.max(np.abs(other))
            error, their_error = (
                np.max(np.abs(one - other)) / scale,
                np.max(np.abs(theirs - other)) / scale,
            )
            assert error < (1e-6 if dtype == np.float64 else max(2e-6, their_error / 100)), (
                error,
                their_error,
            )


def test_layer_norm_of_constant_rows() -> None:
    x = np.full((2, 4), 1e8, np.float32)
    weights = np.array([1.0, 2.0, 3.0, 5.0], np.float32)
    value, slope = gradient(lambda x: functional.layer_norm(x, (4,)) * torch.tensor(weights), x)
    np.testing.assert_array_equal(ft.nn.layer_norm(x) * weights, value)
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(ft.nn.layer_norm(x) * weights))(x), slope, rtol=1e-5
    )


def test_rows_of_minus_infinity() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 1.0]])
    value, slope = gradient(lambda x: torch.logsumexp(x, 1), x)
    np.testing.assert_array_equal(ft.nn.logsumexp(x, axis=1), value)
    mine = ft.grad(lambda x: np.sum(ft.nn.logsumexp(x, axis=1)))(x)
    np.testing.assert_array_equal(mine, [[0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(slope, [[np.nan, np.nan], [0.0, 1.0]])  # here they differ
    with np.errstate(invalid="ignore"):
        for one, other in ((ft.nn.softmax, torch.softmax), (ft.nn.log_softmax, torch.log_softmax)):
            np.testing.assert_allclose(one(x), other(torch.tensor(x), 1).numpy())
