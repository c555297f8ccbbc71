"""eager-nested: transforms of transforms of a small function, un-jitted, with new transforms at
each call.

Beside each stands functrace's own form with a jitted gradient inside, made once.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import INSIDE, System, Target, Work

POINTS = np.random.default_rng(0).normal(size=(32, 8))
POINT = np.linspace(-1.0, 1.0, 5)
NUMBER = 0.7


def vector_function(xp):
    def f(x):
        return xp.sum(xp.tanh(x) ** 2 * xp.exp(-x))

    return f


def scalar_function(xp):
    def f(x):
        return xp.tanh(x) ** 2 * xp.exp(-x) + x * x

    return f


def functrace_systems(name: str) -> dict[str, System]:
    """Return the fresh form, and the one with ``jit`` inside."""

    def fresh():
        import functrace as ft

        f = vector_function(np) if name != "grad" else scalar_function(np)
        return {
            "vmap": lambda: ft.vmap(ft.grad(f))(POINTS),
            "grad": lambda: ft.grad(ft.grad(f))(NUMBER),
            "hessian": lambda: ft.hessian(f)(POINT),
        }[name]

    def inside():
        import functrace as ft

        gradient = ft.jit(ft.grad(vector_function(np) if name != "grad" else scalar_function(np)))
        return {
            "vmap": lambda: ft.vmap(gradient)(POINTS),
            "grad": lambda: ft.grad(gradient)(NUMBER),
            "hessian": lambda: ft.jacfwd(gradient)(POINT),
        }[name]

    return {"functrace": fresh, INSIDE: inside}


def jax(name: str) -> System:
    def prepare():
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        f = vector_function(jnp) if name != "grad" else scalar_function(jnp)
        points, point = jnp.asarray(POINTS), jnp.asarray(POINT)
        run = {
            "vmap": lambda: jax.vmap(jax.grad(f))(points),
            "grad": lambda: jax.grad(jax.grad(f))(NUMBER),
            "hessian": lambda: jax.hessian(f)(point),
        }[name]
        return lambda: jax.block_until_ready(run())

    return prepare


def torch(name: str) -> System:
    def prepare():
        import torch

        f = vector_function(torch) if name != "grad" else scalar_function(torch)
        points, point, number = (
            torch.tensor(POINTS),
            torch.tensor(POINT),
            torch.tensor(NUMBER, dtype=torch.float64),
        )
        return {
            "vmap": lambda: torch.func.vmap(torch.func.grad(f))(points),
            "grad": lambda: torch.func.grad(torch.func.grad(f))(number),
            "hessian": lambda: torch.func.hessian(f)(point),
        }[name]

    return prepare


def autograd(name: str) -> System:
    def prepare():
        import autograd
        import autograd.numpy as anp

        f = vector_function(anp) if name != "grad" else scalar_function(anp)
        return {
            "grad": lambda: autograd.grad(autograd.grad(f))(NUMBER),
            "hessian": lambda: autograd.hessian(f)(POINT),
        }[name]

    return prepare


def _work(name: str, about: str) -> Work:
    systems = {**functrace_systems(name), "jax": jax(name), "torch": torch(name)}
    if name != "vmap":
        systems["autograd"] = autograd(name)
    return Work(
        f"eager-nested-{name}",
        f"un-jitted {about}, new transforms each call",
        systems,
        (Target(1.5, INSIDE),),
    )


WORKS = (
    _work("vmap", "vmap(grad(f)), 32 points of 8 numbers"),
    _work("grad", "grad(grad(f)) at a number"),
    _work("hessian", "hessian(f), n=5"),
)
