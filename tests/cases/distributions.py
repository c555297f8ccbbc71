"""Cases of functrace.scipy.stats: every method of every distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.scipy import stats
from tests.cases.case import Case
from tests.cases.scipy_functions import AMOUNT, UNIT, P, Q, V, X, _hermitian

SHAPES = {
    "norm": (), "t": (2.5,), "gamma": (1.7,), "beta": (1.5, 2.3), "chi2": (3.3,), "expon": (),
    "laplace": (), "cauchy": (),
    "uniform": (), "lognorm": (0.7,), "logistic": (), "gumbel_r": (), "gumbel_l": (),
    "gennorm": (1.6,), "loggamma": (1.4,),
    "laplace_asymmetric": (1.3,), "truncnorm": (-0.5, 1.9), "vonmises": (2.3,),
    "wrapcauchy": (0.4,), "pareto": (5.3,),
    "weibull_min": (1.8,), "invgamma": (4.6,), "invgauss": (0.8,), "f": (3.2, 6.5),
}  # fmt: skip
COUNTS = {
    "poisson": (2.3,), "binom": (6.0, 0.3), "bernoulli": (0.4,), "nbinom": (3.5, 0.4),
    "geom": (0.3,), "betabinom": (6.0, 1.3, 2.1),
}  # fmt: skip
LESS = {"vonmises": {"ppf", "isf", "mean", "var"}, "wrapcauchy": {"mean", "var"},
"invgauss": {"ppf", "isf", "entropy"},
        "f": {"isf"}, "loggamma": {"var", "entropy"}, "betabinom": {"cdf", "sf", "logcdf", "logsf",
        "entropy"},
        "poisson": {"entropy"}, "binom": {"entropy"}, "nbinom": {"entropy"}}  # fmt: skip
"""By distribution the methods that have no formula in SciPy either."""
NOWHERE = {"cauchy": {"mean", "var", "std"}}
"""Moments that do not exist: NaN, without a derivative."""
QUANTILES = (
    "norm",
    "lognorm",
    "pareto",
    "weibull_min",
    "invgamma",
    "truncnorm",
    "laplace_asymmetric",
    "wrapcauchy",
    "uniform",
)
"""Distributions whose samples are smooth functions of the parameters for fixed random numbers."""
K = np.array([1.0, 2.0, 1.0])


def has(name: str, method: str) -> bool:
    """Return True if a distribution has a method."""
    return method not in LESS.get(name, ())


def _at(name: str) -> Any:
    """Numbers inside of the support."""
    return UNIT + 1.8 if name == "pareto" else UNIT


def _density(name: str, shapes: tuple[float, ...]) -> Case:
    """The logarithm of a density by all of its arguments."""
    args = (_at(name), *(np.array(s) for s in shapes), np.array(-0.2), np.array(1.7))
    return Case(
        f"stats/{name}.logpdf",
        lambda *xs: getattr(stats, name).logpdf(*xs),
        args,
        diff=tuple(range(len(args))),
    )


def _masses(name: str, shapes: tuple[float, ...]) -> Case:
    """The logarithm of a probability by the shapes."""
    args = (K if name != "bernoulli" else K - 1, *(np.array(s) for s in shapes))
    first = 2 if name in ("binom", "betabinom") else 1
    return Case(
        f"stats/{name}.logpmf",
        lambda *xs: getattr(stats, name).logpmf(*xs),
        args,
        diff=tuple(range(first, len(args))),
    )


def _methods(name: str, shapes: tuple[float, ...]) -> list[Case]:
    def case(method: str) -> Case:
        x = UNIT if method in ("ppf", "isf") else _at(name)
        args = (x, *(np.array(s) for s in shapes), np.array(-0.2), np.array(1.7))
        return Case(
            f"stats/{name}.{method}",
            lambda *xs: getattr(getattr(stats, name), method)(*xs),
            args,
            diff=tuple(range(len(args))),
            tol=1e-4 if name == "truncnorm" else 1e-5,
        )

    def moment(method: str) -> Case:
        args = (*(np.array(s) for s in shapes), np.array([-0.2, 0.4]), np.array(1.7))
        diff = tuple(k for k in range(len(args)) if method != "entropy" or k != len(shapes))
        if method in NOWHERE.get(name, ()):
            diff = ()
        return Case(
            f"stats/{name}.{method}",
            lambda *xs: getattr(getattr(stats, name), method)(*xs),
            args,
            diff=diff,
        )

    listed = [
        case(method)
        for method in ("pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")
        if has(name, method)
    ]
    return listed + [
        moment(method)
        for method in ("mean", "var", "std", "entropy")
        if has(name, method.replace("std", "var"))
    ]


def _counted(name: str, shapes: tuple[float, ...]) -> list[Case]:
    diff = tuple(range(1 if name in ("binom", "betabinom") else 0, len(shapes)))
    args = tuple(np.array(s) for s in shapes)
    moments = [
        Case(
            f"stats/{name}.{m}",
            lambda *xs, m=m: getattr(getattr(stats, name), m)(*xs),
            args,
            diff=diff,
        )
        for m in ("mean", "var", "std", "entropy")
        if has(name, m.replace("std", "var"))
    ]
    masses = [
        Case(
            f"stats/{name}.{m}",
            lambda k, *xs, m=m: getattr(getattr(stats, name), m)(k, *xs),
            (K if name != "bernoulli" else K - 1, *args),
            diff=tuple(k + 1 for k in diff),
        )
        for m in ("pmf", "cdf", "sf", "logcdf", "logsf")
        if has(name, m) and (name, m) != ("bernoulli", "logsf")
    ]
    steps = [
        Case(
            f"stats/{name}.{m}",
            lambda q, *xs, m=m: getattr(getattr(stats, name), m)(q, *xs),
            (UNIT, *args),
            diff=(),
        )
        for m in ("ppf", "isf")
    ]
    return moments + masses + steps


def _sample(name: str, shapes: tuple[float, ...], size: Any) -> Case:
    """A sample by all parameters; where SciPy rejects, differences of what it draws are no
    derivatives.
    """
    scale = () if name in COUNTS else (np.array([1.7, 0.8, 1.2]),)
    first = (
        (np.array(6), *shapes[1:]) if "binom" in name and name != "nbinom" else shapes
    )  # SciPy takes no other number here
    args = (
        *(np.array(s) for s in first),
        np.array(-1.0) if name in COUNTS else np.array(-0.2),
        *scale,
    )
    diff = tuple(range(len(args))) if name in QUANTILES or (name in SHAPES and not shapes) else ()
    tag = "" if size is None else f", {size}"
    return Case(
        f"stats/{name}.rvs{tag}",
        lambda *xs: getattr(stats, name).rvs(*xs, size=size, random_state=5),
        args,
        diff=diff,
        written=name in COUNTS or not shapes,
        vmap=size is None or name not in COUNTS,
    )


CASES: list[Case] = [
    *[_density(*item) for item in SHAPES.items()], *[_masses(*item) for item in COUNTS.items()],
    *[case for item in SHAPES.items() for case in _methods(*item)],
    *[case for item in COUNTS.items() for case in _counted(*item)],
    *[_sample(*item, None) for item in SHAPES.items()], *[_sample(*item, (2,
    3)) for item in (SHAPES | COUNTS).items()],
    Case("stats/multivariate_normal", lambda x, m, c: stats.multivariate_normal.logpdf(x, m,
    _hermitian(c)), (X, V, P), diff=(0, 1, 2)),
    Case("stats/multivariate_normal, variances", lambda x, c: stats.multivariate_normal.pdf(x,
    np.zeros(3), c), (V, AMOUNT[0]), diff=(0, 1)),
    Case("stats/dirichlet", lambda a: stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), a),
    (AMOUNT[0],)),
    Case("stats/wishart", lambda x, df, s: stats.wishart.logpdf(_hermitian(x), df[()],
    _hermitian(s)), (P, np.array(4.5), Q), diff=(0, 1, 2)),
    *[Case(f"stats/{f.__name__}", lambda x, f=f: f(x), (AMOUNT.T,)) for f in (stats.skew,
    stats.kurtosis, stats.sem, stats.zscore, stats.gmean, stats.hmean, stats.entropy)],
    *[Case(f"stats/{f.__name__}, axis, {axis}", lambda x, f=f, axis=axis: f(x, axis=axis),
    (AMOUNT,)) for f in (stats.skew, stats.kurtosis, stats.sem, stats.zscore, stats.gmean,
    stats.hmean, stats.entropy) for axis in (1, None)],
    *[Case(f"stats/{f.__name__}, axes stay, {axis}", lambda x, f=f, axis=axis: f(x, axis=axis,
    keepdims=True), (AMOUNT,)) for f in (stats.skew, stats.kurtosis, stats.sem, stats.gmean,
    stats.hmean, stats.entropy) for axis in (1, None)],
    *[Case(f"stats/{f.__name__}, unbiased", lambda x, f=f: f(x, axis=None, bias=False),
    (AMOUNT,)) for f in (stats.skew, stats.kurtosis)],
    *[Case(f"stats/moment, {order}", lambda x, order=order: stats.moment(x, order, axis=1),
    (AMOUNT,)) for order in (1, 2, 3)],
    Case("stats/moment, center", lambda x, c: stats.moment(x, 3, center=c), (AMOUNT,
    np.array(0.7)), diff=(0, 1)),
    Case("stats/kurtosis, pearson", lambda x: stats.kurtosis(x, axis=1, fisher=False), (AMOUNT,)),
    Case("stats/zmap", lambda x, y: stats.zmap(x, y, axis=1, ddof=1), (X, AMOUNT), diff=(0, 1)),
    *[Case(f"stats/{f.__name__}, weights", lambda x, w, f=f: f(x, axis=1, weights=w), (AMOUNT,
    UNIT), diff=(0, 1)) for f in (stats.gmean, stats.hmean)],
    Case("stats/entropy, relative", lambda p, q: stats.entropy(p, q, base=2.0, axis=1), (AMOUNT,
    UNIT), diff=(0, 1)),
    *[Case(f"stats/rankdata, {method}, {axis}", lambda x, method=method,
    axis=axis: stats.rankdata(x, method, axis=axis), (np.array([[3.0, 1.0, 3.0, 2.0], [1.0, 1.0,
    0.5, 2.0]]),), diff=()) for method in ("average", "min", "max", "dense",
    "ordinal") for axis in (None, 1, 0)],
]  # fmt: skip
