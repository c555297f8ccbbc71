"""Losses: values against NumPy's formulas, derivatives against differences, reductions, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
RNG = np.random.default_rng(4)
X, Y = RNG.uniform(-2, 2, (3, 4)), RNG.uniform(-2, 2, (3, 4))
P = RNG.uniform(0.1, 0.9, (3, 4))
LABELS = np.array([0, 3, 1])
SIGNS = np.sign(Y)
D = X - Y
LOGS = X - np.log(np.exp(X).sum(1, keepdims=True))


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


EXPECTED = {
    "mse_loss": ((X, Y), D**2), "l1_loss": ((X, Y), abs(D)),
    "smooth_l1_loss": ((X, Y), np.where(abs(D) < 1, D**2 / 2, abs(D) - 0.5)),
    "huber_loss": ((X, Y), np.where(abs(D) < 1, D**2 / 2, abs(D) - 0.5)),
    "kl_div": ((X, P), P * (np.log(P) - X)), "soft_margin_loss": ((X, SIGNS), np.log1p(np.exp(-SIGNS * X))),
    "binary_cross_entropy": ((P, P[::-1]), -(P[::-1] * np.log(P) + (1 - P[::-1]) * np.log(1 - P))),
    "binary_cross_entropy_with_logits": ((X, P), np.log1p(np.exp(X)) - X * P),
    "poisson_nll_loss": ((X, P), np.exp(X) - P * X),
    "gaussian_nll_loss": ((X, Y, P), (np.log(P) + D**2 / P) / 2),
    "hinge_embedding_loss": ((X, SIGNS), np.where(SIGNS == 1, X, np.maximum(0, 1 - X))),
    "margin_ranking_loss": ((X, Y, SIGNS), np.maximum(0, -SIGNS * D)),
    "nll_loss": ((LOGS, LABELS), -LOGS[range(3), LABELS]),
    "cross_entropy": ((X, LABELS), -LOGS[range(3), LABELS]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", EXPECTED)
def test_losses_are_numpys_in_every_reduction(name: str) -> None:
    operands, expected = EXPECTED[name]
    function = getattr(F, name)
    given = [t(x) for x in operands]
    for reduction, value in (
        ("none", expected),
        ("sum", expected.sum()),
        ("mean", expected.mean()),
    ):
        found = function(*given, reduction=reduction).numpy()
        np.testing.assert_allclose(found, value, rtol=1e-10)
    with pytest.raises(ValueError, match="not"):
        function(*given, reduction="median")


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", EXPECTED)
def test_losses_have_the_slopes_of_differences(name: str) -> None:
    operands, _ = EXPECTED[name]
    floats = [x for x in operands if x.dtype.kind == "f" and x is not SIGNS]
    rest = [t(x) for x in operands[len(floats) :]]
    check_slopes(
        lambda *xs: getattr(F, name)(*xs, *rest), floats if name != "kl_div" else [floats[0], P]
    )


def test_cross_entropy_smooths_weighs_and_ignores() -> None:
    weight = np.array([0.5, 1.0, 2.0, 0.3])
    for smoothing in (0.0, 0.2):
        targets = np.eye(4)[LABELS] * (1 - smoothing) + smoothing / 4
        full = -(targets * weight * LOGS).sum(1)
        found = F.cross_entropy(t(X), t(LABELS), t(weight), label_smoothing=smoothing).numpy()
        np.testing.assert_allclose(found, full.sum() / weight[LABELS].sum(), rtol=1e-10)
        found = F.cross_entropy(
            t(X), t(np.eye(4)[LABELS]), t(weight), label_smoothing=smoothing, reduction="none"
        )
        np.testing.assert_allclose(found.numpy(), full, rtol=1e-10)
    ignored = np.array([0, -100, 1])
    kept = -LOGS[[0, 2], [0, 1]]
    np.testing.assert_allclose(F.cross_entropy(t(X), t(ignored)).numpy(), kept.mean())
    check_slopes(lambda x: F.cross_entropy(x, t(ignored), label_smoothing=0.3), [X])
    images = RNG.uniform(-1, 1, (2, 4, 3, 2))
    places = RNG.integers(0, 4, (2, 3, 2))
    flat = F.cross_entropy(t(np.moveaxis(images, 1, 3).reshape(-1, 4)), t(places.reshape(-1)))
    np.testing.assert_allclose(F.cross_entropy(t(images), t(places)).numpy(), flat.numpy())


def test_older_arguments_warn() -> None:
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert float(F.mse_loss(t(X), t(Y), size_average=False)) == pytest.approx((D**2).sum())


def test_binary_cross_entropy_is_finite_at_its_ends() -> None:
    x = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    loss = F.binary_cross_entropy(x, t([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert loss.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, -1e12, 1e12]


def test_losses_of_margins_and_triplets() -> None:
    gaps = np.maximum(0, 1 - X[range(3), LABELS][:, None] + X)
    gaps[range(3), LABELS] = 0
    np.testing.assert_allclose(
        F.multi_margin_loss(t(X), t(LABELS), reduction="none").numpy(), gaps.mean(1)
    )
    check_slopes(lambda x: F.multi_margin_loss(x, t(LABELS), p=2), [X])
    labels = np.array([[0, 2, -1, 1], [1, -1, 0, 0], [3, 2, 1, 0]])
    expected = []
    for row, marks in zip(X, labels, strict=True):
        own = list(itertools.takewhile(lambda k: k >= 0, marks))
        rest = [k for k in range(4) if k not in own]
        expected.append(sum(max(0, 1 - (row[a] - row[b])) for a in own for b in rest) / 4)
    found = F.multilabel_margin_loss(t(X), t(labels), reduction="none").numpy()
    np.testing.assert_allclose(found, expected)
    near, apart = (np.sqrt(((X - Z + 1e-6) ** 2).sum(1)) for Z in (Y, P))
    found = F.triplet_margin_loss(t(X), t(Y), t(P), reduction="none").numpy()
    np.testing.assert_allclose(found, np.maximum(0, near - apart + 1))
    check_slopes(lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True), [X, Y, P])
    check_slopes(lambda x, y: F.cosine_embedding_loss(x, y, t([1.0, -1.0, 1.0]), 0.1), [X, Y])


def test_ctc_loss_sums_over_all_alignments() -> None:
    logs = RNG.uniform(-1, 1, (4, 1, 3))
    logs -= np.log(np.exp(logs).sum(2, keepdims=True))
    for labels in ([1], [1, 2], [1, 1], []):
        total = 0.0
        for path in itertools.product(range(3), repeat=4):
            joined = [k for k, _ in itertools.groupby(path)]
            if [k for k in joined if k] == labels:
                total += math.exp(sum(logs[s, 0, k] for s, k in enumerate(path)))
        row = np.array([labels], np.int64).reshape(1, -1)
        found = F.ctc_loss(t(logs), t(row), (4,), (len(labels),), reduction="sum")
        assert float(found) == pytest.approx(-math.log(total))
    check_slopes(lambda x: F.ctc_loss(x, t([[1, 2]]), (4,), (2,)), [logs])
    assert float(F.ctc_loss(t(logs), t([[1, 1]]), (2,), (2,), zero_infinity=True)) == 0.0


def test_refusals() -> None:
    x, y = t(X), t(Y)
    for call, error, text in (
        (lambda: F.cross_entropy(x, t([0, 1])), ValueError, r"input batch_size \(3\)"),
        (lambda: F.cross_entropy(x, t([0, 1, 9])), IndexError, "Target 9 is out of bounds"),
        (lambda: F.cross_entropy(x, y, ignore_index=1), RuntimeError, "ignore_index is not"),
        (lambda: F.cross_entropy(x, t([0, 1, 2]), label_smoothing=2.0), RuntimeError, "Got: 2"),
        (lambda: F.binary_cross_entropy(x, y), RuntimeError, "between 0 and 1"),
        (lambda: F.huber_loss(x, y, delta=0), RuntimeError, "non-positive"),
        (lambda: F.triplet_margin_loss(x, y, x, margin=-1), ValueError, "greater than 0"),
        (lambda: F.mse_loss(x, y, weight=y[:1]), ValueError, "same size"),
    ):
        with pytest.raises(error, match=text):
            call()
