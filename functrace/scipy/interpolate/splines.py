"""B-splines, and spline interpolation; see `functrace.scipy.interpolate`.

Layer: 9.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias, final

import numpy as np
import scipy.interpolate

from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import holds_tracer, one_axis
from functrace.ops.banded import solve_banded
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, gather, scatter_add
from functrace.scipy.interpolate.pieces import Extrapolate, beside, inexact, placed, real
from functrace.scipy.kinds import Given
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.typing import Array

Ends: TypeAlias = Sequence[tuple[int, Operand]] | str | None
_solved: Callable[[Any, Any], Any] = np.linalg.solve  # whose own type says nothing about `Any`


def interval(t: Array, x: Array, k: int) -> Any:
    """Return the position of the last knot not above each ``x``, in the base interval."""
    return np.clip(np.searchsorted(t, x, "right") - 1, k, t.shape[0] - k - 2)


def _over(high: Array, low: Array) -> Any:
    """Return 1 / (distance of knots), with 0 for equal knots."""
    same = high == low
    return np.where(same, 0.0, 1.0 / np.where(same, 1.0, high - low))


def basis(t: Array, x: Array, left: Array, k: int) -> list[Any]:
    """Return the k + 1 nonzero B-splines between two knots.

    Source: C. de Boor, A Practical Guide to Splines, chapter X.
    """
    found: list[Any] = [x * 0.0 + 1.0]
    for d in range(1, k + 1):
        saved: Any = 0.0
        row: list[Any] = []
        for r in range(d):
            high, low = (gather(t, (ARRAY,), (left + (r + 1 - j),)) for j in (0, d))
            part = found[r] * _over(high, low)
            row.append(saved + (high - x) * part)
            saved = (x - low) * part
        found = [*row, saved]
    return found


def weights(t: Array, x: Array, left: Array, k: int, nu: int = 0) -> list[Any]:
    """Return the weights of k + 1 coefficients per point in the ``nu``-th derivative."""
    if nu > k:
        return [x * 0.0] * (k + 1)
    # Each derivative takes differences of coefficients; here differences of their weights,
    # backwards.
    found = basis(t, x, left, k - nu)
    for degree in range(k - nu + 1, k + 1):
        parts: list[Any] = []
        for i, weight in enumerate(found):
            high, low = (gather(t, (ARRAY,), (left + (i + 1 - j),)) for j in (0, degree))
            parts.append(weight * (degree * _over(high, low)))
        found = [
            (parts[i - 1] if i else 0.0) - (parts[i] if i < degree else 0.0)
            for i in range(degree + 1)
        ]
    return found


@final
class TracedBSpline:
    """``scipy.interpolate.BSpline`` for traced knots, coefficients or points.

    Args:
        t: knots, shape (n + k + 1,), non-decreasing.
        c: coefficients, at least n along the axis.
        k: the degree.
        extrapolate: True to use the first or last piece for points outside; "periodic"; otherwise
            they give NaN.
        axis: the axis of the coefficients.
    """

    def __init__(
        self,
        t: Numeric[X, "knots"] | Nested,
        c: Numeric[X, "*rest m"] | Nested,
        k: SupportsIndex,
        extrapolate: bool | str = True,
        axis: int = 0,
    ) -> None:
        self.t, self.k = real("BSpline", t), operator.index(k)
        made = inexact(c)
        self.axis = one_axis(axis, made.ndim)
        made = np.moveaxis(made, self.axis, 0)
        count = self.t.shape[0] - self.k - 1
        if self.k < 0 or self.t.ndim != 1 or count < self.k + 1 or made.shape[0] < count:
            raise ShapeError(
                f"scipy.interpolate.BSpline: {self.t.shape} knots, coefficients of shape "
                f"{made.shape} and degree {self.k} "
                "are inconsistent",
                fix="pass n + k + 1 knots for n coefficients",
            )
        self.c = made[:count]
        self.extrapolate = extrapolate

    def __call__(self, x: Operand, nu: int = 0, extrapolate: Extrapolate = None) -> Any:
        """Return the value, or a derivative of order ``nu``, at points."""
        at = real("BSpline", x)
        return placed(
            self._evaluated(at, nu, self.extrapolate if extrapolate is None else extrapolate),
            at.ndim,
            self.axis,
        )

    def _evaluated(self, at: Array, nu: int, extrapolate: bool | str) -> Any:
        t, k, n = self.t, self.k, self.c.shape[0]
        if extrapolate == "periodic":
            at = t[k] + (at - t[k]) % (t[n] - t[k])
        left = interval(t, at, k)
        total: Any = None
        for i, weight in enumerate(weights(t, at, left, k, nu)):
            weight = weight.reshape((*at.shape, *(1,) * (self.c.ndim - 1)))
            part = weight * gather(self.c, (ARRAY, Ellipsis), (left + (i - k),))
            total = part if total is None else total + part
        if extrapolate and extrapolate != "periodic":
            return total
        inside = ((at >= t[k]) & (at <= t[n])).reshape((*at.shape, *(1,) * (self.c.ndim - 1)))
        return np.where(inside, total, np.nan)

    def derivative(self, nu: int = 1) -> TracedBSpline:
        """Return the derivative of an order."""
        t, c, k = self.t, self.c, self.k
        if nu < 0:
            return self.antiderivative(-nu)
        if nu > k:
            raise ShapeError(
                f"scipy.interpolate.BSpline: order of derivative (nu = {nu}) must be <= order of "
                f"spline (k = {k})",
                fix="lower it",
            )
        for _ in range(nu):
            n = c.shape[0]
            c = np.diff(c, axis=0) * k / beside(t[k + 1 : n + k] - t[1:n], c)
            t, k = t[1:-1], k - 1
        return TracedBSpline(t, np.moveaxis(c, 0, self.axis), k, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> TracedBSpline:
        """Return an antiderivative, 0 at the first knot."""
        if nu < 0:
            return self.derivative(-nu)
        t, c, k = self.t, self.c, self.k
        for _ in range(nu):
            n = c.shape[0]
            sums = np.cumsum(c * beside(t[k + 1 :] - t[:n], c), axis=0) / (k + 1)
            c = np.concatenate([sums[:1] * 0.0, sums], axis=0)
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        way = False if self.extrapolate == "periodic" else self.extrapolate
        return TracedBSpline(t, np.moveaxis(c, 0, self.axis), k, way, self.axis)

    def integrate(self, a: Operand, b: Operand, extrapolate: Extrapolate = None) -> Any:
        """Return the definite integral from ``a`` to ``b``, clipped without extrapolation."""
        way = self.extrapolate if extrapolate is None else extrapolate
        t, k, n = self.t, self.k, self.c.shape[0]
        whole = TracedBSpline(t, self.c, k).antiderivative()
        first, last = t[k], t[n]
        start, stop = real("BSpline.integrate", a), real("BSpline.integrate", b)
        if way == "periodic":
            turn = whole(last) - whole(first)

            def up_to(at: Array) -> Any:
                return np.floor((at - first) / (last - first)) * turn + whole(
                    first + (at - first) % (last - first)
                )

            return up_to(stop) - up_to(start)
        if not way:
            start, stop = (np.minimum(np.maximum(end, first), last) for end in (start, stop))
        return whole(stop) - whole(start)


class BSpline(scipy.interpolate.BSpline):
    """``scipy.interpolate.BSpline``: a sum of B-splines; knots, coefficients and points may be
    traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        t: knots, shape (n + k + 1,), non-decreasing.
        c: coefficients, shape (n, ...) for the first axis.
        k: the degree.
        extrapolate: True to use the first or last piece for points outside; "periodic"; False for
            NaN there.
        axis: the axis of the coefficients.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if knots, coefficients and degree do not fit.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> knots = np.array([0.0, 0.0, 1.0, 2.0, 2.0])
        >>> ft.grad(lambda c: interpolate.BSpline(knots, c, 1)(0.5))(np.array([1.0, 2.0, 4.0]))
        array([0.5, 0.5, 0. ])
    """

    def __new__(cls, *args: Given, **kwargs: Given) -> Any:
        """Return SciPy's object for plain arguments, a `TracedBSpline` for traced ones."""
        if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            made: Any = TracedBSpline
            return made(*args, **kwargs)
        base: Any = super()
        return base.__new__(cls)

    def _spline(self) -> TracedBSpline:
        return TracedBSpline(
            self.t, np.moveaxis(self.c, 0, self.axis), self.k, self.extrapolate, self.axis
        )

    def __call__(self, x: Operand, nu: int = 0, extrapolate: Extrapolate = None) -> Any:
        """Call SciPy's method; the points may be traced."""
        if holds_tracer(x):
            return self._spline()(x, nu, extrapolate)
        base: Any = super()
        return base.__call__(x, nu, extrapolate)

    def integrate(self, a: Operand, b: Operand, extrapolate: Extrapolate = None) -> Any:
        """Call SciPy's method; the limits may be traced."""
        if holds_tracer(a) or holds_tracer(b):
            return self._spline().integrate(a, b, extrapolate)
        base: Any = super()
        return base.integrate(a, b, extrapolate)


