"""The shapes in signatures of `functrace.scipy.stats` and `interpolate` are checked by beartype, on
traced and on plain values.

The import hook acts when a package is imported, so the checks run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from jaxtyping import TypeCheckError, install_import_hook

MODULES = ["stats.density", "stats.multivariate", "stats.summary", "interpolate"]
with install_import_hook([f"functrace.scipy.{name}" for name in MODULES], "beartype.beartype"):
    from functrace.scipy import interpolate, stats
import numpy as np
import scipy.stats

import functrace as ft

rng = np.random.default_rng(0)
ONE, V1, V2, V3, V7 = np.float64(0.7), np.array([0.3]), np.array([0.3, 0.7]), np.array([0.2, 0.3, 0.5]), rng.random(7) + 0.5
ROWS, IMAGE = rng.random((3, 7)) + 0.5, rng.random((2, 3, 7)) + 0.5
SPREAD, SPREADS = np.array([[2.0, 0.5], [0.5, 1.0]]), np.eye(3) + 0.2
POINTS, STACK = rng.normal(size=(4, 2)), rng.normal(size=(2, 3, 2))
MANY = np.stack([SPREAD, 2.0 * SPREAD], -1)
AT, KNOTS, GRID = np.linspace(0.0, 3.0, 7), np.array([0.0, 0.0, 0.0, 1.5, 2.0, 3.0, 3.0, 3.0]), rng.random((7, 3))
INSIDE, INSIDES = np.array([0.1, 1.2, 2.9]), np.array([[0.1, 1.2], [2.9, 0.2]])
PLACES = np.array([[0.2, 0.7], [1.2, 1.9]])
AXIS = np.array([0.0, 1.0, 2.0])

def call(f, *args, plain=True, **options):
    return lambda *given: f(*given, **options), args, plain

normal, student, dirichlet, wishart, kde = (
    stats.multivariate_normal, stats.multivariate_t, stats.dirichlet, stats.wishart, stats.gaussian_kde)
along = [(V7, {}), (ROWS, {}), (ROWS, {"axis": 1}), (IMAGE, {"axis": -1}), (IMAGE, {"axis": None})]
STATS = [
    *[call(f, x, *where) for f in (normal.logpdf, normal.pdf, student.logpdf, student.pdf) for x, *where in (
        (V2,), (ONE,), (V2, V2, SPREAD), (POINTS, V2, SPREAD), (STACK, V2, SPREAD), (POINTS, V2, V2), (POINTS, V2, ONE),
        (V7, V1, np.array([[2.0]])), (V7, V1, V1), (V7, ONE, ONE))],
    call(lambda m, c, x: normal(m, c).logpdf(x), V2, SPREAD, POINTS),
    call(lambda m, c: normal.rvs(m, c, 3, 0), V2, SPREAD), call(lambda m, c: normal.rvs(m, c, (2, 3), 0), V2, V2),
    call(lambda c: normal.rvs(cov=c, random_state=0), SPREAD), call(lambda m, c: normal(m, c, seed=0).rvs(), V2, SPREAD),
    *[call(student.logpdf, POINTS, V2, SPREAD, df) for df in (np.float64(2.5), np.array(2.5))],
    call(lambda a, c, df, x: student(a, c, df).pdf(x), V2, SPREAD, ONE, POINTS),
    call(student.entropy, V2, SPREAD, np.float64(3.0)),
    *[call(f, x, V3) for f in (dirichlet.logpdf, dirichlet.pdf) for x in (
        V3, V2 * 0.4, np.stack([V3, V3[::-1]], 1), V3[:, None])],
    call(lambda a, x: dirichlet(a).logpdf(x), V3, V3), call(lambda a: dirichlet.rvs(a, 4, 0), V3),
    *[call(f, SPREAD, np.float64(3.0), SPREAD) for f in (wishart.logpdf, wishart.pdf)],
    call(lambda df, c, x: wishart(df, c).logpdf(x), np.float64(3.0), SPREAD, SPREAD),
    *[call(lambda df, c, size=size: wishart.rvs(df, c, size, 0), np.float64(3.0), SPREAD) for size in (1, 3, (2, 2))],
    *[call(lambda data, x, way=way: kde(data, way)(x), data, x) for way in (None, "silverman", 0.5, lambda k: 0.3)
        for data, x in ((V7, ONE), (V7, V2), (V7, V2[None]), (ROWS, V3), (ROWS, ROWS))],
    call(lambda data, h, w: kde(data, h, w).logpdf(V2), V7, ONE, V7, plain=False),
    call(lambda data, w: kde(data, weights=w).covariance, ROWS, V7),
    call(lambda data, low: kde(data).integrate_box_1d(low, 1), V7, ONE),
    *[call(f, x, **axis) for x, axis in along for f in (stats.moment, stats.skew, stats.kurtosis, stats.sem, stats.zscore,
        stats.gmean, stats.hmean, stats.entropy, stats.rankdata)],
    *[call(f, x, keepdims=True, **axis) for x, axis in [*along, (V7, {"axis": None})] for f in (
        stats.moment, stats.skew, stats.entropy, stats.gmean)],
    call(stats.moment, ROWS, order=3, center=0.5), call(stats.zmap, ROWS, ROWS[:2]), call(stats.zmap, V7, ROWS, axis=1),
    *[call(stats.entropy, x, y, **axis) for x, y, axis in ((V7, V7[::-1], {}), (ROWS, ROWS, {"axis": 1}),
        (ROWS, V7[None], {"axis": 1}), (V3[:, None], ROWS, {"base": 2}))],
    *[call(lambda x, w, f=f, axis=axis: f(x, weights=w, **axis), x, w) for f in (stats.gmean, stats.hmean)
        for x, w, axis in ((V7, V7, {}), (ROWS, ROWS, {}), (ROWS, V7, {}), (ROWS, V7, {"axis": 1}),
            (SPREADS, V3, {}), (V7, ROWS, {"axis": 1}), (ROWS, V3[:, None], {}))],
    *[call(stats.rankdata, x, method=method, axis=-1) for x in (V7, ROWS) for method in ("min", "dense", "ordinal")],
]
curves = (interpolate.CubicSpline, interpolate.PchipInterpolator, interpolate.Akima1DInterpolator)
wide = ((AT, V7, {}), (AT, GRID, {}), (AT, ROWS, {"axis": 1}), (AT, IMAGE, {"axis": -1}))
def evaluated(make, points=INSIDE, **options):
    return lambda *given: make(*given, **options)(points)

INTERPOLATE = [
    *[call(evaluated(f, points, **axis), x, y) for f in (*curves, interpolate.make_interp_spline, interpolate.interp1d)
        for x, y, axis in wide for axis in [axis or {"axis": 0}] for points in (ONE, INSIDE, INSIDES)],
    *[call(lambda x, y, at, f=f: f(x, y)(at), AT, V7, at) for f in (*curves, interpolate.interp1d) for at in (ONE, INSIDES)],
    *[call(lambda at, f=f: f(AT, V7)(at), at) for f in (*curves, interpolate.interp1d) for at in (ONE, INSIDES)],
    *[call(evaluated(interpolate.CubicHermiteSpline, **axis), x, y, y) for x, y, axis in wide],
    *[call(evaluated(interpolate.CubicSpline, bc_type=way), AT, V7) for way in (
        "natural", "clamped", ((1, 0.5), (2, 0.0)), ("not-a-knot", (1, ONE)))],
    call(lambda y, end: interpolate.CubicSpline(AT, y, bc_type=((1, end), "natural"))(INSIDE), GRID, V3),
    call(evaluated(interpolate.CubicSpline, bc_type="periodic"), AT, np.append(V7[:6], V7[0])),
    *[call(evaluated(f, extrapolate=way), AT, V7) for f in curves for way in (True, False)],
    call(evaluated(interpolate.CubicSpline, extrapolate="periodic"), AT, V7),
    call(evaluated(interpolate.Akima1DInterpolator, method="makima"), AT, V7),
    *[call(lambda c, x, f=f: f(interpolate.PPoly(c, x)), c, AT[:4]) for c in (ROWS[:, :3], IMAGE[:, :, :5]) for f in (
        lambda p: p(INSIDES), lambda p: p(INSIDE, 1), lambda p: p.derivative()(0.5), lambda p: p.antiderivative(2)(0.5),
        lambda p: p.integrate(0.0, 1.0), lambda p: p(4.0, 0, "periodic"))],
    *[call(lambda t, c, f=f: f(interpolate.BSpline(t, c, 2)), KNOTS, c) for c in (V7[:5], GRID[:5]) for f in (
        lambda p: p(INSIDES), lambda p: p(INSIDE, 1), lambda p: p.derivative()(0.5), lambda p: p.antiderivative()(0.5),
        lambda p: p.integrate(0.0, 1.0), lambda p: p(0.5, 0, False))],
    call(lambda at: interpolate.BSpline(KNOTS, V7[:5], 2)(at), INSIDES),
    call(lambda a, b: interpolate.BSpline(KNOTS, V7[:5], 2).integrate(a, b), ONE, np.float64(2.0)),
    *[call(evaluated(interpolate.make_interp_spline, k=k), AT, GRID) for k in range(6)],
    call(lambda x, y, t: interpolate.make_interp_spline(x, y, 2, t)(INSIDE), np.linspace(0.0, 3.0, 5), V7[:5], KNOTS),
    *[call(evaluated(interpolate.make_interp_spline, bc_type=way), AT, V7) for way in (
        "natural", "clamped", ([(1, 0.5)], [(2, 0.0)]))],
    *[call(evaluated(interpolate.interp1d, kind=kind), AT, ROWS) for kind in (
        "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic", 2)],
    *[call(evaluated(interpolate.interp1d, AT + 0.5, bounds_error=False, fill_value=fill), AT, V7) for fill in (
        1.0, (0.0, 1.0), "extrapolate", ONE)],
    *[call(f, GRID, at) for at in (PLACES, PLACES[0], PLACES[:, None]) for f in (
        lambda v, at: interpolate.RegularGridInterpolator((AT, AXIS), v)(at),
        lambda v, at: interpolate.RegularGridInterpolator([AT.tolist(), AXIS], v, "nearest")(at),
        lambda v, at: interpolate.interpn((AT, AXIS), v, at, bounds_error=False, fill_value=None))],
    call(lambda x, v, at: interpolate.RegularGridInterpolator((x, AXIS), v, fill_value=ONE)(at), AT, GRID, PLACES),
    call(lambda x, v: interpolate.interpn((x,), v, INSIDE), AT, GRID),
    call(lambda v, a, b: interpolate.interpn((AT, AXIS), v, (a, b)), GRID, INSIDE[:2, None], V3),
    call(lambda v: interpolate.RegularGridInterpolator((AT,), v, "cubic")(INSIDE, nu=(1,)), V7),
    call(lambda v: interpolate.RegularGridInterpolator((AT,), v)(INSIDE[:, None], "nearest"), V7),
    call(lambda x: interpolate.interpn(x, SPREADS, PLACES), np.stack([AXIS, AXIS])),
]
CALLS = {"stats": STATS, "interpolate": INTERPOLATE}

ZERO_D = np.array(1.0)  # (np.float64 is a float, too, and passes as a number)
grid = interpolate.RegularGridInterpolator
WRONG = {
    "stats": [
        *[(f, (POINTS, where, SPREAD)) for f in (normal.logpdf, student.logpdf) for where in (V3, POINTS)],
        *[(f, (POINTS, V2, spread)) for f in (normal.logpdf, student.logpdf) for spread in (SPREADS, POINTS, STACK)],
        (lambda m, c: normal.rvs(m, c, 3, 0), (V3, SPREAD)), (normal, (SPREAD,)), (student.logpdf, (V2, V2, SPREAD, V2)),
        (lambda x, c: normal.logpdf(x, None, c), (POINTS, STACK)),
        (student.entropy, (V2, SPREADS)), (dirichlet.logpdf, (V3, SPREADS)), (dirichlet.logpdf, (ZERO_D, V3)),
        (dirichlet, (SPREAD,)), (lambda a: dirichlet.rvs(a, 1, 0), (SPREAD,)), (wishart.logpdf, (SPREAD, V2, SPREAD)),
        (wishart.logpdf, (SPREAD, 3.0, SPREADS)), (wishart.logpdf, (POINTS, 3.0, SPREAD)), (wishart, (3.0, POINTS)),
        (lambda c: wishart.rvs(3.0, c, 1, 0), (STACK,)), (kde, (IMAGE,)), (kde, (ZERO_D,)),
        (lambda data, w: kde(data, weights=w), (ROWS, V3)), (lambda data, h: kde(data, h), (V7, V2)),
        (lambda data, x: kde(data)(x), (V7, IMAGE)), (lambda data, x: kde(data).logpdf(x), (ROWS, IMAGE)),
        (lambda data, low: kde(data).integrate_box_1d(low, 1.0), (V7, V2)),
    ],
    "stats of traced": [
        (stats.entropy, (ROWS, V3)), (lambda x, w: stats.gmean(x, weights=w), (ROWS, V3)),
        (lambda x, w: stats.hmean(x, weights=w), (ROWS, ROWS.T)),
    ],
    "interpolate": [
        (interpolate.make_interp_spline, (ROWS, ROWS)), (interpolate.make_interp_spline, (AT, ZERO_D)),
        (lambda t: interpolate.make_interp_spline(AT, V7, 2, t), (SPREAD,)),
        (lambda at, v: interpolate.interpn((at,), v, INSIDE), (ROWS, V7)),
        (lambda v: interpolate.interpn((AT,), v, INSIDE), (ZERO_D,)),
        (lambda v, at: interpolate.interpn((AT,), v, at), (V7, ZERO_D)),
    ],
    "interpolate of traced": [
        *[(f, (ROWS, ROWS)) for f in (*curves, interpolate.interp1d)],
        *[(f, (AT, ZERO_D)) for f in (*curves, interpolate.interp1d)],
        (interpolate.CubicHermiteSpline, (AT, V7, ROWS)), (interpolate.PPoly, (V7, AT)),
        (interpolate.PPoly, (ROWS[:, :6], ROWS)),
        *[(lambda t, c: interpolate.BSpline(t, c, 2), given) for given in ((ROWS, V7), (KNOTS, ZERO_D))],
        (lambda x, v: grid((x,), v), (ROWS, V7)), (lambda x, v: grid((x,), v), (AT, ZERO_D)),
        (lambda v, at: grid((AT,), v)(at), (V7, ZERO_D)),
    ],
}

def nested(x):
    return [nested(part) for part in x] if np.ndim(x) else x

def total(tree):
    return sum(np.sum(np.abs(x)) for x in ft.tree.leaves(tree) if isinstance(x, ft.Array) and x.dtype.kind in "fc")

package, calls = sys.argv[1], 0
for k, (f, args, plain) in enumerate(CALLS[package]):
    try:
        expected, found = ft.tree.leaves(f(*args)) if plain else None, ft.tree.leaves(ft.jit(f)(*args))
        for one, other in zip(expected or found, found, strict=True):
            assert np.shape(one) == np.shape(other)
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-9)
        if args[0].ndim == 1:
            ft.jit(lambda first, *others: f(nested(first), *others))(*args)
        ft.grad(lambda x: total(f(x, *args[1:])))(args[0])
        ft.vmap(f)(*[np.stack([x, x]) for x in args])
    except Exception as error:
        raise AssertionError(f"call {k} of {[np.shape(x) for x in args]}") from error
    calls += 1
if package == "stats":
    independent = scipy.stats.Covariance.from_diagonal(V2)
    for plain in (normal.logpdf(POINTS, V2, independent), normal(V2, independent).logpdf(POINTS)):
        np.testing.assert_allclose(plain, normal.logpdf(POINTS, V2, V2))
    wishart.logpdf(MANY, 3.0, SPREAD), wishart.logpdf(V7, 3.0, 1.0), wishart.pdf(V2, 3.0, V2)
wrong = WRONG[package]
for k, (f, args) in enumerate([*wrong, *WRONG[package + " of traced"]]):
    for caller in [ft.jit(f), f] if k < len(wrong) else [ft.jit(f)]:
        try:
            caller(*args)
        except TypeCheckError:
            continue
        raise AssertionError(f"case {k} passes the check")
print(calls, len(wrong) + len(WRONG[package + " of traced"]))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("package", "counts"), [("stats", "184 34\n"), ("interpolate", "158 22\n")]
)
def test_signatures_have_the_shapes_of_calls(package: str, counts: str) -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT, package]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == counts, found.stdout + found.stderr
