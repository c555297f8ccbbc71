"""Logarithms of probabilities in both tails, shared by distributions.

Far out, a distribution function rounds to 1, or underflows before its logarithm does: so the
logarithm is computed from the other side, or by a formula in logarithms, where these are accurate.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.ops.special.tails import log_betainc, log_betaincc
from functrace.scipy.kinds import where
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.typing import Function

    Formula = Function[Any]
else:
    Formula = Callable[..., Any]
"""Formula of a row: a function of the observation and of the shapes, or of the shapes alone."""


def kept(condition: Array, x: Array, instead: float) -> Any:
    """Select an operand where a formula applies, elsewhere a safe number."""
    return where(condition, x, instead)


def logarithm(part: Formula, rest: Formula | None) -> Formula:
    """Return the logarithm of a probability: above one half by the complement.

    Args:
        part, rest: the probability and its complement, with the same arguments.
    """
    if rest is None:

        def plainly(*given: Array) -> Any:
            return np.log(part(*given))

        return plainly
    complement = rest

    def formula(*given: Array) -> Any:
        one, other = part(*given), complement(*given)
        is_most = one > 0.5
        return where(
            is_most, np.log1p(-kept(is_most, other, 0.25)), np.log(kept(~is_most, one, 0.25))
        )

    return formula


def log_rest(log_part: Array) -> Any:
    """``log(1 - exp(x))`` of ``x <= 0``."""
    is_small = log_part < -0.7
    by_small = np.log1p(-np.exp(kept(is_small, log_part, -1.0)))
    return where(is_small, by_small, np.log(-np.expm1(kept(~is_small, log_part, -0.5))))


def log_expired(log_x: Array) -> Any:
    """``log(1 - exp(-x))`` from the logarithm of ``x``, where ``x`` may underflow."""
    is_tiny, is_large, is_huge = log_x < -40.0, log_x >= -0.3, log_x > 6.7
    is_small, is_middle = ~is_tiny & ~is_large, is_large & ~is_huge
    small = np.log(-np.expm1(-np.exp(kept(is_small, log_x, -1.0))))
    large = np.log1p(-np.exp(-np.exp(kept(is_middle, log_x, 0.0))))
    return where(is_tiny, log_x, where(is_small, small, where(is_huge, 0.0, large)))


def log_fisher(x: Array, n: Array, d: Array, *, upper: bool) -> Any:
    """Return the logarithm of F's distribution function, or of its complement.

    Args:
        x: argument, positive.
        n, d: the degrees of freedom.
        upper: True for the complement.
    """
    scaled = d + n * x
    at, rest = n * x / scaled, d / scaled
    is_left = at < 0.5  # the smaller of the two has full precision
    at, rest = kept(is_left, at, 0.25), kept(~is_left, rest, 0.25)
    a, b = 0.5 * n, 0.5 * d
    if upper:
        return where(is_left, log_betaincc(a, b, at), log_betainc(b, a, rest))
    return where(is_left, log_betainc(a, b, at), log_betaincc(b, a, rest))


def log1p_square(x: Array) -> Any:
    """``log(1 + x**2)``, also where the square overflows."""
    is_far = np.abs(x) > 1e9
    far = 2.0 * np.log(np.abs(kept(is_far, x, 1e9)))
    return where(is_far, far, np.log1p(np.square(kept(~is_far, x, 0.0))))
