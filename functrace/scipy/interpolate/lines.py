"""``interp1d``; see `functrace.scipy.interpolate`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

import numpy as np
import scipy.interpolate

from functrace.errors import ArgumentError, ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer, one_axis
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, gather
from functrace.scipy.interpolate.pieces import beside, placed, real
from functrace.scipy.interpolate.splines import TracedBSpline, through
from functrace.scipy.kinds import Given
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.typing import Array

Fill: TypeAlias = Operand | tuple[Operand, Operand] | str
DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
STEPS = ("linear", "nearest", "nearest-up", "previous", "next")


@final
class TracedInterp1d:
    """``scipy.interpolate.interp1d`` for traced positions, values or points.

    Args:
        x: positions, shape (n,).
        y: values, n along the axis.
        kind: "linear", "nearest", "nearest-up", "zero", "slinear", "quadratic", "cubic",
            "previous", "next", or the degree of a spline.
        axis: the axis of the values.
        copy: ignored.
        bounds_error: True to raise for points outside; the default unless there is a
            ``fill_value``.
        fill_value: value outside otherwise: a value, a pair (below, above), or "extrapolate".
        assume_sorted: True if positions increase.
    """

    def __init__(
        self,
        x: Numeric[X, "n"] | Nested,
        y: Numeric[X, "*rest m"] | Nested,
        kind: str | int = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Fill = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        at = real("interp1d", x)
        read: Any = arrayed(y)
        values: Any = read if read.dtype.kind in "fc" else read.astype(np.float64)
        if at.ndim != 1 or not values.ndim:
            raise ShapeError(
                "scipy.interpolate.interp1d: x must have exactly one axis, and y at least one",
                fix="reshape them",
            )
        self.axis = one_axis(axis, values.ndim)
        if values.shape[self.axis] != at.shape[0]:
            raise ShapeError(
                "scipy.interpolate.interp1d: x and y arrays must be equal in length along "
                "interpolation axis, got "
                f"{at.shape[0]} and {values.shape[self.axis]}",
                fix="pass one value per position",
            )
        values = np.moveaxis(values, self.axis, 0)
        if not assume_sorted:
            order = np.argsort(at, kind="stable")
            at, values = gather(at, (ARRAY,), (order,)), gather(values, (ARRAY, Ellipsis), (order,))
        degree = DEGREES.get(kind) if isinstance(kind, str) else kind
        if degree is None and kind not in STEPS:
            raise ShapeError(
                f"scipy.interpolate.interp1d: {kind} is unsupported",
                fix=f"pass one of {(*STEPS, *DEGREES)}",
            )
        if at.shape[0] < (1 if degree is None else degree + 1):
            raise ShapeError(
                f"scipy.interpolate.interp1d: x and y arrays must have at least {degree or 0 + 1} "
                "entries",
                fix="pass more",
            )
        self.x, self.y, self.kind, self.degree = at, values, kind, degree
        extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        if extrapolates and bounds_error:
            raise ArgumentError(
                "scipy.interpolate.interp1d: cannot extrapolate and raise at the same time",
                fix="choose one",
            )
        self.fill: tuple[Operand, Operand] | None
        if extrapolates and kind in ("previous", "next"):
            self.fill = (np.nan, values[-1]) if kind == "previous" else (values[0], np.nan)
            extrapolates = False
            bounds_error = False
        elif extrapolates:
            self.fill = None
        else:
            outside: Any = fill_value
            self.fill = (
                outside
                if isinstance(fill_value, tuple) and len(fill_value) == 2
                else (outside, outside)
            )
        self.bounds_error = (not extrapolates) if bounds_error is None else bounds_error

    def __call__(self, x: Operand) -> Any:
        """Return values at points."""
        given = real("interp1d", x)
        at = given.reshape(-1)
        below, above = at < self.x[0], at > self.x[-1]
        if self.fill is not None and self.bounds_error:
            at = require(
                at,
                ~below,
                "ValueError",
                "A value in x_new is below the interpolation range's minimum value.",
            )
            at = require(
                at,
                ~above,
                "ValueError",
                "A value in x_new is above the interpolation range's maximum value.",
            )
        found = self._found(at)
        if self.fill is not None and not self.bounds_error:
            for out, value in zip((below, above), self.fill, strict=True):
                found = np.where(out.reshape(-1, *(1,) * (found.ndim - 1)), value, found)
        return placed(found.reshape(*given.shape, *self.y.shape[1:]), given.ndim, self.axis)

    def _found(self, at: Array) -> Any:
        x, y, n = self.x, self.y, self.x.shape[0]
        if self.degree is not None:
            t, c = through("interp1d", x, y, self.degree, None, None)
            return TracedBSpline(t, c, self.degree)(at)
        if self.kind == "linear":
            high = np.clip(np.searchsorted(x, at), 1, n - 1)
            x0, y0 = gather(x, (ARRAY,), (high - 1,)), gather(y, (ARRAY, Ellipsis), (high - 1,))
            x1, y1 = gather(x, (ARRAY,), (high,)), gather(y, (ARRAY, Ellipsis), (high,))
            return (y1 - y0) / beside(x1 - x0, y) * beside(at - x0, y) + y0
        if self.kind in ("nearest", "nearest-up"):
            half = x / 2.0
            place = np.searchsorted(
                half[1:] + half[:-1], at, "left" if self.kind == "nearest" else "right"
            )
        elif self.kind == "previous":
            place = np.clip(np.searchsorted(x, at, "right"), 1, n) - 1
        else:
            place = np.clip(np.searchsorted(x, at, "left"), 0, n - 1)
        return gather(y, (ARRAY, Ellipsis), (np.clip(place, 0, n - 1),))


class interp1d(scipy.interpolate.interp1d):
    """``scipy.interpolate.interp1d``: a curve through values; positions, values and points may be
    traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    with the same methods.

    Args:
        x: positions, shape (n,).
        y: values, shape (..., n) for the last axis.
        kind: "linear", "nearest", "nearest-up", "zero", "slinear", "quadratic", "cubic",
            "previous", "next", or the degree of a spline.
        axis: the axis of ``y`` that belongs to ``x``.
        copy: has no effect on traced values.
        bounds_error: True to raise for points outside; the default unless there is a
            ``fill_value``.
        fill_value: value outside otherwise: a value, a pair (below, above), or "extrapolate".
        assume_sorted: True if positions increase.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if ``x`` and ``y`` do not fit, there are too few points, or ``kind`` is unknown.
        ArgumentError: if it should extrapolate and raise.
        ValueError: if a point is outside.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(3.0)
        >>> ft.grad(lambda y: interpolate.interp1d(x, y)(0.5))(x**2)
        array([0.5, 0.5, 0. ])
    """

    def __new__(cls, *args: Given, **kwargs: Given) -> Any:
        """Return SciPy's object for plain arguments, a `TracedInterp1d` for traced ones."""
        if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            made: Any = TracedInterp1d
            return made(*args, **kwargs)
        base: Any = super()
        made = base.__new__(cls)
        made._given = (args, kwargs)
        return made

    def __call__(self, x: Operand) -> Any:
        """Call SciPy's method; the points may be traced."""
        if holds_tracer(x):
            own: Any = self
            args, kwargs = own._given
            line: Any = TracedInterp1d
            return line(*args, **kwargs)(x)
        base: Any = super()
        return base.__call__(x)
