"""Cases of histograms and counts, functions that call the user's, unwrap, i0, quantiles with
weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw

A = np.array([0.3, 1.2, -0.7, 2.1, 0.9, 1.25])
W = np.array([0.5, 1.5, 2.0, 1.0, 0.25, 3.0])
EDGES = np.array([-1.0, 0.0, 1.0, 2.5])
_EDGE: tuple[tuple[Any, ...], ...] = (
    (np.arange(5),), (np.zeros(0),), (np.ones(3),), (A.astype(np.float32),), (np.array([1, 1, 2],
    np.int8),),
    (np.array([[1.0, 2.0], [3.0, 4.0]]),),
)  # fmt: skip

HISTOGRAMS = [
    Case("histogram", lambda a: np.histogram(a), (A,), edge=_EDGE,
         raises=(((np.array([np.nan, 1.0]),), ValueError), ((np.array([np.inf, 1.0]),),
         ValueError))),
    Case("histogram/density", lambda a: np.histogram(a, 4, density=True), (A,), edge=_EDGE[2:]),
    Case("histogram/weights", lambda a, w: np.histogram(a, 4, weights=w), (A, W), diff=(0, 1),
         edge=((A, np.arange(6)), (A, W + 1j), (A, W.astype(np.float32)), (A, W > 1)),
         raises=(((A, W[1:]), ValueError),)),
    Case("histogram/weights and density", lambda a, w: np.histogram(a, 3, weights=w, density=True),
    (A, W), diff=(0, 1)),
    Case("histogram/range", lambda a, w: np.histogram(a, 3, range=(0.0, 2.0), weights=w), (A, W),
    diff=(0, 1),
         edge=((np.array([0.0, 2.0, np.nan, 3.0]), np.ones(4)),)),
    Case("histogram/bad range", lambda a: np.histogram(a, 3, (a[0], a[1])), (A,), diff=(),
         raises=(((np.array([2.0, 1.0]),), ValueError),)),
    Case("histogram/edges", lambda a: np.histogram(a, EDGES, density=True), (A,), edge=((EDGES,),
    (np.array([np.nan, 2.5]),))),
    Case("histogram/traced edges", lambda a, e, w: np.histogram(a, e, density=True, weights=w), (A,
    EDGES, W), diff=(0, 1, 2),
         edge=((A, np.array([0.0, 1.0, 1.0]), W), (A, np.array([0, 1, 2]), np.arange(6))),
         raises=(((A, np.array([1.0, 0.0]), W), ValueError),)),
    *(Case(f"histogram/{bins}", lambda a, bins=bins: np.histogram(a, bins), (A,), vmap=False,
    edge=((np.arange(9),),))
      for bins in ("auto", "sturges", "sqrt")),
    Case("histogram/bad bins", lambda a: np.histogram(a, 0 if a.size > 2 else 2), (A[:1],),
    diff=(), vmap=False, order=0,
         raises=(((A,), ValueError),)),
    Case("histogram_bin_edges", lambda a: np.histogram_bin_edges(a, 4), (A,), edge=_EDGE),
    Case("histogram2d", lambda x, y: np.histogram2d(x, y, [2, 3], density=True), (A, W), diff=(0,
    1),
         raises=(((A, W[1:]), ValueError),)),
    Case("histogram2d/weights", lambda x, y, w: np.histogram2d(x, y, 3, weights=w, range=[(-1, 3),
    (0, 2.5)])[0],
         (A, W, draw(6)), diff=(0, 1, 2)),
    Case("histogram2d/edges", lambda x, y: np.histogram2d(x, y, [EDGES, 2]), (A, W), diff=(0, 1)),
    Case("histogram2d/same edges", lambda x, y: np.histogram2d(x, y, EDGES), (A, W + 0.01),
    diff=(0, 1)),
    Case("histogramdd", lambda s: np.histogramdd(s, (2, 3, EDGES), density=True), (draw(6, 3),),
         edge=((np.arange(6).reshape(2, 3),),)),
    Case("histogramdd/weights", lambda s, w: np.histogramdd(s, 2, weights=w), (draw(6, 2), W),
    diff=(0, 1)),
    Case("histogramdd/bad", lambda s: np.histogramdd(s, (2, 3)), (draw(4, 2),), raises=(((draw(4,
    3),), ValueError),)),
    Case("bincount", lambda w: np.bincount([0, 2, 2, 1, 5, 0], w), (W,), edge=((np.arange(6),),
    (W.astype(np.float32),)),
         raises=(((W[1:],), ValueError), ((W + 1j,), TypeError))),
    Case("bincount/minlength", lambda w: np.bincount(np.array([0, 2, 2, 1]), w, 6), (W[:4],)),
    Case("bincount/traced", lambda x, w: np.bincount(x, w), (np.array([0, 2, 2, 1]), W[:4]),
    diff=(1,), vmap=False),
    Case("bincount/no weights", lambda x: np.bincount(x, minlength=4), (np.array([0, 2, 2, 1]),),
    diff=(), vmap=False,
         edge=((np.zeros(0, int),), (np.array([True, False]),)),
         raises=(((np.array([-1]),), ValueError), ((np.ones((2, 2), int),), ValueError),
         ((np.ones(2),), TypeError))),
    *(Case(f"digitize/right={right}", lambda x, b, right=right: np.digitize(x, b, right), (A,
    EDGES), diff=(),
           edge=((A, EDGES[::-1]), (A, np.array([1.0, 1.0])), (np.float64(1.0), EDGES), (EDGES,
           EDGES), (A, np.zeros(0))),
           raises=(((A, A), ValueError), ((A + 1j, EDGES), TypeError))) for right in (False, True)),
]  # fmt: skip

APPLY = [
    Case("apply_along_axis", lambda x: np.apply_along_axis(np.sort, 0, x), (draw(3, 2),),
         raises=(((np.ones((3, 0)),), ValueError),)),
    Case("apply_along_axis/number", lambda x: np.apply_along_axis(lambda r: np.sum(r * r), -1, x),
    (draw(2, 3, 2),)),
    Case("apply_along_axis/matrix", lambda x: np.apply_along_axis(lambda r: r[:, None] * r, 1, x),
    (draw(2, 3, 2),)),
    Case("apply_along_axis/arguments", lambda x: np.apply_along_axis(np.quantile, 0, x, 0.3,
    method="hazen"), (draw(4, 2),)),
    Case("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, (0, -1)), (draw(2, 3, 2),)),
    Case("apply_over_axes/one", lambda x: np.apply_over_axes(np.cumsum, x, 1), (draw(2, 3),)),
    Case("piecewise", lambda x: np.piecewise(x, [x < 0, x >= 1], [lambda t: -t * t, np.exp, 0.5]),
    (A,),
         edge=((np.arange(4),), (np.float64(2.0),), (np.zeros(0),), (A.astype(np.float32),))),
    Case("piecewise/one condition", lambda x: np.piecewise(x, x > 0.5, [np.sin, np.cos]), (A,)),
    Case("piecewise/numbers", lambda x: np.piecewise(x, [x < 0, x > 1], [-1, 1]) * x, (A,)),
    Case("piecewise/arguments", lambda x: np.piecewise(x, [x > 0], [lambda t, k, p: k * t**p], 2.0,
    p=3), (draw(2, 3),)),
    Case("piecewise/known conditions", lambda x: np.piecewise(x, [A > 1], [np.cumsum,
    np.negative]), (draw(6),)),
    Case("piecewise/count", lambda x: np.piecewise(x, [x > 0], [1, 2, 3] if x.size > 2 else [1]),
    (A[:2],), order=0,
         raises=(((A,), ValueError),)),
    Case("pad/by a function", lambda x: np.pad(x, (1, 2), pad_with, value=2.0), (draw(2, 3),),
    vmap=True),
]  # fmt: skip


def pad_with(vector: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
    """The padding function of numpy.pad's documentation, with the mean of the row."""
    inner = vector[width[0] : -width[1]] if width[1] else vector[width[0] :]
    vector[: width[0]] = options["value"] * np.mean(inner)
    if width[1]:
        vector[-width[1] :] = axis


