"""Record logarithms of densities and probabilities in both tails, and their derivatives:
`tails.json`, by mpmath.

Run by hand: ``python -m tests.scipy.record_tails``. mpmath is no dependency; the file says with
which version it was made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp

FILE = Path(__file__).with_name("tails.json")
Formula = Callable[..., Any]

LINE = [-1e8, -1e4, -300.0, -40.0, -8.0, -2.0, -0.3, 0.0, 0.4, 2.5, 8.0, 40.0, 300.0, 1e4, 1e8]
POSITIVE = [1e-250, 1e-30, 1e-4, 0.05, 0.5, 1.0, 2.0, 8.0, 40.0, 300.0, 1e4, 1e10]
UNIT = [1e-250, 1e-30, 1e-4, 0.1, 0.5, 0.8, 0.999, 1.0 - 2.0**-30]
FALLING, RISING = [x for x in LINE if x >= -300], [x for x in LINE if x <= 300]
ABOVE = [1.0 + 2.0**-30, 1.01, 1.5, 3.0, 40.0, 1e4, 1e30, 1e200]
CIRCLE = [-3.14, -3.0, -1.0, -0.1, 0.0, 0.5, 2.0, 3.0, 3.14]
TURN = [1e-200, 1e-8, 0.5, 3.0, 3.3, 6.0, 6.28, 6.283185]


def normal(x: Any) -> Any:
    """The normal distribution function."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def lower_gamma(a: Any, x: Any) -> Any:
    """The regularized incomplete gamma function."""
    if x > a + 50:
        return 1 - mp.gammainc(a, x, mp.inf, regularized=True)
    return x**a * mp.exp(-x) / mp.gamma(a + 1) * mp.hyp1f1(1, a + 1, x)


def upper_gamma(a: Any, x: Any) -> Any:
    """Its complement."""
    if x < 1:
        return 1 - lower_gamma(a, x)
    return mp.gammainc(a, x, mp.inf, regularized=True)


