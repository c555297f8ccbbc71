"""Integrals of samples by ``scipy.integrate``, on traced values: SciPy's formulas.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from functrace.errors import ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.protocol.operands import Operand, arrayed
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import Numbers
from functrace.scipy.operands import Nested, Shaped, X


def _samples(name: str, y: Operand, x: Operand | None, dx: Operand, axis: int) -> tuple[Any, Any]:
    """Return samples and their distances, both along the last axis."""
    values: Any = arrayed(y)
    values = values if values.dtype.kind in "fc" else values.astype(np.float64)
    values = np.moveaxis(values, axis, -1)
    size = shape_of(values)[-1]
    if x is None:
        step: Any = (
            dx if type(dx) in (int, float) else arrayed(dx)
        )  # a Python number does not widen the samples
        return values, np.moveaxis(step, axis, -1) if shape_of(step) else step
    at: Any = arrayed(x)
    at = at if at.dtype.kind in "fc" else at.astype(np.float64)
    at = np.moveaxis(at, axis, -1) if len(shape_of(at)) > 1 else at
    if shape_of(at)[-1:] != (size,):
        raise ShapeError(
            f"scipy.integrate.{name}: x has shape {shape_of(at)}",
            fix=f"give it a length of {size} along axis",
        )
    return values, np.diff(at, axis=-1)


@on_traced(scipy.integrate.trapezoid)
def trapezoid(
    y: Shaped[X, "*#n"] | Nested,
    x: Shaped[X, "m"] | Shaped[X, "*#n"] | Nested | None = None,
    dx: Operand = 1.0,
    axis: int = -1,
) -> Any:
    """``scipy.integrate.trapezoid``, differentiable by samples and their positions.

    Args:
        y: samples; shape (..., m, ...), with m on ``axis``.
        x: positions of the samples, shape (m,) or that of ``y``; ``None`` for equal distances.
        dx: distance of the samples, where ``x`` is ``None``; a number, or an array that broadcasts
            to the m - 1 distances on ``axis``.
        axis: the axis of ``y`` to integrate along.

    Returns:
        the integral, of the shape of ``y`` without ``axis``; floats or complex numbers.

    Raises:
        ShapeError: if ``x`` does not have length m.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> ft.grad(integrate.trapezoid)(np.array([0.0, 1.0, 4.0]))
        array([0.5, 1. , 0.5])
    """
    values, steps = _samples("trapezoid", y, x, dx, axis)
    total = np.sum(steps * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)
    return (
        total.astype(values.dtype) if total.dtype.kind == values.dtype.kind else total
    )  # SciPy's dtype is that of y


@on_traced(scipy.integrate.cumulative_trapezoid)
def cumulative_trapezoid(
    y: Shaped[X, "*#n"] | Nested,
    x: Shaped[X, "m"] | Shaped[X, "*#n"] | Nested | None = None,
    dx: Operand = 1.0,
    axis: int = -1,
    initial: float | None = None,
) -> Any:
    """``scipy.integrate.cumulative_trapezoid``; ``initial`` is ``None`` or 0, like SciPy's.

    Args:
        y: samples; shape (..., m, ...), with m on ``axis``.
        x: positions of the samples, shape (m,) or that of ``y``; ``None`` for equal distances.
        dx: distance of the samples, where ``x`` is ``None``; a number, or an array that broadcasts
            to the m - 1 distances on ``axis``.
        axis: the axis of ``y`` to integrate along.
        initial: 0 to put this number before the results.

    Returns:
        the integral from the first sample to each other one: of the shape of ``y``, with length
        m - 1 on ``axis``, or m with ``initial``; floats or complex numbers.

    Raises:
        ShapeError: if ``x`` does not have length m, or ``initial`` is another number.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> ft.jit(integrate.cumulative_trapezoid)(np.array([0.0, 1.0, 4.0]))
        array([0.5, 3. ])
    """
    values, steps = _samples("cumulative_trapezoid", y, x, dx, axis)
    found = np.cumsum(steps * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        if initial != 0:
            raise ShapeError(
                "cumulative_trapezoid: initial must be None or 0", fix="add it to the result"
            )
        found = np.concatenate([np.zeros_like(found[..., :1]), found], axis=-1)
    return np.moveaxis(found, -1, axis)


def _ratio(a: Numbers, b: Numbers) -> Any:
    """Divide, with 0 for a zero divisor: samples may have equal positions."""
    return np.where(b != 0, a / np.where(b != 0, b, 1.0), 0.0)


def _parabolas(values: Numbers, steps: Numbers) -> Any:
    """Integrate over pairs of intervals, with an odd number of samples."""
    first, middle, last = values[..., :-2:2], values[..., 1:-1:2], values[..., 2::2]
    if not shape_of(steps):
        return np.sum(first + 4.0 * middle + last, axis=-1) * (steps / 3.0)
    a, b = steps[..., ::2], steps[..., 1::2]
    both, share = a + b, _ratio(a, b)
    terms = (
        first * (2.0 - _ratio(np.ones_like(share), share))
        + middle * both * _ratio(both, a * b)
        + last * (2.0 - share)
    )
    return np.sum(both / 6.0 * terms, axis=-1)


@on_traced(scipy.integrate.simpson)
def simpson(
    y: Shaped[X, "*#n"] | Nested,
    x: Shaped[X, "m"] | Shaped[X, "*#n"] | Nested | None = None,
    *,
    dx: Operand = 1.0,
    axis: int = -1,
) -> Any:
    """``scipy.integrate.simpson``, with Cartwright's correction for an even number of samples.

    Args:
        y: samples; shape (..., m, ...), with m on ``axis``.
        x: positions of the samples, shape (m,) or that of ``y``; ``None`` for equal distances.
        dx: distance of the samples, where ``x`` is ``None``; a number, or an array that broadcasts
            to the m - 1 distances on ``axis``.
        axis: the axis of ``y`` to integrate along.

    Returns:
        the integral, of the shape of ``y`` without ``axis``; floats or complex numbers.

    Raises:
        ShapeError: if ``x`` does not have length m.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> np.round(ft.grad(integrate.simpson)(np.array([0.0, 1.0, 4.0])), 4)
        array([0.3333, 1.3333, 0.3333])
    """
    values, steps = _samples("simpson", y, x, dx, axis)
    size = shape_of(values)[-1]
    if size % 2:
        return _parabolas(values, steps)
    equal = not shape_of(steps)
    if size == 2:
        return 0.5 * (steps if equal else steps[..., -1]) * (values[..., -1] + values[..., -2])
    if equal:
        rest = steps * (5.0 * values[..., -1] + 8.0 * values[..., -2] - values[..., -3]) / 12.0
        return _parabolas(values[..., :-1], steps) + rest
    a, b = steps[..., -2], steps[..., -1]
    rest = _ratio(2.0 * b**2 + 3.0 * a * b, 6.0 * (a + b)) * values[..., -1]
    rest = rest + _ratio(b**2 + 3.0 * a * b, 6.0 * a) * values[..., -2]
    rest = rest - _ratio(b**3, 6.0 * a * (a + b)) * values[..., -3]
    return _parabolas(values[..., :-1], steps[..., :-1]) + rest


@on_traced(scipy.integrate.cumulative_simpson)
def cumulative_simpson(
    y: Shaped[X, "*#n"] | Nested,
    *,
    x: Shaped[X, "m"] | Shaped[X, "*#n"] | Nested | None = None,
    dx: Operand = 1.0,
    axis: int = -1,
    initial: Operand | None = None,
) -> Any:
    """``scipy.integrate.cumulative_simpson``, for traced values too.

    Args:
        y: samples; shape (..., m, ...), with m on ``axis``.
        x: positions of the samples, shape (m,) or that of ``y``; ``None`` for equal distances.
        dx: distance of the samples, where ``x`` is ``None``; a number, or an array that broadcasts
            to the m - 1 distances on ``axis``.
        axis: the axis of ``y`` to integrate along.
        initial: a number, or an array with length 1 on ``axis``, to put before the results and add
            to them.

    Returns:
        the integral from the first sample to each other one: of the shape of ``y``, with length
        m - 1 on ``axis``, or m with ``initial``; floats or complex numbers.

    Raises:
        ShapeError: if ``x`` does not have length m.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> np.round(ft.jit(lambda y: integrate.cumulative_simpson(y))(np.array([0.0, 1.0, 4.0])), 4)
        array([0.3333, 2.6667])
    """
    values, steps = _samples("cumulative_simpson", y, x, dx, axis)
    size = shape_of(values)[-1]
    if size < 3:
        found = np.cumsum(steps * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)
    else:
        steps = np.broadcast_to(steps, (*shape_of(values)[:-1], size - 1))
        ahead = _each(values, steps, equal=x is None)
        behind = _each(values[..., ::-1], steps[..., ::-1], equal=x is None)[..., ::-1]
        parts = [
            ahead[..., k] if k % 2 == 0 and k < size - 2 else behind[..., k - 1]
            for k in range(size - 1)
        ]
        found = np.cumsum(np.stack(parts, axis=-1), axis=-1)
    if initial is not None:
        start: Any = arrayed(initial)
        start = np.moveaxis(start, axis, -1) if shape_of(start) else start
        start = np.broadcast_to(start, (*shape_of(found)[:-1], 1))
        found = np.concatenate([start, found + start], axis=-1)
    return np.moveaxis(found, -1, axis)


def _each(values: Numbers, steps: Numbers, *, equal: bool) -> Any:
    """Integrate the parabola through each three samples over its first interval."""
    first, middle, last = values[..., :-2], values[..., 1:-1], values[..., 2:]
    a, b = steps[..., :-1], steps[..., 1:]
    if equal:
        return a / 3 * (5 * first / 4 + 2 * middle - last / 4)
    share = a / (a + b)
    both = share * (a / b)
    return a / 6 * ((3 - share) * first + (3 + both + share) * middle - both * last)


@on_traced(scipy.integrate.romb)
def romb(y: Operand, dx: Operand = 1.0, axis: int = -1, show: bool = False) -> Any:
    """``scipy.integrate.romb``; ``show`` is for plain values.

    Args:
        y: samples at equal distances; shape (..., m, ...), with m = 2**k + 1 on ``axis``.
        dx: distance of the samples, a number.
        axis: the axis of ``y`` to integrate along.
        show: True to print the table of extrapolations; no effect on traced values.

    Returns:
        the integral, of the shape of ``y`` without ``axis``; floats or complex numbers.

    Raises:
        ShapeError: if m is not one more than a power of 2.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import integrate
        >>> np.round(ft.jit(integrate.romb)(np.array([0.0, 1.0, 4.0])), 4)
        np.float64(2.6667)
    """
    values, step = _samples("romb", y, None, dx, axis)
    count = shape_of(values)[-1] - 1
    if count < 1 or count & (count - 1):
        raise ShapeError(
            "Number of samples must be one plus a non-negative power of 2.",
            fix="sample at 2**k + 1 places",
        )
    h = count * arrayed(step)  # in double precision, like SciPy
    row = [(values[..., 0] + values[..., -1]) / 2.0 * h]
    stride = count
    while stride > 1:
        before, row = (
            row,
            [0.5 * (row[0] + h * np.sum(values[..., stride // 2 :: stride], axis=-1))],
        )
        for j, old in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - old) / ((1 << (2 * j)) - 1))
        stride, h = stride // 2, h / 2.0
    return row[-1]
