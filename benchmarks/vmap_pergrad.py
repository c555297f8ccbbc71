"""vmap-pergrad: the gradients of every example of a logistic regression, 4,096 examples of 256
numbers, float32.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(4096, 256)).astype(np.float32)
Y = np.where(_RNG.random(4096) < 0.5, -1, 1).astype(np.float32)
W = (_RNG.normal(size=256) / 16).astype(np.float32)


def functrace(*, jitted: bool = True):
    import functrace as ft

    def loss(w, x, y):
        return np.logaddexp(np.float32(0), -y * (x @ w))

    if jitted:
        gradients = ft.jit(ft.vmap(ft.grad(loss), in_axes=(None, 0, 0)))
        return lambda: gradients(W, X, Y)
    return lambda: ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))(W, X, Y)


def numpy():
    def gradients(w, x, y):
        return (-y / (1 + np.exp(y * (x @ w))))[:, None] * x

    return lambda: gradients(W, X, Y)


def jax():
    import jax
    import jax.numpy as jnp

    def loss(w, x, y):
        return jnp.logaddexp(jnp.float32(0), -y * (x @ w))

    w, x, y = jnp.asarray(W), jnp.asarray(X), jnp.asarray(Y)
    gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
    return lambda: gradients(w, x, y).block_until_ready()


def torch():
    import torch

    def loss(w, x, y):
        return torch.nn.functional.softplus(-y * (x @ w))

    w, x, y = torch.tensor(W), torch.tensor(X), torch.tensor(Y)
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: gradients(w, x, y)


WORKS = (
    Work(
        "vmap-pergrad",
        "per-example gradients of a logistic regression, 4,096 x 256, f32 (functrace and JAX "
        "jitted)",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
        },
        (Target(1.0),),
        rtol=1e-4,
    ),
)
