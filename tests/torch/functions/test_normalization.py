"""Normalizations: values against NumPy, derivatives against differences, running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
RNG = np.random.default_rng(8)
X = RNG.uniform(-2, 2, (3, 4, 5))
W, B = RNG.uniform(0.5, 1.5, 4), RNG.uniform(-1, 1, 4)


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


def standard(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    inner = x - x.mean(axes, keepdims=True)
    return inner / np.sqrt((inner**2).mean(axes, keepdims=True) + eps)


def columns(x: Any) -> Any:
    return x.reshape(1, -1, 1)


def test_layers() -> None:
    w, b = RNG.uniform(-1, 1, (4, 5)), RNG.uniform(-1, 1, (4, 5))
    found = F.layer_norm(t(X), (4, 5), t(w), t(b)).numpy()
    np.testing.assert_allclose(found, standard(X, (1, 2)) * w + b)
    check_slopes(lambda x, w, b: F.layer_norm(x, (4, 5), w, b), [X, w, b])
    check_slopes(lambda x: F.layer_norm(x, (5,)), [X])
    rms = X / np.sqrt((X**2).mean(2, keepdims=True) + 1e-3)
    np.testing.assert_allclose(F.rms_norm(t(X), (5,), eps=1e-3).numpy(), rms)
    x = t(X).requires_grad_()
    out, mean, scale = torch.native_layer_norm(x, (5,), None, None, 1e-5)
    assert out.grad_fn.name() == "NativeLayerNormBackward0"
    assert mean.shape == scale.shape == (3, 4, 1) and not mean.requires_grad


def test_batches() -> None:
    mean, var = t(np.zeros(4)), t(np.ones(4))
    found = F.batch_norm(t(X), mean, var, t(W), t(B), training=True, momentum=0.25).numpy()
    np.testing.assert_allclose(found, standard(X, (0, 2)) * columns(W) + columns(B))
    np.testing.assert_allclose(mean.numpy(), 0.25 * X.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * X.var((0, 2), ddof=1))
    found = F.batch_norm(t(X), mean, var, eps=0.0).numpy()
    expected = (X - columns(mean.numpy())) / np.sqrt(columns(var.numpy()))
    np.testing.assert_allclose(found, expected)
    check_slopes(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [X, W, B])
    check_slopes(lambda x, w: F.batch_norm(x, mean, var, w), [X, W])
    check_slopes(lambda x: F.batch_norm(x, None, None, training=True), [X])


def test_groups_and_instances() -> None:
    grouped = standard(X.reshape(3, 2, -1), (2,)).reshape(X.shape)
    found = F.group_norm(t(X), 2, t(W), t(B)).numpy()
    np.testing.assert_allclose(found, grouped * columns(W) + columns(B))
    check_slopes(lambda x, w, b: F.group_norm(x, 2, w, b), [X, W, B])
    np.testing.assert_allclose(F.instance_norm(t(X)).numpy(), standard(X, (2,)))
    check_slopes(lambda x, w: F.instance_norm(x, weight=w), [X, W])
    mean, var = t(np.zeros(4)), t(np.ones(4))
    F.instance_norm(t(X), mean, var, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), X.mean(2).mean(0))
    np.testing.assert_allclose(var.numpy(), X.var(2, ddof=1).mean(0))


def test_neighbours() -> None:
    padded = np.pad(X**2, ((0, 0), (1, 1), (0, 0)))
    means = sum(padded[:, k : k + 4] for k in range(3)) / 3
    found = F.local_response_norm(t(X), 3, 0.5, 0.75, 2.0).numpy()
    np.testing.assert_allclose(found, X / (2 + 0.5 * means) ** 0.75)
    check_slopes(lambda x: F.local_response_norm(x, 3, 0.5), [X])


def test_refusals() -> None:
    x = t(X)
    for call, error, text in (
        (lambda: F.layer_norm(x, (3,)), RuntimeError, r"expected input with shape \[\*, 3\]"),
        (lambda: F.batch_norm(x, None, None), RuntimeError, "must be defined in evaluation mode"),
        (
            lambda: F.batch_norm(x[:1, :, :1], None, None, training=True),
            ValueError,
            "more than 1 value",
        ),
        (lambda: F.group_norm(x, 3), RuntimeError, "divisible by num_groups"),
        (lambda: F.instance_norm(x[..., :1]), ValueError, "more than 1 spatial element"),
        (lambda: F.layer_norm(x, (5,), t(np.ones(5, "f4"))), RuntimeError, "mixed dtype"),
    ):
        with pytest.raises(error, match=text):
            call()
