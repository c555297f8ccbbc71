"""Lowerings of `functrace.ops.special`: the functions that JAX computes as SciPy does.

Those were measured over their domains, with infinities, zeros and poles; they are within 100
roundings of SciPy's result, or of the change of the result that one rounding of an argument makes.
All compute in double precision. The others run on the host (`HOST`).

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special as jsp

from functrace.ops.special import BY_SHAPES, SLOPES, TABLE, TAILS
from functrace.xla.lowering import Operation, Value, cast, register, without_form
from functrace.xla.rows.elementwise import loop_dtypes

_TINY = float(np.finfo(np.float64).tiny)
_LEAST_LOG = math.log(float(np.finfo(np.float64).smallest_subnormal)) - math.log(2)
"""Logarithm of the numbers that round to 0."""


def _digamma(x: Value) -> Any:
    return jnp.where(x == 0, -jnp.copysign(np.inf, x), jsp.digamma(x))


def _log_gamma(x: Value) -> Any:
    return jnp.where(x == -np.inf, x, jsp.gammaln(x))


def _log_ndtr(x: Value) -> Any:
    """Small numbers above 0; below, a logarithm; far below, the asymptotic series (DLMF 7.12.1)."""
    half = jsp.erfc(jnp.abs(x) * math.sqrt(0.5)) / 2
    far = jnp.where(x < -20, x, -20.0)
    term, total = 1.0, 0.0
    for k in range(1, 10):
        term = term * (1 - 2 * k) / (far * far)
        total = total + term
    tail = -far * far / 2 - jnp.log(-far) - 0.5 * math.log(2 * math.pi) + jnp.log1p(total)
    near = jnp.where(x > 0, jnp.log1p(-half), jnp.log(half))
    return jnp.where(x < -20, tail, near)


def _exprel(x: Value) -> Any:
    quotient = jnp.expm1(x) / jnp.where(x == 0, 1.0, x)
    return jnp.where(jnp.abs(x) < 1e-16, 1.0, jnp.where(x > 717, np.inf, quotient))


def _relative_entropy(x: Value, y: Value) -> Any:
    is_inside = (x > 0) & (y > 0)
    x0, y0 = jnp.where(is_inside, x, 1.0), jnp.where(is_inside, y, 1.0)
    ratio = x0 / y0
    is_normal = (ratio > _TINY) & (ratio < np.inf)
    far = jnp.where(is_normal, jnp.log(jnp.where(is_normal, ratio, 1.0)), jnp.log(x0) - jnp.log(y0))
    is_near = (ratio > 0.5) & (ratio < 2)
    value = x0 * jnp.where(is_near, jnp.log1p((x0 - y0) / y0), far)
    found = jnp.where(is_inside, value, jnp.where((x == 0) & (y >= 0), 0.0, np.inf))
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), np.nan, found)


def _divergence(x: Value, y: Value) -> Any:
    is_inside = (x > 0) & (y > 0)
    x0, y0 = jnp.where(is_inside, x, 1.0), jnp.where(is_inside, y, 1.0)
    outside = jnp.where((x == 0) & (y >= 0), y, np.inf)
    ratio, small = x0 / y0, jnp.log(x0) - jnp.log(y0)
    small = jnp.where(small < _LEAST_LOG, -np.inf, small)
    log_ratio = jnp.where(ratio < _TINY, small, jnp.log(ratio))  # (XLA makes subnormal numbers 0)
    found = jnp.where(is_inside, x0 * log_ratio - x0 + y0, outside)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), np.nan, found)


def _box_cox(x: Value, power: Value) -> Any:
    quotient = jnp.expm1(power * jnp.log(x)) / jnp.where(power == 0, 1.0, power)
    return jnp.where(jnp.abs(power) < 1e-19, jnp.log(x), quotient)


def _huber(delta: Value, r: Value) -> Any:
    size = jnp.abs(r)
    found = jnp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return jnp.where(delta < 0, np.inf, found)


def _pseudo_huber(delta: Value, r: Value) -> Any:
    ratio = r / jnp.where(delta == 0, 1.0, delta)
    found = delta * delta * jnp.expm1(0.5 * jnp.log1p(ratio * ratio))
    return jnp.where(delta < 0, np.inf, jnp.where((delta == 0) | (r == 0), 0.0, found))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "boxcox": _box_cox,
    "cosm1": lambda x: -2 * jnp.sin(x / 2) ** 2,
    "entr": jsp.entr,
    "erf": jsp.erf,
    "erfc": jsp.erfc,
    "erfinv": jsp.erfinv,
    "exp10": lambda x: jnp.power(10.0, x),
    "expit": jax.nn.sigmoid,
    "exprel": _exprel,
    "gamma": jsp.gamma,
    "gammaln": _log_gamma,
    "gammasgn": jsp.gammasgn,
    "huber": _huber,
    "i0e": jsp.i0e,
    "i1": jsp.i1,
    "i1e": jsp.i1e,
    "kl_div": _divergence,
    "log_expit": jax.nn.log_sigmoid,
    "log_ndtr": _log_ndtr,
    "logit": jsp.logit,
    "ndtr": jsp.ndtr,
    "ndtri": jsp.ndtri,
    "pseudo_huber": _pseudo_huber,
    "psi": _digamma,
    "radian": lambda d, m, s: (s + 60 * (m + 60 * d)) * (math.pi / (180 * 3600)),
    "rel_entr": _relative_entropy,
    "special_cbrt": jnp.cbrt,
    "special_exp2": jnp.exp2,
    "special_expm1": jnp.expm1,
    "special_i0": jsp.i0,
    "special_log1p": jnp.log1p,
    "special_round": jnp.round,
    "spence": jsp.spence,
    "xlog1py": jsp.xlog1py,
    "xlogy": jsp.xlogy,
}
"""Functions of real float64 arrays, by name."""

_DIFFERS = "JAX's function is less accurate than SciPy's, or differs at the edges of the domain"
_NONE = "JAX has no such function"

HOST: Mapping[str, str] = {
    **dict.fromkeys(sorted({*TABLE, *BY_SHAPES, *SLOPES, *TAILS} - set(FUNCTIONS)), _NONE),
    **dict.fromkeys(
        [
            "bdtr", "bdtrc", "beta", "betainc", "betaincc", "betaln", "exp1", "expi", "expn",
            "fresnel", "gammainc", "gammaincc", "hyp1f1", "hyp2f1", "pdtr", "pdtrc", "poch",
            "rgamma", "riemann_zeta", "sici", "zeta",
        ],
        _DIFFERS,
    ),
}  # fmt: skip
"""Special functions that run on the host, with the reason."""


def _register(name: str, function: Callable[..., Any]) -> None:
    ufunc = TABLE[name].eval

    def lowered(op: Operation, *values: Value) -> Any:
        dtypes = loop_dtypes(ufunc, op.specs)
        if dtypes[0].kind == "c":
            return without_form(op, *values, reason="JAX has it for real numbers only")
        arrays = [cast(x, d) for x, d in zip(values, dtypes, strict=False)]
        return cast(function(*[jnp.asarray(cast(x, np.float64)) for x in arrays]), op.dtype)

    register(TABLE[name])(lowered)


for _name, _function in FUNCTIONS.items():
    _register(_name, _function)