PHASES = np.array([0.1, 3.0, 6.1, 0.5, -3.0, 2.9])
ANGLES = [
    Case("unwrap", lambda p: np.unwrap(p), (PHASES,),
         edge=((np.arange(3),), (PHASES.astype(np.float32),), (np.zeros(0),), (np.array([0, np.pi,
         0]),), (np.array([0.0]),))),
    Case("unwrap/discont", lambda p: np.unwrap(p, 4.0), (PHASES,)),
    Case("unwrap/axis", lambda p: np.unwrap(p, axis=0), (PHASES.reshape(3, 2),)),
    Case("unwrap/period", lambda p, period: np.unwrap(p, period=period), (PHASES, np.float64(4.0)),
    diff=(0, 1)),
    Case("unwrap/integers", lambda p: np.unwrap(p, period=4), (np.array([0, 2, 0, 3, 1]),), diff=(),
         edge=((np.array([0, 2, 4, 6]),), (np.array([3, 1, 0, 2], np.int8),))),
    Case("unwrap/odd period", lambda p: np.unwrap(p, period=5), (np.array([0, 2, 0, 3, 1]),),
    diff=()),
    Case("i0", lambda x: np.i0(x), (np.array([0.0, 0.5, -3.0, 12.0]) / 4,),
         edge=((np.arange(3),), (A.astype(np.float32),), (np.array([np.nan, 50.0, -7.9]),),
         (np.float64(1.0),), (np.zeros(0),)),
         raises=(((A + 1j,), TypeError),)),
    Case("i0/slope", lambda x: np.i0(np.sqrt(x * x + 1e-3)), (A,)),
]  # fmt: skip

