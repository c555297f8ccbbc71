"""NumPy's functions against JAX's, in double precision: gradients, Jacobians and Hessians of what both have."""

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
        total = total + xp.sum(xp.sin(xp.real(y)) * weights) + xp.sum(xp.cos(xp.imag(y)) * weights[::-1])
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
    "logdet": (lambda xp, x: xp.linalg.slogdet(x @ x.T + 2.0 * np.eye(4))[1].reshape(1), draw(4, 4)),
    "cond": (lambda xp, x: xp.linalg.cond(x, 1).reshape(1), draw(3, 3)),
    "svd": (lambda xp, x: xp.abs(xp.linalg.svd(x, full_matrices=False)[0]), draw(4, 3)),
    "matrix_power": (lambda xp, x: xp.linalg.matrix_power(x, -3), draw(3, 3)),
    "tensorsolve": (lambda xp, x: xp.linalg.tensorsolve(x.reshape(2, 2, 4), np.arange(4.0).reshape(2, 2)), draw(4, 4)),
    "norm inf": (lambda xp, x: xp.linalg.norm(x, np.inf).reshape(1), draw(4, 4)),
}

SURFACE = FOURIER | LINEAR_ALGEBRA


@pytest.mark.parametrize("name", SURFACE)
def test_gradient_equals_jax(name: str) -> None:
    f, x = SURFACE[name]
    found = ft.grad(partial(loss, np, f))(x)
    expected = jax.grad(partial(loss, jnp, f))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", SURFACE)
def test_tangent_of_the_gradient_equals_jax(name: str) -> None:
    f, x = SURFACE[name]
    if name == "eigvals":
        pytest.skip("JAX has no second derivative of eigenvalues")
    t = np.asarray(draw(*x.shape, seed=9), x.dtype)
    found = ft.jvp(ft.jit(ft.grad(partial(loss, np, f))), (x,), (t,))[1]
    expected = jax.jit(lambda x, t: jax.jvp(jax.grad(partial(loss, jnp, f)), (x,), (t,))[1])(x, t)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
