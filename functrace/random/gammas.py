"""The gamma distribution and derived ones: beta, Dirichlet, Student's t, chi-square, F.

A gamma sample is a quantile, which is differentiable in the shape parameter to any order
(`functrace.ops.gamma_slope`); the others are formulas of logarithms of gamma samples, which do not
underflow for small shapes.

Layer: 8.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
from jaxtyping import UInt64

from functrace.errors import ShapeError
from functrace.ir.aval import shape_of
from functrace.ops.random import random_loggamma_p, sample
from functrace.random.arguments import (
    DtypeLike,
    Float,
    Nested,
    Real,
    ShapeLike,
    X,
    float_dtype,
    joint_shape,
    parameter,
    parameters,
    sizes,
)
from functrace.random.continuous import exponential, normal
from functrace.random.discrete import rademacher
from functrace.random.keys import one_key, split
from functrace.typing import Array


def loggamma(
    key: UInt64[X, "2"],
    a: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw the logarithm of a sample of the gamma distribution.

    For a small shape parameter, samples underflow, and their logarithms do not.

    Args:
        key: uint64, shape (2,).
        a: shape parameter, not negative; broadcasts to the shape of the result.
        shape: shape of the result; by default that of ``a``.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        ValueError: if ``a`` is less than -1; between -1 and 0 the result is unspecified.
        DtypeError, ShapeError: if ``key`` is not a key, or parameters do not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.loggamma(ft.random.key(0), 0.001, (2,)).round(1)
        array([-2362.7,  -255. ])
    """
    dtype = float_dtype(dtype, "loggamma")
    shape, (power,) = parameters("loggamma", shape, dtype, a)
    return sample(random_loggamma_p, one_key(key, "loggamma"), shape, dtype, power)


