"""Every distribution, called once with parameters: what the tests of this folder go through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import functrace as ft

rnd = ft.random
ONES = np.ones(4)


@dataclass(frozen=True)
class Family:
    """A call of a distribution.

    Args:
        name: unique.
        draw: of a key, a shape and the parameters.
        at: the parameters.
        smooth: whether it is reparameterised: a sample has a derivative by the parameters.
        exact: whether that derivative is also that of the sample at a fixed key, as differences see
            it; not for what is drawn by rejection, where the draw itself jumps.
        like: SciPy's name for it, and its arguments there, for those that SciPy has.
        tail: the shape of one sample.
    """

    name: str
    draw: Callable[..., Any]
    at: tuple[float, ...] = ()
    smooth: bool = True
    exact: bool = True
    like: tuple[str, tuple[float, ...]] | None = None
    tail: tuple[int, ...] = ()

    def __call__(self, key: Any, *parameters: Any, shape: Any = (5,)) -> Any:
        """Draw, with other parameters if there are any."""
        return self.draw(key, shape, *(parameters or self.at))


COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])
THINGS = np.arange(12.0).reshape(4, 3)

FAMILIES = [
    Family("uniform", lambda key, shape: rnd.uniform(key, shape), like=("uniform", ())),
    Family(
        "uniform/bounds",
        lambda key, shape, a, b: rnd.uniform(key, shape, None, a, b),
        (-0.5, 2.0),
        like=("uniform", (-0.5, 2.5)),
    ),
    Family("normal", lambda key, shape: rnd.normal(key, shape), like=("norm", ())),
    Family("exponential", lambda key, shape: rnd.exponential(key, shape), like=("expon", ())),
    Family("gumbel", lambda key, shape: rnd.gumbel(key, shape), like=("gumbel_r", ())),
    Family("logistic", lambda key, shape: rnd.logistic(key, shape), like=("logistic", ())),
    Family("laplace", lambda key, shape: rnd.laplace(key, shape), like=("laplace", ())),
    Family("cauchy", lambda key, shape: rnd.cauchy(key, shape), like=("cauchy", ())),
    Family("maxwell", lambda key, shape: rnd.maxwell(key, shape), like=("maxwell", ())),
    Family(
        "double_sided_maxwell",
        lambda key, shape, a, b: rnd.double_sided_maxwell(key, a, b, shape),
        (0.3, 1.5),
    ),
    Family(
        "rayleigh",
        lambda key, shape, a: rnd.rayleigh(key, a, shape),
        (1.5,),
        like=("rayleigh", (0, 1.5)),
    ),
    Family(
        "pareto", lambda key, shape, a: rnd.pareto(key, a, shape), (2.5,), like=("pareto", (2.5,))
    ),
    Family(
        "weibull_min",
        lambda key, shape, a, b: rnd.weibull_min(key, a, b, shape),
        (1.5, 0.8),
        like=("weibull_min", (0.8, 0, 1.5)),
    ),
    Family(
        "lognormal",
        lambda key, shape, a: rnd.lognormal(key, a, shape),
        (0.6,),
        like=("lognorm", (0.6,)),
    ),
    Family(
        "triangular",
        lambda key, shape, a, b, c: rnd.triangular(key, a, b, c, shape),
        (-1.0, 0.5, 2.0),
        like=("triang", (0.5, -1, 3)),
    ),
    Family(
        "truncated_normal",
        lambda key, shape, a, b: rnd.truncated_normal(key, a, b, shape),
        (-0.5, 1.5),
        like=("truncnorm", (-0.5, 1.5)),
    ),
    Family(
        "truncated_normal/tail",
        lambda key, shape, a, b: rnd.truncated_normal(key, a, b, shape),
        (40.0, 41.0),
        like=("truncnorm", (40.0, 41.0)),
    ),
    Family(
        "truncated_normal/open",
        lambda key, shape, a: rnd.truncated_normal(key, a, np.inf, shape),
        (0.7,),
        like=("truncnorm", (0.7, np.inf)),
    ),
    Family(
        "wald",
        lambda key, shape, a: rnd.wald(key, a, shape),
        (1.3,),
        exact=False,
        like=("invgauss", (1.3,)),
    ),
    Family(
        "gamma",
        lambda key, shape, a: rnd.gamma(key, a, shape),
        (2.3,),
        exact=False,
        like=("gamma", (2.3,)),
    ),
    Family(
        "gamma/small",
        lambda key, shape, a: rnd.gamma(key, a, shape),
        (0.3,),
        exact=False,
        like=("gamma", (0.3,)),
    ),
    Family(
        "loggamma",
        lambda key, shape, a: rnd.loggamma(key, a, shape),
        (0.3,),
        exact=False,
        like=("loggamma", (0.3,)),
    ),
    Family(
        "chisquare",
        lambda key, shape, a: rnd.chisquare(key, a, shape),
        (3.0,),
        exact=False,
        like=("chi2", (3.0,)),
    ),
    Family(
        "f",
        lambda key, shape, a, b: rnd.f(key, a, b, shape),
        (3.0, 7.0),
        exact=False,
        like=("f", (3.0, 7.0)),
    ),
    Family(
        "t", lambda key, shape, a: rnd.t(key, a, shape), (4.0,), exact=False, like=("t", (4.0,))
    ),
    Family(
        "beta",
        lambda key, shape, a, b: rnd.beta(key, a, b, shape),
        (0.7, 1.9),
        exact=False,
        like=("beta", (0.7, 1.9)),
    ),
    Family(
        "dirichlet",
        lambda key, shape, a: rnd.dirichlet(key, a * np.array([1.0, 2.0, 0.5]), shape),
        (0.8,),
        exact=False,
        tail=(3,),
    ),
    Family(
        "generalized_normal",
        lambda key, shape, a: rnd.generalized_normal(key, a, shape),
        (1.4,),
        exact=False,
        like=("gennorm", (1.4,)),
    ),
    Family("ball", lambda key, shape: rnd.ball(key, 3, 2.0, shape), tail=(3,)),
    Family(
        "multivariate_normal",
        lambda key, shape, a, b: rnd.multivariate_normal(
            key, a * np.ones(2), b * COVARIANCE, shape
        ),
        (0.5, 1.5),
        tail=(2,),
    ),
    Family(
        "multivariate_normal/eigh",
        lambda key, shape, a: rnd.multivariate_normal(
            key, np.ones(2), a * COVARIANCE, shape, method="eigh"
        ),
        (1.5,),
        tail=(2,),
    ),
    Family(
        "multivariate_normal/svd",
        lambda key, shape, a: rnd.multivariate_normal(
            key, np.ones(2), a * COVARIANCE, shape, method="svd"
        ),
        (1.5,),
        tail=(2,),
    ),
    Family("orthogonal", lambda key, shape: rnd.orthogonal(key, 3, shape), tail=(3, 3)),
    Family("orthogonal/wide", lambda key, shape: rnd.orthogonal(key, 2, shape, m=3), tail=(2, 3)),
    Family("bits", lambda key, shape: rnd.bits(key, shape), smooth=False),
    Family("bits/uint16", lambda key, shape: rnd.bits(key, shape, "uint16"), smooth=False),
    Family(
        "randint",
        lambda key, shape: rnd.randint(key, shape, -3, 10),
        smooth=False,
        like=("randint", (-3, 10)),
    ),
    Family("rademacher", lambda key, shape: rnd.rademacher(key, shape), smooth=False),
    Family(
        "bernoulli",
        lambda key, shape, a: rnd.bernoulli(key, a, shape),
        (0.3,),
        smooth=False,
        like=("bernoulli", (0.3,)),
    ),
    Family(
        "poisson",
        lambda key, shape, a: rnd.poisson(key, a, shape),
        (3.7,),
        smooth=False,
        like=("poisson", (3.7,)),
    ),
    Family(
        "poisson/large",
        lambda key, shape, a: rnd.poisson(key, a, shape),
        (370.0,),
        smooth=False,
        like=("poisson", (370.0,)),
    ),
    Family(
        "binomial",
        lambda key, shape, a: rnd.binomial(key, 12, a, shape),
        (0.3,),
        smooth=False,
        like=("binom", (12, 0.3)),
    ),
    Family(
        "geometric",
        lambda key, shape, a: rnd.geometric(key, a, shape),
        (0.3,),
        smooth=False,
        like=("geom", (0.3,)),
    ),
    Family(
        "multinomial",
        lambda key, shape, a: rnd.multinomial(key, 9, a * ONES, shape=(*np.atleast_1d(shape), 4)),
        (0.5,),
        smooth=False,
        tail=(4,),
    ),
    Family(
        "categorical",
        lambda key, shape, a: rnd.categorical(key, a * np.arange(4.0), shape=shape),
        (0.5,),
        smooth=False,
    ),
    Family(
        "categorical/stack",
        lambda key, shape, a: rnd.categorical(key, a * THINGS, 0, (*np.atleast_1d(shape), 3)),
        (0.5,),
        smooth=False,
        tail=(3,),
    ),
    Family(
        "categorical/different",
        lambda key, shape, a: rnd.categorical(key, a * np.arange(8.0), shape=shape, replace=False),
        (0.1,),
        smooth=False,
    ),
    Family("permutation", lambda key, shape: rnd.permutation(key, 5), smooth=False),
    Family("permutation/things", lambda key, shape, a: rnd.permutation(key, a * THINGS), (1.5,)),
    Family(
        "permutation/independent",
        lambda key, shape, a: rnd.permutation(key, a * THINGS, 1, independent=True),
        (1.5,),
    ),
    Family("choice", lambda key, shape, a: rnd.choice(key, a * THINGS, shape), (1.5,), tail=(3,)),
    Family(
        "choice/different",
        lambda key, shape, a: rnd.choice(key, a * np.arange(9.0), shape, replace=False),
        (1.5,),
    ),
    Family(
        "choice/p",
        lambda key, shape, a: rnd.choice(key, 3, shape, p=a * np.array([0.1, 0.0, 0.9])),
        (1.0,),
        smooth=False,
    ),
    Family(
        "choice/p different",
        lambda key, shape, a: rnd.choice(key, 8, shape, replace=False, p=a * np.arange(8.0)),
        (1.0,),
        smooth=False,
    ),
    Family("split", lambda key, shape: rnd.split(key, shape), smooth=False, tail=(2,)),
    Family("fold_in", lambda key, shape: rnd.fold_in(key, -7), smooth=False),
]
