"""Activations: functions of every element.

Note [Tails]
    ``x * sigmoid(x)`` is nan at -inf, and its derivative at +inf; the polynomial in gelu's tanh overflows long before. From
    some hundred on, all of these functions are ``relu`` to the last bit, in every precision: so they are ``relu`` beyond
    `_TAIL`, and what overflows is not asked.

Layer: 8 (api).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from functrace.errors import ShapeError
from functrace.nn.operands import floating, numeric, plain_scalar
from functrace.ops import elementwise as ew
from functrace.tracing.tracer import Tracer
from functrace.typing import Array, ArrayLike

X: TypeAlias = "ArrayLike | Tracer"
"""What an activation takes: an array of any shape, a number, or a traced value."""

_TAIL = 1000.0


def _with_tails(x: Array, f: Callable[[Any], Any]) -> Any:
    """``f``, which is relu far from 0; see Note [Tails]."""
    far = np.abs(x) > _TAIL
    return plain_scalar(np.where(far, ew.relu(x), f(np.where(far, 0.0, x).astype(x.dtype))))


# -- piecewise linear ------------------------------------------------------------------------------------------------------


def relu(x: X) -> Any:
    """Return ``max(x, 0)`` element by element; the derivative at 0 is 0.

    Example:
        >>> import numpy as np
        >>> relu(np.array([-1.0, 0.0, 2.0]))
        array([0., 0., 2.])
    """
    return ew.relu(numeric(x, "the argument of relu"))


def relu6(x: X) -> Any:
    """Return ``min(max(x, 0), 6)``; the derivative at 0 and at 6 is 0."""
    value = numeric(x, "the argument of relu6")
    bounded = np.minimum(np.maximum(value, 0), 6)
    return plain_scalar(np.where((value > 0) & (value < 6), value, ew.stop_gradient(bounded)))


def leaky_relu(x: X, negative_slope: X = 0.01) -> Any:
    """Return ``x`` where it is positive, else ``negative_slope * x``; the derivative at 0 is ``negative_slope``."""
    value = floating(x, "the argument of leaky_relu")
    right = value > 0
    return plain_scalar(np.where(right, value, negative_slope * _kept(~right, value)))


def hard_tanh(x: X) -> Any:
    """Return ``x`` between -1 and 1, and beyond the nearer of these; the derivative at both is 0."""
    value = numeric(x, "the argument of hard_tanh")
    return plain_scalar(np.where(np.abs(value) < 1, value, ew.stop_gradient(np.clip(value, -1, 1))))


def hard_sigmoid(x: X) -> Any:
    """Return ``relu6(x + 3) / 6``; the derivative at -3 and at 3 is 0."""
    return relu6(floating(x, "the argument of hard_sigmoid") + 3.0) / 6.0


def hard_silu(x: X) -> Any:
    """Return ``x * hard_sigmoid(x)``; the derivative is 0 at -3, and 1 at 3."""
    value = floating(x, "the argument of hard_silu")
    between = np.abs(value) < 3.0
    inner = _kept(between, value)
    return plain_scalar(np.where(between, inner * (inner + 3.0) / 6.0, ew.relu(value)))


hard_swish = hard_silu


# -- exponential -----------------------------------------------------------------------------------------------------------


def elu(x: X, alpha: X = 1.0) -> Any:
    """Return ``x`` where it is positive, else ``alpha * (exp(x) - 1)``; the derivative at 0 is ``alpha``.

    Source:
        Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential linear units" (2015).
    """
    value = floating(x, "the argument of elu")
    right = value > 0
    return plain_scalar(np.where(right, value, alpha * np.expm1(_kept(~right, value))))


def celu(x: X, alpha: X = 1.0) -> Any:
    """Return ``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; the derivative at 0 is 1.

    Source:
        Barron, "Continuously differentiable exponential linear units" (2017).
    """
    value = floating(x, "the argument of celu")
    right = value > 0
    return plain_scalar(np.where(right, value, alpha * np.expm1(_kept(~right, value) / alpha)))


def selu(x: X) -> Any:
    """Return the self-normalising ``elu``: ``1.0507 * elu(x, 1.6733)``.

    Source:
        Klambauer et al., "Self-normalizing neural networks" (2017).
    """
    return _SCALE * elu(x, _ALPHA)


_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


# -- smooth ----------------------------------------------------------------------------------------------------------------


def sigmoid(x: X) -> Any:
    """Return ``1 / (1 + exp(-x))``, which never overflows.

    Example:
        >>> import numpy as np
        >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
        array([0. , 0.5, 1. ])
    """
    return ew.sigmoid(floating(x, "the argument of sigmoid"))


def log_sigmoid(x: X) -> Any:
    """Return ``log(sigmoid(x))``, which is exact where the sigmoid is 0 or 1."""
    return -softplus(-floating(x, "the argument of log_sigmoid"))


def softplus(x: X) -> Any:
    """Return ``log(1 + exp(x))``, which never overflows."""
    return np.logaddexp(floating(x, "the argument of softplus"), 0.0)


def silu(x: X) -> Any:
    """Return ``x * sigmoid(x)``; also called swish.

    Example:
        >>> import numpy as np
        >>> silu(np.array([-np.inf, 0.0, np.inf]))
        array([ 0.,  0., inf])

    Source:
        Hendrycks and Gimpel, "Gaussian error linear units" (2016).
    """
    return _with_tails(floating(x, "the argument of silu"), lambda value: value * ew.sigmoid(value))


swish = silu


def gelu(x: X, approximate: bool = True) -> Any:
    """Return ``x`` times the distribution function of the normal distribution at ``x``.

    Args:
        x: any array.
        approximate: whether the distribution function is approximated by a tanh, as ``jax.nn`` does by default; else it is
            exact, for which SciPy must be installed.

    Raises:
        ImportError: if it is to be exact, and there is no SciPy.

    Example:
        >>> import numpy as np
        >>> np.round(gelu(np.array([-1.0, 1.0]), approximate=False), 4)
        array([-0.1587,  0.8413])

    Source:
        Hendrycks and Gimpel, "Gaussian error linear units" (2016).
    """
    value = floating(x, "the argument of gelu")
    if approximate:
        return _with_tails(value, _gelu_by_tanh)
    try:
        from functrace.ops.special.errors import erfc
    except ImportError as error:
        raise ImportError(
            "gelu(approximate=False) needs SciPy, which is not installed: pip install 'scipy>=1.17'"
        ) from error
    return _with_tails(value, lambda inner: (0.5 * inner * erfc(inner * -_ROOT_HALF)).astype(value.dtype))


_ROOT_HALF, _ROOT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def _gelu_by_tanh(x: Array) -> Any:
    return 0.5 * x * (1.0 + np.tanh(_ROOT_TWO_OVER_PI * x * (1.0 + 0.044715 * np.square(x))))


def mish(x: X) -> Any:
    """Return ``x * tanh(softplus(x))``, whose derivatives of any order keep their digits far from 0.

    Source:
        Misra, "Mish: a self regularized non-monotonic activation function" (2019).
    """
    return _with_tails(floating(x, "the argument of mish"), _mish)


def _mish(x: Array) -> Any:
    # tanh(log(1 + exp(x))) is a quotient of polynomials in exp(x); right of 0 its distance from 1, in exp(-x)
    right = x > 0
    u = np.exp(np.where(right, -x, x))
    left = u * (u + 2.0)
    rest = 2.0 * np.square(u)
    return np.where(right, x - x * (rest / (1.0 + 2.0 * u + rest)), x * (left / (left + 2.0))).astype(x.dtype)


def soft_sign(x: X) -> Any:
    """Return ``x / (|x| + 1)``, which is -1 and 1 at infinity."""
    value = floating(x, "the argument of soft_sign")
    infinite = np.isinf(value)
    inner = _kept(~infinite, value)
    return plain_scalar(np.where(infinite, np.sign(value), inner / (np.abs(inner) + 1.0)))


def squareplus(x: X, b: X = 4.0) -> Any:
    """Return ``(x + sqrt(x**2 + b)) / 2``, a smooth relu without exponentials; exact for negative ``x``, too.

    Source:
        Barron, "Squareplus: a softplus-like algebraic rectifier" (2021).
    """
    value = floating(x, "the argument of squareplus")
    infinite, right = np.isinf(value), value >= 0
    inner = _kept(~infinite, value)
    root = np.hypot(inner, np.sqrt(numeric(b, "b of squareplus")))
    left = b / (2.0 * (root - np.where(right, 0.0, inner)))
    result = np.where(right, (inner + root) / 2.0, left)
    return plain_scalar(np.where(infinite, ew.relu(value), result).astype(value.dtype))


def glu(x: X, axis: int = -1) -> Any:
    """Return the first half of ``x`` along an axis times the sigmoid of the second.

    Args:
        x: an array whose axis has an even size.
        axis: the axis that is halved.

    Raises:
        ShapeError: if the size is odd.

    Source:
        Dauphin et al., "Language modeling with gated convolutional networks" (2017).
    """
    value = floating(x, "the argument of glu")
    size = value.shape[axis]
    if size % 2:
        raise ShapeError(f"glu: axis {axis} has the size {size}, which is odd", fix="pass two halves of one size")
    first, second = np.split(value, 2, axis=axis)
    return first * ew.sigmoid(second)


def _kept(where: Array, x: Array) -> Any:
    """``x`` where it is asked for, elsewhere 0: so nothing that is not chosen is infinite, forwards or backwards."""
    return np.where(where, x, 0.0).astype(x.dtype)
