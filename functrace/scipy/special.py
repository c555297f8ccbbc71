"""``scipy.special`` for traced values: ufuncs are SciPy's, other functions are here.

SciPy's ufuncs take traced values themselves: ``scipy.special.gammaln(x)``. Its other functions
convert arguments to plain arrays, and so have versions here with the same names and signatures.
Other names are SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import special
    >>> ft.grad(special.logsumexp)(np.array([0.0, 0.0]))
    array([0.5, 0.5])

Layer: 9.
"""

from __future__ import annotations

import math
import operator
from typing import Any, SupportsIndex

import numpy as np
import scipy.special

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import Arrayed, Axis, Operand, Out, arrayed, axis_tuple
from functrace.ops.elementwise import stop_gradient
from functrace.ops.special import gamma as gammas
from functrace.scipy.dispatch import on_traced


def _largest(x: Arrayed, axis: Axis) -> Any:
    """Return the largest elements as constants, with 0 for infinite ones."""
    found = stop_gradient(
        np.max(np.real(x) if x.dtype.kind == "c" else x, axis=axis, keepdims=True, initial=-np.inf)
    )
    return np.where(np.isfinite(found), found, 0.0)


def _floating(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype.kind in "fc" else made.astype(np.float64)


@on_traced(scipy.special.logsumexp)
def logsumexp(
    a: Operand,
    axis: Axis = None,
    b: Operand | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Any:
    """Logarithm of a sum of exponentials, ``log(sum(b * exp(a)))``, without overflow, like
    ``scipy.special.logsumexp``.

    Args:
        a: exponents, real or complex, of any shape.
        axis: the axis or axes to sum along; all by default.
        b: factors, which broadcast against a; they may be negative or 0.
        keepdims: True to keep summed axes with size 1.
        return_sign: True to return the logarithm of the absolute value of the sum, and its sign.
            Without it, the logarithm of a negative sum is NaN.

    Returns:
        the logarithm, in the shape of the other axes, floating or complex; with return_sign a tuple
        of it and the sign, of the same shape.

    Raises:
        AxisError: if a has no such axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> ft.grad(special.logsumexp)(np.zeros(2))
        array([0.5, 0.5])

    Source:
        ``scipy.special.logsumexp``.
    """
    x = _floating(a)
    if b is not None:
        factor = _floating(b)
        dtype = np.result_type(x.dtype, factor.dtype)
        x, factor = np.broadcast_arrays(x.astype(dtype), factor.astype(dtype))
        x = np.where(factor == 0, -np.inf, x)
    else:
        factor = None
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
    largest = _largest(x, axes)
    terms = np.exp(x - largest)
    total = np.sum(terms if factor is None else factor * terms, axis=axes, keepdims=True)
    sign = None
    if return_sign:
        sign = np.sign(total)
        total = np.abs(total)
    # Where all exponents are -inf, the sum is 0 and its logarithm -inf, whose derivative is taken
    # as 0.
    empty = total == 0
    usual = ~empty if return_sign or total.dtype.kind == "c" else total > 0
    result = np.where(usual, np.log(np.where(usual, total, 1.0)) + largest, np.nan)
    result = np.where(empty, -np.inf, result)
    if not keepdims:
        result = np.squeeze(result, axis=axes)
        sign = None if sign is None else np.squeeze(sign, axis=axes)
    return result if sign is None else (result, sign)


@on_traced(scipy.special.softmax)
def softmax(x: Operand, axis: Axis = None) -> Any:
    """Exponentials in proportion to their sum, ``exp(x) / sum(exp(x))``, like
    ``scipy.special.softmax``.

    Args:
        x: exponents, of any shape.
        axis: the axis or axes to sum along; all by default.

    Returns:
        numbers that sum to 1 along the axes, shape of x, in its dtype; float64 for integers.

    Raises:
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> ft.jit(special.softmax)(np.zeros(2))
        array([0.5, 0.5])
    """
    at = _floating(x)
    terms = np.exp(at - stop_gradient(np.max(at, axis=axis, keepdims=True)))
    return terms / np.sum(terms, axis=axis, keepdims=True)


@on_traced(scipy.special.log_softmax)
def log_softmax(x: Operand, axis: Axis = None) -> Any:
    """Logarithm of `softmax`, without its rounding, like ``scipy.special.log_softmax``.

    Args:
        x: exponents, of any shape.
        axis: the axis or axes to sum along; all by default.

    Returns:
        the logarithms, shape of x, in its dtype; float64 for integers.

    Raises:
        AxisError: if x has no such axis.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.jit(special.log_softmax)(np.zeros(2)), 4)
        array([-0.6931, -0.6931])
    """
    at = _floating(x)
    shifted = at - _largest(at, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@on_traced(scipy.special.polygamma)
def polygamma(n: Operand, x: Operand) -> Any:
    """Derivative of order ``n`` of the digamma function, for real ``x``, like
    ``scipy.special.polygamma``.

    Args:
        n: orders, plain non-negative integers; there is no derivative by them.
        x: argument, real; it broadcasts against n.

    Returns:
        the derivatives, in the broadcast shape, in the dtype of x; float64 for integers.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.grad(lambda x: special.polygamma(1, x))(1.0), 4)
        np.float64(-2.4041)
    """
    order, at = np.asarray(n), _floating(x)
    if order.dtype.kind not in "iu":
        order = order.astype(np.float64)
    factor = (-1.0) ** (order + 1) * scipy.special.gamma(order + 1.0)
    if np.all(order == 0):
        return gammas.psi(at) + np.zeros(order.shape, at.dtype)
    higher = gammas.zeta(np.asarray(order + 1.0, at.dtype), at) * np.asarray(factor, at.dtype)
    return np.where(order == 0, gammas.psi(at), higher) if np.any(order == 0) else higher


@on_traced(scipy.special.multigammaln)
def multigammaln(a: Operand, d: SupportsIndex) -> Any:
    """Logarithm of the multivariate gamma function of a dimension, like
    ``scipy.special.multigammaln``.

    Args:
        a: argument of any shape, larger than (d - 1) / 2; otherwise the result is NaN (SciPy
            raises, which needs values).
        d: the dimension, a positive integer.

    Returns:
        the logarithm, shape of a, in its dtype; float64 for integers.

    Raises:
        ShapeError: if d is not positive.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.grad(lambda a: special.multigammaln(a, 2))(3.0), 4)
        np.float64(1.6259)

    Source:
        DLMF 35.3.4.
    """
    at, d = _floating(a), operator.index(d)
    if d < 1:
        raise ShapeError(f"multigammaln needs a positive dimension, not {d}", fix="pass d >= 1")
    inside = at > (d - 1) / 2
    half = np.asarray(np.arange(d) / 2, at.dtype)
    parts = gammas.gammaln(np.where(inside, at, float(d))[..., None] - half)
    return np.where(inside, np.sum(parts, axis=-1) + d * (d - 1) / 4 * math.log(math.pi), np.nan)


@on_traced(scipy.special.zeta)
def zeta(x: Operand, q: Operand | None = None, out: Out = None) -> Any:
    """Hurwitz zeta function, the sum of ``(q + k)**-x`` over k >= 0, like ``scipy.special.zeta``;
    differentiable by ``q``, not by ``x``.

    Args:
        x: exponents, real.
        q: argument, which broadcasts against x; 1 by default, for Riemann's zeta function.
        out: array for the result.

    Returns:
        the sums, in the broadcast shape, floating.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.grad(lambda q: special.zeta(2.0, q))(1.0), 4)
        np.float64(-2.4041)
    """
    return scipy.special.zeta(x, q, out)


@on_traced(scipy.special.comb)
def comb(N: Operand, k: Operand, *, exact: bool = False, repetition: bool = False) -> Any:
    """Binomial coefficients of real numbers, like ``scipy.special.comb`` without ``exact=``.

    Args:
        N: number of things, real.
        k: number of things that are taken, real; it broadcasts against N.
        exact: must be False: exact integers have no derivative.
        repetition: True to take things repeatedly: the coefficients of N + k - 1 and k.

    Returns:
        the coefficients, in the broadcast shape, floating; 0 where k is not in 0..N.

    Raises:
        ShapeError: if exact is True.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.jit(special.comb)(5.0, 2.0), 4)
        np.float64(10.0)
    """
    if exact:
        raise ShapeError(
            "comb with exact=True counts integers, which have no derivative", fix="leave exact= out"
        )
    n, chosen = _floating(N), _floating(k)
    if repetition:
        n = n + chosen - 1.0
    fits = (chosen <= n) & (n >= 0) & (chosen >= 0)
    return np.where(fits, gammas.binom(np.where(fits, n, 1.0), np.where(fits, chosen, 0.0)), 0.0)


@on_traced(scipy.special.perm)
def perm(N: Operand, k: Operand, exact: bool = False) -> Any:
    """Numbers of ordered choices ``gamma(N + 1) / gamma(N - k + 1)``, like ``scipy.special.perm``
    without ``exact=``.

    Args:
        N: number of things, real.
        k: number of things that are taken, real; it broadcasts against N.
        exact: must be False: exact integers have no derivative.

    Returns:
        the numbers, in the broadcast shape, floating; 0 where k is not in 0..N.

    Raises:
        ShapeError: if exact is True.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.jit(special.perm)(5.0, 2.0), 4)
        np.float64(20.0)
    """
    if exact:
        raise ShapeError(
            "perm with exact=True counts integers, which have no derivative", fix="leave exact= out"
        )
    n, chosen = _floating(N), _floating(k)
    fits = (chosen <= n) & (n >= 0) & (chosen >= 0)
    n, chosen = np.where(fits, n, 1.0), np.where(fits, chosen, 0.0)
    return np.where(fits, gammas.poch(n - chosen + 1.0, chosen), 0.0)


@on_traced(scipy.special.factorial)
def factorial(n: Operand, exact: bool = False, extend: str = "zero") -> Any:
    """Factorials ``gamma(n + 1)`` of real numbers, like ``scipy.special.factorial`` without
    ``exact=``.

    Args:
        n: argument of any shape, real.
        exact: must be False: exact integers have no derivative.
        extend: "zero"; the complex extension is ``scipy.special.gamma(n + 1)``.

    Returns:
        the factorials, shape of n, floating; 0 where n is negative.

    Raises:
        ShapeError: if exact is True, or extend is not "zero".

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import special
        >>> np.round(ft.jit(special.factorial)(4.0), 4)
        np.float64(24.0)
    """
    if exact or extend != "zero":
        raise ShapeError(
            "factorial of traced values takes exact=False and extend='zero'",
            fix="use scipy.special.gamma",
        )
    at = _floating(n)
    fits = at >= 0
    return np.where(fits, gammas.gamma(np.where(fits, at, 0.0) + 1.0), 0.0)


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.special, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.special)})
