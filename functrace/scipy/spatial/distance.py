"""``scipy.spatial.distance`` for traced values: distances between all pairs of points, and their
matrix.

Distances between two points (``euclidean(u, v)`` …) are SciPy's own, which are implemented in
NumPy.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.spatial.distance

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import arrayed
from functrace.scipy.dispatch import on_traced, scipys
from functrace.scipy.kinds import Given, Numbers
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    import jaxtyping  # its import hook, which has the shapes checked, imports it into the module

    from functrace.numpy.arrays.traced_array import TracedArray

    Values: TypeAlias = Array | np.generic | TracedArray
else:
    Values: TypeAlias = Array  # of which NumPy's scalars and traced values are instances

Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...]
"""Python numbers, and nested lists, which may contain traced values: no shape to check."""
Metric: TypeAlias = Callable[..., Any]


def _root(x: Numbers) -> Any:
    """The square root with derivative 0 at 0: for the distance of a point to itself."""
    return np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0)


def _squared(d: Numbers, w: Numbers) -> Any:
    return np.sum(d * d if w is None else w * d * d, axis=-1)


def _minkowski(x: Numbers, y: Numbers, p: float = 2.0, w: Numbers = None) -> Any:
    if p == np.inf:
        return _chebyshev(x, y, w)
    terms = np.abs(x - y)
    total = np.sum(terms**p if w is None else w * terms**p, axis=-1)
    return np.where(total > 0, np.where(total > 0, total, 1.0) ** (1.0 / p), 0.0)


def _chebyshev(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return np.max(np.abs(x - y) if w is None else np.where(w > 0, np.abs(x - y), 0.0), axis=-1)


def _mean(x: Numbers, w: Numbers) -> Any:
    return (
        np.mean(x, axis=-1, keepdims=True)
        if w is None
        else np.sum(w * x, axis=-1, keepdims=True) / np.sum(w)
    )


def _cosine(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    w = 1.0 if w is None else w
    lengths = np.sqrt(np.sum(w * x * x, axis=-1)) * np.sqrt(np.sum(w * y * y, axis=-1))
    return 1.0 - np.sum(w * x * y, axis=-1) / lengths


def _canberra(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    below = np.abs(x) + np.abs(y)
    terms = np.where(below > 0, np.abs(x - y) / np.where(below > 0, below, 1.0), 0.0)
    return np.sum(terms if w is None else w * terms, axis=-1)


def _weighted(x: Numbers, w: Numbers) -> Any:
    return np.sum(x if w is None else w * x, axis=-1)


def _mahalanobis(x: Numbers, y: Numbers, VI: Numbers) -> Any:
    d = x - y
    return _root(np.sum(np.matmul(d, VI) * d, axis=-1))


def _euclidean(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return _root(_squared(x - y, w))


def _sqeuclidean(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return _squared(x - y, w)


def _cityblock(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return _weighted(np.abs(x - y), w)


def _seuclidean(x: Numbers, y: Numbers, V: Numbers) -> Any:
    return _root(np.sum((x - y) ** 2 / V, axis=-1))


def _correlation(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return _cosine(x - _mean(x, w), y - _mean(y, w), w)


def _braycurtis(x: Numbers, y: Numbers, w: Numbers = None) -> Any:
    return _weighted(np.abs(x - y), w) / _weighted(np.abs(x + y), w)


_METRICS: dict[str, Metric] = {
    "euclidean": _euclidean,
    "sqeuclidean": _sqeuclidean,
    "cityblock": _cityblock,
    "chebyshev": _chebyshev,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "mahalanobis": _mahalanobis,
    "cosine": _cosine,
    "correlation": _correlation,
    "braycurtis": _braycurtis,
    "canberra": _canberra,
}
_ALIASES = {
    **dict.fromkeys(("euclid", "eu", "e"), "euclidean"),
    **dict.fromkeys(("sqe", "sqeuclid"), "sqeuclidean"),
    **dict.fromkeys(("cblock", "cb", "c"), "cityblock"),
    **dict.fromkeys(("chebychev", "chebyshev", "cheby", "cheb", "ch"), "chebyshev"),
    **dict.fromkeys(("mi", "m", "pnorm"), "minkowski"),
    **dict.fromkeys(("cos",), "cosine"),
    **dict.fromkeys(("co",), "correlation"),
    **dict.fromkeys(("se", "s"), "seuclidean"),
    **dict.fromkeys(("mahal", "mah"), "mahalanobis"),
}


def _points(x: Values | Nested, name: str) -> Any:
    made: Any = arrayed(x)
    if made.ndim != 2:
        raise ShapeError(
            f"{name} must be a 2-dimensional array of points, got shape {made.shape}",
            fix="a row per point",
        )
    return made if made.dtype.kind == "f" else made.astype(np.float64)


def _distance(metric: Given, given: dict[str, Any], points: list[Any]) -> Metric:
    """Return a metric along the last axis; its default parameters come from the points."""
    if callable(metric):
        if _is_foreign(metric):
            return functools.partial(metric, **given)
        metric = metric.__name__
    name = _ALIASES.get(str(metric).lower(), str(metric).lower())
    if name not in _METRICS:
        raise UnsupportedFunctionError(
            f"the metric {metric!r} has no implementation on traced points",
            fix=f"take one of {', '.join(_METRICS)}, or a function of two points",
        )
    if name == "seuclidean" and given.get("V") is None:
        given = {**given, "V": np.var(np.concatenate(points), axis=0, ddof=1)}
    if name == "mahalanobis" and given.get("VI") is None:
        given = {**given, "VI": np.linalg.inv(np.cov(np.concatenate(points).T)).T}
    return functools.partial(_METRICS[name], **given)


def _given(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    if kwargs.pop("out", None) is not None:
        raise UnsupportedFunctionError(
            f"{name} of traced points has no out=", fix="use the returned value"
        )
    return {key: value for key, value in kwargs.items() if value is not None}


@on_traced(scipy.spatial.distance.cdist)
def cdist(
    XA: jaxtyping.Shaped[Values, "m d"] | Nested,
    XB: jaxtyping.Shaped[Values, "n d"] | Nested,
    metric: Given = "euclidean",
    *,
    out: Given = None,
    **kwargs: Given,
) -> jaxtyping.Shaped[Array, "m n"]:
    """Distances between the points of two sets, like ``scipy.spatial.distance.cdist``.

    Args:
        XA: points of the first set, shape (m, d).
        XB: points of the second set, shape (n, d).
        metric: name of a metric: braycurtis, canberra, chebyshev, cityblock, correlation, cosine,
            euclidean, mahalanobis, minkowski, seuclidean, sqeuclidean; or a function of two points,
            shape (d,), that returns a number.
        out: must be left out.
        kwargs: parameters of the metric: p of minkowski; w, weights of shape (d,); V, variances of
            shape (d,), of seuclidean; VI, the inverse covariance, shape (d, d), of mahalanobis.
            They may be traced. V and VI are estimated from the points by default.

    Returns:
        distances, shape (m, n), floating.

    Raises:
        ShapeError: if points are not rows of a matrix.
        UnsupportedFunctionError: if out is given, or the metric is another one of SciPy's.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy.spatial import distance
        >>> ft.jit(distance.cdist)(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
        array([[5., 1.]])

    Source: ``scipy.spatial.distance.cdist``; the derivative of a distance 0 is taken as 0.
    """
    x, y = _points(XA, "XA"), _points(XB, "XB")
    given = _given({**kwargs, "out": out}, "cdist")
    between = _distance(metric, given, [x, y])
    if callable(metric) and _is_foreign(metric):
        return np.stack([np.stack([between(one, other) for other in y]) for one in x])
    return between(x[:, None, :], y[None, :, :])


@on_traced(scipy.spatial.distance.pdist)
def pdist(
    X: jaxtyping.Shaped[Values, "n d"] | Nested,
    metric: Given = "euclidean",
    *,
    out: Given = None,
    **kwargs: Given,
) -> jaxtyping.Shaped[Array, "pairs"]:
    """Distances between all pairs of points of a set, like ``scipy.spatial.distance.pdist``; the
    derivative of a distance 0 is taken as 0.

    Args:
        X: points, shape (n, d).
        metric: name of a metric: braycurtis, canberra, chebyshev, cityblock, correlation, cosine,
            euclidean, mahalanobis, minkowski, seuclidean, sqeuclidean; or a function of two points,
            shape (d,), that returns a number.
        out: must be left out.
        kwargs: parameters of the metric: p of minkowski; w, weights of shape (d,); V, variances of
            shape (d,), of seuclidean; VI, the inverse covariance, shape (d, d), of mahalanobis.
            They may be traced. V and VI are estimated from the points by default.

    Returns:
        distances of the pairs (0, 1), (0, 2) … (n - 2, n - 1), shape (n (n - 1) / 2,), floating;
        `squareform` makes a matrix of them.

    Raises:
        ShapeError: if points are not rows of a matrix.
        UnsupportedFunctionError: if out is given, or the metric is another one of SciPy's.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy.spatial import distance
        >>> points = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
        >>> np.round(ft.jit(lambda p: distance.pdist(p, "cityblock"))(points), 4)
        array([7., 1., 6.])
    """
    x = _points(X, "X")
    between = _distance(metric, _given({**kwargs, "out": out}, "pdist"), [x])
    first, second = np.triu_indices(x.shape[0], 1)
    if callable(metric) and _is_foreign(metric):
        return np.stack(
            [between(x[i], x[j]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
        )
    return between(x[first], x[second])


def _is_foreign(metric: Given) -> bool:
    """Return True for a function that is no metric of SciPy's, also as this module returns it."""
    name = getattr(metric, "__name__", "")
    own = getattr(metric, "__wrapped__", metric)
    return name not in _METRICS or getattr(scipy.spatial.distance, name) is not own


@on_traced(scipy.spatial.distance.squareform)
def squareform(
    X: jaxtyping.Shaped[Values, "pairs"] | jaxtyping.Shaped[Values, "n n"] | Nested,
    force: str = "no",
    checks: bool = True,
) -> jaxtyping.Shaped[Array, "pairs"] | jaxtyping.Shaped[Array, "n n"]:
    """Symmetric matrix of distances between pairs, and back, like
    ``scipy.spatial.distance.squareform``.

    Args:
        X: distances of pairs, shape (n (n - 1) / 2,), in the order of `pdist`; or a symmetric
            matrix with zeros on its diagonal, shape (n, n).
        force: "tomatrix" or "tovector" to raise for an argument of the other kind; "no" for either.
        checks: accepted for SciPy's signature; traced values are not checked for symmetry.

    Returns:
        the matrix, shape (n, n), or the distances above its diagonal, shape (n (n - 1) / 2,); in
        the dtype of X.

    Raises:
        ShapeError: if X has another number of axes than one or two, or than force says, or no
            number of pairs of points.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy.spatial import distance
        >>> ft.jit(distance.squareform)(np.array([5.0, 1.0, 4.0]))
        array([[0., 5., 1.],
               [5., 0., 4.],
               [1., 4., 0.]])
    """
    x: Numbers = arrayed(X)
    if x.ndim == 1 and force.lower() not in ("tomatrix", "no"):
        raise ShapeError("squareform: force='tovector' takes a matrix", fix="leave force out")
    if x.ndim == 2 and force.lower() == "tomatrix":
        raise ShapeError("squareform: force='tomatrix' takes a vector", fix="leave force out")
    if x.ndim == 2:
        first, second = np.triu_indices(x.shape[0], 1)
        return x[first, second]
    if x.ndim != 1:
        raise ShapeError(
            f"squareform takes a vector or a matrix, got shape {x.shape}",
            fix="pass what pdist returns",
        )
    n = int(np.ceil(np.sqrt(x.size * 2)))
    if n * (n - 1) != 2 * x.size:
        raise ShapeError(
            f"squareform: {x.size} is no number of pairs of points", fix="pass what pdist returns"
        )
    if not x.size:
        return np.zeros((1, 1), x.dtype)
    first, second = np.triu_indices(n, 1)
    places = np.zeros((n, n), np.intp)
    places[first, second] = places[second, first] = np.arange(x.size)
    return np.where(np.eye(n, dtype=bool), np.zeros((), x.dtype), x[places])


def __getattr__(name: str) -> Any:
    return scipys(scipy.spatial.distance, name)


def __dir__() -> list[str]:
    return dir(scipy.spatial.distance)
