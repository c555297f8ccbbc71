"""Keys: independent of each other, and refused where they are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, FunctraceError, ShapeError

stats = pytest.importorskip("scipy.stats")
rnd = ft.random
KEY = rnd.key(0)


def test_a_key_is_that_of_numpys_philox() -> None:
    for seed in (0, 1, 12345, 2**32, 2**64 + 1, 10**40):
        key = rnd.key(seed)
        assert (key.shape, key.dtype) == ((2,), np.uint64)
        np.testing.assert_array_equal(key, np.random.Philox(seed).state["state"]["key"])
        if seed < 2**63:
            np.testing.assert_array_equal(ft.jit(rnd.key)(seed), key)
            np.testing.assert_array_equal(rnd.key(np.int64(seed)), key)
    np.testing.assert_array_equal(ft.vmap(rnd.key)(np.arange(3)), [rnd.key(k) for k in range(3)])


def families_of_keys() -> dict[str, Any]:
    count = 400
    return {
        "adjacent seeds": np.stack([rnd.key(seed) for seed in range(count)]),
        "split": rnd.split(KEY, count),
        "split of adjacent seeds": np.concatenate(
            [rnd.split(rnd.key(seed)) for seed in range(count // 2)]
        ),
        "fold_in": ft.vmap(rnd.fold_in, in_axes=(None, 0))(KEY, np.arange(count)),
        "fold_in of multiples": ft.vmap(rnd.fold_in, in_axes=(None, 0))(
            KEY, np.arange(count) * 2**32
        ),
        "chain": np.stack(list(chain(count))),
        "adjacent keys": np.stack([np.arange(count), np.zeros(count)], axis=1).astype(np.uint64),
    }


def chain(count: int) -> Any:
    """As a training loop splits off the key of every step."""
    key = KEY
    for _ in range(count):
        key, step = rnd.split(key)
        yield step


@pytest.mark.parametrize("name, keys", families_of_keys().items(), ids=families_of_keys())
def test_streams_are_independent(name: str, keys: Any) -> None:
    drawn = ft.vmap(lambda key: rnd.uniform(key, (64,)))(keys)
    assert len(np.unique(drawn)) == drawn.size
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 0.01
    assert stats.kstest(drawn[:, 0], "uniform").pvalue > 0.01
    normal = stats.norm.ppf(drawn)
    correlations = (
        np.corrcoef(normal)[np.triu_indices(len(keys), 1)] * 8.0
    )  # standard normal, nearly
    assert abs(correlations.std() - 1) < 0.02
    assert abs(correlations.mean()) < 0.02
    neighbours = np.sum(normal[1:] * normal[:-1], axis=1) / 8.0
    assert stats.kstest(neighbours, "norm").pvalue > 0.005


def test_new_keys_are_uniform_bits() -> None:
    for keys in (
        rnd.split(KEY, 5000),
        ft.vmap(rnd.fold_in, in_axes=(None, 0))(KEY, np.arange(5000)),
    ):
        bits = (keys[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(5000))
        assert stats.kstest((keys[:, 0] >> np.uint64(11)) * 2.0**-53, "uniform").pvalue > 0.01


def test_samples_and_split_keys_are_disjoint() -> None:
    words = rnd.bits(KEY, (10_000,))
    made = np.concatenate(
        [rnd.split(KEY, 1000).ravel(), *[rnd.fold_in(KEY, k) for k in range(100)]]
    )
    assert len(np.unique(np.concatenate([words, made, KEY]))) == words.size + made.size + 2


def test_split_and_fold_in() -> None:
    np.testing.assert_array_equal(rnd.split(KEY, 7)[:3], rnd.split(KEY, 3))
    assert rnd.split(KEY).shape == (2, 2)
    np.testing.assert_array_equal(rnd.split(KEY, (2, 3)), rnd.split(KEY, 6).reshape(2, 3, 2))
    assert rnd.split(KEY, 0).shape == (0, 2)
    expected = rnd.fold_in(KEY, 7)
    for seven in (np.int32(7), np.uint8(7), np.array(7), np.uint64(7)):
        np.testing.assert_array_equal(rnd.fold_in(KEY, seven), expected)
    np.testing.assert_array_equal(ft.jit(rnd.fold_in)(KEY, 7), expected)
    np.testing.assert_array_equal(rnd.fold_in(KEY, -1), rnd.fold_in(KEY, 2**64 - 1))
    np.testing.assert_array_equal(rnd.fold_in(KEY, np.int32(-1)), rnd.fold_in(KEY, -1))
    assert not np.array_equal(rnd.fold_in(KEY, True), rnd.fold_in(KEY, False))


def test_keys_of_any_layout() -> None:
    keys = np.asfortranarray(rnd.split(KEY, 3))
    np.testing.assert_array_equal(rnd.normal(keys[1], (3,)), rnd.normal(keys[1].copy(), (3,)))
    before = KEY.copy()
    rnd.normal(KEY, (5,))
    np.testing.assert_array_equal(KEY, before)
    shared = rnd.uniform(KEY, (3,))
    shared[:] = 0.0
    assert rnd.uniform(KEY, (3,)).all()


BAD: dict[str, tuple[Callable[[], Any], type[FunctraceError], str]] = {
    "an int": (lambda: rnd.normal(0, (3,)), DtypeError, r"random.normal: the key is 0\n[\s\S]*make one of a seed"),  # type: ignore[arg-type]
    "None": (lambda: rnd.normal(None, (3,)), DtypeError, "the key is None"),  # type: ignore[arg-type]
    "a Generator": (lambda: rnd.uniform(np.random.default_rng(0)), DtypeError, "the key is a Generator"),  # type: ignore[arg-type]
    "a list": (lambda: rnd.normal([1, 2]), DtypeError, "the key is a list"),  # type: ignore[arg-type]
    "floats": (lambda: rnd.normal(np.zeros(2)), DtypeError, r"f64\[2\], not two uint64"),
    "signed": (lambda: rnd.split(np.zeros(2, np.int64)), DtypeError, "not two uint64"),
    "jax's words": (lambda: rnd.normal(np.zeros(2, np.uint32)), DtypeError, "not two uint64"),
    "several": (lambda: rnd.normal(rnd.split(KEY)), ShapeError,
    r"several keys[\s\S]*functrace.vmap"),
    "three words": (lambda: rnd.normal(np.zeros(3, np.uint64)), ShapeError, "not two uint64"),
    "one word": (lambda: rnd.normal(np.uint64(3)), DtypeError, "the key is a uint64"),  # type: ignore[arg-type]
    "swapped": (lambda: rnd.normal((3,), KEY), DtypeError, "the key is a tuple"),  # type: ignore[arg-type]
    "a key as an int": (lambda: rnd.key(KEY), ShapeError, "not one integer"),
    "a float seed": (lambda: rnd.key(0.5), DtypeError, "not an integer"),  # type: ignore[arg-type]
    "a negative seed": (lambda: rnd.key(-1), ArgumentError, "negative"),
    "no data": (lambda: rnd.fold_in(KEY, 1.5), DtypeError, "not an integer"),
    "several data": (lambda: rnd.fold_in(KEY, np.arange(3)), ShapeError, r"in_axes=\(None, 0\)"),
    "large data": (lambda: rnd.fold_in(KEY, 2**64), ArgumentError, "more than 64 bits"),
    "a negative size": (lambda: rnd.normal(KEY, (-1,)), ShapeError, "negative sizes"),
    "no shape": (lambda: rnd.normal(KEY, (2.5,)), ShapeError, "not a tuple of integers"),  # type: ignore[arg-type]
    "an integer dtype": (lambda: rnd.normal(KEY, (), int), DtypeError, "does not draw int64"),
    "a complex dtype": (lambda: rnd.uniform(KEY, (), complex), DtypeError,
    "does not draw complex128"),
    "signed bits": (lambda: rnd.bits(KEY, (), int), DtypeError, "random.randint"),
    "complex parameters": (lambda: rnd.gamma(KEY, 1j), DtypeError, r"a parameter is c128\[\]"),
    "shapes that do not fit": (lambda: rnd.beta(KEY, np.ones(3), np.ones(2)), ShapeError,
    "do not broadcast"),
    "a shape that does not fit": (lambda: rnd.gamma(KEY, np.ones(3), (2,)), ShapeError,
    "do not broadcast to"),
    "a parameter of more axes": (lambda: rnd.uniform(KEY, (3,), minval=np.zeros((2, 3))),
    ShapeError, "do not broadcast to"),
    "float bounds": (lambda: rnd.randint(KEY, (), 0.0, 3.0), DtypeError, "not integers"),
    "far bounds": (lambda: rnd.randint(KEY, (), 0, 2**64), ArgumentError, "more than 64 bits"),
    "too few": (lambda: rnd.choice(KEY, 3, (4,), replace=False), ShapeError,
    "4 draws without replacement from 3"),
    "nothing": (lambda: rnd.choice(KEY, 0, (2,)), ShapeError, "nothing to choose from"),
    "p that does not fit": (lambda: rnd.choice(KEY, 3, (2,), p=np.ones(2)), ShapeError,
    "one per element"),
    "a scalar to choose from": (lambda: rnd.choice(KEY, 2.5), ShapeError, "a scalar"),
    "a scalar to permute": (lambda: rnd.permutation(KEY, 2.5), ShapeError, "a scalar"),
    "scalar logits": (lambda: rnd.categorical(KEY, 0.5), ShapeError, "a scalar"),
    "no logits": (lambda: rnd.categorical(KEY, np.zeros(0)), ShapeError, "no categories"),
    "a scalar alpha": (lambda: rnd.dirichlet(KEY, 0.5), ShapeError, "a scalar"),
    "a covariance that does not fit": (lambda: rnd.multivariate_normal(KEY, np.zeros(2),
    np.eye(3)), ShapeError, "n, n"),
    "no method": (lambda: rnd.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="lu"), ArgumentError, "'lu'"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_misuse_raises(name: str) -> None:
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "test_keys.py" in str(caught.value)
    assert "fix: " in str(caught.value)


@pytest.mark.parametrize("draw", [
    lambda a: rnd.gamma(KEY, a), lambda a: rnd.poisson(KEY, a), lambda a: rnd.wald(KEY, a),
    lambda a: rnd.randint(KEY, (), 0, a.astype(int)), lambda a: rnd.binomial(KEY, 3, a),
    lambda a: rnd.binomial(KEY, a, 0.5),
])  # fmt: skip
def test_parameters_that_numpy_refuses_raise(draw: Any) -> None:
    for call in (draw, ft.jit(draw), lambda a: ft.grad(lambda a: draw(a) * 1.0)(a)):
        with pytest.raises(ValueError):
            call(np.float64(-2.0))


def test_a_key_has_no_derivative() -> None:
    with pytest.raises(FunctraceError):
        ft.grad(lambda key: rnd.normal(key))(KEY)
    assert ft.grad(lambda x, key: x * rnd.normal(key))(2.0, KEY) == rnd.normal(KEY)
    assert ft.jit(ft.grad(lambda x, key: x * rnd.normal(key)))(2.0, KEY) == rnd.normal(KEY)


def test_names() -> None:
    assert sorted(rnd.__all__) == rnd.__all__
    assert all(getattr(rnd, name).__doc__ for name in rnd.__all__)
    assert "random" in dir(ft)
