"""Piecewise polynomials, and cubic interpolants; see `functrace.scipy.interpolate`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import numpy as np
import scipy.interpolate

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer, one_axis
from functrace.ops.banded import solve_banded
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, gather
from functrace.scipy.kinds import Given
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.typing import Array

Extrapolate: TypeAlias = bool | str | None
Condition: TypeAlias = str | tuple[int, Operand]
End: TypeAlias = str | tuple[int, Array]
_ALL = (None, None, None)


def inexact(x: Operand) -> Any:
    """Return an array of numbers, in double precision."""
    made: Any = arrayed(x)
    return made.astype(np.complex128 if made.dtype.kind == "c" else np.float64)


def real(name: str, x: Operand) -> Any:
    """Return an array of real numbers, in double precision."""
    made = inexact(x)
    if made.dtype.kind == "c":
        raise DtypeError(
            f"scipy.interpolate.{name} takes real values here", fix="pass real and imaginary parts"
        )
    return made


def beside(x: Array, y: Array) -> Any:
    """Append axes of size 1 to a vector, so that it broadcasts along the first axis of ``y``."""
    return x.reshape((*x.shape, *(1,) * (y.ndim - 1)))


def placed(found: Array, first_axes: int, axis: int) -> Any:
    """Move the leading axes, those of the evaluation points, to the interpolation axis."""
    return (
        np.moveaxis(found, tuple(range(first_axes)), tuple(range(axis, axis + first_axes)))
        if axis and first_axes
        else found
    )


@final
class TracedPPoly:
    """``scipy.interpolate.PPoly`` for traced coefficients, breakpoints or points.

    Args:
        c: coefficients, shape (k, m, ...), those of the highest power first.
        x: breakpoints, shape (m + 1,), increasing.
        extrapolate: True to use the first or last piece for points outside; "periodic"; otherwise
            they give NaN.
        axis: position of the breakpoints' axis in results.
    """

    def __init__(
        self,
        c: Numeric[X, "k m *rest"] | Nested,
        x: Numeric[X, "n"] | Nested,
        extrapolate: Extrapolate = None,
        axis: int = 0,
    ) -> None:
        self.c, self.x = inexact(c), inexact(x)
        if self.c.ndim < 2 or self.x.ndim != 1 or self.c.shape[1] != self.x.shape[0] - 1:
            raise ShapeError(
                f"scipy.interpolate.PPoly: coefficients of shape {self.c.shape} do not fit "
                f"breakpoints of {self.x.shape}",
                fix="pass coefficients (k, m, ...) and m + 1 breakpoints",
            )
        self.extrapolate: bool | str = True if extrapolate is None else extrapolate
        self.axis = axis

    def __call__(self, x: Operand, nu: int = 0, extrapolate: Extrapolate = None) -> Any:
        """Return the value, or a derivative of order ``nu``, at points.

        Args:
            x: points, of any shape.
            nu: order of the derivative; of the antiderivative if negative.
            extrapolate: see the constructor, which has the default.
        """
        if nu < 0:
            return self.antiderivative(-nu)(x, 0, extrapolate)
        at = real("PPoly", x)
        return placed(
            self._evaluated(at, nu, self.extrapolate if extrapolate is None else extrapolate),
            at.ndim,
            self.axis,
        )

    def _evaluated(self, at: Array, nu: int, extrapolate: bool | str) -> Any:
        first, last = self.x[0], self.x[-1]
        if extrapolate == "periodic":
            at = first + (at - first) % (last - first)
        piece = np.clip(np.searchsorted(self.x, at, "right") - 1, 0, self.c.shape[1] - 1)
        step = at - gather(self.x, (ARRAY,), (piece,))
        step = step.reshape((*at.shape, *(1,) * (self.c.ndim - 2)))
        powers = gather(self.c, (_ALL, ARRAY, Ellipsis), (piece,))
        count = self.c.shape[0]
        total: Any = None
        for k in range(count - nu):
            factor = 1.0
            for j in range(nu):
                factor *= count - 1 - k - j
            part = powers[k] * factor if nu else powers[k]
            total = part if total is None else total * step + part
        if total is None:
            total = powers[0] * 0.0
        if extrapolate:
            return total
        inside = ((at >= first) & (at <= last)).reshape(step.shape)
        return np.where(inside, total, np.nan)

    def derivative(self, nu: int = 1) -> TracedPPoly:
        """Return the derivative of an order."""
        if nu < 0:
            return self.antiderivative(-nu)
        c = self.c
        for _ in range(nu):
            count = c.shape[0]
            powers = np.arange(count - 1, 0, -1.0).reshape(-1, *(1,) * (c.ndim - 1))
            c = c[:-1] * powers if count > 1 else c * 0.0
        return TracedPPoly(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> TracedPPoly:
        """Return the antiderivative of an order, which is 0 at the first breakpoint."""
        if nu < 0:
            return self.derivative(-nu)
        c = self.c
        for _ in range(nu):
            powers = np.arange(c.shape[0], 0, -1.0).reshape(-1, *(1,) * (c.ndim - 1))
            higher = c / powers
            step = beside(np.diff(self.x), c[0])
            ends = higher[0]
            for row in higher[1:]:
                ends = ends * step + row
            ends = np.cumsum(ends * step, axis=0)
            starts = np.concatenate([ends[:1] * 0.0, ends[:-1]], axis=0)
            c = np.concatenate([higher, starts[None]], axis=0)
        return TracedPPoly(
            c,
            self.x,
            False if self.extrapolate == "periodic" and nu else self.extrapolate,
            self.axis,
        )

    def integrate(self, a: Operand, b: Operand, extrapolate: Extrapolate = None) -> Any:
        """Return the definite integral from ``a`` to ``b``."""
        way = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        if way != "periodic":
            return whole(b, 0, way) - whole(a, 0, way)
        first, period = self.x[0], self.x[-1] - self.x[0]
        turn = whole(self.x[-1], 0, True)

        def up_to(end: Operand) -> Any:
            at = real("PPoly.integrate", end) - first
            return np.floor(at / period) * turn + whole(first + at % period, 0, True)

        return up_to(b) - up_to(a)


# -- through points --------------------------------------------------------------------------------


def points(
    name: str, x: Operand, y: Operand, axis: int, *more: Operand
) -> tuple[Any, list[Any], int]:
    """Return positions, and values with the interpolation axis first."""
    at, values = real(name, x), [inexact(v) for v in (y, *more)]
    if not values[0].ndim:
        raise ShapeError(
            f"scipy.interpolate.{name}: y must have an axis", fix="pass one value per position"
        )
    place = one_axis(axis, values[0].ndim)
    if at.ndim != 1 or at.shape[0] < 2:
        raise ShapeError(
            f"scipy.interpolate.{name}: x must be 1-dimensional, with at least 2 elements, got "
            f"shape {at.shape}",
            fix="pass more",
        )
    if any(v.shape != values[0].shape for v in values) or values[0].shape[place] != at.shape[0]:
        raise ShapeError(
            f"scipy.interpolate.{name}: the length of y along axis {place}, "
            f"{values[0].shape[place]}, doesn't match the "
            f"length of x, {at.shape[0]}",
            fix="pass one value per position",
        )
    rises = np.diff(at) > 0
    at = require(
        at,
        rises,
        "ValueError",
        f"scipy.interpolate.{name}: `x` must be strictly increasing sequence.",
    )
    dtype = np.result_type(*values)
    return at, [np.moveaxis(v.astype(dtype), place, 0) for v in values], place


def hermite(x: Array, y: Array, slopes: Array, extrapolate: Extrapolate, axis: int) -> TracedPPoly:
    """Return cubic pieces from values and slopes; the interpolation axis is the first one."""
    step = beside(np.diff(x), y)
    mean = np.diff(y, axis=0) / step
    bend = (slopes[:-1] + slopes[1:] - 2 * mean) / step
    return TracedPPoly(
        np.stack([bend / step, (mean - slopes[:-1]) / step - bend, slopes[:-1], y[:-1]]),
        x,
        extrapolate,
        axis,
    )


def _hermite(
    x: Numeric[X, "n"] | Nested,
    y: Numeric[X, "*rest m"] | Nested,
    dydx: Numeric[X, "*rest m"] | Nested,
    axis: int = 0,
    extrapolate: Extrapolate = None,
) -> TracedPPoly:
    at, (values, slopes), place = points("CubicHermiteSpline", x, y, axis, dydx)
    return hermite(at, values, slopes, extrapolate, place)


def _condition(given: Condition, y: Array) -> Any:
    if isinstance(given, str):
        if given in ("clamped", "natural"):
            return (1 if given == "clamped" else 2, np.zeros(y.shape[1:]))
        if given in ("not-a-knot", "periodic"):
            return given
        raise ShapeError(
            f"scipy.interpolate.CubicSpline: bc_type={given} is not allowed", fix="see SciPy's page"
        )
    if len(given) != 2 or given[0] not in (1, 2):
        raise ShapeError(
            "scipy.interpolate.CubicSpline: a condition is (order, value), and the order 1 or 2",
            fix="pass e.g. (1, 0.0)",
        )
    value = inexact(given[1])
    if value.shape != y.shape[1:]:
        raise ShapeError(
            f"scipy.interpolate.CubicSpline: deriv_value shape {value.shape} is not the expected "
            f"one {y.shape[1:]}",
            fix="pass one value per element of y at a point",
        )
    return (given[0], value)


def _cubic(
    x: Numeric[X, "n"] | Nested,
    y: Numeric[X, "*rest m"] | Nested,
    axis: int = 0,
    bc_type: str | Sequence[Condition] = "not-a-knot",
    extrapolate: Extrapolate = None,
) -> TracedPPoly:
    at, (values,), place = points("CubicSpline", x, y, axis)
    ends = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(ends) != 2 or (
        not isinstance(bc_type, str) and any(isinstance(e, str) and e == "periodic" for e in ends)
    ):
        raise ShapeError(
            "scipy.interpolate.CubicSpline: bc_type must have 2 elements, not 'periodic'",
            fix="pass a pair",
        )
    start: Any
    stop: Any
    start, stop = (_condition(e, values) for e in ends)
    if start == "periodic" and not isinstance(start, tuple):
        message = "scipy.interpolate.CubicSpline: the first and last `y` must be identical when bc_type='periodic'."
        close = np.abs(values[0] - values[-1]) <= 1e-15 + 1e-15 * np.abs(values[-1])
        values = require(values, close, "ValueError", message)
    if extrapolate is None:
        extrapolate = "periodic" if isinstance(start, str) and start == "periodic" else True
    return hermite(at, values, _cubic_slopes(at, values, (start, stop)), extrapolate, place)


def _cubic_slopes(x: Array, y: Array, ends: tuple[End, End]) -> Any:
    """Compute slopes with continuous second derivatives.

    Source: ``scipy.interpolate.CubicSpline``.
    """
    start: Any
    stop: Any
    start, stop = ends
    n = x.shape[0]
    d: Any = np.diff(x)
    dr = beside(d, y)
    mean = np.diff(y, axis=0) / dr
    knots = ("not-a-knot", "periodic")
    if n == 2:
        start = (1, mean[0]) if isinstance(start, str) and start in knots else start
        stop = (1, mean[0]) if isinstance(stop, str) and stop in knots else stop
    free = isinstance(start, str), isinstance(stop, str)
    if n == 3 and all(free) and start == stop == "not-a-knot":
        one, zero = np.ones(()), np.zeros(())
        a = np.stack(
            [
                np.stack([one, one, zero]),
                np.stack([d[1], 2 * (d[0] + d[1]), d[0]]),
                np.stack([zero, one, one]),
            ]
        )
        b = np.stack([2 * mean[0], 3 * (dr[0] * mean[1] + dr[1] * mean[0]), 2 * mean[1]])
        return np.linalg.solve(a, b.reshape(3, -1)).reshape(b.shape)
    if n == 3 and free[0] and start == "periodic":
        slope = np.sum(mean / dr, axis=0) / np.sum(1.0 / dr, axis=0)
        return np.broadcast_to(slope, y.shape)
    middle, inner = 2 * (d[:-1] + d[1:]), 3 * (dr[1:] * mean[:-1] + dr[:-1] * mean[1:])
    if free[0] and start == "periodic":
        return _periodic_slopes(d, dr, mean, middle, inner)
    zero = d[:1] * 0.0
    if free[0]:
        wide = x[2] - x[0]
        head, above = d[1:2], wide[None]
        first = ((dr[0] + 2 * wide) * dr[1] * mean[0] + dr[0] ** 2 * mean[1]) / wide
    elif start[0] == 1:
        head, above, first = zero + 1.0, zero, start[1] + 0.0 * y[0]
    else:
        head, above = 2 * d[:1], d[:1]
        first = -0.5 * start[1] * dr[0] ** 2 + 3 * (y[1] - y[0])
    if free[1]:
        wide = x[-1] - x[-3]
        tail, below = d[-2:-1], wide[None]
        last = (dr[-1] ** 2 * mean[-2] + (2 * wide + dr[-1]) * dr[-2] * mean[-1]) / wide
    elif stop[0] == 1:
        tail, below, last = zero + 1.0, zero, stop[1] + 0.0 * y[0]
    else:
        tail, below = 2 * d[-1:], d[-1:]
        last = 0.5 * stop[1] * dr[-1] ** 2 + 3 * (y[-1] - y[-2])
    bands = np.stack(
        [
            np.concatenate([zero, above, d[:-1]]),
            np.concatenate([head, middle, tail]),
            np.concatenate([d[1:], below, zero]),
        ]
    )
    b = np.concatenate([first[None], inner, last[None]], axis=0)
    return _banded(bands, b)


def _banded(bands: Array, b: Array) -> Any:
    return solve_banded(bands, b.reshape(b.shape[0], -1), 1, 1).reshape(b.shape)


def _periodic_slopes(d: Array, dr: Array, mean: Array, middle: Array, inner: Array) -> Any:
    """Compute slopes of a periodic curve, by a banded system without one unknown."""
    first = 3 * (dr[0] * mean[-1] + dr[-1] * mean[0])
    last = 3 * (dr[-1] * mean[-2] + dr[-2] * mean[-1])
    b = np.concatenate([first[None], inner[:-1]], axis=0)
    size = b.shape[0]
    zero = d[:1] * 0.0
    diagonal = np.concatenate([2 * (d[-1:] + d[:1]), middle[:-1]])
    upper = np.concatenate([zero, d[-1:], d[: size - 2]])[:size]
    lower = np.concatenate([d[1:size], zero])
    bands = np.stack([upper, diagonal, lower])
    corner = (
        np.concatenate([-d[:1], np.zeros(size - 2), -d[-3:-2]]) if size > 1 else -d[:1] - d[-3:-2]
    )
    s1 = _banded(bands, b)
    s2 = beside(solve_banded(bands, corner[:, None], 1, 1)[:, 0], b)
    at_last = (last - d[-2] * s1[0] - d[-1] * s1[-1]) / (
        2 * (d[-1] + d[-2]) + d[-2] * s2[0] + d[-1] * s2[-1]
    )
    s = s1 + at_last * s2
    return np.concatenate([s, at_last[None], s[:1]], axis=0)


def _pchip(
    x: Numeric[X, "n"] | Nested,
    y: Numeric[X, "*rest m"] | Nested,
    axis: int = 0,
    extrapolate: Extrapolate = None,
) -> TracedPPoly:
    at, (values,), place = points("PchipInterpolator", x, y, axis)
    if values.dtype.kind == "c":
        raise DtypeError(
            "scipy.interpolate.PchipInterpolator only works with real values for y",
            fix="use np.real",
        )
    return hermite(at, values, pchip_slopes(beside(at, values), values), extrapolate, place)


def pchip_slopes(x: Array, y: Array) -> Any:
    """Compute monotone slopes: weighted harmonic means, 0 at local extremes.

    Source: F. N. Fritsch and J. Butland, A method for constructing local monotone piecewise cubic
    interpolants, 1984.
    """
    h = np.diff(x, axis=0)
    m = np.diff(y, axis=0) / h
    if y.shape[0] == 2:
        return np.concatenate([m, m], axis=0)
    turns = (np.sign(m[1:]) != np.sign(m[:-1])) | (m[1:] == 0) | (m[:-1] == 0)
    left, right = np.where(turns, 1.0, m[:-1]), np.where(turns, 1.0, m[1:])
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(turns, 0.0, (w1 + w2) / (w1 / left + w2 / right))

    def end(h0: Array, h1: Array, m0: Array, m1: Array) -> Any:
        slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        wrong = np.sign(slope) != np.sign(m0)
        steep = (np.sign(m0) != np.sign(m1)) & (np.abs(slope) > 3.0 * np.abs(m0))
        return np.where(wrong, 0.0, np.where(steep, 3.0 * m0, slope))

    first, last = end(h[0], h[1], m[0], m[1]), end(h[-1], h[-2], m[-1], m[-2])
    return np.concatenate([first[None], inner, last[None]], axis=0)


def _akima(
    x: Numeric[X, "n"] | Nested,
    y: Numeric[X, "*rest m"] | Nested,
    axis: int = 0,
    *,
    method: str = "akima",
    extrapolate: bool | None = None,
) -> TracedPPoly:
    if method not in ("akima", "makima"):
        raise ShapeError(
            f"scipy.interpolate.Akima1DInterpolator: method={method} is unsupported",
            fix="pass 'akima' or 'makima'",
        )
    at, (y_,), place = points("Akima1DInterpolator", x, y, axis)
    if y_.dtype.kind == "c":
        raise DtypeError(
            "scipy.interpolate.Akima1DInterpolator only works with real values for y",
            fix="use np.real",
        )
    inner = np.diff(y_, axis=0) / beside(np.diff(at), y_)
    if y_.shape[0] == 2:
        slopes = np.concatenate([inner, inner], axis=0)
    else:
        before = 2.0 * inner[:1] - inner[1:2]
        behind = 2.0 * inner[-1:] - inner[-2:-1]
        m = np.concatenate(
            [2.0 * before - inner[:1], before, inner, behind, 2.0 * behind - inner[-1:]], axis=0
        )
        change = np.abs(np.diff(m, axis=0))
        f1, f2 = change[2:], change[:-2]
        if method == "makima":
            sums = np.abs(m[1:] + m[:-1])
            f1, f2 = f1 + 0.5 * sums[2:], f2 + 0.5 * sums[:-2]
        both = f1 + f2
        usual = both > 1e-9 * np.max(both, initial=-np.inf)
        weighted = m[1:-2] + f2 / np.where(usual, both, 1.0) * (m[2:-1] - m[1:-2])
        slopes = np.where(usual, weighted, 0.5 * (m[3:] + m[:-3]))
    return hermite(at, y_, slopes, False if extrapolate is None else extrapolate, place)


# -- SciPy's classes -------------------------------------------------------------------------------


class AcceptsTraced:
    """SciPy's piecewise polynomial through plain points, which also takes traced points."""

    traced: Callable[..., Any]

    def __new__(cls, *args: Given, **kwargs: Given) -> Any:
        """Return SciPy's object for plain arguments, `TracedPPoly` for traced ones."""
        if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            return cls.traced(*args, **kwargs)
        return super().__new__(cls)

    def _pieces(self) -> TracedPPoly:
        own: Any = self
        return TracedPPoly(own.c, own.x, own.extrapolate, own.axis)

    def __call__(self, x: Operand, nu: int = 0, extrapolate: Extrapolate = None) -> Any:
        """Call SciPy's method; the points may be traced."""
        if holds_tracer(x):
            return self._pieces()(x, nu, extrapolate)
        base: Any = super()
        return base.__call__(x, nu, extrapolate)

    def integrate(self, a: Operand, b: Operand, extrapolate: Extrapolate = None) -> Any:
        """Call SciPy's method; the limits may be traced."""
        if holds_tracer(a) or holds_tracer(b):
            return self._pieces().integrate(a, b, extrapolate)
        base: Any = super()
        return base.integrate(a, b, extrapolate)


