"""Distances: values against NumPy, derivatives against differences, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
RNG = np.random.default_rng(6)
X, Y = RNG.uniform(-2, 2, (4, 3)), RNG.uniform(-2, 2, (5, 3))


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
def test_norms_of_differences(p: float) -> None:
    pairs = np.linalg.norm(X[:, None] - Y[None], p, axis=-1)
    np.testing.assert_allclose(torch.cdist(t(X), t(Y), p).numpy(), pairs)
    rows, columns = np.triu_indices(4, 1)
    np.testing.assert_allclose(
        F.pdist(t(X), p).numpy(), np.linalg.norm(X[rows] - X[columns], p, axis=1)
    )
    near = np.linalg.norm(X - Y[:4] + 1e-6, p, axis=1)
    np.testing.assert_allclose(F.pairwise_distance(t(X), t(Y[:4]), p).numpy(), near)
    check_slopes(lambda x, y: torch.cdist(x, y, p), [X, Y])
    check_slopes(lambda x: F.pdist(x, p), [X])


def test_many_points_take_one_product() -> None:
    x, y = RNG.uniform(-1, 1, (40, 6)), RNG.uniform(-1, 1, (30, 6))
    expected = np.linalg.norm(x[:, None] - y[None], axis=-1)
    np.testing.assert_allclose(torch.cdist(t(x), t(y)).numpy(), expected, rtol=1e-8)
    check_slopes(torch.cdist, [x, y])


def test_directions() -> None:
    a, b = X, Y[:4]
    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(F.cosine_similarity(t(a), t(b)).numpy(), expected)
    check_slopes(F.cosine_similarity, [a, b])
    np.testing.assert_allclose(
        F.normalize(t(a), dim=0).numpy(), a / np.linalg.norm(a, axis=0, keepdims=True)
    )
    check_slopes(F.normalize, [a])
    assert F.normalize(torch.zeros(2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_refusals() -> None:
    for call, text in (
        (lambda: torch.cdist(t(X), t(X[:, :2])), "same number of columns"),
        (lambda: torch.cdist(t(X), t(X), -1.0), "non-negative"), (lambda: F.pdist(t(X[0])), "2D tensors"),
        (lambda: F.cosine_similarity(t(X).long(), t(X).long()), "floating point"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()
