"""Activations: elementwise functions.

Note [Tails]
    ``x * sigmoid(x)`` is nan at -inf, and its derivative at +inf; the polynomial in gelu's tanh
    overflows much earlier. Beyond a few hundred, all of these functions equal ``relu`` to the last
    bit, in every
    precision: so they are ``relu`` beyond `_TAIL`, and terms that overflow are not evaluated.

Layer: 8 (api).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from jaxtyping import Num

from functrace.errors import ShapeError
from functrace.nn.operands import X, floating, numeric, plain_scalar
from functrace.ops import elementwise as ew
from functrace.typing import Array

_TAIL = 1000.0


def _with_tails(x: Array, f: Callable[[Any], Any]) -> Any:
    """Return ``f(x)``, which is relu far from 0; see Note [Tails]."""
    far = np.abs(x) > _TAIL
    return plain_scalar(np.where(far, ew.relu(x), f(np.where(far, 0.0, x).astype(x.dtype))))


# -- piecewise linear ------------------------------------------------------------------------------


def relu(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Rectified linear unit: ``max(x, 0)``; its derivative at 0 is 0.

    Args:
        x: any numeric array.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> relu(np.array([-1.0, 0.0, 2.0]))
        array([0., 0., 2.])
    """
    return ew.relu(numeric(x, "the argument of relu"))


