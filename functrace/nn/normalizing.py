"""Softmax and related functions, normalisation, and one-hot vectors.

Layer: 8 (api).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from jaxtyping import Bool, Num
from numpy.typing import DTypeLike

from functrace.errors import ArgumentError
from functrace.nn.operands import Axis, X, floating, numeric, plain_scalar
from functrace.ops.elementwise import stop_gradient
from functrace.typing import Array


def _axes(axis: Axis) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(map(operator.index, axis))


def _largest(x: Array, axis: Axis, where: Array | None) -> Any:
    """Return the largest elements, as constants; 0 where no element takes part."""
    options: dict[str, Any] = {} if where is None else {"where": where}
    found = np.max(
        np.real(x) if x.dtype.kind == "c" else x,
        axis=axis,
        keepdims=True,
        initial=-np.inf,
        **options,
    )
    found = stop_gradient(found)
    return found if where is None else np.where(found == -np.inf, 0.0, found).astype(found.dtype)


def softmax(
    x: Num[X, "*shape"], axis: Axis = -1, where: Bool[X, "*#shape"] | None = None
) -> Num[Array, "*shape"]:
    """Softmax ``exp(x) / sum(exp(x))`` along an axis, without overflow.

    Args:
        x: any array of floats.
        axis: the axis or axes along which results add up to 1; ``None`` for all.
        where: mask of elements that take part; the others are 0, and so is their gradient, also
            where no element takes part. Without it, a row that is -inf everywhere gives NaN, as in
            NumPy, JAX and PyTorch.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> softmax(np.array([1000.0, 1000.0, -np.inf]))
        array([0.5, 0.5, 0. ])
    """
    value, axes = floating(x, "the argument of softmax"), _axes(axis)
    if where is None:
        terms = np.exp(value - _largest(value, axes, None))
        return terms / np.sum(terms, axis=axes, keepdims=True)
    taken = numeric(where, "where of softmax")
    terms = np.where(
        taken, np.exp(np.where(taken, value, -np.inf) - _largest(value, axes, taken)), 0.0
    ).astype(value.dtype)
    return terms / _or_one(np.sum(terms, axis=axes, keepdims=True))


def log_softmax(
    x: Num[X, "*shape"], axis: Axis = -1, where: Bool[X, "*#shape"] | None = None
) -> Num[Array, "*shape"]:
    """Logarithm of the softmax, accurate where the softmax rounds to 0 or 1.

    Args:
        x: any array of floats.
        axis: the axis or axes along which exponentials add up to 1; ``None`` for all.
        where: mask of elements that take part; the others are -inf, and their gradient 0. Without
            it, a row that is -inf everywhere gives NaN.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> log_softmax(np.array([0.0, -2000.0]))
        array([    0., -2000.])
    """
    value, axes = floating(x, "the argument of log_softmax"), _axes(axis)
    if where is None:
        shifted = value - _largest(value, axes, None)
        return shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))
    taken = numeric(where, "where of log_softmax")
    shifted = np.where(taken, value, 0.0) - _largest(value, axes, taken)
    terms = np.where(taken, np.exp(np.where(taken, shifted, 0.0)), 0.0)
    result = shifted - np.log(_or_one(np.sum(terms, axis=axes, keepdims=True)))
    return plain_scalar(np.where(taken, result, -np.inf).astype(value.dtype))


def _or_one(total: Array) -> Any:
    return np.where(total == 0, 1.0, total).astype(total.dtype)


def logsumexp(
    a: Num[X, "*shape"],
    axis: Axis = None,
    b: Num[X, "..."] | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Bool[X, "..."] | None = None,
) -> Any:
    """Return ``log(sum(b * exp(a)))`` along axes, without overflow.

    Args:
        a: exponents, real or complex.
        axis: the axis or axes to sum along; all by default.
        b: factors, which broadcast against ``a``; they may be negative or 0.
        keepdims: whether summed axes stay, with size 1.
        return_sign: whether to return the sign of the sum, with the logarithm of its absolute
            value. Without it, the logarithm of a negative sum is nan.
        where: mask of the elements that take part.

    Returns:
        the logarithms, -inf where no element takes part or all are -inf, with derivative 0 there
        (in JAX and in PyTorch it is nan, which spreads from one masked row to all parameters); with
        ``return_sign`` a pair.

    Example:
        >>> import numpy as np
        >>> logsumexp(np.array([1000.0, 1000.0]))
        np.float64(1000.6931471805599)

    Source:
        ``jax.nn.logsumexp``, ``scipy.special.logsumexp``.
    """
    value, axes = floating(a, "the argument of logsumexp"), _axes(axis)
    factor: Any = None
    if b is not None:
        factor = floating(b, "b of logsumexp")
        value, factor = np.broadcast_arrays(value, factor)
        value = np.where(factor == 0, -np.inf, value)
    if where is not None:
        value = np.where(numeric(where, "where of logsumexp"), value, -np.inf)
    largest = _largest(value, axes, None)
    largest = np.where(np.isfinite(largest), largest, 0.0).astype(largest.dtype)
    terms = np.exp(value - largest)
    total = np.sum(terms if factor is None else factor * terms, axis=axes, keepdims=True)
    sign = np.sign(total)
    if return_sign:
        total = np.abs(total)
    # Where the sum is 0, its logarithm is -inf, and its derivative is defined as 0.
    empty = total == 0
    usual = ~empty if total.dtype.kind == "c" else ~empty & ~(total < 0)
    result = np.where(usual, np.log(np.where(usual, total, 1.0)) + largest, np.nan)
    result = np.where(empty, -np.inf, result).astype(total.dtype)
    found = [result, sign] if return_sign else [result]
    if not keepdims:
        found = [
            np.squeeze(y, axis=tuple(range(value.ndim)) if axes is None else axes) for y in found
        ]
    found = list(map(plain_scalar, found))
    return tuple(found) if return_sign else found[0]


def standardize(
    x: Num[X, "*shape"],
    axis: Axis = -1,
    mean: Num[X, "*#shape"] | None = None,
    variance: Num[X, "*#shape"] | None = None,
    epsilon: Num[X, ""] = 1e-5,
    where: Bool[X, "*#shape"] | None = None,
) -> Num[Array, "*shape"]:
    """Shift and scale to mean 0 and variance 1: ``(x - mean) / sqrt(variance + epsilon)``.

    Rows far from 0 keep their digits: float32 numbers near 1e8, which are spaced by 8, agree to
    1e-6 with the result in double precision. Where squares overflow (from 1e19 on in float32),
    results are 0 (NaN in PyTorch): divide such rows by a constant first.

    Args:
        x: any array of floats.
        axis: the axis or axes of mean and variance.
        mean: the mean, if known; an array that broadcasts against ``x``.
        variance: the variance, if known; an array that broadcasts against ``x``.
        epsilon: added to the variance, so that the root is not 0.
        where: mask of elements that mean and variance are taken of.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> standardize(np.array([1.0, 3.0]), epsilon=0.0)
        array([-1.,  1.])
    """
    value, axes = floating(x, "the argument of standardize"), _axes(axis)
    options: dict[str, Any] = (
        {} if where is None else {"where": numeric(where, "where of standardize")}
    )
    if mean is None:
        centred = value - np.mean(value, axis=axes, keepdims=True, **options)
        # The mean of large numbers is rounded; the mean of the exact differences corrects it.
        centred = centred - stop_gradient(np.mean(centred, axis=axes, keepdims=True, **options))
    else:
        centred = value - mean
    if variance is None:
        variance = np.mean(np.square(centred), axis=axes, keepdims=True, **options)
    return centred / np.sqrt(variance + epsilon)  # type: ignore[operator]


def layer_norm(
    x: Num[X, "*shape"],
    scale: Num[X, "*#shape"] | None = None,
    bias: Num[X, "*#shape"] | None = None,
    axis: Axis = -1,
    epsilon: float = 1e-5,
) -> Num[Array, "*shape"]:
    """Standardize along an axis, then scale and shift.

    Rows far from 0 keep their digits. Constant rows give 0 with a finite gradient.

    Args:
        x: any array of floats.
        scale: array that broadcasts against ``x``, or ``None``.
        bias: array that broadcasts against ``x``, or ``None``.
        axis: the axis or axes of a layer.
        epsilon: added to the variance, so that the root is not 0.

    Returns:
        an array with the shape of ``x``.

    Example:
        >>> import numpy as np
        >>> np.round(layer_norm(np.array([1.0, 3.0]), scale=np.array([2.0, 2.0]), bias=1.0), 3)
        array([-1.,  3.])

    Source:
        Ba, Kiros and Hinton, "Layer normalization" (2016).
    """
    result = standardize(x, axis, epsilon=epsilon)
    result = result if scale is None else result * numeric(scale, "scale of layer_norm")
    return result if bias is None else result + numeric(bias, "bias of layer_norm")


def one_hot(
    x: Num[X, "..."], num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Num[Array, "..."]:
    """Encode indices as vectors that are 1 at the index, and 0 elsewhere.

    Args:
        x: indices, of any shape; an index outside of the classes gives zeros.
        num_classes: length of the vectors.
        dtype: dtype of the result; float64 by default.
        axis: axis of the result along which the vectors are.

    Returns:
        an array with one axis more than ``x``.

    Raises:
        ArgumentError: if ``num_classes`` is not an integer.

    Example:
        >>> import numpy as np
        >>> one_hot(np.array([0, 2, 3]), 3)
        array([[1., 0., 0.],
               [0., 0., 1.],
               [0., 0., 0.]])
    """
    indices = numeric(x, "the argument of one_hot")
    try:
        count = operator.index(num_classes)
    except TypeError:
        raise ArgumentError(
            f"one_hot: num_classes is a {type(num_classes).__name__}",
            fix="pass an int: sizes must be concrete",
        ) from None
    expanded = np.expand_dims(indices, axis)
    place = axis % expanded.ndim
    classes = np.arange(count).reshape([count if k == place else 1 for k in range(expanded.ndim)])
    return (expanded == classes).astype(np.float64 if dtype is None else dtype)
