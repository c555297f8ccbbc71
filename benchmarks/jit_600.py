"""jit-600: the gradient of 600 operations on 1,000 elements, compiled; warm."""

from __future__ import annotations

import numpy as np

from benchmarks import cold_600
from benchmarks.cold_600 import POINT, TURNS
from benchmarks.work import UN_JITTED, Work


def functrace(*, jitted: bool = True):
    import functrace as ft

    @ft.grad
    def gradient(x):
        for _ in range(TURNS):
            x = np.tanh(np.sin(x) * 1.01 + 0.1)
        return np.sum(x)

    run = ft.jit(gradient) if jitted else gradient
    return lambda: run(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    @jax.jit
    @jax.grad
    def gradient(x):
        for _ in range(TURNS):
            x = jnp.tanh(jnp.sin(x) * 1.01 + 0.1)
        return jnp.sum(x)

    point = jnp.asarray(POINT)
    return lambda: gradient(point).block_until_ready()


WORKS = (
    Work(
        "jit-600",
        "jitted gradient of a chain of 600 operations on 1,000 elements",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": cold_600.numpy,
            "jax": jax,
            "torch": cold_600.torch,
        },
    ),
)