# -- through points --------------------------------------------------------------------------------


def _knots(x: Array, k: int, ends: bool) -> Any:
    """Return SciPy's default knots: all points with end conditions, otherwise as many as points."""
    first, last = np.broadcast_to(x[:1], (k + 1,)), np.broadcast_to(x[-1:], (k + 1,))
    if ends:
        return np.concatenate([first[1:], x, last[1:]])
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    skipped = (k + 1) // 2 if k % 2 else k // 2
    return np.concatenate([first, inner[skipped:-skipped], last])


def _periodic_knots(x: Array, k: int) -> Any:
    if k % 2 == 0:
        x = np.concatenate([x[:1], x[1:-1] - np.diff(x)[:-1] / 2, x[-1:]])
    d = np.diff(x)
    count = d.shape[0]
    before = [x[:1]]
    behind = [x[-1:]]
    for i in range(k):
        j = count - 1 - i % count
        before.append(before[-1] - d[j : j + 1])
        behind.append(behind[-1] + d[i % count : i % count + 1])
    return np.concatenate([*before[:0:-1], x, *behind[1:]])


def _condition(ends: Ends, y: Array) -> tuple[list[int], list[Any]]:
    if ends is None:
        return [], []
    if isinstance(ends, str):
        if ends not in ("clamped", "natural"):
            raise ShapeError(
                f"scipy.interpolate.make_interp_spline: unknown boundary condition: {ends}",
                fix="see SciPy",
            )
        return [1 if ends == "clamped" else 2], [np.zeros(y.shape[1:])]
    return [int(order) for order, _ in ends], [inexact(value) for _, value in ends]


