"""functrace.scipy against jax.scipy, in double precision: gradients, and their tangents under jit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.scipy import linalg, special, stats
from tests.cases.scipy_functions import NEAR, UNIT, A, P, V, X

jax = pytest.importorskip("jax")
peer = pytest.importorskip("jax.scipy")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


class Ours:
    """The modules of functrace.scipy, as jax.scipy has them."""

    special, linalg, stats = special, linalg, stats


CALLS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "logsumexp": (lambda s, x: s.special.logsumexp(x, axis=1), X),
    "softmax": (
        lambda s, x: (
            s.special.softmax(x, axis=0) if hasattr(s.special, "softmax") else jax.nn.softmax(x, 0)
        ),
        X,
    ),
    "multigammaln": (lambda s, x: s.special.multigammaln(x, 2), UNIT + 1.5),
    "expm": (lambda s, x: s.linalg.expm(x), A),
    "solve_triangular": (lambda s, x: s.linalg.solve_triangular(x, V, lower=True), A + NEAR),
    "cho_solve": (lambda s, x: s.linalg.cho_solve(s.linalg.cho_factor(x @ x.T + NEAR), V), A),
    "lu": (lambda s, x: s.linalg.lu(x)[2], A),
    "lu_solve": (lambda s, x: s.linalg.lu_solve(s.linalg.lu_factor(x), V), A),
    "norm": (lambda s, x: s.stats.norm.logcdf(x, 0.3, 1.2), 3 * X),
    "t": (lambda s, x: s.stats.t.logpdf(x, 2.5, 0.3, 1.2), X),
    "gamma": (lambda s, x: s.stats.gamma.logpdf(1.3, x), UNIT + 0.5),
    "beta": (lambda s, x: s.stats.beta.logpdf(0.3, x, 1.7), UNIT + 0.5),
    "poisson": (lambda s, x: s.stats.poisson.logpmf(3, x), UNIT + 0.5),
    "nbinom": (lambda s, x: s.stats.nbinom.logpmf(3, 2.5, x), UNIT),
    "dirichlet": (
        lambda s, x: s.stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), x),
        UNIT[0] + 0.5,
    ),
    "multivariate_normal": (lambda s, x: s.stats.multivariate_normal.logpdf(x, V, P), X),
    "laplace": (lambda s, x: s.stats.laplace.logpdf(x, 0.3, 1.2), X),
    "cauchy": (lambda s, x: s.stats.cauchy.logpdf(x, 0.3, 1.2), X),
}


def loss(xp: Any, s: Any, f: Callable[[Any, Any], Any], x: Any) -> Any:
    return xp.sum(xp.sin(f(s, x)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CALLS)
def test_gradient_and_its_tangent(name: str) -> None:
    f, x = CALLS[name]
    ours, theirs = (
        ft.grad(lambda x: loss(np, Ours, f, x)),
        jax.grad(lambda x: loss(jax.numpy, peer, f, x)),
    )
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-8, atol=1e-9)
    t = np.cos(np.arange(x.size)).reshape(x.shape)
    found, expected = ft.jvp(ft.jit(ours), (x,), (t,))[1], jax.jvp(theirs, (x,), (t,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
