"""Interpolation of values on rectangular grids; see `functrace.scipy.interpolate`.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import scipy.interpolate

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, gather
from functrace.scipy.interpolate.pieces import beside, inexact, pchip_slopes, real
from functrace.scipy.interpolate.splines import interval, through, weights
from functrace.scipy.kinds import Given, where
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.typing import Array

DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
METHODS = ("linear", "nearest", *DEGREES, "pchip", *[f"{name}_legacy" for name in DEGREES])


def _last_below(p: Array, x: Array) -> Any:
    """Return the position of the last element of ``p`` not above each ``x``."""
    return np.searchsorted(p, x, "right") - 1


def _places(name: str, xi: Operand | Sequence[Operand], count: int) -> Any:
    """Return points from an array (..., count), or a tuple of arrays that broadcast."""
    if isinstance(xi, tuple):
        several: Any = xi
        parts = [real(name, x) for x in several]
        shape = np.broadcast_shapes(*[p.shape for p in parts])
        at = np.stack([np.broadcast_to(p, shape) for p in parts], axis=-1)
    else:
        one: Any = xi
        at = real(name, one)
        if at.ndim == 1:
            at = at[None, :] if count > 1 else at[:, None]
    if at.ndim == 0 or at.shape[-1] != count:
        raise ShapeError(
            f"scipy.interpolate.{name}: the requested sample points xi have dimension "
            f"{at.shape[-1:]} but the grid has "
            f"{count}",
            fix="pass places of shape (..., number of axes)",
        )
    return at


@final
class TracedGrid:
    """``scipy.interpolate.RegularGridInterpolator`` for traced grids, values or points.

    Args:
        points: one vector per axis, increasing; plain ones may decrease.
        values: shape (n, m, ..., and more).
        method: "linear", "nearest", "slinear", "cubic", "quintic" or "pchip".
        bounds_error: True to raise for points outside.
        fill_value: value outside otherwise; ``None`` for extrapolation.
        solver, solver_args: ignored: splines are computed by banded systems, axis by axis.
    """

    def __init__(
        self,
        points: Sequence[Numeric[X, "_"] | Numeric[X, ""] | Nested] | Numeric[X, "d n"],
        values: Numeric[X, "*rest m"] | Nested,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Operand | None = np.nan,
        *,
        solver: Callable[..., object] | None = None,
        solver_args: dict[str, object] | None = None,
    ) -> None:
        self.name = "RegularGridInterpolator"
        vectors: Any = points
        grid = [np.atleast_1d(real(self.name, p)) for p in vectors]
        read: Any = arrayed(values)
        made = read if read.dtype.kind in "fc" else read.astype(np.float64)
        if len(grid) > made.ndim:
            raise ShapeError(
                f"scipy.interpolate.{self.name}: there are {len(grid)} point arrays, but values "
                f"has {made.ndim} dimensions",
                fix="pass one vector per axis",
            )
        for k, p in enumerate(grid):
            if p.ndim != 1 or p.shape[0] != made.shape[k]:
                raise ShapeError(
                    f"scipy.interpolate.{self.name}: there are {p.shape} points and "
                    f"{made.shape[k]} values in dimension {k}",
                    fix="pass one value per point",
                )
            if not holds_tracer(p) and p.shape[0] > 1 and np.all(np.diff(p) < 0):
                grid[k], made = p[::-1], np.flip(made, k)
            else:
                message = f"The points in dimension {k} must be strictly ascending or descending"
                grid[k] = require(p, np.diff(p) > 0, "ValueError", message)
        fill: Any = None if fill_value is None else arrayed(fill_value)
        if fill is not None and not np.can_cast(fill.dtype, made.dtype, "same_kind"):
            raise DtypeError(
                f"scipy.interpolate.{self.name}: fill_value must be either None or of a type "
                "compatible with values",
                fix="make the values complex",
            )
        self.grid, self.values, self.bounds_error, self.fill_value = (
            tuple(grid),
            made,
            bounds_error,
            fill,
        )
        self.method = self._checked(method)

    def _checked(self, method: str) -> str:
        if method not in METHODS:
            raise ShapeError(
                f"scipy.interpolate.{self.name}: method '{method}' is not defined",
                fix=f"pass one of {METHODS}",
            )
        method = method.removesuffix("_legacy")
        least = {**DEGREES, "pchip": 3}.get(method)
        for k, p in enumerate(self.grid):
            if least is not None and p.shape[0] <= least:
                raise ShapeError(
                    f"scipy.interpolate.{self.name}: there are {p.shape[0]} points in dimension "
                    f"{k}, but method {method} "
                    f"requires at least {least + 1} points per dimension",
                    fix="use method='linear'",
                )
        if method == "pchip" and self.values.dtype.kind == "c":
            raise DtypeError(
                f"scipy.interpolate.{self.name}: pchip takes real values",
                fix="pass real and imaginary parts",
            )
        return method

    def __call__(
        self,
        xi: Numeric[X, "*b d"] | Nested,
        method: str | None = None,
        *,
        nu: Sequence[int] | None = None,
    ) -> Any:
        """Interpolate at points.

        Args:
            xi: shape (..., d), or d arrays that broadcast.
            method: interpolation method; the interpolator's by default.
            nu: orders of derivatives along each axis, for "slinear", "cubic" and "quintic".
        """
        method = self.method if method is None else self._checked(method)
        if nu is not None and method not in DEGREES:
            raise ShapeError(
                f"scipy.interpolate.{self.name}: can only compute derivatives for methods "
                f"{tuple(DEGREES)}, got {method}",
                fix="leave nu out, and differentiate",
            )
        count = len(self.grid)
        given = _places(self.name, xi, count)
        flat = given.reshape(-1, count)
        at = [flat[:, k] for k in range(count)]
        outside: Any = None
        for k, (p, x) in enumerate(zip(self.grid, at, strict=True)):
            out = (x < p[0]) | (x > p[-1])
            if self.bounds_error:
                message = f"One of the requested xi is out of bounds in dimension {k}"
                at[k] = require(x, ~out & ~np.isnan(x), "ValueError", message)
            outside = out if outside is None else outside | out
        if method in DEGREES:
            found = self._by_splines(at, DEGREES[method], nu)
        elif method == "pchip":
            found = self._by_pchip(at)
        else:
            found = self._by_neighbours(at, method == "nearest")
        rest = (1,) * (found.ndim - 1)
        if not self.bounds_error and self.fill_value is not None:
            found = where(outside.reshape(-1, *rest), self.fill_value.astype(found.dtype), found)
        unknown = np.any(np.isnan(flat), axis=-1)
        found = where(unknown.reshape(-1, *rest), np.nan, found)
        return found.reshape(*given.shape[:-1], *self.values.shape[count:])

    def _read(self, values: Array, index: Sequence[Any], factors: Sequence[Any]) -> Any:
        """Sum values at all combinations of positions per axis, with the product of factors."""
        count = len(index)
        lifted: list[Any] = []
        for k, steps in enumerate(index):
            lifted.append(
                steps.reshape(
                    steps.shape[0], *[steps.shape[1] if j == k else 1 for j in range(count)]
                )
            )
        found: Any = gather(values, (*[ARRAY] * count, Ellipsis), tuple(lifted))
        for factor in reversed(factors):
            place = len(lifted)
            lifted.pop()
            shape = (
                factor.shape[0],
                *(1,) * (place - 1),
                factor.shape[1],
                *(1,) * (values.ndim - count),
            )
            found = np.sum(found * factor.reshape(shape), axis=place)
        return found

    def _by_neighbours(self, at: Sequence[Any], nearest: bool) -> Any:
        index: list[Any] = []
        factors: list[Any] = []
        for p, x in zip(self.grid, at, strict=True):
            if p.shape[0] == 1:
                index.append((x * 0.0).astype(np.intp)[:, None])
                factors.append((x * 0.0 + 1.0)[:, None])
                continue
            low: Any = np.clip(_last_below(p, x), 0, p.shape[0] - 2)
            first = gather(p, (ARRAY,), (low,))
            part = (x - first) / (gather(p, (ARRAY,), (low + 1,)) - first)
            if nearest:
                index.append(where(part <= 0.5, low, low + 1))
            else:
                index.append(np.stack([low, low + 1], axis=-1))
                factors.append(np.stack([1 - part, part], axis=-1))
        if nearest:
            index = [k if k.ndim == 1 else k[:, 0] for k in index]
            return gather(self.values, (*[ARRAY] * len(index), Ellipsis), tuple(index))
        return self._read(self.values, index, factors)

    def _by_splines(self, at: Sequence[Any], degree: int, nu: Sequence[int] | None) -> Any:
        orders = [0] * len(at) if nu is None else [int(n) for n in nu]
        if len(orders) != len(at) or min(orders) < 0:
            raise ShapeError(
                f"scipy.interpolate.{self.name}: {len(orders)} orders of derivatives for {len(at)} "
                "axes",
                fix="give one per axis",
            )
        c = inexact(self.values)
        index: list[Any] = []
        factors: list[Any] = []
        for k, (p, x) in enumerate(zip(self.grid, at, strict=True)):
            t, moved = through(self.name, p, np.moveaxis(c, k, 0), degree, None, None)
            c = np.moveaxis(moved, 0, k)
            left = interval(t, x, degree)
            index.append(left[:, None] + np.arange(-degree, 1))
            factors.append(np.stack(weights(t, x, left, degree, orders[k]), axis=-1))
        return self._read(c, index, factors).astype(self.values.dtype)

    def _by_pchip(self, at: Sequence[Any]) -> Any:
        """Interpolate along the last axis for all lines, then along the others by point."""
        count = len(at)
        # The points become the last axis, along which pieces are chosen.
        values: Any = np.moveaxis(
            self.values,
            tuple(range(count)),
            tuple(range(self.values.ndim - count, self.values.ndim)),
        )
        values = np.broadcast_to(values[..., None], (*values.shape, at[0].shape[0]))
        for p, x in zip(reversed(self.grid), reversed(at), strict=True):
            y = np.moveaxis(values, -2, 0)
            h = beside(np.diff(p), y)
            slopes = pchip_slopes(beside(p, y), y)
            piece: Any = np.clip(_last_below(p, x), 0, p.shape[0] - 2)
            here = (ARRAY, *((None, None, None),) * (y.ndim - 2), ARRAY)
            pieces: int = piece.shape[0]
            index = (piece, np.arange(pieces))

            def chosen(
                v: Array, index: tuple[Any, ...] = index, here: tuple[Any, ...] = here
            ) -> Any:
                return np.moveaxis(gather(v, here, index), 0, -1)

            step = x - gather(p, (ARRAY,), (piece,))
            mean = np.diff(y, axis=0) / h
            bend = (slopes[:-1] + slopes[1:] - 2 * mean) / h
            cubic, square = chosen(bend / h), chosen((mean - slopes[:-1]) / h - bend)
            values = ((cubic * step + square) * step + chosen(slopes[:-1])) * step + chosen(y[:-1])
        return np.moveaxis(values, -1, 0)


class RegularGridInterpolator(scipy.interpolate.RegularGridInterpolator):
    """``scipy.interpolate.RegularGridInterpolator``: values between those on a rectangular grid;
    grid, values and points may be traced.

    Plain arguments make SciPy's object, which also takes traced points; traced ones make an object
    that is called alike. Splines of traced values solve their equations to rounding; SciPy iterates
    by default, to about 1e-6.

    Args:
        points: d vectors, of n, m, ... increasing positions along the axes; plain ones may
            decrease.
        values: shape (n, m, ..., *rest).
        method: "linear", "nearest", "slinear", "cubic", "quintic" or "pchip".
        bounds_error: True, the default, to raise for points outside.
        fill_value: value outside otherwise, NaN by default; ``None`` for extrapolation.
        solver, solver_args: have no effect on traced values: splines are solved axis by axis.
        args, kwargs: the arguments above, by position or by name.

    Raises:
        ShapeError: if points and values do not fit, there are too few for ``method``, or that is
            unknown.
        DtypeError: if ``fill_value`` does not convert to the dtype of the values, or points are
            complex.
        ValueError: if positions do not increase, or a point is outside.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(3.0)
        >>> ft.grad(lambda v: interpolate.RegularGridInterpolator((x,), v)(np.array([[0.5]]))[0])(x**2)
        array([0.5, 0.5, 0. ])
    """

    def __new__(cls, *args: Given, **kwargs: Given) -> Any:
        """Return SciPy's object for plain arguments, a `TracedGrid` for traced ones."""
        if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            made: Any = TracedGrid
            return made(*args, **kwargs)
        base: Any = super()
        return base.__new__(cls)

    def __call__(
        self,
        xi: Numeric[X, "*b d"] | Nested,
        method: str | None = None,
        *,
        nu: Sequence[int] | None = None,
    ) -> Any:
        """Call SciPy's method; the points may be traced."""
        if holds_tracer(xi):
            return TracedGrid(
                self.grid, self.values, self.method, self.bounds_error, self.fill_value
            )(xi, method, nu=nu)
        base: Any = super()
        return base.__call__(xi, method, nu=nu)


