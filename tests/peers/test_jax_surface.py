"""NumPy's functions against JAX's, in double precision: gradients, Jacobians and Hessians of what
both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.cases.linear_algebra import draw

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def loss(xp: Any, f: Callable[[Any, Any], Any], x: Any) -> Any:
    """A real number of a function's results, real or complex, one or several."""
    results = f(xp, x)
    total = 0.0
    for y in results if isinstance(results, tuple | list) else (results,):
        weights = np.cos(np.arange(y.size)).reshape(y.shape)
        total = (
            total
            + xp.sum(xp.sin(xp.real(y)) * weights)
            + xp.sum(xp.cos(xp.imag(y)) * weights[::-1])
        )
    return total


COMPLEX: dict[str, Any] = {"dtype": np.complex128}
FOURIER: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "fft": (lambda xp, x: xp.fft.fft(x, 5, norm="ortho"), draw(4, 3, **COMPLEX)),
    "fft of real numbers": (lambda xp, x: xp.fft.fft(x, axis=0), draw(4, 3)),
    "ifft2": (lambda xp, x: xp.fft.ifft2(x), draw(3, 4, **COMPLEX)),
    "rfft, even": (lambda xp, x: xp.fft.rfft(x), draw(6)),
    "rfft, odd": (lambda xp, x: xp.fft.rfft(x, norm="forward"), draw(7)),
    "irfft, even": (lambda xp, x: xp.fft.irfft(x, 6), draw(4, **COMPLEX)),
    "irfft, odd": (lambda xp, x: xp.fft.irfft(x, 7), draw(4, **COMPLEX)),
    "irfft, cut": (lambda xp, x: xp.fft.irfft(x, 3, norm="ortho"), draw(4, **COMPLEX)),
    "hfft": (lambda xp, x: xp.fft.hfft(x, 5), draw(4, **COMPLEX)),
    "ihfft": (lambda xp, x: xp.fft.ihfft(x, norm="ortho"), draw(5)),
    "rfftn": (lambda xp, x: xp.fft.rfftn(x, axes=(2, 0)), draw(2, 3, 4)),
    "irfftn": (lambda xp, x: xp.fft.irfftn(x, s=(3, 5), axes=(0, 1)), draw(2, 3, 4, **COMPLEX)),
    "fftshift": (lambda xp, x: xp.fft.fftshift(xp.fft.fft(x)), draw(5)),
}

LINEAR_ALGEBRA: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "eigvals": (lambda xp, x: xp.sort(xp.linalg.eigvals(x + 0j)), draw(4, 4)),
    "qr": (lambda xp, x: xp.linalg.qr(x), draw(4, 3)),
    "lstsq": (lambda xp, x: xp.linalg.lstsq(x, np.arange(5.0))[0], draw(5, 3)),
    "lstsq, wide": (lambda xp, x: xp.linalg.lstsq(x, np.arange(3.0))[0], draw(3, 5)),
    "pinv": (lambda xp, x: xp.linalg.pinv(x), draw(4, 3)),
    "cholesky": (lambda xp, x: xp.linalg.cholesky(x @ x.T + 2.0 * np.eye(4)), draw(4, 4)),
    "logdet": (
        lambda xp, x: xp.linalg.slogdet(x @ x.T + 2.0 * np.eye(4))[1].reshape(1),
        draw(4, 4),
    ),
    "cond": (lambda xp, x: xp.linalg.cond(x, 1).reshape(1), draw(3, 3)),
    "svd": (lambda xp, x: xp.abs(xp.linalg.svd(x, full_matrices=False)[0]), draw(4, 3)),
    "matrix_power": (lambda xp, x: xp.linalg.matrix_power(x, -3), draw(3, 3)),
    "tensorsolve": (
        lambda xp, x: xp.linalg.tensorsolve(x.reshape(2, 2, 4), np.arange(4.0).reshape(2, 2)),
        draw(4, 4),
    ),
    "norm inf": (lambda xp, x: xp.linalg.norm(x, np.inf).reshape(1), draw(4, 4)),
}

