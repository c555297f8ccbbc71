"""Random numbers from explicit keys: the same under every transform, and in every thread.

A key is an array of two uint64. Every function takes one first, and its draws depend only on the
key, the shape and the parameters: there is no state. So the same key draws the same numbers again;
other numbers need other keys:

    >>> import functrace as ft
    >>> key = ft.random.key(0)
    >>> ft.random.normal(key, (3,))
    array([-0.20597403, -0.12884495, -0.28978988])
    >>> first, second = ft.random.split(key)
    >>> float(ft.random.uniform(first)) != float(ft.random.uniform(second))
    True

Names, arguments and their order are those of ``jax.random``; dtypes are NumPy's (float64 and int64,
unless ``dtype=`` says otherwise). The numbers are those of NumPy's Philox: ``key(seed)`` is the key
of ``numpy.random.Philox(seed)``, whose `numpy.random.Generator` has the same draws as `normal` and
`uniform`. See docs/random.md, and docs/decisions/0020-random.md.

Layer: 8.
"""

import typing as _typing

from functrace.lazy import lazy_attributes as _lazy_attributes
from functrace.random.continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    wald,
    weibull_min,
)
from functrace.random.discrete import (
    bernoulli,
    binomial,
    bits,
    categorical,
    choice,
    geometric,
    multinomial,
    permutation,
    poisson,
    rademacher,
    randint,
)
from functrace.random.gammas import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from functrace.random.keys import fold_in, key, split
from functrace.random.matrices import multivariate_normal, orthogonal

__all__ = [
    "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare",
    "choice", "dirichlet",
    "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal",
    "geometric", "gumbel", "key",
    "laplace", "loggamma", "logistic", "lognormal", "maxwell", "multinomial",
    "multivariate_normal", "normal", "orthogonal",
    "pareto", "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "t",
    "triangular", "truncated_normal",
    "uniform", "wald", "weibull_min",
]  # fmt: skip


if not _typing.TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = _lazy_attributes(__name__, __all__)
