"""``scipy.stats`` for traced values: densities, distribution functions, quantiles, moments and
samples; common statistics.

A distribution here has SciPy's name, method signatures and values: -inf outside of the support, NaN
for invalid parameters. It is differentiable by the observation and by all parameters. At the ends
of a support, derivatives are one-sided, from inside. ``stats.norm(loc, scale)`` is the frozen
distribution.

Samples (``rvs``) are SciPy's for the same ``random_state``, and differentiable by all parameters;
samples of integers are constants. Other names are SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import stats
    >>> float(ft.grad(lambda scale: stats.norm.logpdf(2.0, 0.0, scale))(1.0))
    3.0
    >>> round(float(ft.grad(lambda a: np.mean(stats.gamma.rvs(a, size=10000, random_state=0)))(2.0)), 2)  # the mean is a
    1.0

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import scipy.stats

from functrace.scipy.stats.continuous import (
    beta,
    cauchy,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    laplace_asymmetric,
    loggamma,
    logistic,
    norm,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from functrace.scipy.stats.density import gaussian_kde
from functrace.scipy.stats.discrete import bernoulli, betabinom, binom, geom, nbinom, poisson
from functrace.scipy.stats.multivariate import (
    dirichlet,
    multivariate_normal,
    multivariate_t,
    wishart,
)
from functrace.scipy.stats.positive import (
    chi2,
    expon,
    f,
    gamma,
    invgamma,
    invgauss,
    lognorm,
    pareto,
    weibull_min,
)
from functrace.scipy.stats.summary import (
    entropy,
    gmean,
    hmean,
    kurtosis,
    moment,
    rankdata,
    sem,
    skew,
    zmap,
    zscore,
)

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "entropy", "expon",
    "f", "gamma",
    "gaussian_kde", "gennorm", "geom", "gmean", "gumbel_l", "gumbel_r", "hmean", "invgamma",
    "invgauss", "kurtosis",
    "laplace", "laplace_asymmetric", "loggamma", "logistic", "lognorm", "moment",
    "multivariate_normal",
    "multivariate_t", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "skew", "t",
    "truncnorm", "uniform",
    "vonmises", "weibull_min", "wishart", "wrapcauchy", "zmap", "zscore",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.stats, name)
