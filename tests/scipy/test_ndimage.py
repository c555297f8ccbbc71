"""functrace.scipy.ndimage against SciPy: modes, orders, origins, shapes and dtypes."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import functrace as ft
from functrace.errors import ConcretizationError, ShapeError
from functrace.scipy import ndimage
from tests.scipy.against import assert_as_scipy

same = functools.partial(assert_as_scipy, ndimage, scipy.ndimage)
rng = np.random.default_rng(32)
MODES = (
    "reflect",
    "constant",
    "nearest",
    "mirror",
    "wrap",
    "grid-mirror",
    "grid-constant",
    "grid-wrap",
)


def draw(*shape: int, kind: str = "d") -> Any:
    x = rng.normal(size=shape)
    if kind in "DF":
        x = x + 1j * rng.normal(size=shape)
    return (9 * x).astype(kind) if kind in "lB" else x.astype(kind)


every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.mark.sampled(8)
@every_mode
@pytest.mark.parametrize("kind", ["d", "D"])
def test_weights_along_an_axis(kind: str, mode: str) -> None:
    for name, n, other, origin, axis in itertools.product(
        ("correlate1d", "convolve1d"), (1, 2, 3, 4, 13), "dD", (0, -1, 1), (0, -1)
    ):
        same(
            name,
            draw(6, 7, kind=kind),
            draw(n, kind=other),
            axis=axis,
            mode=mode,
            cval=0.3,
            origin=origin,
        )
    for n in (1, 2, 3, 4):
        same("uniform_filter1d", draw(6, 7, kind=kind), n, mode=mode, cval=0.3)


@pytest.mark.sampled(5)
@every_mode
@pytest.mark.parametrize("kind", ["d", "D", "f"])
def test_weights(kind: str, mode: str) -> None:
    for name, size, other, origin in itertools.product(
        ("correlate", "convolve"), ((2, 3), (3, 3), (1, 4), (4, 2)), "dD", (0, (-1, 0))
    ):
        same(
            name, draw(6, 7, kind=kind), draw(*size, kind=other), mode=mode, cval=0.3, origin=origin
        )
    same("correlate", draw(6, 7, kind=kind), draw(3), mode=mode, axes=1)
    same("convolve", draw(6, 7, kind=kind), draw(3, 2), mode=mode, axes=(1, 0))
    same("uniform_filter", draw(6, 7, kind=kind), (2, 3), mode=mode, cval=0.3)


@pytest.mark.sampled(2)
@every_mode
def test_filters_of_a_shape(mode: str) -> None:
    x = draw(6, 7)
    for order in (0, 1, 2, 3, (1, 2)):
        same("gaussian_filter", x, 1.3, order=order, mode=mode, cval=0.3)
        same("gaussian_filter", x, (0.7, 1.2), order=order, mode=mode, cval=0.3, truncate=2.0)
        same("gaussian_filter", x, 0.8, order=order, mode=mode, radius=2)
    same("gaussian_filter", x, 0.8, mode=mode, axes=(1,))
    same("gaussian_filter1d", x, 1.1, axis=0, order=1, mode=mode, cval=0.3)
    for name in ("sobel", "prewitt", "laplace"):
        same(name, x, mode=mode, cval=0.3)
    same("sobel", x, axis=0, mode=mode)
    same("laplace", x, mode=mode, axes=0)
    for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        same(name, x, 1.2, mode=mode, cval=0.3)
        same(name, x, 1.2, mode=mode, axes=1)
        same(name, x, 1.2, mode=mode, truncate=3.0)


def test_dtypes_of_results() -> None:
    for name, args in (
        ("gaussian_filter", (1.0,)),
        ("laplace", ()),
        ("zoom", (1.5,)),
        ("shift", (0.5,)),
    ):
        for kind, output in itertools.product("fd", (None, np.float32, float, complex, "f4")):
            same(name, draw(5, 4, kind=kind), *args, output=output)
    at = rng.uniform(0, 4, (2, 30))
    for kind in "lB":
        same("map_coordinates", draw(5, 6, kind=kind), at, order=1)
    same("map_coordinates", draw(5, 6), at, output=int)
    with pytest.raises(ShapeError, match="output shape not correct"):
        ft.grad(lambda x: np.sum(ndimage.laplace(x, output=np.zeros_like(x, shape=(2, 2)))))(
            draw(3, 3)
        )
    out = ft.jit(lambda x: ndimage.laplace(x, output=np.zeros_like(x)))
    x = draw(3, 3)
    np.testing.assert_allclose(out(x), scipy.ndimage.laplace(x))


@pytest.mark.parametrize("kind", ["bool", "u1", "i1", "u2", "i4"])
def test_integers_and_bools_are_truncated_and_clipped_as_by_scipy(kind: str) -> None:
    x = (np.array([0, 1, 200, 255, 3, 7, 90, 12]) % (2 if kind == "bool" else 256)).astype(kind)
    same("uniform_filter", x, 3)
    same("uniform_filter1d", x, 4)
    same("gaussian_filter", x, 1.0)
    same("correlate", 1.7 * x, np.full(3, 0.1), output=np.dtype(kind))
    for name, by in (("shift", 0.4), ("zoom", 1.7)):
        same(name, x, by)
        same(name, x, by, order=1)
    if kind != "i4":
        same("shift", 300.0 * x - 900.0, 0.3, output=np.dtype(kind))


FAR = rng.uniform(-14, 20, (2, 60))
WHOLE = rng.integers(-14, 20, (2, 60)).astype(float)


@pytest.mark.sampled(16)
@every_mode
@pytest.mark.parametrize("order", range(7))
@pytest.mark.parametrize("shape", [(6, 7), (1, 1), (2, 2), (1, 5)])
def test_places_between_elements(shape: tuple[int, int], order: int, mode: str) -> None:
    for kind, prefilter, at in itertools.product(
        "dD" if shape == (6, 7) else "d", (True, False), (FAR, WHOLE, WHOLE + 0.5)
    ):
        x = draw(*shape, kind=kind)
        same(
            "map_coordinates",
            x,
            at,
            order=order,
            mode=mode,
            cval=0.3,
            prefilter=prefilter,
            rtol=1e-11,
        )
    same("spline_filter1d", draw(*shape), order, 0, mode=mode, rtol=1e-11)
    same("spline_filter", draw(*shape), order, mode=mode, rtol=1e-11)


@pytest.mark.sampled(16)
@pytest.mark.filterwarnings("ignore:It is recommended")
@every_mode
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("kind", ["d", "D"])
def test_images_moved(kind: str, order: int, mode: str) -> None:
    x = draw(6, 7, kind=kind)
    options: dict[str, Any] = {"order": order, "mode": mode, "cval": 0.3, "rtol": 1e-11}
    for by in (1.3, np.array([-2.4, 0.7]), 2.0, np.array([-9.7, 15.2])):
        same("shift", x, by, **options)
    for factor, grid_mode in itertools.product((1.5, (0.5, 2.3), 3, 0.4, 1), (False, True)):
        same("zoom", x, factor, grid_mode=grid_mode, **options)
    same("affine_transform", x, draw(2, 2), np.array([1.0, 2.0]), **options)
    same("affine_transform", x, np.array([0.7, 1.4]), np.array([1.0, 2.0]), **options)
    same("affine_transform", x, draw(2, 3), output_shape=(3, 9), **options)
    for reshape in (True, False):
        same("rotate", x, 33.0, reshape=reshape, **options)


def test_three_axes() -> None:
    x = draw(3, 5, 6)
    for order in range(4):
        same("rotate", x, 33.0, order=order, axes=(2, 0), rtol=1e-11)
        same("map_coordinates", x, rng.uniform(0, 4, (3, 4, 2)), order=order, rtol=1e-11)
        same("zoom", x, 1.7, order=order, rtol=1e-11)


def test_value_dependent_shapes_raise() -> None:
    x = draw(5, 5)
    with pytest.raises(ConcretizationError, match="fix: pass radius="):
        ft.jit(lambda sigma: ndimage.gaussian_filter(x, sigma))(1.0)
    with pytest.raises(ShapeError, match="fix: pass reshape=False"):
        ft.grad(lambda angle: np.sum(ndimage.rotate(x, angle)))(20.0)
    blurred = ft.jit(lambda sigma: ndimage.gaussian_filter(x, sigma, radius=4))
    np.testing.assert_allclose(
        blurred(1.0), scipy.ndimage.gaussian_filter(x, 1.0, radius=4), rtol=1e-12
    )


def test_coordinates_of_a_plain_image() -> None:
    image = np.add.outer(np.arange(5.0) ** 2, np.arange(4.0))
    at = np.array([[1.5, 2.25], [0.5, 2.5]])
    found = ft.grad(lambda at: np.sum(ndimage.map_coordinates(image, at, order=1)))(at)
    np.testing.assert_allclose(found, [[3.0, 5.0], [1.0, 1.0]])


def test_geometric_transform() -> None:
    x = draw(4, 3)
    expected = scipy.ndimage.geometric_transform(x, lambda place: (place[0] - 0.5, place[1] * 0.8))
    found = ft.vjp(
        lambda x, by: ndimage.geometric_transform(x, lambda p: (p[0] - by, p[1] * 0.8)), x, 0.5
    )[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


_HOLES = np.array([[1, 0, 1], [0, 1, 1]], bool)
WINDOWS: list[dict[str, Any]] = [
    {"size": 3}, {"size": (2, 3)}, {"size": 9}, {"footprint": _HOLES}, {"size": (3, 4),
    "origin": (1, -1)},
    {"size": 3, "axes": 1}, {"size": (2, 3), "axes": (1, 0)}, {"footprint": [1, 0, 1],
    "axes": (1,)},
    {"footprint": _HOLES, "axes": (1, 0)}, {},
]  # fmt: skip
RANKED: list[tuple[Any, ...]] = [
    ("maximum_filter",), ("minimum_filter",), ("median_filter",), ("rank_filter", 1),
    ("rank_filter", -1),
    ("rank_filter", 99),
    ("percentile_filter", 30), ("percentile_filter", -20), ("percentile_filter", 100),
    ("percentile_filter", 101),
]  # fmt: skip


# Where a rank is that of the largest, SciPy takes several modes, too; here they raise.
MODES: list[Any] = ["reflect", "constant", "nearest", "mirror", "wrap", ["reflect", "wrap"]]
CALLS = [
    (call, mode)
    for call in RANKED
    for mode in MODES
    if isinstance(mode, str) or call[1:] not in ((-1,), (100,))
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("call", "mode"), CALLS, ids=str)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_elements_of_a_rank(call: tuple[Any, ...], mode: Any) -> None:
    for kind in (np.float64, np.float32):
        x = (10 * np.random.default_rng(0).normal(size=(5, 6))).astype(kind)
        for window in WINDOWS:
            assert_as_scipy(
                ndimage, scipy.ndimage, call[0], x, *call[1:], mode=mode, cval=2.5, rtol=0, **window
            )


@pytest.mark.parametrize("name", ["maximum_filter1d", "minimum_filter1d"])
def test_extremes_along_an_axis(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 6))
    for axis in (0, -1):
        for size, origin in ((3, 0), (4, 1), (2, -1)):
            assert_as_scipy(ndimage, scipy.ndimage, name, x, size, axis, origin=origin, rtol=0)


@pytest.mark.parametrize(
    "name",
    [
        "gaussian_filter",
        "uniform_filter",
        "sobel",
        "prewitt",
        "laplace",
        "gaussian_laplace",
        "gaussian_gradient_magnitude",
    ],
)
def test_integers_of_several_passes_are_as_scipy_or_refused(name: str) -> None:
    for kind in ("u1", "i2", "i8", "?"):
        for shape in ((9,), (5, 6)):
            x = np.random.default_rng(0).integers(0, 250, shape).astype(kind)
            more = () if name in ("sobel", "prewitt", "laplace", "uniform_filter") else (0.8,)
            try:
                found = ft.jit(lambda x, more=more: getattr(ndimage, name)(x, *more))(x)
            except ft.errors.DtypeError as error:
                assert "astype(float)" in str(error)
            else:
                np.testing.assert_array_equal(found, getattr(scipy.ndimage, name)(x, *more))
