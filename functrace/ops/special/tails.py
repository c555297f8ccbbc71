"""Logarithms of the regularized incomplete gamma and beta functions and their complements, also in
the far tails.

Where the function underflows, its logarithm is that of the integrand plus that of ``R_0``, their
quotient, which is in range: see Note [Derivatives by a shape] in
functrace/ops/special/incomplete.py. Elsewhere it is the logarithm of SciPy's function, or, above
one half, of 1 minus its complement. With ``p`` the integrand,

    d log P / dx = exp(log p - log P),        d log P / da = exp(log p - log P) R_1

Source: DLMF 8.2, 8.17.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special as sp

from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.special.gamma import betaln, gammaln
from functrace.ops.special.incomplete import (
    beta_ratio,
    by_shapes,
    gamma_ratio,
    in_blocks,
    in_their_dtype,
    joined_aval,
)
from functrace.ops.special.logarithms import xlog1py, xlogy
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_LEAST = 1e-290


def _logarithm(
    function: Callable[..., Any],
    complement: Callable[..., Any],
    far: Callable[..., Any],
    *operands: Array,
) -> Array:
    """Return the logarithm of a function; by another formula where it underflows."""
    value: Array = function(*operands)
    rest: Array = complement(*operands)
    from_rest: Array = np.log1p(-rest)
    found = np.where(value > 0.5, from_rest, np.log(value))
    tiny = np.flatnonzero((value < _LEAST) & (rest > 0.5))
    if tiny.size:
        found[tiny] = far(*[x[tiny] for x in operands])
    return found


def _gamma_far(sign: float) -> Callable[..., Any]:
    def far(a: Array, x: Array) -> Array:
        inside = (x > 0) & np.isfinite(x)
        a, z = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
        log_density = sp.xlogy(a - 1.0, z) - z - sp.gammaln(a)
        return np.where(inside, log_density + np.log(sign * gamma_ratio(a, z, 0)), -np.inf)

    return far


def _beta_far(sign: float) -> Callable[..., Any]:
    def far(a: Array, b: Array, x: Array) -> Array:
        inside = (x > 0) & (x < 1)
        z = np.where(inside, x, 0.5)
        log_density = sp.xlogy(a - 1.0, z) + sp.xlog1py(b - 1.0, -z) - sp.betaln(a, b)
        return np.where(inside, log_density + np.log(sign * beta_ratio(a, b, z, 0, 0)), -np.inf)

    return far


def _log_gamma_density(a: Array, x: Array) -> Any:
    return xlogy(a - 1.0, x) - x - gammaln(a)


def _log_beta_density(a: Array, b: Array, x: Array) -> Any:
    return xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b)


def _tail(
    name: str,
    function: Callable[..., Any],
    complement: Callable[..., Any],
    far: Callable[..., Any],
    log_density: Callable[..., Any],
    sign: float,
) -> Primitive:
    def logarithm(*operands: Array) -> Array:
        return _logarithm(function, complement, far, *operands)

    def evaluated(*operands: Array) -> Any:
        return in_their_dtype(in_blocks(logarithm, *operands), operands)

    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        share, total = sign * ew.exp(log_density(*primals) - outputs[0]), None
        count = len(primals) - 1
        for k, tangent in enumerate(tangents[:-1]):
            if tangent is not None:
                change = share * by_shapes(tuple(int(j == k) for j in range(count)), *primals)
                total = ew.plus(total, ew.mul(tangent, change))
        moved = tangents[-1]
        return total if moved is None else ew.plus(total, ew.mul(moved, share))

    return Primitive(
        name,
        eval=evaluated,
        aval=joined_aval,
        jvp=jvp,
        transpose=absent(
            because=f"{name} is not linear", instead="differentiate with functrace.vjp instead"
        ),
        batch=ELEMENTWISE,
    )


log_gammainc_p = _tail(
    "log_gammainc", sp.gammainc, sp.gammaincc, _gamma_far(1.0), _log_gamma_density, 1.0
)
log_gammaincc_p = _tail(
    "log_gammaincc", sp.gammaincc, sp.gammainc, _gamma_far(-1.0), _log_gamma_density, -1.0
)
log_betainc_p = _tail(
    "log_betainc", sp.betainc, sp.betaincc, _beta_far(1.0), _log_beta_density, 1.0
)
log_betaincc_p = _tail(
    "log_betaincc", sp.betaincc, sp.betainc, _beta_far(-1.0), _log_beta_density, -1.0
)


def log_gammainc(a: Value, x: Value) -> Any:
    """The logarithm of ``scipy.special.gammainc``."""
    return bind(log_gammainc_p, (a, x), ())


def log_gammaincc(a: Value, x: Value) -> Any:
    """The logarithm of ``scipy.special.gammaincc``."""
    return bind(log_gammaincc_p, (a, x), ())


def log_betainc(a: Value, b: Value, x: Value) -> Any:
    """The logarithm of ``scipy.special.betainc``."""
    return bind(log_betainc_p, (a, b, x), ())


def log_betaincc(a: Value, b: Value, x: Value) -> Any:
    """The logarithm of ``scipy.special.betaincc``."""
    return bind(log_betaincc_p, (a, b, x), ())


TAILS: dict[str, Primitive] = {
    row.name: row for row in (log_gammainc_p, log_gammaincc_p, log_betainc_p, log_betaincc_p)
}
"""All four primitives by name."""
