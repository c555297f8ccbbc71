"""eager-loop: the gradient through 1,000 turns of a Python loop on three numbers: first, second,
tenth and later calls.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import OWN_FIRST, Target, Work

POINT = np.array([0.3, 0.5, 0.7])
TURNS = 1000


def functrace():
    import functrace as ft

    def f(x):
        for _ in range(TURNS):
            x = np.sin(x) * 1.01
        return np.sum(x)

    return lambda: ft.grad(f)(POINT)


def numpy():
    def gradient(x):
        seen = []
        for _ in range(TURNS):
            seen.append(x)
            x = np.sin(x) * 1.01
        bar = np.ones_like(x)
        for y in reversed(seen):
            bar = bar * 1.01 * np.cos(y)
        return bar

    return lambda: gradient(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def f(x):
        for _ in range(TURNS):
            x = jnp.sin(x) * 1.01
        return jnp.sum(x)

    point = jnp.asarray(POINT)
    return lambda: jax.grad(f)(point).block_until_ready()


def torch():
    import torch

    point = torch.tensor(POINT)

    def run():
        leaf = point.detach().requires_grad_(True)
        x = leaf
        for _ in range(TURNS):
            x = torch.sin(x) * 1.01
        return torch.autograd.grad(x.sum(), leaf)[0]

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import grad

    def f(x):
        for _ in range(TURNS):
            x = anp.sin(x) * 1.01
        return anp.sum(x)

    return lambda: grad(f)(POINT)


SYSTEMS = {"functrace": functrace, "numpy": numpy, "jax": jax, "torch": torch, "autograd": autograd}

WORKS = (
    Work(
        "eager-loop",
        "un-jitted gradient through 1,000 turns of x = sin(x)*1.01, n=3",
        SYSTEMS,
        (Target(0.8, "torch", "first"), Target(1.0, OWN_FIRST, "second"), Target(0.35, "torch")),
        rounds=9,
    ),
)
