"""cold-600: the first gradients of 600 operations on 1,000 elements: recording, transforming,
running; JAX uses ``jit``.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import OWN_FIRST, Target, Work

POINT = np.linspace(-2.0, 2.0, 1000)
TURNS = 150
"""Iterations, of four operations each."""


def functrace():
    import functrace as ft

    def chain(x):
        for _ in range(TURNS):
            x = np.tanh(np.sin(x) * 1.01 + 0.1)
        return np.sum(x)

    return lambda: ft.grad(chain)(POINT)


def numpy():
    def gradient(x):
        seen = []
        for _ in range(TURNS):
            y = np.tanh(np.sin(x) * 1.01 + 0.1)
            seen.append((x, y))
            x = y
        bar = np.ones_like(x)
        for x, y in reversed(seen):
            bar = bar * (1.0 - y * y) * 1.01 * np.cos(x)
        return bar

    return lambda: gradient(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def chain(x):
        for _ in range(TURNS):
            x = jnp.tanh(jnp.sin(x) * 1.01 + 0.1)
        return jnp.sum(x)

    point = jnp.asarray(POINT)
    return lambda: jax.jit(jax.grad(chain))(point).block_until_ready()


def torch():
    import torch

    point = torch.tensor(POINT)

    def run():
        leaf = point.detach().requires_grad_(True)
        x = leaf
        for _ in range(TURNS):
            x = torch.tanh(torch.sin(x) * 1.01 + 0.1)
        return torch.autograd.grad(x.sum(), leaf)[0]

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import grad

    def chain(x):
        for _ in range(TURNS):
            x = anp.tanh(anp.sin(x) * 1.01 + 0.1)
        return anp.sum(x)

    return lambda: grad(chain)(POINT)


SYSTEMS = {"functrace": functrace, "numpy": numpy, "jax": jax, "torch": torch, "autograd": autograd}

WORKS = (
    Work(
        "cold-600",
        "gradient of a chain of 600 operations on 1,000 elements, un-jitted (JAX: jitted anew at "
        "each call)",
        SYSTEMS,
        (Target(1.5, "torch", "first"), Target(1.0, OWN_FIRST, "second"), Target(1.2, "torch")),
        rounds=5,
    ),
)
