"""Activations: values against NumPy, derivatives against differences, in-place forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
X = np.array([[-7.1, -2.5, -0.8, -0.3], [0.2, 0.7, 1.3, 6.4]])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


EXPECTED = {
    "relu": np.maximum(X, 0), "relu6": np.clip(X, 0, 6), "hardtanh": np.clip(X, -1, 1),
    "elu": np.where(X > 0, X, np.expm1(X)), "celu": np.where(X > 0, X, np.expm1(X)),
    "selu": 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)),
    "gelu": 0.5 * X * (1 + np.vectorize(math.erf)(X / math.sqrt(2))), "silu": X * sigmoid(X),
    "mish": X * np.tanh(softplus(X)), "hardswish": X * np.clip(X + 3, 0, 6) / 6,
    "hardsigmoid": np.clip(X + 3, 0, 6) / 6, "hardshrink": np.where(abs(X) > 0.5, X, 0),
    "softshrink": np.sign(X) * np.maximum(abs(X) - 0.5, 0), "tanhshrink": X - np.tanh(X),
    "softplus": softplus(X), "softsign": X / (1 + abs(X)), "leaky_relu": np.where(X > 0, X, 0.01 * X),
    "rrelu": np.where(X > 0, X, (1 / 8 + 1 / 3) / 2 * X), "logsigmoid": -softplus(-X),
    "sigmoid": sigmoid(X), "tanh": np.tanh(X),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_activations_have_numpys_values_and_the_slopes_of_differences(name: str) -> None:
    function = getattr(F, name)
    found = function(torch.from_numpy(X.copy())).numpy()
    np.testing.assert_allclose(found, EXPECTED[name], rtol=1e-12, atol=1e-12)
    check_slopes(function, [X])


@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "selu", "celu", "silu", "mish",
    "hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "rrelu"])  # fmt: skip
def test_inplace_writes_into_the_input(name: str) -> None:
    x = torch.from_numpy(X.copy())
    assert getattr(F, name)(x, inplace=True) is x
    np.testing.assert_allclose(x.numpy(), EXPECTED[name], rtol=1e-12, atol=1e-12)


def test_slopes_at_kinks_are_pytorchs() -> None:
    for name, at, slope in (
        ("relu", 0.0, 0.0), ("relu6", 6.0, 0.0), ("hardtanh", -1.0, 0.0), ("elu", 0.0, 1.0),
        ("leaky_relu", 0.0, 0.01), ("hardshrink", 0.5, 0.0), ("hardswish", 3.0, 1.0),
        ("hardsigmoid", 3.0, 0.0), ("softshrink", 0.5, 0.0),
    ):  # fmt: skip
        x = torch.tensor([at], dtype=torch.float64, requires_grad=True)
        getattr(F, name)(x).sum().backward()
        assert x.grad is not None and x.grad.item() == pytest.approx(slope), name


def test_softmax_glu_prelu_and_threshold() -> None:
    x = torch.from_numpy(X.copy())
    shares = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    np.testing.assert_allclose(F.softmax(x, 1).numpy(), shares)
    np.testing.assert_allclose(F.softmin(-x, 1).numpy(), shares)
    np.testing.assert_allclose(F.log_softmax(x, dim=-1).numpy(), np.log(shares))
    np.testing.assert_allclose(F.glu(x).numpy(), X[:, :2] * sigmoid(X[:, 2:]))
    np.testing.assert_allclose(F.threshold(x, 0.5, 9.0).numpy(), np.where(X > 0.5, X, 9))
    weight = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(
        F.prelu(x, torch.from_numpy(weight)).numpy(), np.where(X > 0, X, weight * X)
    )
    check_slopes(F.prelu, [X, weight])
    check_slopes(F.glu, [X])


def test_softmax_without_a_dimension_warns() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        F.softmax(torch.ones(2, 2))


def test_gumbel_softmax_draws_one_hot_samples() -> None:
    torch.manual_seed(0)
    x = torch.zeros(50, 3, requires_grad=True)
    found = F.gumbel_softmax(x, hard=True)
    assert found.detach().numpy().sum(1).tolist() == [1.0] * 50
    (found * torch.arange(3.0)).sum().backward()
    assert x.grad is not None and float(x.grad.abs().sum()) > 0


def test_refusals() -> None:
    x = torch.ones(2, 3)
    for call, error, text in (
        (lambda: F.celu(x, 0.0), RuntimeError, "alpha cannot be 0"),
        (lambda: F.glu(x), RuntimeError, "Halving dimension must be even"),
        (lambda: F.softshrink(x, -1), RuntimeError, r"lambda must be in range \[0, 3.40282e\+38\]"),
        (lambda: F.hardtanh(x, 1, -1), ValueError, "min_val cannot be greater"),
        (lambda: F.gelu(x, approximate="x"), RuntimeError, "either none or tanh"),
        (lambda: F.silu(x.long()), NotImplementedError, "\"silu_cpu\" not implemented for 'Long'"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_names_of_c_functions() -> None:
    x = torch.ones(2, 2)
    assert torch._C._nn.gelu(x).tolist() == F.gelu(x).tolist()
    assert torch._C._nn.silu_(x) is x
