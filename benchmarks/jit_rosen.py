"""jit-rosen: the gradient of Rosenbrock's function at ten coordinates, compiled; warm."""

from __future__ import annotations

import numpy as np

from benchmarks import eager_rosen
from benchmarks.eager_rosen import POINT
from benchmarks.work import UN_JITTED, Target, Work


def functrace(*, jitted: bool = True):
    import functrace as ft

    @ft.grad
    def gradient(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    run = ft.jit(gradient) if jitted else gradient
    return lambda: run(POINT)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    @jax.jit
    @jax.grad
    def gradient(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    point = jnp.asarray(POINT)
    return lambda: gradient(point).block_until_ready()


def casadi():
    import casadi as ca

    x = ca.SX.sym("x", len(POINT))
    value = sum(
        100.0 * (x[k + 1] - x[k] ** 2) ** 2 + (1.0 - x[k]) ** 2 for k in range(len(POINT) - 1)
    )
    gradient = ca.Function("gradient", [x], [ca.gradient(value, x)])
    buffer, call = gradient.buffer()
    point, result = POINT.copy(), np.empty(len(POINT))
    buffer.set_arg(0, memoryview(point))
    buffer.set_res(0, memoryview(result))

    def run(_kept=(gradient, buffer, point)):
        call()
        return result

    return run


WORKS = (
    Work(
        "jit-rosen",
        "jitted gradient of Rosenbrock, n=10",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": eager_rosen.numpy,
            "jax": jax,
            "torch": eager_rosen.torch,
            "casadi": casadi,
        },
        (Target(0.9, "jax"),),
    ),
)