class PPoly(AcceptsTraced, scipy.interpolate.PPoly):
    """``scipy.interpolate.PPoly``: a piecewise polynomial; coefficients, breakpoints and points may
    be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        c: coefficients, shape (k, m, ...), those of the highest power first.
        x: breakpoints, shape (m + 1,), increasing.
        extrapolate: True to use the first or last piece for points outside; "periodic"; False for
            NaN there.
        axis: position of the breakpoints' axis in results.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if coefficients and breakpoints do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> ft.grad(lambda c: interpolate.PPoly(c, np.array([0.0, 1.0]))(0.5))(np.array([[1.0], [2.0]]))
        array([[0.5],
               [1. ]])
    """

    traced = staticmethod(TracedPPoly)


class CubicHermiteSpline(AcceptsTraced, scipy.interpolate.CubicHermiteSpline):
    """``scipy.interpolate.CubicHermiteSpline``: a cubic curve through values, with slopes;
    positions, values, slopes and points may be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        x: positions, shape (n,), increasing.
        y: values, shape (n, ...) for the first axis.
        dydx: slopes, of the shape of ``y``.
        axis: the axis of ``y`` that belongs to ``x``.
        extrapolate: True to use the first or last piece for points outside; "periodic"; False for
            NaN there.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if ``x``, ``y`` and ``dydx`` do not fit.
        ValueError: if positions do not increase.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(2.0)
        >>> ft.grad(lambda y: interpolate.CubicHermiteSpline(x, y, np.zeros(2))(0.5))(np.ones(2))
        array([0.5, 0.5])
    """

    traced = staticmethod(_hermite)