def interpn(
    points: Sequence[Numeric[X, "_"] | Numeric[X, ""] | Nested] | Numeric[X, "d n"],
    values: Numeric[X, "*rest m"] | Nested,
    xi: Numeric[X, "*b d"] | Nested,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Operand | None = np.nan,
) -> Any:
    """``scipy.interpolate.interpn``: values between those on a rectangular grid, at given points.

    Grid, values and points may be traced, but not for "splinef2d".

    Args:
        points: d vectors, of n, m, ... increasing positions along the axes; plain ones may
            decrease.
        values: shape (n, m, ..., *rest).
        xi: shape (..., d), or a tuple of d arrays that broadcast.
        method: "linear", "nearest", "slinear", "cubic", "quintic" or "pchip".
        bounds_error: True to raise for points outside.
        fill_value: value outside otherwise; ``None`` for extrapolation.

    Returns:
        an array of shape (..., *rest), in the dtype of the values, float64 for integers.

    Raises:
        ShapeError: if points, values and ``xi`` do not fit, there are too few for ``method``, or
            that is unknown.
        DtypeError: if ``fill_value`` does not convert to the dtype of the values, or points are
            complex.
        ValueError: if positions do not increase, or a point is outside.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import interpolate
        >>> x = np.arange(3.0)
        >>> ft.grad(lambda v: interpolate.interpn((x,), v, np.array([[0.5]]))[0])(x**2)
        array([0.5, 0.5, 0. ])
    """
    if not any(map(holds_tracer, (points, values, xi, fill_value))):
        return scipy.interpolate.interpn(points, values, xi, method, bounds_error, fill_value)
    return TracedGrid(points, values, method, bounds_error, fill_value)(xi)
