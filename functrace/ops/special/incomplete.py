"""Derivatives of all orders of the incomplete gamma and beta functions by their shapes, for
quantiles and samples.

Note [Derivatives by a shape]
    P(a, x) is the integral of a density p(a, t) up to x, so its derivatives by a are integrals of
    derivatives of p, which are p times a polynomial in derivatives of log p (Bell's; `_bell`). The
    code computes R_n = (d/da)^n P / p, which is in range in both tails; and -R_1 is the derivative
    of a quantile, and of a sample, by the shape. Its own derivatives are R_{n+1} and R_n again, so
    one primitive gives every order:

        dR_n / da = R_{n+1} - R_n (log p)_a,        dR_n / dx = (d/da)^n p / p - R_n (log p)_x

    The integral is taken on the side of x where its integrand falls from x on (the whole integral
    is constant), in the logarithm of t (its logit), where the integrand is log-concave and entire:
    Gauss-Legendre nodes, concentrated near x, extend to where it has fallen by 45 powers of e.
    Relative errors are about 1e-13, and for large shapes those of log p.

Source: DLMF 8.2, 8.17; Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018);
Faa di Bruno for Bell.

Layer: 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as sp

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.special.gamma import polygamma
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.typing import Function

Order = tuple[int, ...]
Score = Callable[[Order], Any]
"""The derivative of log p by shapes; an order gives the number of derivatives by each shape."""

_FALL = 45.0
_NODES = 80
_BLOCK = 2048


def _rule() -> tuple[Array, Array]:
    """Return nodes and weights on [0, 1], concentrated near 0."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    v = 0.5 * (nodes + 1.0)
    return v**3, 1.5 * v**2 * weights


def _bell(order: Order, score: Score) -> Any:
    """The derivative of p by its shapes over p, from those of log p; plain or traced."""
    if not any(order):
        return 1.0
    first = next(k for k, n in enumerate(order) if n)
    rest = tuple(n - (k == first) for k, n in enumerate(order))
    total: Any = None
    for part in itertools.product(*[range(n + 1) for n in rest]):
        factor = math.prod(map(math.comb, rest, part))
        above = tuple(n + (k == first) for k, n in enumerate(part))
        term = (
            factor
            * score(above)
            * _bell(tuple(n - m for n, m in zip(rest, part, strict=True)), score)
        )
        total = term if total is None else total + term
    return total


def _length(fall: Callable[[Array], Array], slope: Callable[[Array], Array], start: Array) -> Array:
    """Find where a rising convex function reaches `_FALL`, by Newton steps."""
    s = start
    for _ in range(40):
        s = s - (fall(s) - _FALL) / slope(s)
    return s


