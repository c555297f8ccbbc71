"""jit-scan-small: the gradient through a long scan of small steps, 3,000 of ``tanh(w @ h + x)``, w
50 x 50, f64; warm.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import Target, Work

STEPS, WIDTH = 3_000, 50
_RNG = np.random.default_rng(0)
WEIGHTS = _RNG.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
START = np.zeros(WIDTH)
XS = 0.5 * _RNG.normal(size=(STEPS, WIDTH))


def functrace():
    import functrace as ft

    @ft.jit
    @ft.grad
    def gradient(w):
        def step(h, x):
            return np.tanh(w @ h + x), None

        h, _ = ft.scan(step, START, XS)
        return np.sum(h * h)

    return lambda: gradient(WEIGHTS)


def numpy():
    def gradient(w):
        hs = [START]
        for x in XS:
            hs.append(np.tanh(w @ hs[-1] + x))
        w_bar, h_bar = np.zeros_like(w), 2.0 * hs[-1]
        for t in range(len(XS) - 1, -1, -1):
            a_bar = h_bar * (1.0 - hs[t + 1] ** 2)
            w_bar += a_bar[:, None] * hs[t]
            h_bar = a_bar @ w
        return w_bar

    return lambda: gradient(WEIGHTS)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    xs = jnp.asarray(XS)

    @jax.jit
    @jax.grad
    def gradient(w):
        def step(h, x):
            return jnp.tanh(w @ h + x), None

        h, _ = jax.lax.scan(step, jnp.asarray(START), xs)
        return jnp.sum(h * h)

    weights = jnp.asarray(WEIGHTS)
    return lambda: jax.block_until_ready(gradient(weights))


WORKS = (
    Work(
        "jit-scan-small",
        "gradient through 3,000 steps tanh(w @ h + x), w 50 x 50, f64 (functrace and JAX: jitted "
        "scan)",
        {"functrace": functrace, "numpy": numpy, "jax": jax},
        (Target(1.5, "jax"),),
        rtol=1e-8,
    ),
)
