"""SciPy's special functions against jax.scipy.special, in double precision: values, first and
second derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import special

import functrace as ft
from functrace.ops.special.incomplete import by_shapes

jax = pytest.importorskip("jax")
peer = pytest.importorskip("jax.scipy.special")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


ONE = (
    "gammaln", "gamma", "digamma", "erf", "erfc", "erfinv", "ndtr", "log_ndtr", "ndtri", "expit",
    "log_expit", "logit",
    "entr", "i0", "i0e", "i1", "i1e", "expi", "spence",
)  # fmt: skip
TWO = ("betaln", "beta", "xlogy", "xlog1py", "rel_entr", "kl_div", "poch")
X, Y = np.array([0.15, 0.4, 0.85]), np.array([0.7, 1.3, 2.5])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ONE)
def test_one_argument(name: str) -> None:
    ours, theirs = (
        getattr(special, name),
        jax.nn.log_sigmoid if name == "log_expit" else getattr(peer, name, None),
    )
    if theirs is None:
        pytest.skip(f"this JAX has no {name}")
    np.testing.assert_allclose(ft.vmap(ft.grad(ours))(X), jax.vmap(jax.grad(theirs))(X), rtol=1e-9)
    twice, expected = (
        ft.jit(ft.vmap(ft.grad(ft.grad(ours))))(X),
        jax.vmap(jax.grad(jax.grad(theirs)))(X),
    )
    np.testing.assert_allclose(twice, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", TWO)
def test_two_arguments(name: str) -> None:
    ours, theirs = getattr(special, name), getattr(peer, name, None)
    if theirs is None:
        pytest.skip(f"this JAX has no {name}")
    found = ft.hessian(lambda z: np.sum(ours(z[:3], z[3:])))(np.concatenate([X, Y]))
    expected = jax.hessian(lambda z: jax.numpy.sum(theirs(z[:3], z[3:])))(np.concatenate([X, Y]))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_incomplete_functions_by_their_argument() -> None:
    for name, constants in (("betainc", (0.7, 1.3)), ("gammainc", (1.3,)), ("gammaincc", (1.3,))):
        found = ft.grad(lambda x, name=name, c=constants: getattr(special, name)(*c, x))(0.4)
        expected = jax.grad(lambda x, name=name, c=constants: getattr(peer, name)(*c, x))(0.4)
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=name)


def test_incomplete_gamma_functions_by_their_shape() -> None:
    for name in ("gammainc", "gammaincc"):
        ours, theirs = getattr(special, name), getattr(peer, name)
        found = ft.vmap(ft.grad(lambda a, x, f=ours: f(a, x)))(Y, X)
        np.testing.assert_allclose(found, jax.vmap(jax.grad(theirs))(Y, X), rtol=1e-9, err_msg=name)


def test_samples_of_gamma_move_as_jaxs_do() -> None:
    shapes = np.array([0.1, 0.7, 2.5, 30.0])
    samples = np.array([1e-4, 0.9, 7.0, 28.0])
    np.testing.assert_allclose(
        -by_shapes((1,), shapes, samples), jax.lax.random_gamma_grad(shapes, samples), rtol=1e-9
    )
