"""Samples have their distribution: against SciPy's, with fixed keys, and by moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, DtypeError
from tests.random.families import FAMILIES, Family

stats = pytest.importorskip("scipy.stats")
rnd = ft.random
COUNT = 20_000
CONTINUOUS = [family for family in FAMILIES if family.like and family.smooth]
DISCRETE = [family for family in FAMILIES if family.like and not family.smooth]


def known(family: Family) -> Any:
    assert family.like is not None
    name, arguments = family.like
    return getattr(stats, name)(*arguments)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", CONTINUOUS, ids=lambda family: family.name)
@pytest.mark.parametrize("mapped", [False, True])
def test_continuous_distributions(family: Family, mapped: bool) -> None:
    if mapped:  # one number per key: split keys are independent, too
        drawn = ft.vmap(lambda key: family(key, shape=()))(rnd.split(rnd.key(2), COUNT // 4))
    else:
        drawn = family(rnd.key(1), shape=(COUNT,))
    assert np.all(np.isfinite(drawn))
    assert stats.kstest(drawn, known(family).cdf).pvalue > 0.01


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", CONTINUOUS, ids=lambda family: family.name)
def test_the_test_of_continuous_distributions_can_fail(family: Family) -> None:
    drawn = family(rnd.key(1), shape=(COUNT,))
    assert stats.kstest(drawn * 1.1 + 0.03, known(family).cdf).pvalue < 1e-4


@pytest.mark.parametrize("family", DISCRETE, ids=lambda family: family.name)
def test_discrete_distributions(family: Family) -> None:
    drawn = np.asarray(family(rnd.key(4), shape=(COUNT,))).astype(np.int64)
    values, counts = np.unique(drawn, return_counts=True)
    masses = known(family).pmf(values) * COUNT
    often = masses > 20
    rest, expected = COUNT - counts[often].sum(), COUNT - masses[often].sum()
    observed = [*counts[often], *([rest] if expected > 5 else [])]
    wanted = np.array([*masses[often], *([expected] if expected > 5 else [])])
    assert stats.chisquare(observed, wanted * (np.sum(observed) / wanted.sum())).pvalue > 0.01
    assert abs(drawn.mean() - known(family).mean()) < 4 * known(family).std() / np.sqrt(COUNT)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
@pytest.mark.parametrize(
    "name",
    ["uniform", "normal", "exponential", "gumbel", "logistic", "laplace", "cauchy", "maxwell"],
)
def test_dtypes(name: str, dtype: str) -> None:
    drawn = getattr(rnd, name)(rnd.key(0), (2000,), dtype)
    assert drawn.dtype == np.dtype(dtype)
    assert drawn.shape == (2000,)
    assert np.all(np.isfinite(drawn))
    scalar = getattr(rnd, name)(rnd.key(0), dtype=dtype)
    assert (scalar.shape, scalar.dtype, type(scalar)) == ((), np.dtype(dtype), np.dtype(dtype).type)
    assert getattr(rnd, name)(rnd.key(0), (2, 0, 3), dtype).shape == (2, 0, 3)
    if name == "uniform":
        assert 0 <= drawn.min() < 0.01
        assert 0.99 < drawn.max() < 1
    if name in ("normal", "exponential"):
        np.testing.assert_array_equal(drawn, getattr(rnd, name)(rnd.key(0), (2000,)).astype(dtype))


def test_complex_normal() -> None:
    drawn = rnd.normal(rnd.key(0), (COUNT,), np.complex64)
    assert drawn.dtype == np.complex64
    for part in (drawn.real, drawn.imag):
        assert stats.kstest(part, stats.norm(0, np.sqrt(0.5)).cdf).pvalue > 0.01
    assert abs(np.corrcoef(drawn.real, drawn.imag)[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits(dtype: str) -> None:
    drawn = rnd.bits(rnd.key(0), (COUNT,), dtype)
    size = np.iinfo(dtype).bits
    every = (drawn[:, None] >> np.arange(size, dtype=dtype)) & np.dtype(dtype).type(1)
    assert np.all(np.abs(every.mean(axis=0) - 0.5) < 4 * 0.5 / np.sqrt(COUNT))
    words = np.random.Philox(0).random_raw(COUNT * size // 64 + 1)
    for k in range(64 // size):  # the lowest bits of every word come first
        of_word = (words >> np.uint64(k * size)) & np.uint64(2**size - 1)
        np.testing.assert_array_equal(
            drawn[k :: 64 // size], of_word[: len(drawn[k :: 64 // size])].astype(dtype)
        )


def test_correlated_normal_vectors() -> None:
    covariance = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, -0.3], [0.0, -0.3, 0.5]])
    mean = np.array([1.0, -1.0, 0.0])
    for method in ("cholesky", "eigh", "svd"):
        drawn = rnd.multivariate_normal(rnd.key(0), mean, covariance, (COUNT,), method=method)
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.04)
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06)
        distance = np.einsum("ni,ij,nj->n", drawn - mean, np.linalg.inv(covariance), drawn - mean)
        assert stats.kstest(distance, stats.chi2(3).cdf).pvalue > 0.01
    stack = rnd.multivariate_normal(rnd.key(0), np.zeros((4, 1, 3)), np.stack([covariance] * 2))
    assert stack.shape == (4, 2, 3)


def test_dirichlet() -> None:
    alpha = np.array([0.3, 2.0, 1.1])
    drawn = rnd.dirichlet(rnd.key(0), alpha, (COUNT,))
    np.testing.assert_allclose(drawn.sum(axis=-1), 1.0, rtol=1e-12)
    for k in range(3):
        assert (
            stats.kstest(drawn[:, k], stats.beta(alpha[k], alpha.sum() - alpha[k]).cdf).pvalue
            > 0.01
        )
    tiny = rnd.dirichlet(
        rnd.key(0), np.full(4, 1e-4), (1000,)
    )  # as good as one of the corners, each as often
    np.testing.assert_allclose(tiny.sum(axis=-1), 1.0, rtol=1e-12)
    assert np.all(np.abs(np.sum(tiny > 0.5, axis=0) - 250) < 60)


@pytest.mark.parametrize("n, m", [(3, 3), (4, 2), (2, 4), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_orthogonal(n: int, m: int, dtype: Any) -> None:
    drawn = rnd.orthogonal(rnd.key(0), n, (500,), dtype, m)
    assert (drawn.shape, drawn.dtype) == ((500, n, m), np.dtype(dtype))
    least = min(n, m)
    gram = (
        np.matmul(np.conj(np.swapaxes(drawn, -1, -2)), drawn)
        if m <= n
        else np.matmul(drawn, np.conj(drawn.swapaxes(-1, -2)))
    )
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(least), gram.shape), atol=1e-5)
    assert np.all(
        np.abs(drawn.mean(axis=0)) < 0.2
    )  # without the signs of R, the diagonal would be one-sided


def test_points_of_balls() -> None:
    for p in (1.0, 2.0, 3.5):
        drawn = rnd.ball(rnd.key(0), 3, p, (COUNT,))
        radius = np.sum(np.abs(drawn) ** p, axis=-1) ** (1 / p)
        assert stats.kstest(radius**3, "uniform").pvalue > 0.01
        assert np.all(np.abs(drawn.mean(axis=0)) < 0.02)


def test_categories() -> None:
    logits = np.array([[0.0, 1.0, -np.inf, 2.0], [3.0, -np.inf, 0.0, 0.0]])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    drawn = rnd.categorical(rnd.key(0), logits, shape=(COUNT, 2))
    assert (drawn.shape, drawn.dtype) == ((COUNT, 2), np.int64)
    np.testing.assert_array_equal(rnd.categorical(rnd.key(0), logits.T, 0, (COUNT, 2)), drawn)
    first = rnd.categorical(rnd.key(1), logits[0], shape=(COUNT,))
    for row, found in ((p[0], drawn[:, 0]), (p[1], drawn[:, 1]), (p[0], first)):
        counts = np.bincount(found, minlength=4)
        assert counts[row == 0].sum() == 0
        assert stats.chisquare(counts[row > 0], row[row > 0] * COUNT).pvalue > 0.01


def without_replacement(p: Any, orders: Any) -> float:
    """The p-value of drawn ordered pairs against the exact probability of each pair."""
    pairs, counts = np.unique(orders, axis=0, return_counts=True)
    wanted = np.array([p[i] * p[j] / (1 - p[i]) for i, j in pairs])
    assert wanted.sum() == pytest.approx(1.0)
    return float(stats.chisquare(counts, wanted / wanted.sum() * len(orders)).pvalue)


def test_without_replacement() -> None:
    p = np.array([0.5, 0.2, 0.0, 0.3])
    keys = rnd.split(rnd.key(0), 4000)
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    drawn = ft.vmap(lambda key: rnd.categorical(key, logits, shape=(2,), replace=False))(keys)
    assert without_replacement(p, drawn) > 0.01
    drawn = ft.vmap(lambda key: rnd.choice(key, 4, (2,), replace=False, p=p))(keys)
    assert without_replacement(p, drawn) > 0.01
    drawn = ft.vmap(lambda key: rnd.choice(key, 4, (2,), replace=False))(keys)
    assert without_replacement(np.full(4, 0.25), drawn) > 0.01
    many = rnd.categorical(rnd.key(0), np.zeros((3, 5)), shape=(5, 3), replace=False)
    np.testing.assert_array_equal(
        np.sort(many, axis=0), np.repeat(np.arange(5)[:, None], 3, axis=1)
    )


def test_permutations() -> None:
    drawn = ft.vmap(lambda key: rnd.permutation(key, 4))(rnd.split(rnd.key(0), 4800))
    orders, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(counts).pvalue > 0.01
    things = np.arange(20).reshape(4, 5)
    together = rnd.permutation(rnd.key(0), things, axis=1)
    np.testing.assert_array_equal(together, things[:, together[0]])
    alone = rnd.permutation(rnd.key(0), things, axis=-1, independent=True)
    np.testing.assert_array_equal(np.sort(alone, axis=1), things)
    assert len(np.unique(alone - 5 * np.arange(4)[:, None], axis=0)) == 4


def test_choices_of_things() -> None:
    things = np.arange(24.0).reshape(2, 4, 3)
    drawn = rnd.choice(rnd.key(0), things, (5, 6), axis=1)
    assert drawn.shape == (2, 5, 6, 3)
    places = rnd.choice(rnd.key(0), 4, (5, 6))
    np.testing.assert_array_equal(drawn, things[:, places])
    assert rnd.choice(rnd.key(0), things).shape == (4, 3)
    assert rnd.choice(rnd.key(0), 0, (0,)).shape == (0,)


def test_bounds_of_integers() -> None:
    np.testing.assert_array_equal(
        np.unique(rnd.randint(rnd.key(0), (3000,), 0, 256, "uint8")), np.arange(256)
    )
    assert rnd.randint(rnd.key(0), (4,), 2**64 - 2, 2**64 - 1, "uint64").tolist() == [2**64 - 2] * 4
    for nothing in (np.uint64(0), np.int64(-(2**63)), np.array([3, 0])):
        with pytest.raises(ValueError):
            rnd.randint(rnd.key(0), (2,), 0, nothing)
    assert set(rnd.randint(rnd.key(0), (9, 2), np.array([0, 2**62]), 2**63).ravel() >= 0) == {True}
    whole = rnd.randint(rnd.key(0), (1000,), -(2**63), 2**63)
    assert whole.dtype == np.int64
    assert whole.min() < -(2**62) < 2**62 < whole.max()
    rows = rnd.randint(rnd.key(0), (1000, 3), np.array([0, 10, -5]), np.array([1, 12, 0]))
    assert [sorted(set(column)) for column in rows.T.tolist()] == [
        [0],
        [10, 11],
        [-5, -4, -3, -2, -1],
    ]


def test_small_shapes_stay_in_range() -> None:
    drawn = rnd.loggamma(rnd.key(0), 1e-4, (COUNT,))
    assert np.all(np.isfinite(drawn))
    # x**a is uniform where a is small
    assert stats.kstest(np.exp(drawn * 1e-4), "uniform").pvalue > 0.01
    mixed = rnd.loggamma(rnd.key(0), np.array([1e-3, 1.0, 50.0]))
    assert np.all(np.isfinite(mixed))
    assert np.all(rnd.beta(rnd.key(0), 1e-3, 1e-3, (1000,)) <= 1.0)
    assert rnd.gamma(rnd.key(0), 0.0) == 0.0


def test_odd_probabilities() -> None:
    logits = np.array([[0.0, np.inf, 5.0], [-np.inf, 2000.0, 1999.0]])
    drawn = rnd.categorical(rnd.key(0), logits, shape=(500, 2))
    assert set(drawn[:, 0]) == {1}
    assert set(drawn[:, 1]) == {1, 2}
    assert set(rnd.categorical(rnd.key(0), logits[0], shape=(500,))) == {1}
    for p in ([0.5, -0.1], [np.nan, 1.0], [0.0, 0.0], [np.inf, 1.0]):
        with pytest.raises(ArgumentError, match="not probabilities"):
            rnd.choice(rnd.key(0), 2, (3,), p=np.array(p))
    with np.errstate(divide="raise"):
        assert np.all(np.isfinite(rnd.gumbel(rnd.key(0), (10**6,), np.float16)))


@pytest.mark.parametrize("replace", [True, False])
def test_no_index_is_drawn_where_there_are_no_probabilities(replace: bool) -> None:
    good = np.zeros(3)
    for bad in ([0.0, np.nan, 0.0], [np.nan] * 3, [-np.inf] * 3, [-np.inf, np.nan, 1.0]):
        logits = np.array(bad)
        draw = lambda x: rnd.categorical(rnd.key(0), x, shape=(2,), replace=replace)
        rows = np.stack([good, logits])
        for run in (
            lambda draw=draw, logits=logits: draw(logits),
            lambda draw=draw, logits=logits: ft.jit(lambda x: draw(x))(logits),
            lambda draw=draw, rows=rows: ft.vmap(draw)(rows),
            lambda draw=draw, rows=rows: ft.jit(ft.vmap(draw))(rows),
            lambda draw=draw, logits=logits: ft.grad(lambda x: np.sum(x) * np.sum(draw(x)))(logits),
            lambda draw=draw, rows=rows: ft.map(draw, rows),
            lambda rows=rows: rnd.categorical(rnd.key(0), rows, shape=(2, 2), replace=replace),
        ):
            with pytest.raises(ValueError, match="logits are NaN, or all of them -inf"):
                run()
    for bad in ([0.5, -0.1, 0.1], [np.nan, 1.0, 0.0], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0]):
        with pytest.raises(ValueError, match="p is not probabilities"):
            ft.jit(lambda p: rnd.choice(rnd.key(0), 3, (2,), replace=replace, p=p))(np.array(bad))
    assert (
        ft.jit(lambda p: rnd.choice(rnd.key(0), 3, (4,), p=p))(np.array([0.0, 2.0, 0.0])).tolist()
        == [1] * 4
    )


def test_certain_events() -> None:
    assert rnd.geometric(rnd.key(0), 1.0, (5,)).tolist() == [1] * 5
    assert rnd.geometric(rnd.key(0), 1e-300) == 2**63 - 1024
    assert not rnd.bernoulli(rnd.key(0), 0.0, (1000,)).any()
    assert rnd.bernoulli(rnd.key(0), 1.0, (1000,)).all()
    assert rnd.poisson(rnd.key(0), 0.0) == 0
    np.testing.assert_array_equal(
        rnd.multinomial(rnd.key(0), np.array([5, 9]), np.array([0.0, 2.0, 0.0])),
        [[0, 5, 0], [0, 9, 0]],
    )


@pytest.mark.parametrize("draw", [ft.random.wald, ft.random.truncated_normal])
def test_long_double_is_refused_where_draws_are_in_double_precision(draw: Any) -> None:
    parameters = [np.array([1.0])] * (1 if draw is ft.random.wald else 2)
    for wrap in (lambda f: f, ft.jit):
        with pytest.raises(DtypeError, match="in double precision"):
            wrap(lambda key: draw(key, *parameters, dtype=np.longdouble))(ft.random.key(0))
