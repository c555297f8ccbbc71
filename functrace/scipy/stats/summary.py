"""Common statistics of samples: moments, scores, means, correlation, ranks; see
`functrace.scipy.stats`.

Traced values support ``nan_policy="propagate"``, SciPy's default; the other policies read values.

Source: ``scipy.stats``.

Layer: 9.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import arrayed
from functrace.scipy.dispatch import on_traced
from functrace.scipy.operands import Inexact, Nested, Numeric, Operand, Shaped, X
from functrace.typing import Array


def _sample(name: str, a: Operand, axis: int | None, nan_policy: str) -> tuple[Any, int]:
    """Return a sample of floats, and its axis."""
    if nan_policy != "propagate":
        raise UnsupportedFunctionError(
            f"scipy.stats.{name} of traced values has no nan_policy={nan_policy!r}",
            fix="leave it out; or use np.nanmean",
        )
    x: Any = arrayed(a)
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    return (x.ravel(), 0) if axis is None else (x, axis)


def _central(x: Array, order: int, axis: int) -> Any:
    """Return the mean of a power of the distances from the mean."""
    away = x - np.mean(x, axis=axis, keepdims=True)
    return np.mean(away**order, axis=axis)


def _shape(result: Array, a: Operand, axis: int | None, keepdims: bool) -> Any:
    if not keepdims:
        return result
    return (
        np.reshape(result, (1,) * arrayed(a).ndim) if axis is None else np.expand_dims(result, axis)
    )


def _is_constant(x: Array, m2: Array, axis: int) -> Any:
    """Return where all elements are nearly equal, by SciPy's criterion."""
    return m2 <= (np.finfo(x.dtype).eps * np.mean(x, axis=axis)) ** 2


def _also(x: Operand, other: Operand | None) -> Any:
    """Return an array in the common floating-point dtype with another: SciPy promotes first."""
    made: Any = arrayed(x)
    kinds = [made.dtype] if other is None else [made.dtype, arrayed(other).dtype]
    return made.astype(
        np.result_type(*[kind if kind.kind in "fc" else np.float64 for kind in kinds])
    )


@on_traced(scipy.stats.moment)
def moment(
    a: Operand,
    order: int = 1,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    *,
    center: Operand | None = None,
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.moment``: the mean of a power of the distances from the mean, or from
    ``center``.

    Args:
        a: the samples, shape (n, ...) for the first axis.
        order: the power.
        axis: the axis of the samples; ``None`` for all elements.
        nan_policy: "propagate"; the other policies read values, and raise.
        center: the point that distances are measured from; the mean by default.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(lambda x: stats.moment(x, 2))(np.array([0.0, 2.0])), 4)
        array([-1.,  1.])
    """
    x, along = _sample("moment", a, axis, nan_policy)
    middle: Any = np.mean(x, axis=along, keepdims=True) if center is None else arrayed(center)
    return _shape(np.mean((x - middle) ** order, axis=along), a, axis, keepdims)


@on_traced(scipy.stats.skew)
def skew(
    a: Operand,
    axis: int | None = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.skew``: the third moment over the variance to the power 3/2; NaN for constants.

    Args:
        a: the samples, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        bias: False to correct for the size of the sample.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.skew)(np.array([0.0, 1.0, 3.0])), 4)
        array([ 0.4418, -0.6627,  0.2209])
    """
    x, along = _sample("skew", a, axis, nan_policy)
    n = x.shape[along]
    m2, m3 = _central(x, 2, along), _central(x, 3, along)
    flat = _is_constant(x, m2, along)
    found = m3 / np.where(flat, 1.0, m2) ** 1.5
    if not bias and n > 2:
        found = found * np.sqrt((n - 1.0) * n) / (n - 2.0)
    return _shape(np.where(flat, np.nan, found), a, axis, keepdims)


@on_traced(scipy.stats.kurtosis)
def kurtosis(
    a: Operand,
    axis: int | None = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.kurtosis``: the standardized fourth moment, less 3 if ``fisher``.

    Args:
        a: the samples, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        fisher: True for 0, False for 3 for the normal distribution.
        bias: False to correct for the size of the sample.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.kurtosis)(np.array([0.0, 1.0, 2.0, 5.0])), 4)
        array([ 0.1224,  0.1224, -0.3673,  0.1224])
    """
    x, along = _sample("kurtosis", a, axis, nan_policy)
    n = x.shape[along]
    m2, m4 = _central(x, 2, along), _central(x, 4, along)
    flat = _is_constant(x, m2, along)
    found = m4 / np.where(flat, 1.0, m2) ** 2
    if not bias and n > 3:
        found = ((n**2 - 1.0) * found - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    found = found - 3.0 if fisher else found
    return _shape(np.where(flat, np.nan, found), a, axis, keepdims)


@on_traced(scipy.stats.sem)
def sem(
    a: Operand,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.sem``: the standard error of the mean.

    Args:
        a: the samples, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        ddof: the variance is a sum over n - ddof.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.sem)(np.array([0.0, 1.0, 3.0])), 4)
        array([-0.252, -0.063,  0.315])
    """
    x, along = _sample("sem", a, axis, nan_policy)
    return _shape(np.std(x, axis=along, ddof=ddof) / np.sqrt(x.shape[along]), a, axis, keepdims)