def _rows(t: Array, x: Array, k: int, nu: int = 0) -> tuple[Any, Any]:
    """Return the rows of the collocation matrix: columns and elements, shape (points, k + 1)."""
    left = interval(t, x, k)
    found = np.stack(weights(t, x, left, k, nu), axis=-1)
    return left[:, None] + np.arange(-k, 1), found


def through(
    name: str, x: Array, y: Array, k: int, t: Any | None, bc_type: str | tuple[Ends, Ends] | None
) -> tuple[Any, Any]:
    """Return knots and coefficients of the spline of degree ``k`` through values, whose axis is the
    first one.
    """
    if k == 0:
        return np.concatenate([x, x[-1:]]), y
    if k == 1 and t is None and bc_type in (None, "not-a-knot", "periodic"):
        return np.concatenate([x[:1], x, x[-1:]]), y
    n = x.shape[0]
    if bc_type == "periodic":
        return _closed(name, x, y, k, t)
    ends = (
        (None, None)
        if bc_type in (None, "not-a-knot")
        else (bc_type, bc_type)
        if isinstance(bc_type, str)
        else bc_type
    )
    (low, first), (high, last) = (_condition(e, y) for e in ends)  # type: ignore[union-attr]
    knots: Any = _knots(x, k, bool(low or high)) if t is None else t
    size: int = knots.shape[0] - k - 1
    if size - n != len(low) + len(high):
        raise ShapeError(
            f"scipy.interpolate.{name}: the number of derivatives at boundaries does not match: "
            f"expected {size - n}, got "
            f"{len(low)}+{len(high)}",
            fix="pass that many conditions, or other knots",
        )
    parts = [(nu, x[:1]) for nu in low] + [(0, x)] + [(nu, x[-1:]) for nu in high]
    columns, elements = zip(*[_rows(knots, at, k, nu) for nu, at in parts], strict=True)
    columns, elements = np.concatenate(columns, axis=0), np.concatenate(elements, axis=0)
    rows = np.arange(size)[:, None]
    bands = scatter_add(elements, (ARRAY, ARRAY), (k + rows - columns, columns), (2 * k + 1, size))
    right = np.concatenate([*[v[None] for v in first], y, *[v[None] for v in last]], axis=0)
    return knots, solve_banded(bands, right.reshape(size, -1), k, k).reshape(right.shape)


