"""Functions of samples: interpolation, convolution, numerical gradients, covariance.

Layer: 3.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.layout import UNKNOWN, order_like
from functrace.numpy.arrays.views import laid_out
from functrace.numpy.functions.joining import concatenate
from functrace.numpy.functions.taking import take
from functrace.numpy.protocol.operands import (
    Arrayed,
    Axis,
    DtypeLike,
    Operand,
    along,
    arrayed,
    axis_tuple,
    flattened,
    stacked,
)
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops import joining
from functrace.ops.checks import require
from functrace.ops.indexing import index_static
from functrace.ops.shaping import convert, reshape
from functrace.tracing.tracer import Tracer, as_array


@implements(np.interp, scalars=True)
def interp(
    x: Operand,
    xp: Operand,
    fp: Operand,
    left: Operand | None = None,
    right: Operand | None = None,
    period: float | Arrayed | None = None,
) -> Any:
    """As ``numpy.interp``; differentiable in ``x``, ``xp``, ``fp``, ``left`` and ``right``."""
    at, xp, fp = (convert(y, np.result_type(y.dtype, float)) for y in map(arrayed, (x, xp, fp)))
    if len(shape_of(xp)) != 1 or shape_of(xp) != shape_of(fp) or not shape_of(xp)[0]:
        raise ShapeError(
            f"interp: xp and fp must be vectors of one size of at least 1, got {shape_of(xp)} and "
            f"{shape_of(fp)}",
            fix="pass one value per point",
        )
    if xp.dtype.kind == "c" or at.dtype.kind == "c":
        raise DtypeError("interp: x and xp must be real", fix="take the real part")
    before, behind = (end if end is None else _outside(end, fp.dtype) for end in (left, right))
    if period is not None:
        turn: Any = abs(period)
        at, xp = at % turn, xp % turn
        order = np.argsort(xp)
        xp, fp = take(xp, order), take(fp, order)
        xp = concatenate((xp[-1:] - turn, xp, xp[:1] + turn))
        fp = concatenate((fp[-1:], fp, fp[:1]))
        before = behind = None
    n = shape_of(xp)[0]
    upper = np.clip(np.searchsorted(xp, at, "right"), 1, max(n - 1, 1))
    lower = upper - 1
    upper = np.minimum(upper, n - 1)
    x0, y0 = take(xp, lower), take(fp, lower)
    dx, dy = take(xp, upper) - x0, take(fp, upper) - y0
    flat = ew.equal(dx, 0)
    made = ew.add(ew.mul(ew.div(dy, ew.where(flat, 1.0, dx)), ew.sub(at, x0)), y0)
    first, last = index_static(xp, (0,)), index_static(xp, (n - 1,))
    made = ew.where(ew.less(at, first), index_static(fp, (0,)) if before is None else before, made)
    outside = index_static(fp, (n - 1,))
    made = ew.where(ew.equal(at, last), outside, made)
    return ew.where(ew.greater(at, last), outside if behind is None else behind, made)


_MODES = ("full", "same", "valid")


def _slid(a: Operand, v: Operand, mode: str | int, what: str) -> tuple[Arrayed, Arrayed, str]:
    a, v = arrayed(a), arrayed(v)
    mode = _MODES[::-1][mode] if isinstance(mode, int) and 0 <= mode < 3 else mode
    if mode not in _MODES:
        raise ShapeError(
            f"{what}: mode must be one of 'full', 'same', 'valid', not {mode!r}",
            fix="pass one of them",
        )
    if len(shape_of(a)) > 1 or len(shape_of(v)) > 1:
        raise ShapeError(
            f"{what} needs vectors, got shapes {shape_of(a)} and {shape_of(v)}", fix="use .ravel()"
        )
    a, v = (flattened(x) for x in (a, v))
    if not shape_of(a)[0] or not shape_of(v)[0]:
        raise ShapeError(f"{what}: neither argument can be empty", fix="pass at least one element")
    return a, v, mode


def _cut(full_result: Arrayed, m: int, n: int, mode: str, start: int) -> Any:
    small, large = min(m, n), max(m, n)
    if mode == "full":
        return full_result
    if mode == "same":
        return index_static(full_result, ((start, start + large, None),))
    return index_static(full_result, ((small - 1, large, None),))


@implements(np.convolve)
def convolve(a: Operand, v: Operand, mode: str = "full") -> Any:
    """As ``numpy.convolve``."""
    a, v, mode = _slid(a, v, mode, "convolve")
    m, n = len(a), len(v)
    return _cut(joining.convolve(a, v), m, n, mode, (min(m, n) - 1) // 2)


@implements(np.correlate)
def correlate(a: Operand, v: Operand, mode: str = "valid") -> Any:
    """As ``numpy.correlate``: of ``a`` with the complex conjugate of ``v``."""
    if not shape_of(arrayed(a)) or not shape_of(arrayed(v)):
        raise ShapeError(
            "object of too small depth for desired array: correlate takes vectors",
            fix="use np.convolve, or *",
        )
    a, v, mode = _slid(a, v, mode, "correlate")
    m, n = len(a), len(v)
    other = ew.conj(v) if v.dtype.kind == "c" else v
    made = joining.convolve(a, index_static(other, ((None, None, -1),)))
    # For a longer v, NumPy swaps both and reverses the result: the middle of even lengths moves.
    return _cut(
        made,
        m,
        n,
        mode,
        (m - 1) // 2 if n > m and m % 2 else min(m, n) // 2 if n > m else (n - 1) // 2,
    )


def _outside(end: Operand, dtype: np.dtype[Any]) -> Arrayed:
    """Return the value of `interp` outside of its points: one number, real if ``fp`` is."""
    end = stacked(end)
    if not isinstance(end, Tracer):
        end = as_array(end)[()]
    if shape_of(end) or (end.dtype.kind == "c" and dtype.kind != "c"):
        raise DtypeError(
            f"interp: left and right must be numbers like those of fp ({dtype})",
            fix="pass one number each",
        )
    return convert(end, dtype)


@implements(np.gradient)
def gradient(f: Operand, *varargs: Operand, axis: Axis = None, edge_order: int = 1) -> Any:
    """As ``numpy.gradient``; differentiable in the values and the spacings."""
    f = arrayed(f)
    ndim = len(shape_of(f))
    axes = tuple(range(ndim)) if axis is None else axis_tuple(axis, ndim)
    spacings = [stacked(s) for s in varargs] or [1.0]
    if len(spacings) == 1 and not len(shape_of(arrayed(spacings[0]))):
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise DtypeError(
            f"gradient: {len(varargs)} spacings do not fit {len(axes)} axes",
            fix="give one per axis",
        )
    if edge_order not in (1, 2):
        raise ShapeError("gradient: 'edge_order' greater than 2 not supported", fix="use 1 or 2")
    if f.dtype.kind == "b":
        raise DtypeError(
            "gradient: bools have no difference", fix="convert them first, e.g. with .astype(int)"
        )
    if f.dtype.kind not in "fc":
        f = convert(f, float)
    order = order_like(f, "K") if isinstance(f, Tracer) else UNKNOWN
    made = [
        laid_out(_gradient_along(f, s, k, edge_order), order)
        for s, k in zip(spacings, axes, strict=True)
    ]
    return made[0] if len(axes) == 1 else tuple(made)


def _gradient_along(f: Arrayed, spacing: Operand, axis: int, edge_order: int) -> Any:
    n, ndim = shape_of(f)[axis], len(shape_of(f))
    if n < edge_order + 1:
        raise ShapeError(
            f"Shape of array too small to calculate a numerical gradient: axis {axis} has {n} "
            "elements",
            fix=f"at least {edge_order + 1} elements are required",
        )
    spacing = arrayed(spacing)
    if spacing.dtype.kind in "iu":
        spacing = convert(spacing, float)

    def part(a: int | None, b: int | None) -> Any:
        return index_static(f, along(axis, (a, b, None)))

    uniform = not len(shape_of(spacing))
    if uniform:
        h = first = last = before_last = second = spacing
        inner = (part(2, None) - part(None, -2)) / (2.0 * h)
    else:
        if shape_of(spacing) != (n,):
            raise ShapeError(
                f"gradient: {shape_of(spacing)} coordinates do not fit axis {axis} of size {n}",
                fix="give one each",
            )
        steps = convert(
            spacing[1:] - spacing[:-1], np.result_type(spacing.dtype, f.dtype.type(0).real.dtype)
        )
        first, second, last, before_last = (
            index_static(steps, (k,)) for k in (0, min(1, n - 2), n - 2, max(0, n - 3))
        )
        steps = reshape(steps, (n - 1,) + (1,) * (ndim - 1 - axis))
        low, high = (
            index_static(steps, ((None, -1, None),)),
            index_static(steps, ((1, None, None),)),
        )
        a, b, c = (
            -high / (low * (low + high)),
            (high - low) / (low * high),
            low / (high * (low + high)),
        )
        inner = a * part(None, -2) + b * part(1, -1) + c * part(2, None)
    if edge_order == 1:
        left = (part(1, 2) - part(0, 1)) / first
        right = (part(n - 1, n) - part(n - 2, n - 1)) / last
    else:
        left = -_one_sided(part(0, 1), part(1, 2), part(2, 3), first, second)
        right = _one_sided(
            part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2), last, before_last
        )
    return joining.concatenate([convert(x, f.dtype) for x in (left, inner, right)], axis)


def _one_sided(y0: Arrayed, y1: Arrayed, y2: Arrayed, h1: Arrayed, h2: Arrayed) -> Any:
    """Return the second-order one-sided difference at ``y0``; ``h1``, ``h2`` are the next steps."""
    return (
        (2.0 * h1 + h2) / (h1 * (h1 + h2)) * y0
        - (h1 + h2) / (h1 * h2) * y1
        + h1 / (h2 * (h1 + h2)) * y2
    )


@implements(np.cov)
def cov(
    m: Operand,
    y: Operand | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | Arrayed | None = None,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
    *,
    dtype: DtypeLike = None,
) -> Any:
    """As ``numpy.cov``; warns during tracing if concrete degrees of freedom are at most 0."""
    if ddof is not None and ddof != int(ddof):
        raise ShapeError("ddof must be integer", fix="pass 0 or 1")
    m = arrayed(m)
    rows = [m] if y is None else [m, arrayed(y)]
    if any(len(shape_of(x)) > 2 for x in rows):
        raise ShapeError(
            "cov: m and y must have at most 2 axes", fix="use a matrix whose rows are variables"
        )
    kind = (
        np.result_type(*(x.dtype for x in rows), np.float64) if dtype is None else np.dtype(dtype)
    )
    made = []
    for k, x in enumerate(rows):
        x = convert(x, kind)
        shape = shape_of(x)
        x = reshape(x, (1,) * (2 - len(shape)) + shape)
        made.append(
            np.transpose(x)
            if not rowvar and (len(shape) == 2 if k == 0 else shape_of(x)[0] != 1)
            else x
        )
    if not shape_of(made[0])[0]:
        return np.zeros((0, 0))
    x = made[0] if len(made) == 1 else joining.concatenate(made, 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            given = convert(arrayed(given), float)
            if shape_of(given) != shape_of(x)[1:]:
                raise ShapeError(
                    f"cov: weights of shape {shape_of(given)} do not fit {shape_of(x)[1]} "
                    "observations",
                    fix="give one each",
                )
            if name == "fweights":
                given = require(
                    given, ew.equal(given, np.round(given)), "TypeError", "fweights must be integer"
                )
            given = require(
                given, ew.greater_equal(given, 0), "ValueError", f"{name} cannot be negative"
            )
            weights = given if weights is None else weights * given
    n = shape_of(x)[1]
    if weights is None:
        mean, total = np.mean(x, axis=1, keepdims=True), float(n)
        scale: Any = total - ddof
        if scale <= 0:
            warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=4)
            scale = 0.0
    else:
        total = np.sum(weights)
        total = require(
            total,
            ew.not_equal(total, 0),
            "ZeroDivisionError",
            "Weights sum to zero, can't be normalized",
        )
        mean = convert(np.sum(x * weights, axis=1, keepdims=True) / total, kind)
        scale = total - ddof
        if aweights is not None and ddof != 0:
            scale = total - ddof * np.sum(weights * arrayed(aweights)) / total
        scale = ew.maximum(scale, 0.0)
    centred = x - mean
    other = np.transpose(centred if weights is None else centred * weights)
    result = np.matmul(centred, np.conj(other) if kind.kind == "c" else other) * ew.div(1.0, scale)
    return np.squeeze(result)


@implements(np.corrcoef)
def corrcoef(
    x: Operand, y: Operand | None = None, rowvar: bool = True, *, dtype: DtypeLike = None
) -> Any:
    """As ``numpy.corrcoef``, without NumPy's clipping to [-1, 1], which only removes rounding."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not len(shape_of(c)):
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    return c / deviation[:, None] / deviation[None, :]