X = draw(3, 4)
QUANTILES = [
    *(Case(f"quantile/{method}", lambda x, m=method: np.quantile(x, [0.0, 0.1, 0.25, 0.5, 0.8,
    1.0], axis=-1, method=m),
           (draw(3, 5),), edge=((draw(2, 4),), (np.arange(8).reshape(2, 4),), (draw(2, 4,
           dtype=np.float32),),
                                (np.array([[1.0, np.nan]]),), (draw(1, 1),)))
      for method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")),
    *(
        Case(f"{name}/weights", lambda x, w, f=getattr(np, name), q=q: f(x, q, axis=1, weights=w,
        method="inverted_cdf"),
             (draw(3, 4), np.abs(draw(3, 4, seed=2))), diff=(0, 1),
             edge=((np.array([[3.0, 1.0, 2.0, 2.5]]), np.array([[0.0, 0.0, 1.0, 1.0]])),
                   *(() if name.startswith("nan") else ((draw(3, 4), np.array([1.0, 2.0, 3.0,
                   0.0])),)),
                   (np.arange(4).reshape(1, 4), np.ones((1, 4))), (draw(1, 4, dtype=np.float32),
                   np.ones((1, 4)))),
             raises=(((X, -np.ones((3, 4))), ValueError), ((X, np.ones((3, 2))), ValueError)))
        for name, q in (("quantile", [0.0, 0.3, 0.9]), ("percentile", 40.0), ("nanquantile", 0.5),
        ("nanpercentile", [10, 60]))
    ),
    Case("quantile/weights everywhere", lambda x, w: np.quantile(x, 0.4, weights=w,
    method="inverted_cdf", keepdims=True),
         (draw(2, 3), np.abs(draw(2, 3, seed=2))), diff=(0, 1)),
    Case("nanquantile/weights and nan", lambda x, w: np.nanquantile(x, 0.4, axis=-1, weights=w,
    method="inverted_cdf"),
         (np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]]), np.ones((2, 3))), order=0),
    Case("quantile/weights and nan", lambda x, w: np.quantile(x, [0.4], axis=-1, weights=w,
    method="inverted_cdf"),
         (np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]]), np.ones((2, 3))), order=0),
]  # fmt: skip

CASES: list[Case] = [*HISTOGRAMS, *APPLY, *ANGLES, *QUANTILES]