def _closed(name: str, x: Array, y: Array, k: int, t: Any | None) -> tuple[Any, Any]:
    """Return a periodic spline: as many coefficients as points except the last, wrapped around."""
    if t is not None:
        raise ShapeError(
            f"scipy.interpolate.{name}: for the periodic case t is constructed automatically and "
            "cannot be passed",
            fix="leave t out",
        )
    message = (
        f"scipy.interpolate.{name}: first and last points do not match while periodic case expected"
    )
    y = require(y, np.abs(y[0] - y[-1]) <= 1e-15 + 1e-5 * np.abs(y[-1]), "ValueError", message)
    knots: Any = _periodic_knots(x, k)
    n: int = x.shape[0] - 1
    columns, elements = _rows(knots, x[:-1], k)
    along = np.arange(n)[:, None]
    matrix: Any = scatter_add(elements, (ARRAY, ARRAY), (along + 0 * columns, columns % n), (n, n))
    c = _solved(matrix, y[:-1].reshape(n, -1)).reshape(y[:-1].shape)
    return knots, gather(c, (ARRAY, Ellipsis), (np.arange(n + k) % n,))


def make_interp_spline(
    x: Numeric[X, "n"] | Nested,
    y: Numeric[X, "*rest m"] | Nested,
    k: SupportsIndex = 3,
    t: Numeric[X, "knots"] | Nested | None = None,
    bc_type: str | tuple[Ends, Ends] | None = None,
    axis: int = 0,
    check_finite: bool = True,
) -> Any:
    """``scipy.interpolate.make_interp_spline``: the spline through values; positions, values, knots
    and conditions may be traced.

    Args:
        x: positions, shape (n,), increasing.
        y: values, shape (n, ...) for the first axis.
        k: the degree.
        t: knots; chosen from the positions by default.
        bc_type: condition at the ends: "not-a-knot", "periodic", "clamped", "natural", or a pair of
            conditions, each a name or a list of (order, value) of derivatives.
        axis: the axis of ``y`` that belongs to ``x``.
        check_finite: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        a `BSpline`, or for traced arguments an object with the same methods; both take traced
        points.

    Raises:
        ShapeError: if ``x`` and ``y`` do not fit, a condition is unknown, or there are too many or
            too few for the knots.
        DtypeError: if ``x`` or ``t`` is complex.
        ValueError: if positions do not increase, or values are not periodic for "periodic".

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(3.0)
        >>> np.round(ft.grad(lambda y: interpolate.make_interp_spline(x, y, k=2)(0.5))(x**2), 4)
        array([ 0.375,  0.75 , -0.125])

    Cost:
        a banded system with one equation per point; for a periodic spline, a dense one.
    """
    if not any(map(holds_tracer, (x, y, t, bc_type))):
        made: Any = scipy.interpolate.make_interp_spline(x, y, k, t, bc_type, axis, check_finite)
        return BSpline.construct_fast(made.t, made.c, made.k, made.extrapolate, made.axis)
    name = "make_interp_spline"
    at, values = real(name, x), inexact(y)
    place = one_axis(axis, values.ndim)
    values = np.moveaxis(values, place, 0)
    if at.ndim != 1 or values.shape[0] != at.shape[0]:
        raise ShapeError(
            f"scipy.interpolate.{name}: shapes of x {at.shape} and y {values.shape} are "
            "incompatible",
            fix="pass one per point",
        )
    at = require(
        at, np.diff(at) > 0, "ValueError", "Expect x to be a 1D strictly increasing sequence."
    )
    knots, c = through(
        name, at, values, operator.index(k), None if t is None else real(name, t), bc_type
    )
    closes = bc_type == "periodic" and operator.index(k) > 1
    return TracedBSpline(knots, np.moveaxis(c, 0, place), k, "periodic" if closes else True, place)
