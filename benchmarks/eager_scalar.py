"""eager-scalar: the gradient of ``sin(x) * exp(x) + x * x`` at a Python float, without a
compiler.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import Target, Work

POINT = 0.7


def functrace():
    import functrace as ft

    def f(x):
        return np.sin(x) * np.exp(x) + x * x

    return lambda: ft.grad(f)(POINT)


def numpy():
    def gradient(x):
        return np.exp(x) * (np.sin(x) + np.cos(x)) + 2.0 * x

    return lambda: gradient(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def f(x):
        return jnp.sin(x) * jnp.exp(x) + x * x

    return lambda: jax.grad(f)(POINT).block_until_ready()


def torch():
    import torch

    def run():
        x = torch.tensor(POINT, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(torch.sin(x) * torch.exp(x) + x * x, x)[0]

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import grad

    def f(x):
        return anp.sin(x) * anp.exp(x) + x * x

    return lambda: grad(f)(POINT)


WORKS = (
    Work(
        "eager-scalar",
        "un-jitted gradient of sin(x)*exp(x)+x*x at a Python float",
        {"functrace": functrace, "numpy": numpy, "jax": jax, "torch": torch, "autograd": autograd},
        (Target(0.2, "autograd"),),
    ),
)
