"""jit-elementwise: value and gradient of ``sum(tanh(x) * exp(-x**2) + log1p(x**2))``, 4 million
numbers, f32 and f64; warm.

PyTorch runs it as it is, and compiled (``torch.compile``) where there is a compiler of C++.
"""

from __future__ import annotations

import os
import shutil

import numpy as np

from benchmarks.work import System, Target, Work

SIZE = 1 << 22
_VALUES = np.random.default_rng(0).normal(size=SIZE)


def functrace(dtype: str) -> System:
    def prepare():
        import functrace as ft

        x = _VALUES.astype(dtype)
        step = ft.jit(
            ft.value_and_grad(lambda x: np.sum(np.tanh(x) * np.exp(-(x**2)) + np.log1p(x**2)))
        )
        return lambda: step(x)

    return prepare


def numpy(dtype: str) -> System:
    def prepare():
        x = _VALUES.astype(dtype)

        def run():
            t, s = np.tanh(x), x * x
            e = np.exp(-s)
            value = np.sum(t * e + np.log1p(s))
            return value, e * (1 - t * t - 2 * x * t) + 2 * x / (1 + s)

        return run

    return prepare


def jax(dtype: str) -> System:
    def prepare():
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):
            x = jnp.asarray(_VALUES.astype(dtype))
        step = jax.jit(
            jax.value_and_grad(lambda x: jnp.sum(jnp.tanh(x) * jnp.exp(-(x**2)) + jnp.log1p(x**2)))
        )

        def run():
            with jax.enable_x64(True):
                return jax.block_until_ready(step(x))

        return run

    return prepare


def torch(dtype: str, *, compiled: bool = False) -> System:
    def prepare():
        import torch

        if compiled and shutil.which(os.environ.get("CXX", "g++")) is None:
            raise ImportError(
                "no compiler of C++, which torch.compile needs", name="a compiler of C++"
            )

        def loss(x):
            return torch.sum(torch.tanh(x) * torch.exp(-(x**2)) + torch.log1p(x**2))

        x = torch.tensor(_VALUES.astype(dtype), requires_grad=True)
        value_of = torch.compile(loss) if compiled else loss

        def run():
            value = value_of(x)
            return value.detach(), torch.autograd.grad(value, x)[0]

        return run

    return prepare


def _work(name: str, dtype: str, targets: tuple[Target, ...], rtol: float) -> Work:
    systems = {
        "functrace": functrace(dtype),
        "numpy": numpy(dtype),
        "jax": jax(dtype),
        "torch": torch(dtype),
    }
    return Work(
        name,
        f"value and gradient of sum(tanh(x) exp(-x**2) + log1p(x**2)), 4 M {dtype} (functrace and "
        "JAX jitted)",
        {**systems, "torch.compile": torch(dtype, compiled=True)},
        targets,
        rtol=rtol,
    )


WORKS = (
    _work("jit-elementwise", "float32", (Target(0.75, "torch.compile"), Target(0.5, "jax")), 2e-4),
    _work(
        "jit-elementwise-f64", "float64", (Target(0.75, "torch.compile"), Target(0.6, "jax")), 1e-9
    ),
)
