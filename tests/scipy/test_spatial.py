"""functrace.scipy.spatial.distance against SciPy, and its derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance

import functrace as ft
from functrace.errors import FunctraceError
from functrace.scipy.spatial import distance
from tests.oracles import differences

rng = np.random.default_rng(5)
X, Y, W = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.uniform(0.5, 2.0, 3)
WEIGHTED = [
    "euclidean",
    "sqeuclidean",
    "cityblock",
    "chebyshev",
    "minkowski",
    "cosine",
    "correlation",
    "braycurtis",
    "canberra",
]
METRICS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{
        name: (name, {})
        for name in [*WEIGHTED, "seuclidean", "mahalanobis", "cblock", "cos", "E", "mahal"]
    },
    **{f"{name}, weights": (name, {"w": W}) for name in WEIGHTED},
    "cubic": ("minkowski", {"p": 3.0}),
    "infinite": ("minkowski", {"p": np.inf}),
    "variances": ("seuclidean", {"V": W}),
    "inverse": ("mahalanobis", {"VI": np.diag(W)}),
    "SciPy's function": (scipy.spatial.distance.cityblock, {}),
    "a function": (lambda u, v: np.sum(np.abs(u - v) ** 1.5), {}),
}


def check(f: Callable[..., Any], own: Callable[..., Any], *args: Any) -> None:
    np.testing.assert_allclose(ft.jit(f)(*args), own(*args), rtol=1e-12, atol=1e-14)
    for k, arg in enumerate(args):
        direction = rng.normal(size=arg.shape)
        (expected,) = differences(
            lambda x, k=k: own(*args[:k], x, *args[k + 1 :]), [arg], [direction]
        )
        found = ft.jvp(lambda x, k=k: f(*args[:k], x, *args[k + 1 :]), (arg,), (direction,))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        cotangent = rng.normal(size=np.shape(expected))
        (back,) = ft.vjp(lambda x, k=k: f(*args[:k], x, *args[k + 1 :]), arg)[1](cotangent)
        np.testing.assert_allclose(np.sum(back * direction), np.sum(cotangent * found), rtol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", METRICS)
def test_distances(name: str) -> None:
    metric, options = METRICS[name]
    check(
        lambda x, y: distance.cdist(x, y, metric, **options),
        lambda x, y: scipy.spatial.distance.cdist(x, y, metric, **options),
        X,
        Y,
    )
    check(
        lambda x: distance.pdist(x, metric, **options),
        lambda x: scipy.spatial.distance.pdist(x, metric, **options),
        X,
    )


def test_squareform() -> None:
    pairs = scipy.spatial.distance.pdist(X)
    check(distance.squareform, scipy.spatial.distance.squareform, pairs)
    check(
        lambda x: distance.squareform(x + x.T - 2 * np.diag(np.diag(x))),
        lambda x: scipy.spatial.distance.squareform(
            x + x.T - 2 * np.diag(np.diag(x)), checks=False
        ),
        rng.normal(size=(4, 4)),
    )
    assert (
        ft.jit(distance.squareform)(np.zeros(0)).shape
        == scipy.spatial.distance.squareform(np.zeros(0)).shape
    )


def test_points_that_coincide() -> None:
    for metric in ("euclidean", "minkowski", "seuclidean", "mahalanobis"):
        options = {"seuclidean": {"V": W}, "mahalanobis": {"VI": np.eye(3)}}.get(metric, {})
        found = ft.grad(
            lambda x, metric=metric, options=options: np.sum(
                distance.cdist(x, X, metric, **options)
            )
        )(X)
        assert np.all(np.isfinite(found))


def test_unsupported_calls_raise() -> None:
    for f in (
        lambda x: distance.pdist(x[0]),
        lambda x: distance.pdist(x, "jaccard"),
        lambda x: distance.pdist(x, out=np.zeros(10)),
        lambda x: distance.squareform(x[0, :2]),
        lambda x: distance.squareform(x[0], force="tovector"),
    ):
        with pytest.raises(FunctraceError):
            ft.grad(lambda x, f=f: np.sum(f(x)))(X)


def test_names_are_scipys() -> None:
    assert distance.euclidean([0.0, 0.0], [3.0, 4.0]) == 5.0
    assert distance.jaccard.__doc__ == scipy.spatial.distance.jaccard.__doc__
    assert ft.scipy.spatial.KDTree is scipy.spatial.KDTree


def test_under_lift() -> None:
    f = lambda x: np.sum(np.exp(-scipy.spatial.distance.cdist(x, Y)))
    direction = rng.normal(size=X.shape)
    (expected,) = differences(f, [X], [direction])
    np.testing.assert_allclose(
        np.sum(ft.grad(ft.numpy.lift(f))(X) * direction), expected, rtol=1e-6
    )


@pytest.mark.parametrize(
    "name", ["braycurtis", "canberra", "cityblock", "correlation", "euclidean", "sqeuclidean"]
)
@pytest.mark.parametrize("namespace", [scipy.spatial.distance, distance], ids=["scipy", "ours"])
def test_metrics_are_passed_as_functions(name: str, namespace: Any) -> None:
    x, y = RNG_POINTS[:3], RNG_POINTS[3:]
    metric = getattr(namespace, name)
    expected = scipy.spatial.distance.cdist(x, y, name)
    np.testing.assert_allclose(ft.jit(lambda a: distance.cdist(a, y, metric))(x), expected)
    expected = scipy.spatial.distance.pdist(x, name)
    np.testing.assert_allclose(ft.jit(lambda a: distance.pdist(a, metric))(x), expected)


RNG_POINTS = np.random.default_rng(5).normal(size=(7, 3))