@on_traced(scipy.stats.zmap)
def zmap(
    scores: Operand,
    compare: Operand,
    axis: int | None = 0,
    ddof: int = 0,
    nan_policy: str = "propagate",
) -> Any:
    """``scipy.stats.zmap``: distances from ``compare``'s mean in its standard deviations.

    Args:
        scores: the values to standardize; they broadcast with the means.
        compare: the samples, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        ddof: the variance is a sum over n - ddof.
        nan_policy: "propagate"; the other policies read values, and raise.

    Returns:
        floats of the shape of ``scores``; NaN where all samples are equal.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.jit(stats.zmap)(np.array([0.0, 4.0]), np.array([1.0, 3.0])), 4)
        array([-2.,  2.])
    """
    x, along = _sample("zmap", compare, axis, nan_policy)
    x = _also(x, scores)
    mean, spread = (
        np.mean(x, axis=along, keepdims=True),
        np.std(x, axis=along, ddof=ddof, keepdims=True),
    )
    flat = np.all(x == np.take(x, [0], axis=along), axis=along, keepdims=True)
    found = (_also(scores, x) - (mean if axis is not None else mean[0])) / np.where(
        flat, 1.0, spread
    )  # type: ignore[operator]
    return np.where(flat, np.nan, found)


@on_traced(scipy.stats.zscore)
def zscore(
    a: Numeric[X, "*n"] | Nested,
    axis: int | None = 0,
    ddof: int = 0,
    nan_policy: str = "propagate",
) -> Inexact[Array, "*n"]:
    """``scipy.stats.zscore``: distances from the mean, in standard deviations; NaN for constants.

    Args:
        a: the samples, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        ddof: the variance is a sum over n - ddof.
        nan_policy: "propagate"; the other policies read values, and raise.

    Returns:
        floats of the shape of ``a``.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.jit(stats.zscore)(np.array([1.0, 3.0])), 4)
        array([-1.,  1.])
    """
    return zmap(a, a, axis, ddof, nan_policy)


@on_traced(scipy.stats.gmean)
def gmean(
    a: Numeric[X, "*#n"] | Nested,
    axis: int | None = 0,
    dtype: None = None,
    weights: Numeric[X, "*#n"] | Nested | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.gmean``: the exponential of the mean of logarithms.

    Args:
        a: the samples, positive, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        dtype: has no effect on traced values: convert them.
        weights: weights of the samples; they broadcast with ``a``; equal by default.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.gmean)(np.array([1.0, 4.0])), 4)
        array([1.  , 0.25])
    """
    a, weights = _together(a, weights)
    x, along = _sample("gmean", a, axis, nan_policy)
    x = _also(x, weights)
    found = np.exp(_weighted(np.log(x), along, weights, axis))
    return _shape(found, a, axis, keepdims)


@on_traced(scipy.stats.hmean)
def hmean(
    a: Numeric[X, "*#n"] | Nested,
    axis: int | None = 0,
    dtype: None = None,
    *,
    weights: Numeric[X, "*#n"] | Nested | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.hmean``: the reciprocal of the mean of reciprocals.

    Args:
        a: the samples, positive, shape (n, ...) for the first axis.
        axis: the axis of the samples; ``None`` for all elements.
        dtype: has no effect on traced values: convert them.
        weights: weights of the samples; they broadcast with ``a``; equal by default.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``a`` without the axis; floats, float64 for integers.

    Raises:
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.hmean)(np.array([1.0, 4.0])), 4)
        array([1.28, 0.08])
    """
    a, weights = _together(a, weights)
    x, along = _sample("hmean", a, axis, nan_policy)
    x = _also(x, weights)
    return _shape(1.0 / _weighted(1.0 / x, along, weights, axis), a, axis, keepdims)