def in_blocks(function: Function[Array], *operands: Array) -> Array:
    """Apply a function of vectors to arrays that broadcast, in blocks of elements."""
    arrays = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in operands])
    flat = [x.ravel() for x in arrays]
    out = np.empty(flat[0].size)
    for begin in range(0, out.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        with np.errstate(all="ignore"):
            out[part] = function(*[x[part] for x in flat])
    return out.reshape(arrays[0].shape)


# -- gamma -----------------------------------------------------------------------------------------


def _psi(order: int, x: Array) -> Array:
    """The derivative of log gamma of an order, at least 1."""
    return (
        sp.psi(x) if order == 1 else (-1.0) ** order * math.factorial(order - 1) * sp.zeta(order, x)
    )


def gamma_ratio(a: Array, x: Array, order: int) -> Array:
    """``R_n``; for the order 0, ``P / p`` left of ``a``, and ``(P - 1) / p`` right of it."""
    u, weights = _rule()
    is_left = x <= np.maximum(a, 1e-8)
    is_inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a, z = np.where(is_inside, a, 1.0), np.where(is_inside, x, 1.0)
    sign = np.where(is_left, -1.0, 1.0)
    # t = z exp(sign s): the density there, times t, falls by sign (z expm1(sign s) - a s) powers of
    # e
    left = _length(
        lambda s: a * s + z * np.expm1(-s), lambda s: a - z * np.exp(-s), (_FALL + z) / a
    )
    right = _length(
        lambda s: z * np.expm1(s) - a * s,
        lambda s: z * np.exp(s) - a,
        np.minimum(np.sqrt(2 * _FALL / z), np.log1p(2 * _FALL / z)),
    )
    length = np.where(is_left, left, right)[:, None]
    s = sign[:, None] * length * u
    bulk = np.exp(a[:, None] * s - z[:, None] * np.expm1(s))
    scores = {k: -_psi(k, a)[:, None] for k in range(1, max(order, 1) + 1)}
    scores[1] = scores[1] + np.log(z)[:, None] + s
    integrand = bulk * _bell((order,), lambda k: scores[k[0]])
    found = -sign * z * length[:, 0] * (integrand @ weights)
    return np.where(is_inside, found, np.where((a > 0) & (x == 0), 0.0, np.nan))


def _operand_aval(*specs: Any) -> ShapeDtype:
    *operands, orders = specs
    if len(orders) != len(operands) - 1 or not any(orders):
        raise ProgramError(
            f"orders {orders} of {len(operands) - 1} shapes",
            fix="give one per shape, and not only 0",
        )
    return joined_aval(*operands)


def joined_aval(*operands: Any) -> ShapeDtype:
    """Return the broadcast aval of float operands."""
    found: Any = float
    for spec in operands:
        kind = float if spec is int else spec
        if not (found is float and kind is float):
            found = _JOINED(found, kind)
    return found if isinstance(found, ShapeDtype) else ShapeDtype((), np.dtype(np.float64))


_JOINED = ew.ufunc_aval("the incomplete gamma function", np.arctan2)
"""Broadcast shape and dtype of two operands; integers become floats."""


def in_their_dtype(found: Array, values: tuple[Any, ...]) -> Any:
    """Cast a result to the precision of its operands."""
    arrays = [x for x in values if type(x) not in (int, float)]
    return found.astype(np.result_type(*arrays, np.float16) if arrays else np.float64)[()]


def _raised(order: Order, k: int) -> Order:
    return tuple(n + (j == k) for j, n in enumerate(order))


def _jvp_of(scores: Callable[..., Score], slope: Callable[..., Any]) -> Callable[..., Any]:
    """Return the jvp rule of `R_n`, from derivatives of log p by shapes, and by x."""

    def jvp(primals: Values, outputs: Values, tangents: Tangents, order: Order) -> Any:
        *shapes, x = primals
        out, total = outputs[0], None
        score = scores(*shapes, x)
        for k, tangent in enumerate(tangents[:-1]):
            if tangent is not None:
                one = tuple(int(j == k) for j in range(len(order)))
                change = by_shapes(_raised(order, k), *shapes, x) - out * score(one)
                total = ew.plus(total, ew.mul(tangent, change))
        moved = tangents[-1]
        if moved is not None:
            total = ew.plus(total, ew.mul(moved, _bell(order, score) - out * slope(*shapes, x)))
        return total

    return jvp


def by_shapes(order: Order, *operands: Value) -> Any:
    """``(d/da)^n P / p`` of the incomplete gamma function, or ``(d/da)^n (d/db)^m I / p`` of the
    incomplete beta function.

    Args:
        order: number of derivatives by each shape; not all of them 0.
        operands: the shapes, and x.
    """
    return bind(incomplete_gamma_p if len(order) == 1 else incomplete_beta_p, operands, (order,))


def _gamma_eval(a: Array, x: Array, orders: Order) -> Any:
    return in_their_dtype(in_blocks(lambda a, x: gamma_ratio(a, x, orders[0]), a, x), (a, x))


def _gamma_scores(a: Array, x: Array) -> Score:
    def score(order: Order) -> Any:
        found = -polygamma(order[0] - 1, a)
        return found + ew.log(x) if order[0] == 1 else found

    return score


def _gamma_slope(a: Array, x: Array) -> Any:
    return (a - 1.0) / x - 1.0


incomplete_gamma_p = Primitive(
    "incomplete_gamma",
    eval=_gamma_eval,
    aval=_operand_aval,
    jvp=_jvp_of(_gamma_scores, _gamma_slope),
    transpose=absent(
        because="the incomplete gamma function is not linear",
        instead="differentiate with functrace.vjp instead",
    ),
    batch=ELEMENTWISE,
    params=("orders",),
)
"""``incomplete_gamma a x {orders=(1,)}``: the derivative of ``gammainc`` by its shape, over the
density at x.
"""

# -- beta ------------------------------------------------------------------------------------------


def beta_ratio(a: Array, b: Array, x: Array, n: int, m: int) -> Array:
    """``R_nm``; for the orders 0, ``I / p`` left of ``a / (a + b)``, and ``(I - 1) / p`` right of
    it.
    """
    u, weights = _rule()
    is_inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    is_left = x * (a + b) <= a
    a, b = np.where(is_inside, a, 1.0), np.where(is_inside, b, 1.0)
    z = np.where(is_inside, x, 0.5)
    # to the right of the mode, I_x(a, b) = 1 - I_{1-x}(b, a)
    p, q = np.where(is_left, a, b), np.where(is_left, b, a)
    z, rest = np.where(is_left, z, 1.0 - z), np.where(is_left, 1.0 - z, z)
    total = p + q

    def other(s: Array) -> Array:
        return z * np.exp(-s) / (1.0 + z * np.expm1(-s))

    length = _length(
        lambda s: p * s + total * np.log1p(z * np.expm1(-s)),
        lambda s: p - total * other(s),
        (_FALL - total * np.log(rest)) / p,
    )[:, None]
    s = length * u
    moved = np.log1p(z[:, None] * np.expm1(-s))
    bulk = np.exp(-p[:, None] * s - total[:, None] * moved)
    near, far = np.log(z)[:, None] - s - moved, np.log(rest)[:, None] - moved
    turned = ~is_left[:, None]
    logs: dict[Order, Array] = {
        (1, 0): np.where(turned, far, near),
        (0, 1): np.where(turned, near, far),
    }

    def score(order: Order) -> Array:
        k = sum(order)
        found = _psi(k, a + b)
        if order[1] == 0:
            found = found - _psi(k, a)
        if order[0] == 0:
            found = found - _psi(k, b)
        return found[:, None] + logs.get(order, 0.0)

    integrand = bulk * _bell((n, m), score)
    found = np.where(is_left, 1.0, -1.0) * z * rest * length[:, 0] * (integrand @ weights)
    return np.where(
        is_inside, found, np.where((a > 0) & (b > 0) & ((x == 0) | (x == 1)), 0.0, np.nan)
    )


def _beta_eval(a: Array, b: Array, x: Array, orders: Order) -> Any:
    return in_their_dtype(
        in_blocks(lambda a, b, x: beta_ratio(a, b, x, *orders), a, b, x), (a, b, x)
    )


def _beta_scores(a: Array, b: Array, x: Array) -> Score:
    def score(order: Order) -> Any:
        k = sum(order) - 1
        found = polygamma(k, a + b)
        if order[1] == 0:
            found = found - polygamma(k, a)
        if order[0] == 0:
            found = found - polygamma(k, b)
        return found + (ew.log(x) if order == (1, 0) else ew.log1p(-x) if order == (0, 1) else 0.0)

    return score


def _beta_slope(a: Array, b: Array, x: Array) -> Any:
    return (a - 1.0) / x - (b - 1.0) / (1.0 - x)


incomplete_beta_p = Primitive(
    "incomplete_beta",
    eval=_beta_eval,
    aval=_operand_aval,
    jvp=_jvp_of(_beta_scores, _beta_slope),
    transpose=absent(
        because="the incomplete beta function is not linear",
        instead="differentiate with functrace.vjp instead",
    ),
    batch=ELEMENTWISE,
    params=("orders",),
)
"""``incomplete_beta a b x {orders=(1, 0)}``: the derivative of ``betainc`` by its shapes, over the
density at x.
"""

BY_SHAPES: dict[str, Primitive] = {row.name: row for row in (incomplete_gamma_p, incomplete_beta_p)}
"""Both primitives by name."""
