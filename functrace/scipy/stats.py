"""``scipy.stats`` for traced values: densities, distribution functions and quantiles, with ``loc`` and ``scale``.

A distribution here has SciPy's name, its methods SciPy's signatures, and values are SciPy's: -inf outside of the support,
NaN where parameters are not allowed. Derivatives are taken by what is observed and by all parameters, but where SciPy's
special functions have none (the shape of a gamma distribution in its ``cdf``): those raise, and are never 0. At the ends of
a support, derivatives are those from inside.

Samples are drawn outside of the function that is differentiated: pass what SciPy draws in standard form as an argument, and
scale and shift it there.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import stats
    >>> float(ft.grad(lambda scale: stats.norm.logpdf(2.0, 0.0, scale))(1.0))
    3.0

Floor: 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import scipy.stats
from scipy.special import (
    betainc,
    betaincc,
    betaincinv,
    betaln,
    chdtr,
    chdtrc,
    gammainc,
    gammaincc,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    ndtri,
    pdtr,
    pdtrc,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)

from functrace.errors import ArgumentError
from functrace.numpy.operands import Operand, arrayed, holds_tracer
from functrace.scipy.multivariate import dirichlet, multivariate_normal, wishart
from functrace.typing import Array

Formula = Callable[..., Any]
_LOG_2PI = math.log(2 * math.pi)


def _double(x: Operand) -> Any:
    """An array in double precision, which SciPy computes distributions in."""
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


def _always(*_shapes: object) -> Any:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Distribution:
    """What continuous and discrete distributions share: SciPy's methods, by formulas in standard form.

    Args:
        name: SciPy's.
        shapes: names of the shape parameters.
        log_density: the logarithm of the density (of the mass), of the observed and the shapes.
        lower, upper: the distribution function and its complement.
        allowed: whether shapes are.
        low, high: the ends of the support, from the shapes.
        inside: a point of the support.
        log_lower, log_upper: logarithms of them, where these are not those of what they compute.
    """

    name: str
    shapes: tuple[str, ...]
    log_density: Formula
    lower: Formula
    upper: Formula
    quantile: Formula | None = None
    allowed: Formula = _always
    low: Formula = field(default=lambda *_: -math.inf)
    high: Formula = field(default=lambda *_: math.inf)
    inside: float = 0.5
    log_lower: Formula | None = None
    log_upper: Formula | None = None
    scaled: bool = True

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any, Any]:
        """Return shapes, loc and scale, all harmless, and whether they are allowed."""
        names = (*self.shapes, "loc", *(("scale",) if self.scaled else ()))
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or set(kwargs) - set(names) or set(kwargs) & set(given):
            raise ArgumentError(f"{self.name} takes {', '.join(names)} after its argument", fix="pass each of them once")
        given |= kwargs
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise ArgumentError(f"{self.name} needs {', '.join(missing)}", fix="pass it")
        shapes = [_double(given[name]) for name in self.shapes]
        loc, scale = _double(given.get("loc", 0.0)), _double(given.get("scale", 1.0))
        valid = self.allowed(*shapes) & (scale > 0)
        return shapes, loc, np.where(scale > 0, scale, 1.0), valid

    def _plain(self, method: str, x: Operand, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Whether nothing is traced, and SciPy's own result then."""
        if holds_tracer(x) or any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            return False, None
        return True, getattr(getattr(scipy.stats, self.name), method)(x, *args, **kwargs)

    def _logarithm(self, x: Operand, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shapes, loc, scale, valid = self._read(args, kwargs)
        z = (_double(x) - loc) / scale
        fits = (z >= self.low(*shapes)) & (z <= self.high(*shapes)) & valid
        if not self.scaled:
            fits = fits & (np.floor(z) == z)
        found = self.log_density(np.where(fits, z, self.inside), *self._harmless(shapes, valid)) - np.log(scale)
        return np.where(valid & ~np.isnan(z), np.where(fits, found, -np.inf), np.nan)

    def _harmless(self, shapes: list[Any], valid: Array) -> list[Any]:
        """Shapes, and where they are not allowed numbers that no formula stumbles over."""
        return [np.where(valid, s, 0.5 if name == "p" else 1.0) for s, name in zip(shapes, self.shapes, strict=True)]

    def _function(
        self, formula: Formula, ends: tuple[float, float], x: Operand, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        shapes, loc, scale, valid = self._read(args, kwargs)
        z = (_double(x) - loc) / scale
        if not self.scaled:
            z = np.floor(z)
        low, high = self.low(*shapes), self.high(*shapes)
        below = z < low if not self.scaled else z <= low
        fits = ~below & (z < high) & valid
        found = formula(np.where(fits, z, self.inside), *self._harmless(shapes, valid))
        found = np.where(fits, found, np.where(below, ends[0], ends[1]))
        return np.where(valid & ~np.isnan(z), found, np.nan)

    def cdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the probability of at most ``x``."""
        done, result = self._plain("cdf", x, args, kwargs)
        return result if done else self._function(self.lower, (0.0, 1.0), x, args, kwargs)

    def sf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the probability of more than ``x``."""
        done, result = self._plain("sf", x, args, kwargs)
        return result if done else self._function(self.upper, (1.0, 0.0), x, args, kwargs)

    def logcdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the logarithm of `cdf`."""
        done, result = self._plain("logcdf", x, args, kwargs)
        formula = self.log_lower or (lambda *given: np.log(self.lower(*given)))
        return result if done else self._function(formula, (-math.inf, 0.0), x, args, kwargs)

    def logsf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the logarithm of `sf`."""
        done, result = self._plain("logsf", x, args, kwargs)
        formula = self.log_upper or (lambda *given: np.log(self.upper(*given)))
        return result if done else self._function(formula, (0.0, -math.inf), x, args, kwargs)


@final
class Continuous(_Distribution):
    """A continuous distribution: ``logpdf``, ``pdf``, ``cdf``, ``sf``, ``logcdf``, ``logsf`` and ``ppf``."""

    __slots__ = ()

    def logpdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the logarithm of the density at ``x``; then shapes, ``loc`` and ``scale``."""
        done, result = self._plain("logpdf", x, args, kwargs)
        return result if done else self._logarithm(x, args, kwargs)

    def pdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the density at ``x``."""
        done, result = self._plain("pdf", x, args, kwargs)
        return result if done else np.exp(self._logarithm(x, args, kwargs))

    def ppf(self, q: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the quantile of a probability ``q``."""
        done, result = self._plain("ppf", q, args, kwargs)
        if done:
            return result
        assert self.quantile is not None  # every continuous one has it
        shapes, loc, scale, valid = self._read(args, kwargs)
        p = _double(q)
        fits = (p > 0) & (p < 1) & valid
        found = self.quantile(np.where(fits, p, 0.5), *self._harmless(shapes, valid))
        ends = np.where(p == 0, self.low(*shapes), np.where(p == 1, self.high(*shapes), np.nan))
        return np.where(valid, np.where(fits, found, ends) * scale + loc, np.nan)


@final
class Discrete(_Distribution):
    """A distribution of integers: ``logpmf``, ``pmf``, ``cdf``, ``sf``, ``logcdf`` and ``logsf``."""

    __slots__ = ()

    def logpmf(self, k: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the logarithm of the probability of ``k``; then shapes and ``loc``."""
        done, result = self._plain("logpmf", k, args, kwargs)
        return result if done else self._logarithm(k, args, kwargs)

    def pmf(self, k: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """As SciPy's: the probability of ``k``."""
        done, result = self._plain("pmf", k, args, kwargs)
        return result if done else np.exp(self._logarithm(k, args, kwargs))


def _zero(*_shapes: object) -> float:
    return 0.0


def _one(*_shapes: object) -> float:
    return 1.0


def _positive(*shapes: Array) -> Any:
    fits = shapes[0] > 0
    for shape in shapes[1:]:
        fits = fits & (shape > 0)
    return fits


norm = Continuous(
    "norm",
    (),
    lambda x: -0.5 * x * x - 0.5 * _LOG_2PI,
    ndtr,
    lambda x: ndtr(-x),
    ndtri,
    log_lower=log_ndtr,
    log_upper=lambda x: log_ndtr(-x),
)
t = Continuous(
    "t",
    ("df",),
    lambda x, df: gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * math.pi) - (df + 1) / 2 * np.log1p(x * x / df),
    lambda x, df: stdtr(df, x),
    lambda x, df: stdtr(df, -x),
    lambda q, df: stdtrit(df, q),
    _positive,
)
gamma = Continuous(
    "gamma",
    ("a",),
    lambda x, a: xlogy(a - 1.0, x) - x - gammaln(a),
    lambda x, a: gammainc(a, x),
    lambda x, a: gammaincc(a, x),
    lambda q, a: gammaincinv(a, q),
    _positive,
    _zero,
)
beta = Continuous(
    "beta",
    ("a", "b"),
    lambda x, a, b: xlog1py(b - 1.0, -x) + xlogy(a - 1.0, x) - betaln(a, b),
    lambda x, a, b: betainc(a, b, x),
    lambda x, a, b: betaincc(a, b, x),
    lambda q, a, b: betaincinv(a, b, q),
    _positive,
    _zero,
    _one,
)
chi2 = Continuous(
    "chi2",
    ("df",),
    lambda x, df: xlogy(df / 2 - 1.0, x) - x / 2 - gammaln(df / 2) - math.log(2) * df / 2,
    lambda x, df: chdtr(df, x),
    lambda x, df: chdtrc(df, x),
    lambda q, df: 2.0 * gammaincinv(df / 2, q),
    _positive,
    _zero,
)
expon = Continuous(
    "expon",
    (),
    lambda x: -x,
    lambda x: -np.expm1(-x),
    lambda x: np.exp(-x),
    lambda q: -np.log1p(-q),
    low=_zero,
    log_upper=lambda x: -x,
)


def _laplace_cdf(x: Array) -> Any:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x > 0, 1.0 - half, half)


laplace = Continuous(
    "laplace",
    (),
    lambda x: -np.abs(x) - math.log(2),
    _laplace_cdf,
    lambda x: _laplace_cdf(-x),
    lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
    log_lower=lambda x: np.where(x > 0, np.log1p(-0.5 * np.exp(-np.abs(x))), x - math.log(2)),
    log_upper=lambda x: np.where(x < 0, np.log1p(-0.5 * np.exp(-np.abs(x))), -x - math.log(2)),
)
cauchy = Continuous(
    "cauchy",
    (),
    lambda x: -math.log(math.pi) - np.log1p(x * x),
    lambda x: np.arctan2(1.0, -x) / math.pi,
    lambda x: np.arctan2(1.0, x) / math.pi,
    lambda q: np.where(q < 0.5, -1.0, 1.0) / np.tan(math.pi * np.minimum(q, 1.0 - q)),
)
uniform = Continuous("uniform", (), lambda x: 0.0 * x, lambda x: x, lambda x: 1.0 - x, lambda q: q, low=_zero, high=_one)


def _lognorm(x: Array, s: Array) -> Any:
    some = x > 0
    x = np.where(some, x, 1.0)
    return np.where(some, -0.5 * (np.log(x) / s) ** 2 - np.log(s * x) - 0.5 * _LOG_2PI, -np.inf)


lognorm = Continuous(
    "lognorm",
    ("s",),
    _lognorm,
    lambda x, s: ndtr(np.log(x) / s),
    lambda x, s: ndtr(-np.log(x) / s),
    lambda q, s: np.exp(s * ndtri(q)),
    _positive,
    _zero,
    log_lower=lambda x, s: log_ndtr(np.log(x) / s),
    log_upper=lambda x, s: log_ndtr(-np.log(x) / s),
)


# -- integers ---------------------------------------------------------------------------------------------------------


def _probability(p: Array) -> Any:
    return (p >= 0) & (p <= 1)


def _binom(k: Array, n: Array, p: Array) -> Any:
    count = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return count + xlogy(k, p) + xlog1py(n - k, -p)


def _nbinom(k: Array, n: Array, p: Array) -> Any:
    return gammaln(n + k) - gammaln(k + 1.0) - gammaln(n) + n * np.log(p) + xlog1py(k, -p)


poisson = Discrete(
    "poisson",
    ("mu",),
    lambda k, mu: xlogy(k, mu) - gammaln(k + 1.0) - mu,
    lambda k, mu: pdtr(k, mu),
    lambda k, mu: pdtrc(k, mu),
    allowed=lambda mu: mu >= 0,
    low=_zero,
    inside=1.0,
    scaled=False,
)
binom = Discrete(
    "binom",
    ("n", "p"),
    _binom,
    lambda k, n, p: betaincc(k + 1.0, np.maximum(n - k, 0.5), p),
    lambda k, n, p: betainc(k + 1.0, np.maximum(n - k, 0.5), p),
    allowed=lambda n, p: (n >= 0) & (np.floor(n) == n) & _probability(p),
    low=_zero,
    high=lambda n, p: n,
    inside=0.0,
    scaled=False,
)
bernoulli = Discrete(
    "bernoulli",
    ("p",),
    lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p),
    lambda k, p: 1.0 - p,
    lambda k, p: 1.0 * p,
    allowed=_probability,
    low=_zero,
    high=_one,
    inside=0.0,
    scaled=False,
)
nbinom = Discrete(
    "nbinom",
    ("n", "p"),
    _nbinom,
    lambda k, n, p: betainc(n, k + 1.0, p),
    lambda k, n, p: betaincc(n, k + 1.0, p),
    allowed=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    low=_zero,
    inside=1.0,
    scaled=False,
)

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "laplace", "lognorm",
    "multivariate_normal", "nbinom", "norm", "poisson", "t", "uniform", "wishart",
]  # fmt: skip
