"""Embeddings: rows, their gradients, bags; one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
W = np.random.default_rng(2).uniform(-1, 1, (5, 3))
INDICES = np.array([0, 1, 4, 1, 1, 2, 0])
OFFSETS = np.array([0, 2, 2, 5])
BAGS = [[0, 1], [], [4, 1, 1], [2, 0]]


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


def gradient(function: Any) -> Any:
    w = t(W).requires_grad_()
    function(w).sum().backward()
    assert w.grad is not None
    return w.grad.numpy()[:, 0].tolist()


def test_rows_and_their_gradients() -> None:
    np.testing.assert_array_equal(F.embedding(t(INDICES), t(W)).numpy(), W[INDICES])
    assert gradient(lambda w: F.embedding(t(INDICES), w)) == [2, 3, 1, 0, 1]
    assert gradient(lambda w: F.embedding(t(INDICES), w, padding_idx=1)) == [2, 0, 1, 0, 1]
    by_frequency = gradient(lambda w: F.embedding(t(INDICES), w, scale_grad_by_freq=True))
    np.testing.assert_allclose(by_frequency, [1, 1, 1, 0, 1])
    check_slopes(lambda w: F.embedding(t(INDICES), w) ** 2, [W])


def test_long_rows_are_scaled_in_place() -> None:
    w = t(W * 3)
    F.embedding(t([0, 2]), w, max_norm=1.0)
    sizes = np.linalg.norm(w.numpy(), axis=1)
    np.testing.assert_allclose(
        sizes[[0, 2]], np.minimum(np.linalg.norm(W * 3, axis=1), 1)[[0, 2]], rtol=1e-6
    )
    np.testing.assert_array_equal(w.numpy()[[1, 3, 4]], (W * 3)[[1, 3, 4]])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    reduce: Any = getattr(np, mode)
    expected = [reduce(W[bag], axis=0) if bag else np.zeros(3) for bag in BAGS]
    found = F.embedding_bag(t(INDICES), t(W), t(OFFSETS), mode=mode).numpy()
    np.testing.assert_allclose(found, expected)
    rows = INDICES[:6].reshape(2, 3)
    found = F.embedding_bag(t(rows), t(W), mode=mode).numpy()
    np.testing.assert_allclose(found, reduce(W[rows], axis=1))
    check_slopes(lambda w: F.embedding_bag(t(INDICES), w, t(OFFSETS), mode=mode) ** 2, [W])


def test_weights_of_bags() -> None:
    s = np.random.default_rng(3).uniform(-1, 1, 7)
    given = {"mode": "sum", "padding_idx": 1}
    call = lambda w, s: F.embedding_bag(t(INDICES), w, t(OFFSETS), per_sample_weights=s, **given)
    expected = [
        sum((s[k] * W[INDICES[k]] for k in range(a, b) if INDICES[k] != 1), np.zeros(3))
        for a, b in ((0, 2), (2, 2), (2, 5), (5, 7))
    ]
    np.testing.assert_allclose(call(t(W), t(s)).numpy(), expected)
    check_slopes(call, [W, s])


def test_one_hot() -> None:
    assert F.one_hot(t([1, 0])).tolist() == [[0, 1], [1, 0]]
    assert F.one_hot(t([[2]]), 4).tolist() == [[[0, 0, 1, 0]]]
    for call, text in (
        (lambda: F.one_hot(t([-1])), "non-negative"), (lambda: F.one_hot(t([3]), 2), "smaller than"),
        (lambda: F.one_hot(t(np.zeros(0, int))), "empty tensor"), (lambda: F.one_hot(t([1.0])), "LongTensor"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()


def test_refusals() -> None:
    for call, error, text in (
        (lambda: F.embedding(t([5]), t(W)), IndexError, "index out of range in self"),
        (lambda: F.embedding(t([0]), t(W), padding_idx=7), AssertionError, "within num_embeddings"),
        (
            lambda: F.embedding(t([0]), t(W).requires_grad_(), sparse=True),
            UnsupportedFunctionError,
            "sparse",
        ),
        (lambda: F.embedding_bag(t([0]), t(W)), ValueError, "offsets has to be a 1D Tensor"),
        (lambda: F.embedding_bag(t([9]), t(W), t([0])), RuntimeError, "found idx to be 9"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_functional_transforms_have_the_same_derivatives() -> None:
    for function in (
        lambda w: F.embedding(t(INDICES), w, padding_idx=1, scale_grad_by_freq=True).sum(),
        lambda w: (F.embedding_bag(t(INDICES), w, t(OFFSETS), mode="max") ** 2).sum(),
    ):
        w = t(W).requires_grad_()
        expected = torch.autograd.grad(function(w), w)[0]
        np.testing.assert_allclose(torch.func.grad(function)(t(W)).numpy(), expected.numpy())