def relu6(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Clip ``x`` to the range from 0 to 6; the derivative at both ends is 0.

    Args:
        x: any numeric array.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> relu6(np.array([-1.0, 2.0, 8.0]))
        array([0., 2., 6.])
    """
    value = numeric(x, "the argument of relu6")
    bounded = np.minimum(np.maximum(value, 0), 6)
    return plain_scalar(np.where((value > 0) & (value < 6), value, ew.stop_gradient(bounded)))


def leaky_relu(
    x: Num[X, "*shape"], negative_slope: Num[X, "*#shape"] = 0.01
) -> Num[Array, "*shape"]:
    """Leaky ReLU: ``x`` where it is positive, else ``negative_slope * x``.

    Args:
        x: any array of floats.
        negative_slope: slope for negative ``x``, and the derivative at 0.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> leaky_relu(np.array([-1.0, 2.0]))
        array([-0.01,  2.  ])
    """
    value = floating(x, "the argument of leaky_relu")
    right = value > 0
    return plain_scalar(np.where(right, value, negative_slope * _kept(~right, value)))


def hard_tanh(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Clip ``x`` to the range from -1 to 1; the derivative at both ends is 0.

    Args:
        x: any numeric array.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> hard_tanh(np.array([-4.0, 0.5, 4.0]))
        array([-1. ,  0.5,  1. ])
    """
    value = numeric(x, "the argument of hard_tanh")
    return plain_scalar(np.where(np.abs(value) < 1, value, ew.stop_gradient(np.clip(value, -1, 1))))


def hard_sigmoid(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Piecewise linear sigmoid: ``relu6(x + 3) / 6``; its derivative at -3 and at 3 is 0.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
        array([0. , 0.5, 1. ])
    """
    return relu6(floating(x, "the argument of hard_sigmoid") + 3.0) / 6.0


def hard_silu(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Piecewise quadratic SiLU: ``x * hard_sigmoid(x)``; its derivative is 0 at -3, and 1 at 3.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> hard_silu(np.array([-4.0, 0.0, 4.0]))
        array([0., 0., 4.])
    """
    value = floating(x, "the argument of hard_silu")
    between = np.abs(value) < 3.0
    inner = _kept(between, value)
    return plain_scalar(np.where(between, inner * (inner + 3.0) / 6.0, ew.relu(value)))


hard_swish = hard_silu


# -- exponential -----------------------------------------------------------------------------------


def elu(x: Num[X, "*shape"], alpha: Num[X, "*#shape"] = 1.0) -> Num[Array, "*shape"]:
    """Exponential linear unit: ``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Args:
        x: any array of floats.
        alpha: scale of the negative part. The derivative at 0 is ``alpha``.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(elu(np.array([-1.0, 2.0])), 4)
        array([-0.6321,  2.    ])

    Source:
        Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential
        linear units" (2015).
    """
    value = floating(x, "the argument of elu")
    right = value > 0
    return plain_scalar(np.where(right, value, alpha * np.expm1(_kept(~right, value))))


def celu(x: Num[X, "*shape"], alpha: Num[X, "*#shape"] = 1.0) -> Num[Array, "*shape"]:
    """Continuously differentiable ELU: ``x`` where it is positive, else ``alpha * (exp(x / alpha) -
    1)``.

    Args:
        x: any array of floats.
        alpha: scale of the negative part. The derivative at 0 is 1.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(celu(np.array([-1.0, 2.0])), 4)
        array([-0.6321,  2.    ])

    Source:
        Barron, "Continuously differentiable exponential linear units" (2017).
    """
    value = floating(x, "the argument of celu")
    right = value > 0
    return plain_scalar(np.where(right, value, alpha * np.expm1(_kept(~right, value) / alpha)))


def selu(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Scaled ELU for self-normalizing networks: ``1.0507 * elu(x, 1.6733)``.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(selu(np.array([-1.0, 2.0])), 4)
        array([-1.1113,  2.1014])

    Source:
        Klambauer et al., "Self-normalizing neural networks" (2017).
    """
    return _SCALE * elu(x, _ALPHA)


_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


# -- smooth ----------------------------------------------------------------------------------------


def sigmoid(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Logistic function ``1 / (1 + exp(-x))``, without overflow.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
        array([0. , 0.5, 1. ])
    """
    return ew.sigmoid(floating(x, "the argument of sigmoid"))


def log_sigmoid(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Logarithm of the sigmoid, which is accurate where the sigmoid rounds to 0 or 1.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> log_sigmoid(np.array([-1000.0, 1000.0]))
        array([-1000.,    -0.])
    """
    return -softplus(-floating(x, "the argument of log_sigmoid"))


def softplus(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Smooth ReLU ``log(1 + exp(x))``, without overflow.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(softplus(np.array([-1000.0, 0.0, 1000.0])), 4)
        array([0.000e+00, 6.931e-01, 1.000e+03])
    """
    return np.logaddexp(floating(x, "the argument of softplus"), 0.0)


def silu(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Sigmoid linear unit ``x * sigmoid(x)``, also called swish.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> silu(np.array([-np.inf, 0.0, np.inf]))
        array([ 0.,  0., inf])

    Source:
        Hendrycks and Gimpel, "Gaussian error linear units" (2016).
    """
    return _with_tails(floating(x, "the argument of silu"), lambda value: value * ew.sigmoid(value))


swish = silu


def gelu(x: Num[X, "*shape"], approximate: bool = True) -> Num[Array, "*shape"]:
    """Gaussian error linear unit: ``x`` times the distribution function of the normal distribution
    at ``x``.

    Args:
        x: any array of floats.
        approximate: True to approximate the distribution function by a tanh, the default of
            ``jax.nn``; False for the exact one, which needs SciPy.

    Returns:
        an array with the shape of ``x``.

    Raises:
        ImportError: for ``approximate=False`` without SciPy.

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
    return _with_tails(
        value, lambda inner: (0.5 * inner * erfc(inner * -_ROOT_HALF)).astype(value.dtype)
    )


_ROOT_HALF, _ROOT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def _gelu_by_tanh(x: Array) -> Any:
    return 0.5 * x * (1.0 + np.tanh(_ROOT_TWO_OVER_PI * x * (1.0 + 0.044715 * np.square(x))))


def mish(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Mish: ``x * tanh(softplus(x))``. Derivatives of any order are accurate far from 0.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(mish(np.array([-1.0, 2.0])), 4)
        array([-0.3034,  1.944 ])

    Source:
        Misra, "Mish: a self regularized non-monotonic activation function" (2019).
    """
    return _with_tails(floating(x, "the argument of mish"), _mish)


def _mish(x: Array) -> Any:
    # tanh(log(1 + exp(x))) is a quotient of polynomials in exp(x); right of 0 its distance from 1,
    # in exp(-x)
    right = x > 0
    u = np.exp(np.where(right, -x, x))
    left = u * (u + 2.0)
    rest = 2.0 * np.square(u)
    return np.where(
        right, x - x * (rest / (1.0 + 2.0 * u + rest)), x * (left / (left + 2.0))
    ).astype(x.dtype)


def soft_sign(x: Num[X, "*shape"]) -> Num[Array, "*shape"]:
    """Softsign: ``x / (|x| + 1)``, which is -1 and 1 at infinity.

    Args:
        x: any array of floats.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> soft_sign(np.array([-1.0, 0.0, np.inf]))
        array([-0.5,  0. ,  1. ])
    """
    value = floating(x, "the argument of soft_sign")
    infinite = np.isinf(value)
    inner = _kept(~infinite, value)
    sign: Array = np.sign(value)
    return plain_scalar(np.where(infinite, sign, inner / (np.abs(inner) + 1.0)))


def squareplus(x: Num[X, "*shape"], b: Num[X, "*#shape"] = 4.0) -> Num[Array, "*shape"]:
    """Smooth ReLU without exponentials: ``(x + sqrt(x**2 + b)) / 2``, accurate for negative ``x``,
    too.

    Args:
        x: any array of floats.
        b: width of the smooth part.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(squareplus(np.array([-1.0, 0.0, 2.0])), 4)
        array([0.618 , 1.    , 2.4142])

    Source:
        Barron, "Squareplus: a softplus-like algebraic rectifier" (2021).
    """
    value = floating(x, "the argument of squareplus")
    infinite, right = np.isinf(value), value >= 0
    inner = _kept(~infinite, value)
    root = np.hypot(inner, np.sqrt(numeric(b, "b of squareplus")))
    left = cast("Array", b) / (2.0 * (root - np.where(right, 0.0, inner)))
    result = np.where(right, (inner + root) / 2.0, left)
    return plain_scalar(np.where(infinite, ew.relu(value), result).astype(value.dtype))


def glu(x: Num[X, "..."], axis: int = -1) -> Num[Array, "..."]:
    """Gated linear unit: the first half of ``x`` along an axis times the sigmoid of the second
    half.

    Args:
        x: an array of floats whose axis has an even size.
        axis: the axis to halve.

    Returns:
        an array with half the size of ``x`` along the axis.

    Raises:
        ShapeError: if the size is odd.

    Example:
        >>> import numpy as np
        >>> glu(np.array([1.0, 2.0, 0.0, 0.0]))
        array([0.5, 1. ])

    Source:
        Dauphin et al., "Language modeling with gated convolutional networks" (2017).
    """
    value = floating(x, "the argument of glu")
    size = value.shape[axis]
    if size % 2:
        raise ShapeError(
            f"glu: axis {axis} has the size {size}, which is odd", fix="pass two halves of one size"
        )
    first, second = np.split(value, 2, axis=axis)
    return first * ew.sigmoid(second)


def _kept(where: Array, x: Array) -> Array:
    """Return ``x`` where selected, elsewhere 0: then unselected terms are finite in both passes."""
    return np.where(where, x, 0.0).astype(x.dtype)