def _together(a: Operand, weights: Operand | None) -> tuple[Any, Any]:
    """Broadcast samples and weights, as SciPy does before it takes an axis."""
    if weights is None:
        return a, None
    both: list[Any] = [arrayed(a), arrayed(weights)]
    shape = np.broadcast_shapes(*[x.shape for x in both])
    x, given = (np.broadcast_to(x, shape) for x in both)
    return x, given


def _weighted(x: Array, along: int, weights: Operand | None, axis: int | None) -> Any:
    if weights is None:
        return np.mean(x, axis=along)
    given = _also(weights, x)
    return np.average(x, axis=along, weights=given.ravel() if axis is None else given)


@on_traced(scipy.stats.entropy)
def entropy(
    pk: Numeric[X, "*#n"] | Nested,
    qk: Numeric[X, "*#n"] | Nested | None = None,
    base: int | float | None = None,
    axis: int | None = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """``scipy.stats.entropy`` of a distribution, or relative to another; both are normalized.

    Args:
        pk: probabilities up to a factor, shape (n, ...) for the first axis, not negative.
        qk: the distribution to compare with, of the same shape.
        base: base of the logarithm, positive; e by default, for nats.
        axis: the axis along which probabilities add up to 1; ``None`` for all elements.
        nan_policy: "propagate"; the other policies read values, and raise.
        keepdims: True to keep the axis, with size 1.

    Returns:
        the shape of ``pk`` without the axis; floats, float64 for integers.

    Raises:
        ShapeError: if ``base`` is not positive.
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(stats.entropy)(np.array([1.0, 3.0])), 4)
        array([ 0.206 , -0.0687])
    """
    if base is not None and base <= 0:
        raise ShapeError("`base` must be a positive number or `None`.", fix="leave it out")
    x, along = _sample("entropy", pk, axis, nan_policy)
    x = _also(x, qk)
    p = x / np.sum(x, axis=along, keepdims=True)
    if qk is None:
        found = np.sum(scipy.special.entr(p), axis=along)
    else:
        y, _ = _sample("entropy", qk, axis, nan_policy)
        y = _also(y, x)
        found = np.sum(
            scipy.special.rel_entr(p, y / np.sum(y, axis=along, keepdims=True)), axis=along
        )
    found = found if base is None else found / np.log(base)
    return _shape(found, pk, axis, keepdims)


@on_traced(scipy.stats.rankdata)
def rankdata(
    a: Numeric[X, "*n"] | Nested,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Shaped[Array, "*n"] | Shaped[Array, "size"]:
    """``scipy.stats.rankdata``: ranks from 1, with derivative 0, in SciPy's dtype.

    Args:
        a: the sample, without NaN.
        method: rank of equal elements: "average", "min", "max", "dense" or "ordinal".
        axis: the axis to rank along; all elements by default.
        nan_policy: "propagate"; the other policies read values, and raise.

    Returns:
        the ranks, of the shape of ``a``, or a vector by default; their dtype is that of SciPy's
        version.

    Raises:
        ShapeError: if ``method`` is unknown.
        UnsupportedFunctionError: for another ``nan_policy``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.jit(stats.rankdata)(np.array([0.5, 0.1, 0.9]))
        array([2., 1., 3.])
    """
    x, along = _sample("rankdata", a, axis, nan_policy)
    rows = np.moveaxis(x, along, -1)
    if method == "ordinal":
        order = np.argsort(np.argsort(rows, axis=-1, kind="stable"), axis=-1) + 1
        return np.moveaxis(order, -1, along).astype(_dtype_of_ranks(x.dtype, method))
    if method not in ("average", "min", "max", "dense"):
        raise ShapeError(f'unknown method "{method}"', fix="leave it out for 'average'")
    one, other = rows[..., :, None], rows[..., None, :]
    least, most = np.sum(other < one, axis=-1) + 1, np.sum(other <= one, axis=-1)
    if method == "dense":
        ordered = np.sort(rows, axis=-1)
        first = np.concatenate(
            [np.ones((*rows.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], axis=-1
        )
        found = np.sum(first[..., None, :] & (ordered[..., None, :] <= one), axis=-1)
    else:
        found = {"min": least, "max": most, "average": (least + most) / 2}[method]
    return np.moveaxis(found, -1, along).astype(_dtype_of_ranks(x.dtype, method))


@functools.lru_cache(maxsize=256)
def _dtype_of_ranks(dtype: np.dtype[Any], method: str) -> np.dtype[Any]:
    """Return SciPy's dtype: from 1.18 the sample's; before int64, and float64 for averages."""
    return scipy.stats.rankdata(np.zeros(1, dtype), method).dtype