class CubicSpline(AcceptsTraced, scipy.interpolate.CubicSpline):
    """``scipy.interpolate.CubicSpline``: a cubic curve with continuous second derivatives; all
    arrays and points may be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        x: positions, shape (n,), increasing.
        y: values, shape (n, ...) for the first axis.
        axis: the axis of ``y`` that belongs to ``x``.
        bc_type: condition at the ends: "not-a-knot", "periodic", "clamped", "natural", or a pair of
            conditions, each a name or (order, value) of a derivative.
        extrapolate: True to use the first or last piece for points outside; "periodic"; False for
            NaN there.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if ``x`` and ``y`` do not fit, or a condition is invalid.
        ValueError: if positions do not increase, or values are not periodic for "periodic".

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(4.0)
        >>> np.round(ft.grad(lambda y: interpolate.CubicSpline(x, y)(1.5))(x**2), 4)
        array([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    traced = staticmethod(_cubic)


class PchipInterpolator(AcceptsTraced, scipy.interpolate.PchipInterpolator):
    """``scipy.interpolate.PchipInterpolator``: a cubic curve that is monotone where values are;
    positions, values and points may be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        x: positions, shape (n,), increasing.
        y: real values, shape (n, ...) for the first axis.
        axis: the axis of ``y`` that belongs to ``x``.
        extrapolate: True to use the first or last piece for points outside; "periodic"; False for
            NaN there.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if ``x`` and ``y`` do not fit.
        DtypeError: if ``y`` is complex.
        ValueError: if positions do not increase.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(4.0)
        >>> np.round(ft.grad(lambda y: interpolate.PchipInterpolator(x, y)(1.5))(x**2), 4)
        array([-0.1406,  0.7227,  0.4531, -0.0352])
    """

    traced = staticmethod(_pchip)


class Akima1DInterpolator(AcceptsTraced, scipy.interpolate.Akima1DInterpolator):
    """``scipy.interpolate.Akima1DInterpolator``: a cubic curve with little overshoot; positions,
    values and points may be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        x: positions, shape (n,), increasing.
        y: real values, shape (n, ...) for the first axis.
        axis: the axis of ``y`` that belongs to ``x``.
        method: "akima" or "makima".
        extrapolate: True to use the first or last piece for points outside; NaN there by default.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if ``x`` and ``y`` do not fit, or ``method`` is unknown.
        DtypeError: if ``y`` is complex.
        ValueError: if positions do not increase.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(5.0)
        >>> np.round(ft.grad(lambda y: interpolate.Akima1DInterpolator(x, y)(1.5))(x**2), 4)
        array([-0.0625,  0.5312,  0.6562, -0.1562,  0.0312])
    """

    traced = staticmethod(_akima)