def gamma(
    key: UInt64[X, "2"],
    a: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from the gamma distribution, whose density is proportional to x**(a - 1) exp(-x).

    Args:
        key: uint64, shape (2,).
        a: shape parameter, not negative; broadcasts to the shape of the result.
        shape: shape of the result; by default that of ``a``.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        ValueError: if ``a`` is less than -1; between -1 and 0 the result is unspecified.
        DtypeError, ShapeError: if ``key`` is not a key, or parameters do not fit.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> draw = lambda a: np.mean(gamma(ft.random.key(0), a, (10_000,)))
        >>> round(float(ft.grad(draw)(2.0)), 2)  # the mean is a
        1.0

    Cost:
        3 us, and about 40 ns per number; its derivative by ``a`` takes about 3 us per number.

    Source:
        ``numpy.random.Generator.standard_gamma``; Figurnov, Mohamed and Mnih, "Implicit
        reparameterization gradients" (2018).
    """
    return np.exp(loggamma(key, a, shape, dtype))


def chisquare(
    key: UInt64[X, "2"],
    df: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from the chi-square distribution with ``df`` degrees of freedom.

    Args:
        key: uint64, shape (2,).
        df: degrees of freedom, not negative; broadcasts to the shape.
        shape: shape of the result; by default the parameters' broadcast shape.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        ValueError: if ``df`` is less than -2; between -2 and 0 the result is unspecified.
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.chisquare(ft.random.key(0), 3.0, (2,)).round(4)
        array([1.9161, 1.7616])
    """
    dtype = float_dtype(dtype, "chisquare")
    shape, (freedom,) = parameters("chisquare", shape, dtype, df)
    return 2.0 * gamma(one_key(key, "chisquare"), 0.5 * freedom, shape, dtype)


def f(
    key: UInt64[X, "2"],
    dfnum: Real[X, "*#shape"] | Nested,
    dfden: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from the F distribution: the ratio of two chi-square samples, each divided by its
    degrees of freedom.

    Args:
        key: uint64, shape (2,).
        dfnum: degrees of freedom of the numerator, positive; broadcasts to the shape.
        dfden: degrees of freedom of the denominator, positive; broadcasts to the shape.
        shape: shape of the result; by default the parameters' broadcast shape.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.f(ft.random.key(0), 5.0, 7.0, (2,)).round(4)
        array([0.7664, 0.9576])
    """
    dtype = float_dtype(dtype, "f")
    shape, (upper, lower) = parameters("f", shape, dtype, dfnum, dfden)
    first, second = split(one_key(key, "f"))
    above, below = (
        loggamma(first, 0.5 * upper, shape, dtype),
        loggamma(second, 0.5 * lower, shape, dtype),
    )
    return np.exp(above - below) * (lower / upper)


def t(
    key: UInt64[X, "2"],
    df: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from Student's t distribution with ``df`` degrees of freedom.

    Args:
        key: uint64, shape (2,).
        df: degrees of freedom, positive; broadcasts to the shape.
        shape: shape of the result; by default the parameters' broadcast shape.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.t(ft.random.key(0), 5.0, (2,)).round(4)
        array([-0.0223,  0.465 ])
    """
    dtype = float_dtype(dtype, "t")
    shape, (freedom,) = parameters("t", shape, dtype, df)
    first, second = split(one_key(key, "t"))
    half = 0.5 * freedom
    return normal(first, shape, dtype) * np.exp(
        0.5 * (np.log(half) - loggamma(second, half, shape, dtype))
    )


def beta(
    key: UInt64[X, "2"],
    a: Real[X, "*#shape"] | Nested,
    b: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from the beta distribution, whose density is proportional to x**(a - 1) (1 - x)**(b -
    1).

    Args:
        key: uint64, shape (2,).
        a: positive parameter; broadcasts to the shape.
        b: positive parameter; broadcasts to the shape.
        shape: shape of the result; by default the parameters' broadcast shape.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of numbers between 0 and 1.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.beta(ft.random.key(0), 2.0, 3.0, (2,)).round(4)
        array([0.3289, 0.3856])
    """
    dtype = float_dtype(dtype, "beta")
    shape, (left, right) = parameters("beta", shape, dtype, a, b)
    first, second = split(one_key(key, "beta"))
    above, below = loggamma(first, left, shape, dtype), loggamma(second, right, shape, dtype)
    return np.exp(above - np.logaddexp(above, below))


def dirichlet(
    key: UInt64[X, "2"],
    alpha: Real[X, "*#shape n"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Float[Array, "*shape n"]:
    """Draw from the Dirichlet distribution: positive numbers that add up to 1.

    Args:
        key: uint64, shape (2,).
        alpha: positive parameters, shape (…, n).
        shape: shape of the result without its last axis; by default that of ``alpha``, which
            broadcasts to it.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of shape (*shape, n).

    Raises:
        ShapeError: if ``alpha`` is a scalar, or does not broadcast to the shape.
        DtypeError: if ``key`` is not a key, or ``dtype`` not supported.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> ft.random.dirichlet(ft.random.key(0), np.array([1.0, 2.0, 3.0])).round(4)
        array([0.0261, 0.5666, 0.4072])
    """
    dtype = float_dtype(dtype, "dirichlet")
    powers = parameter(alpha, dtype, "dirichlet")
    if not shape_of(powers):
        raise ShapeError(
            "random.dirichlet: alpha is a scalar", fix="pass one number per component, shape (…, n)"
        )
    *stack, n = shape_of(powers)
    joint = joint_shape("dirichlet", shape, tuple(stack))
    drawn = loggamma(one_key(key, "dirichlet"), powers, (*joint, n), dtype)
    if not n:
        return drawn
    raised = np.exp(drawn - np.max(drawn, axis=-1, keepdims=True))
    return raised / np.sum(raised, axis=-1, keepdims=True)


def generalized_normal(
    key: UInt64[X, "2"],
    p: Real[X, "*#shape"] | Nested,
    shape: ShapeLike = (),
    dtype: DtypeLike = None,
) -> Float[Array, "*shape"]:
    """Draw from the distribution whose density is proportional to exp(-abs(x)**p).

    Args:
        key: uint64, shape (2,).
        p: positive; broadcasts to the shape.
        shape: shape of the result.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of that shape.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.generalized_normal(ft.random.key(0), 4.0, (2,)).round(4)
        array([ 0.9158, -0.0215])
    """
    dtype = float_dtype(dtype, "generalized_normal")
    shape, (power,) = parameters("generalized_normal", shape, dtype, p)
    first, second = split(one_key(key, "generalized_normal"))
    return np.exp(loggamma(first, 1.0 / power, shape, dtype) / power) * rademacher(
        second, shape, dtype
    )


def ball(
    key: UInt64[X, "2"],
    d: SupportsIndex,
    p: Real[X, ""] | Nested = 2,
    shape: ShapeLike = (),
    dtype: DtypeLike = None,
) -> Float[Array, "*shape {d}"]:
    """Draw points uniformly from the unit ball of ``d`` dimensions, in the norm of order ``p``.

    Args:
        key: uint64, shape (2,).
        d: number of dimensions.
        p: order of the norm; one positive number.
        shape: shape of the result without its last axis.
        dtype: dtype of the result, float64 by default.

    Returns:
        an array of shape (*shape, d).

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> np.round(ft.random.ball(ft.random.key(0), 2), 4)
        array([-0.0584,  0.6351])

    Source:
        Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the
        l_p^n-ball" (2005).
    """
    dtype = float_dtype(dtype, "ball")
    _, (power,) = parameters("ball", (), dtype, p)
    stack = sizes(shape, "ball")
    first, second = split(one_key(key, "ball"))
    drawn = generalized_normal(first, power, (*stack, *sizes(d, "ball")), dtype)
    length = np.sum(np.abs(drawn) ** power, axis=-1) + exponential(second, stack, dtype)
    return drawn / (length ** (1.0 / power))[..., None]