POSITIVE = np.abs(draw(6)) + 0.2
OTHERS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "poly": (lambda xp, x: xp.poly(x), draw(4)),
    "polyval": (lambda xp, x: xp.polyval(x, x[:2]), draw(4)),
    "polyfit": (lambda xp, x: xp.polyfit(np.linspace(0.1, 1.0, 6), x, 2), draw(6)),
    "polyfit, weights": (
        lambda xp, x: xp.polyfit(np.linspace(0.1, 1.0, 6), np.arange(6.0), 2, w=x),
        POSITIVE,
    ),
    "polyadd": (lambda xp, x: xp.polyadd(x, x[:2]), draw(4)),
    "polymul": (lambda xp, x: xp.polymul(x, x[:2]), draw(4)),
    "polydiv": (lambda xp, x: xp.polydiv(x, np.array([1.0, 0.5]))[0], draw(4)),
    "polyder": (lambda xp, x: xp.polyder(x, 2), draw(5)),
    "polyint": (lambda xp, x: xp.polyint(x, 2), draw(5)),
    "roots": (
        lambda xp, x: xp.sort(xp.real(xp.roots(x + np.array([1.0, -6.0, 11.0, -6.0])))),
        0.01 * draw(4),
    ),
    "histogram, weights": (lambda xp, x: xp.histogram(POSITIVE, 4, weights=x)[0], draw(6)),
    "histogram, density": (lambda xp, x: xp.histogram(x, 3, density=True)[0], POSITIVE),
    "histogram2d": (
        lambda xp, x: xp.histogram2d(POSITIVE, POSITIVE[::-1], 3, weights=x)[0],
        draw(6),
    ),
    "bincount": (lambda xp, x: xp.bincount(np.array([0, 2, 2, 1, 4, 0]), x), draw(6)),
    "piecewise": (
        lambda xp, x: xp.piecewise(x, [x < 0, x > 0.5], [lambda t: t**2, xp.sin, 1.0]),
        draw(6),
    ),
    "unwrap": (lambda xp, x: xp.unwrap(4.0 * x), draw(6)),
    "i0": (lambda xp, x: xp.i0(x), draw(6)),
    "apply_along_axis": (
        lambda xp, x: xp.apply_along_axis(lambda r: xp.cumsum(r * r), 0, x),
        draw(4, 3),
    ),
    "apply_over_axes": (lambda xp, x: xp.apply_over_axes(xp.sum, x, [0, 1]), draw(4, 3)),
    "geomspace": (lambda xp, x: xp.geomspace(x[0], x[1], 5), POSITIVE),
    "trim_zeros": (lambda xp, x: xp.trim_zeros(x), np.array([0.0, 1.0, 2.0, 0.0])),
    "quantile, inverted": (
        lambda xp, x: xp.quantile(x, np.array([0.3]), method="inverted_cdf"),
        draw(6),
    ),
    "interp": (lambda xp, x: xp.interp(x, np.linspace(-2, 2, 5), np.arange(5.0) ** 2), draw(6)),
}
SURFACE = FOURIER | LINEAR_ALGEBRA | OTHERS


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SURFACE)
def test_gradient_equals_jax(name: str) -> None:
    f, x = SURFACE[name]
    found = ft.grad(partial(loss, np, f))(x)
    expected = jax.grad(partial(loss, jnp, f))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in FOURIER | LINEAR_ALGEBRA if name != "eigvals"])
def test_tangent_of_the_gradient_equals_jax(
    name: str,
) -> None:  # JAX has no second derivative of eigenvalues
    f, x = SURFACE[name]
    t = np.asarray(draw(*x.shape, seed=9), x.dtype)
    found = ft.jvp(ft.jit(ft.grad(partial(loss, np, f))), (x,), (t,))[1]
    expected = jax.jit(lambda x, t: jax.jvp(jax.grad(partial(loss, jnp, f)), (x,), (t,))[1])(x, t)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
