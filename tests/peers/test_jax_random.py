"""functrace.random against jax.random: derivatives of samples by parameters, shapes, dtypes and
signatures.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.gamma_slope import log_gamma_slope
from tests.random.families import FAMILIES

jax = pytest.importorskip("jax")
rnd = ft.random
KEY = rnd.key(0)


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def test_derivatives_of_gamma_samples_equal_jaxs() -> None:
    a = np.repeat([0.01, 0.1, 0.7, 1.0, 2.5, 30.0, 1e4], 50)
    x, slope = ft.jvp(lambda a: rnd.gamma(KEY, a), (a,), (np.ones_like(a),))
    kept = x > 1e-200
    expected = np.asarray(jax.lax.random_gamma_grad(a[kept], x[kept]))
    np.testing.assert_allclose(slope[kept], expected, rtol=2e-8)
    np.testing.assert_allclose(
        log_gamma_slope(a[kept], np.log(x[kept])) * x[kept], expected, rtol=2e-8
    )


NOT_TAKEN = {"clone", "key_data", "key_dtype", "key_impl", "wrap_key_data", "PRNGKey", "Array"}
"""Names for JAX's types of keys: here a key is an array."""
OF_XLA = ("out_sharding", "mode", "impl", "unroll")
"""Arguments that say how XLA is to compute it."""


NAMES = [
    name
    for name, x in vars(jax.random).items()
    if inspect.isfunction(x) and name not in NOT_TAKEN and name[0] != "_"
]


def test_all_of_jax_is_here() -> None:
    assert sorted(NAMES) == rnd.__all__


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str) -> None:
    """Each of JAX's functions is here, with JAX's arguments in JAX's order, but for what says how
    XLA is to compute it.
    """
    ours = inspect.signature(getattr(rnd, name)).parameters
    theirs = inspect.signature(getattr(jax.random, name)).parameters
    wanted = [k for k in theirs if k not in OF_XLA and (name, k) != ("key", "dtype")]
    if name == "triangular":  # where the mode is that of the distribution
        wanted.insert(2, "mode")
    assert list(ours) == wanted
    for k in wanted:
        default = theirs[k].default
        if default is not inspect.Parameter.empty:
            assert ours[k].default == default, k


# JAX's binomial and wald take other arguments, or have no derivative by these; the tails of others
# are ours.
ALIKE = [
    f
    for f in FAMILIES
    if f.like and f.at and not re.search("^(binomial|wald)(/|$)|tail|open", f.name)
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("family", ALIKE, ids=lambda family: family.name)
def test_means_and_their_derivatives_agree(family: Any) -> None:
    """Compare means of 20,000 samples and their parameter derivatives within statistical error."""
    name = family.name.partition("/")[0]
    count, at = 20_000, family.at
    import jax.numpy as jnp

    def ours(p: Any) -> Any:
        return np.arcsinh(family(KEY, *p, shape=(count,)))

    def call(p: Any) -> Any:
        key = jax.random.key(1)
        if name == "uniform":
            return jax.random.uniform(key, (count,), minval=p[0], maxval=p[1])
        if name == "bernoulli":
            return jax.random.bernoulli(key, p[0], (count,)).astype(float)
        if name == "generalized_normal":
            return jax.random.generalized_normal(key, p[0], (count,))
        return getattr(jax.random, name)(key, *p, shape=(count,))

    def theirs(p: Any) -> Any:
        return jnp.arcsinh(call(p))

    p = np.array(at)
    x, y = ours(p), np.asarray(theirs(p))
    assert abs(x.mean() - y.mean()) < 4 * np.sqrt((x.var() + y.var()) / count)
    if not family.smooth:
        return
    for e in np.eye(len(p)):
        u = ft.jvp(ours, (p,), (e,))[1]
        try:
            v = np.asarray(jax.jvp(theirs, (p,), (e,))[1])
        except Exception:  # JAX needs p of generalized_normal to be known
            assert name == "generalized_normal"
            return
        assert abs(u.mean() - v.mean()) < 4 * np.sqrt((u.var() + v.var()) / count), e