def incomplete_beta(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function."""
    if x > a / (a + b):
        return 1 - incomplete_beta(b, a, 1 - x)
    return x**a * (1 - x) ** b / (a * mp.beta(a, b)) * mp.hyp2f1(a + b, 1, a + 1, x)


def _student(x: Any, df: Any) -> Any:
    half = incomplete_beta(df / 2, mp.mpf(1) / 2, df / (df + x * x)) / 2
    return half if x < 0 else 1 - half


def _generalized(x: Any, beta: Any) -> Any:
    tail = upper_gamma(1 / beta, abs(x) ** beta) / 2
    return tail if x < 0 else 1 - tail


def _asymmetric(x: Any, k: Any) -> Any:
    return 1 - mp.exp(-x * k) / (1 + k * k) if x >= 0 else mp.exp(x / k) * k * k / (1 + k * k)


def _circular(x: Any, kappa: Any) -> Any:
    return mp.quad(lambda t: mp.exp(kappa * (mp.cos(t) - 1)), mp.linspace(-mp.pi, x, 12)) / (
        2 * mp.pi * mp.besseli(0, kappa) * mp.exp(-kappa)
    )


def _wrapped(x: Any, c: Any) -> Any:
    half = mp.atan((1 + c) / (1 - c) * mp.tan(x / 2)) / mp.pi
    return half if x < mp.pi else 1 + half


def _inverse(x: Any, mu: Any) -> Any:
    return normal((x / mu - 1) / mp.sqrt(x)) + mp.exp(2 / mu) * normal(-(x / mu + 1) / mp.sqrt(x))


def _truncated(x: Any, a: Any, b: Any) -> Any:
    return (normal(x) - normal(a)) / (normal(b) - normal(a))


def _fisher(x: Any, n: Any, d: Any) -> Any:
    return incomplete_beta(n / 2, d / 2, n * x / (n * x + d))


def _log_binomial(n: Any, k: Any) -> Any:
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def _times_log(x: Any, y: Any) -> Any:
    return x * mp.log(y) if x else mp.mpf(0)


CONTINUOUS: dict[str, tuple[Formula, Formula, Sequence[float], list[tuple[float, ...]]]] = {
    "norm": (normal, lambda x: -x * x / 2 - mp.log(2 * mp.pi) / 2, LINE, [()]),
    "t": (
        _student,
        lambda x, v: -mp.log(mp.sqrt(v) * mp.beta(v / 2,
        mp.mpf(1) / 2)) - (v + 1) / 2 * mp.log1p(x * x / v),
        [-1e200, *LINE, 1e200], [(2.5,), (0.7,), (40.0,)],
    ),
    "laplace": (
        lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2, lambda x: -abs(x) - mp.log(2),
        [x for x in LINE if x], [()],
    ),
    "laplace_asymmetric": (
        _asymmetric, lambda x, k: (-x * k if x >= 0 else x / k) - mp.log(k + 1 / k),
        [x for x in LINE if x], [(1.3,), (0.2,)],
    ),
    "cauchy": (
        lambda x: mp.atan2(1, -x) / mp.pi, lambda x: -mp.log(mp.pi) - mp.log1p(x * x), [-1e200,
        *LINE, 1e200], [()],
    ),
    "logistic": (lambda x: 1 / (1 + mp.exp(-x)), lambda x: -abs(x) - 2 * mp.log1p(mp.exp(-abs(x))),
    LINE, [()]),
    "gumbel_r": (lambda x: mp.exp(-mp.exp(-x)), lambda x: -x - mp.exp(-x), FALLING, [()]),
    "gumbel_l": (lambda x: -mp.expm1(-mp.exp(x)), lambda x: x - mp.exp(x), RISING, [()]),
    "gennorm": (
        _generalized, lambda x, b: mp.log(b / 2) - mp.loggamma(1 / b) - abs(x) ** b,
        [x for x in LINE if x],
        [(1.6,), (0.5,), (8.0,)],
    ),
    "loggamma": (
        lambda x, c: lower_gamma(c, mp.exp(x)), lambda x, c: c * x - mp.exp(x) - mp.loggamma(c),
        [x for x in RISING if x >= -300], [(1.4,), (0.2,), (60.0,)],
    ),
    "uniform": (lambda x: x, lambda x: mp.mpf(0), UNIT, [()]),
    "beta": (
        lambda x, a, b: incomplete_beta(a, b, x),
        lambda x, a, b: _times_log(a - 1, x) + _times_log(b - 1, 1 - x) - mp.log(mp.beta(a, b)),
        UNIT,
        [(1.5, 2.3), (0.4, 0.6), (30.0, 5.0)],
    ),
    "truncnorm": (
        _truncated, lambda x, a,
        b: -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(normal(b) - normal(a)),
        [-0.499, -0.3, 0.4, 1.5, 1.89, 6.001, 7.0, 8.99], [(-0.5, 1.9), (6.0, 9.0)],
    ),
    "vonmises": (
        _circular, lambda x, k: k * mp.cos(x) - mp.log(2 * mp.pi * mp.besseli(0, k)), CIRCLE,
        [(2.3,)],
    ),
    "wrapcauchy": (
        _wrapped, lambda x, c: mp.log((1 - c * c) / (2 * mp.pi * (1 + c * c - 2 * c * mp.cos(x)))),
        TURN, [(0.4,), (0.95,)],
    ),
    "gamma": (
        lambda x, a: lower_gamma(a, x), lambda x, a: _times_log(a - 1, x) - x - mp.loggamma(a),
        POSITIVE,
        [(1.7,), (0.3,), (60.0,)],
    ),
    "chi2": (
        lambda x, v: lower_gamma(v / 2, x / 2),
        lambda x, v: _times_log(v / 2 - 1, x) - x / 2 - mp.loggamma(v / 2) - v / 2 * mp.log(2),
        POSITIVE, [(3.3,), (0.4,)],
    ),
    "invgamma": (
        lambda x, a: upper_gamma(a, 1 / x), lambda x,
        a: -(a + 1) * mp.log(x) - 1 / x - mp.loggamma(a), POSITIVE,
        [(4.6,), (0.3,)],
    ),
    "expon": (lambda x: -mp.expm1(-x), lambda x: -x, POSITIVE, [()]),
    "lognorm": (
        lambda x, s: normal(mp.log(x) / s),
        lambda x, s: -((mp.log(x) / s) ** 2) / 2 - mp.log(s * x * mp.sqrt(2 * mp.pi)), POSITIVE,
        [(0.7,), (8.0,)],
    ),
    "pareto": (lambda x, b: 1 - x**-b, lambda x, b: mp.log(b) - (b + 1) * mp.log(x), ABOVE,
    [(5.3,), (0.2,)]),
    "weibull_min": (
        lambda x, c: -mp.expm1(-(x**c)), lambda x, c: mp.log(c) + _times_log(c - 1, x) - x**c,
        POSITIVE, [(1.8,), (0.3,)],
    ),
    "f": (
        _fisher,
        lambda x, n,
        d: n / 2 * mp.log(n) + d / 2 * mp.log(d) + (n / 2 - 1) * mp.log(x) - (n + d) / 2 * mp.log(d + n * x)
        - mp.log(mp.beta(n / 2, d / 2)), POSITIVE, [(3.2, 6.5), (0.6, 30.0)],
    ),
    "invgauss": (
        _inverse, lambda x, mu: -mp.log(2 * mp.pi * x**3) / 2 - (x / mu - 1) ** 2 / (2 * x),
        [1e-10, 1e-4, 0.05, 0.5, 1.0, 2.0, 8.0, 40.0, 300.0, 1e4], [(0.8,), (20.0,)],
    ),
}  # fmt: skip
DISCRETE: dict[str, tuple[Formula, Formula, list[float], list[tuple[float, ...]]]] = {
    "poisson": (
        lambda k, m: upper_gamma(k + 1, m), lambda k, m: k * mp.log(m) - m - mp.loggamma(k + 1),
        [0.0, 1.0, 3.0, 20.0, 200.0, 700.0, 1300.0, 5000.0], [(2.3,), (900.0,)],
    ),
    "binom": (
        lambda k, n, p: incomplete_beta(n - k, k + 1, 1 - p),
        lambda k, n, p: _log_binomial(n, k) + k * mp.log(p) + (n - k) * mp.log1p(-p),
        [0.0, 1.0, 4.0, 100.0, 900.0, 2900.0], [(6.0, 0.3), (3000.0, 0.3)],
    ),
    "bernoulli": (
        lambda k, p: mp.mpf(1) if k else 1 - p, lambda k, p: mp.log(p if k else 1 - p), [0.0, 1.0],
        [(0.4,), (1e-30,)],
    ),
    "nbinom": (
        lambda k, n, p: incomplete_beta(n, k + 1, p),
        lambda k, n,
        p: mp.loggamma(n + k) - mp.loggamma(k + 1) - mp.loggamma(n) + n * mp.log(p) + k * mp.log1p(-p),
        [0.0, 1.0, 5.0, 60.0, 2000.0, 20000.0], [(3.5, 0.4), (500.0, 0.1)],
    ),
    "geom": (
        lambda k, p: 1 - (1 - p) ** k, lambda k, p: (k - 1) * mp.log1p(-p) + mp.log(p), [1.0, 2.0,
        9.0, 80.0, 3000.0],
        [(0.3,), (1e-20,), (0.8,)],
    ),
    "betabinom": (
        lambda k, n, a, b: mp.nan,
        lambda k, n, a, b: _log_binomial(n, k) + mp.log(mp.beta(k + a, n - k + b) / mp.beta(a, b)),
        [0.0, 1.0, 4.0, 6.0], [(6.0, 1.3, 2.1)],
    ),
}  # fmt: skip
COMPLEMENT: dict[str, Formula] = {
    "norm": lambda x: normal(-x),
    "t": lambda x, v: _student(-x, v),
    "laplace": lambda x: mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2,
    "laplace_asymmetric": lambda x, k: (
        mp.exp(-x * k) / (1 + k * k) if x >= 0 else 1 - mp.exp(x / k) * k * k / (1 + k * k)
    ),
    "cauchy": lambda x: mp.atan2(1, x) / mp.pi,
    "logistic": lambda x: 1 / (1 + mp.exp(x)),
    "gumbel_r": lambda x: -mp.expm1(-mp.exp(-x)),
    "gumbel_l": lambda x: mp.exp(-mp.exp(x)),
    "gennorm": lambda x, b: _generalized(-x, b),
    "loggamma": lambda x, c: upper_gamma(c, mp.exp(x)),
    "beta": lambda x, a, b: incomplete_beta(b, a, 1 - x),
    "vonmises": lambda x, k: _circular(-x, k),
    "wrapcauchy": lambda x, c: _wrapped(2 * mp.pi - x, c),
    "gamma": lambda x, a: upper_gamma(a, x),
    "chi2": lambda x, v: upper_gamma(v / 2, x / 2),
    "invgamma": lambda x, a: lower_gamma(a, 1 / x),
    "expon": lambda x: mp.exp(-x),
    "lognorm": lambda x, s: normal(-mp.log(x) / s),
    "pareto": lambda x, b: x**-b,
    "weibull_min": lambda x, c: mp.exp(-(x**c)),
    "f": lambda x, n, d: incomplete_beta(d / 2, n / 2, d / (n * x + d)),
    "poisson": lambda k, m: lower_gamma(k + 1, m),
    "binom": lambda k, n, p: incomplete_beta(k + 1, n - k, p),
    "bernoulli": lambda k, p: mp.mpf(0) if k else p,
    "nbinom": lambda k, n, p: incomplete_beta(k + 1, n, 1 - p),
    "geom": lambda k, p: (1 - p) ** k,
}
"""Complements that are not taken from 1: in the upper tail, nothing would remain."""
WITHOUT = {
    "binom": (1,),
    "betabinom": (1,),
    "poisson": (),
    "nbinom": (),
    "geom": (),
    "bernoulli": (),
}
"""Shapes that are integers: there is no derivative by them; nor is there one by what is observed.
"""


def derivative(f: Formula, at: list[Any], k: int) -> Any:
    """The derivative by an argument, by differences with many digits."""
    step = (abs(at[k]) if at[k] else 1) * mp.mpf(10) ** -30

    def near(n: int) -> Any:
        return f(*[x + n * step * (j == k) for j, x in enumerate(at)])

    return (8 * (near(1) - near(-1)) - (near(2) - near(-2))) / (12 * step)


def rows() -> list[list[Any]]:
    """One row each: distribution, method, shapes, place, value, derivatives; what is out of range
    is left out.
    """
    found: list[list[Any]] = []
    for name, (cdf, density, places, shapes) in (CONTINUOUS | DISCRETE).items():
        is_counted = name in DISCRETE
        methods: dict[str, Formula] = {
            "logpmf" if is_counted else "logpdf": density,
            "logcdf": lambda *given, cdf=cdf: mp.log(cdf(*given)),
            "logsf": lambda *given, upper=COMPLEMENT.get(name, lambda *x, cdf=cdf: 1 - cdf(*x)): (
                mp.log(upper(*given))
            ),
        }
        mp.mp.dps = 60 if name == "vonmises" else 400
        for given in shapes:
            for x in places:
                if name == "truncnorm" and not given[0] < x < given[1]:
                    continue
                if (name == "binom" and x >= given[0]) or (name == "betabinom" and x > given[0]):
                    continue
                at = [mp.mpf(v) for v in (x, *given)]
                for method, f in methods.items():
                    value = f(*at)
                    if not mp.isfinite(value) or mp.im(value) or not _fits(value):
                        continue
                    if method == "logsf" and name not in COMPLEMENT and value < -550:
                        continue
                    moving = [
                        k
                        for k in range(len(at))
                        if not is_counted or (k and k not in WITHOUT[name])
                    ]
                    slopes = {k: derivative(f, at, k) for k in moving}
                    kept = {str(k): float(s) for k, s in slopes.items() if _fits(s)}
                    found.append([name, method, list(given), x, float(value), kept])
        print(name, len(found), flush=True)
    return found


def _fits(value: Any) -> bool:
    return value == 0 or mp.mpf("1e-280") < abs(value) < mp.mpf("1e280")


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row) for row in rows())
    FILE.write_text(f'{{"mpmath": "{mp.__version__}", "rows": [\n{lines}\n]}}\n')
