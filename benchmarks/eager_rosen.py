"""eager-rosen: the gradient of Rosenbrock's function at ten coordinates, without a compiler, a new
call each time.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import Target, Work

POINT = np.linspace(-1.0, 1.0, 10)


def functrace():
    import functrace as ft

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return lambda: ft.grad(rosenbrock)(POINT)


def numpy():
    def gradient(x):
        head, gap = x[:-1], x[1:] - x[:-1] ** 2
        out = np.zeros_like(x)
        out[:-1] = -400.0 * head * gap - 2.0 * (1.0 - head)
        out[1:] += 200.0 * gap
        return out

    return lambda: gradient(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    point = jnp.asarray(POINT)
    return lambda: jax.grad(rosenbrock)(point).block_until_ready()


def torch():
    import torch

    point = torch.tensor(POINT)

    def run():
        x = point.detach().requires_grad_(True)
        y = (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
        return torch.autograd.grad(y, x)[0]

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import grad

    def rosenbrock(x):
        return anp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return lambda: grad(rosenbrock)(POINT)


WORKS = (
    Work(
        "eager-rosen",
        "un-jitted gradient of Rosenbrock, n=10",
        {"functrace": functrace, "numpy": numpy, "jax": jax, "torch": torch, "autograd": autograd},
        (Target(0.45, "torch"),),
    ),
)
