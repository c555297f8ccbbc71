"""functrace.scipy.interpolate against SciPy: conditions, methods, orders; with points traced,
places traced, and both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse.linalg

import functrace as ft
from functrace.scipy import interpolate

rng = np.random.default_rng(34)
AT = np.concatenate([3 * rng.normal(size=5) + 3, [0.0, 1.0, 2.5]]).reshape(2, 4)


def attempt(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (ValueError, TypeError, NotImplementedError) as error:
        return error


def assert_same(found: Any, expected: Any, rtol: float, what: str) -> None:
    if isinstance(expected, Exception):
        assert isinstance(found, ValueError | TypeError | NotImplementedError), (
            f"{what}: {found!r}, but SciPy raises {expected!r}"
        )
        return
    if isinstance(found, Exception):
        raise AssertionError(what) from found
    y, z = np.asarray(found), np.asarray(expected)
    assert (y.shape, y.dtype) == (z.shape, z.dtype), what
    largest = np.max(np.abs(z[~np.isnan(z)]), initial=1e-300)
    np.testing.assert_allclose(y, z, rtol=rtol, atol=rtol * largest, err_msg=what)


def same(
    name: str,
    *args: Any,
    call: Callable[[Any, Any], Any] = lambda s, at: s(at),
    rtol: float = 1e-9,
    **options: Any,
) -> None:
    """Make it of traced and of plain points, and ask it at traced and at plain places."""
    expected = attempt(lambda: call(getattr(scipy.interpolate, name)(*args, **options), AT))

    def asked(at: Any, *points: Any) -> Any:
        return call(getattr(interpolate, name)(*points, **options), at)

    what = f"{name} of {[np.shape(x) for x in args]} with {options}"
    assert_same(attempt(lambda: ft.jit(asked)(AT, *args)), expected, rtol, f"{what}, all traced")
    assert_same(
        attempt(lambda: ft.jit(lambda *points: asked(AT, *points))(*args)),
        expected,
        rtol,
        f"{what}, points traced",
    )
    assert_same(
        attempt(lambda: ft.jit(lambda at: asked(at, *args))(AT)),
        expected,
        rtol,
        f"{what}, places traced",
    )
    assert_same(attempt(lambda: asked(AT, *args)), expected, 0.0, f"{what}, plain")


def positions(n: int) -> Any:
    return np.cumsum(rng.uniform(0.3, 1.2, n))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rest", [(), (2,)])
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_cubic_splines(n: int, rest: tuple[int, ...]) -> None:
    one = np.ones(rest)
    ends: list[Any] = [
        "not-a-knot",
        "clamped",
        "natural",
        ((1, one), (2, 0.3 * one)),
        ((2, one), "not-a-knot"),
        "periodic",
        "wrong",
    ]
    for bc_type in ends:
        x, y = positions(n), rng.normal(size=(n, *rest))
        if bc_type == "periodic":
            y[-1] = y[0]
        for nu in (0, 1, 3):
            same("CubicSpline", x, y, call=lambda s, at, nu=nu: s(at, nu), bc_type=bc_type)
        same("CubicSpline", x, y, call=lambda s, at: s.derivative()(at), bc_type=bc_type)
        same("CubicSpline", x, y, call=lambda s, at: s.antiderivative(2)(at), bc_type=bc_type)
        same(
            "CubicSpline", x, y, call=lambda s, at: s.integrate(at[0, 0], at[0, 1]), bc_type=bc_type
        )
        for extrapolate in (True, False, "periodic"):
            same("CubicSpline", x, y, bc_type=bc_type, extrapolate=extrapolate)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_other_cubics(n: int) -> None:
    x = positions(n)
    for rest, axis in (((), 0), ((2,), 0), ((2, 3), 1)):
        y = np.moveaxis(rng.normal(size=(n, *rest)), 0, axis)
        same("CubicSpline", x, y, axis=axis)
        same("PchipInterpolator", x, y, axis=axis)
        same("Akima1DInterpolator", x, y, axis=axis)
        same("Akima1DInterpolator", x, y, axis=axis, method="makima", extrapolate=True)
        same("CubicHermiteSpline", x, y, np.cos(y), axis=axis)
    same("PPoly", rng.normal(size=(3, n - 1, 2)), x, call=lambda s, at: s(at, 1))
    same("CubicSpline", x, rng.normal(size=n + 1))
    same("CubicSpline", x[::-1].copy(), rng.normal(size=n))
    same("PchipInterpolator", x, rng.normal(size=n) + 1j)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("k", range(6))
def test_splines_through_points(k: int, n: int) -> None:
    for rest in ((), (2,)):
        x, y = positions(n), rng.normal(size=(n, *rest))
        for nu in range(3):
            same("make_interp_spline", x, y, call=lambda s, at, nu=nu: s(at, nu), k=k)
        if k == 0:  # SciPy's own antiderivative of steps has no value at the last point
            continue
        same("make_interp_spline", x, y, call=lambda s, at: s.derivative()(at), k=k)
        same("make_interp_spline", x, y, call=lambda s, at: s.antiderivative()(at), k=k)
        for extrapolate in (True, False, "periodic"):
            same(
                "make_interp_spline",
                x,
                y,
                call=lambda s, at, e=extrapolate: s(at, 0, e),
                k=k,
                rtol=1e-8,
            )
            same(
                "make_interp_spline",
                x,
                y,
                call=lambda s, at, e=extrapolate: s.integrate(at[0, 0], at[0, 1], e),
                k=k,
                rtol=1e-8,
            )
        y[-1] = y[0]
        same("make_interp_spline", x, y, k=k, bc_type="periodic", rtol=1e-8)


def test_conditions_of_splines() -> None:
    for rest in ((), (2,)):
        x, y, one = positions(6), rng.normal(size=(6, *rest)), np.ones(rest)
        ends: list[Any] = [
            "natural",
            "clamped",
            "wrong",
            ([(1, one)], [(2, one)]),
            ([(1, one), (2, one)], None),
            ([(1, one)], None),
        ]
        for bc_type in ends:
            same("make_interp_spline", x, y, bc_type=bc_type)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "kind",
    [
        "linear",
        "nearest",
        "nearest-up",
        "zero",
        "slinear",
        "quadratic",
        "cubic",
        "previous",
        "next",
        4,
        "wrong",
    ],
)
def test_interp1d(kind: Any) -> None:
    fills: list[dict[str, Any]] = [
        {"fill_value": "extrapolate"},
        {"bounds_error": False},
        {"bounds_error": False, "fill_value": (1.0, 2.0)},
        {},
    ]
    for n, rest, options in itertools.product((5, 8), ((), (2,)), fills):
        x, y = positions(n), rng.normal(size=(*rest, n))
        order = rng.permutation(n)
        same("interp1d", x[order], y[..., order], kind=kind, **options)
        first, last = x[0], x[-1]
        inside = lambda s, at, first=first, last=last: s(
            first + (last - first) * np.abs(np.sin(at))
        )
        same("interp1d", x, y, call=inside, kind=kind, **options)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip", "cubic_legacy", "wrong"]
)
def test_values_on_grids(method: str) -> None:
    first, second = positions(6), positions(7)
    wide = rng.uniform(-1, 7, (3, 5, 2))
    inside = np.stack([rng.uniform(p[0], p[-1], 9) for p in (first, second)], -1)
    solver: Any = (
        {"solver": scipy.sparse.linalg.spsolve} if method in ("slinear", "cubic", "quintic") else {}
    )
    shapes: list[Any] = [
        rng.normal(size=(6, 7)),
        rng.normal(size=(6, 7, 2)),
        rng.normal(size=(6, 7)) + 1j * rng.normal(size=(6, 7)),
    ]
    for values, (bounds_error, fill), at in itertools.product(
        shapes, ((True, np.nan), (False, np.nan), (False, None), (False, 0.5)), (wide, inside)
    ):
        options: dict[str, Any] = {
            "method": method,
            "bounds_error": bounds_error,
            "fill_value": fill,
        }
        expected = attempt(
            lambda: scipy.interpolate.RegularGridInterpolator(
                (first, second), values, **options, **solver
            )(at)
        )

        def call(p: Any, q: Any, v: Any, x: Any) -> Any:
            return interpolate.RegularGridInterpolator((p, q), v, **options)(x)

        for traced in ((0, 1, 2, 3), (3,), (2,)):
            args = [first, second, values, at]

            def some(*xs: Any, traced: Any = traced, args: Any = args) -> Any:
                given = list(args)
                for k, x in zip(traced, xs, strict=True):
                    given[k] = x
                return call(*given)

            found = attempt(lambda: ft.jit(some)(*[args[k] for k in traced]))
            loose = solver and traced == (3,)
            assert_same(found, expected, 1e-4 if loose else 1e-9, f"{options} at {traced}")
    if solver:
        expected = scipy.interpolate.RegularGridInterpolator(
            (first, second), shapes[0], method, **solver
        )(inside, nu=(1, 0))
        found = ft.jit(
            lambda v: interpolate.RegularGridInterpolator((first, second), v, method)(
                inside, nu=(1, 0)
            )
        )(shapes[0])
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    elif method != "wrong":
        expected = scipy.interpolate.interpn((first, second), shapes[0], inside, method)
        np.testing.assert_allclose(
            ft.jit(lambda v, x: interpolate.interpn((first, second), v, x, method))(
                shapes[0], inside
            ),
            expected,
            rtol=1e-9,
        )


def test_interpolants_of_plain_points_are_scipys() -> None:
    x, y = positions(6), rng.normal(size=6)
    for name in (
        "CubicSpline",
        "PchipInterpolator",
        "Akima1DInterpolator",
        "make_interp_spline",
        "interp1d",
    ):
        made, theirs = getattr(interpolate, name)(x, y), getattr(scipy.interpolate, name)(x, y)
        assert isinstance(made, type(theirs))
        np.testing.assert_array_equal(made(x[2]), theirs(x[2]))
    assert isinstance(
        interpolate.RegularGridInterpolator((x,), y), scipy.interpolate.RegularGridInterpolator
    )
    assert interpolate.griddata is scipy.interpolate.griddata


def test_places_out_of_bounds_raise_when_the_program_runs() -> None:
    x, y = positions(6), rng.normal(size=6)
    asked = ft.jit(lambda at: interpolate.RegularGridInterpolator((x,), y)(at))
    asked(x[1:3, None])
    with pytest.raises(ValueError, match="out of bounds in dimension 0"):
        asked(x[1:3, None] + 100)
    line = ft.jit(lambda at: interpolate.interp1d(x, y)(at))
    with pytest.raises(ValueError, match="above the interpolation range"):
        line(x[1:3] + 100)
