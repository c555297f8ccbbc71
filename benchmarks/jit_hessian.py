"""jit-hessian: the full Hessian of Rosenbrock's function at 200 coordinates, compiled; warm."""

from __future__ import annotations

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

POINT = np.linspace(-1.0, 1.0, 200)


def functrace(*, jitted: bool = True):
    import functrace as ft

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    hessian = ft.hessian(rosenbrock)
    run = ft.jit(hessian) if jitted else hessian
    return lambda: run(POINT)


def numpy():
    def hessian(x):
        out = np.zeros((x.size, x.size))
        head = np.arange(x.size - 1)
        out[head, head] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
        out[head + 1, head + 1] += 200.0
        out[head, head + 1] = out[head + 1, head] = -400.0 * x[:-1]
        return out

    return lambda: hessian(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    hessian = jax.jit(jax.hessian(rosenbrock))
    point = jnp.asarray(POINT)
    return lambda: hessian(point).block_until_ready()


def torch():
    import torch

    def rosenbrock(x):
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    point = torch.tensor(POINT)
    hessian = torch.func.hessian(rosenbrock)
    return lambda: hessian(point)


def autograd():
    import autograd.numpy as anp
    from autograd import hessian

    def rosenbrock(x):
        return anp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    second = hessian(rosenbrock)
    return lambda: second(POINT)


WORKS = (
    Work(
        "jit-hessian",
        "jitted Hessian of Rosenbrock, n=200",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
            "autograd": autograd,
        },
        (Target(1.0, "jax"),),
    ),
)
