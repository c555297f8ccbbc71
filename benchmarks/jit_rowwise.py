"""jit-rowwise: value and gradient of softmax and layer normalisation along rows, 4,096 x 1,024,
float32; warm.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import Target, Work

ROWS, COLUMNS = 4096, 1024
EPSILON = 1e-5
X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)


def functrace():
    import functrace as ft

    @ft.jit
    @ft.value_and_grad
    def step(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        p = e / np.sum(e, axis=-1, keepdims=True)
        d = p - np.mean(p, axis=-1, keepdims=True)
        n = d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + EPSILON)
        return np.sum(n * n * n)

    return lambda: step(X)


def numpy():
    def mean(x):
        return np.mean(x, axis=-1, keepdims=True)

    def run():
        e = np.exp(X - np.max(X, axis=-1, keepdims=True))
        p = e / np.sum(e, axis=-1, keepdims=True)
        d = p - mean(p)
        r = 1 / np.sqrt(mean(d * d) + np.float32(EPSILON))
        n = d * r
        squares = n * n
        n_bar = 3 * squares
        d_bar = r * (n_bar - n * mean(n_bar * n))
        p_bar = d_bar - mean(d_bar)
        return np.sum(squares * n), p * (p_bar - np.sum(p_bar * p, axis=-1, keepdims=True))

    return run


def jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    @jax.value_and_grad
    def step(x):
        p = jax.nn.softmax(x, axis=-1)
        d = p - jnp.mean(p, axis=-1, keepdims=True)
        n = d / jnp.sqrt(jnp.mean(d * d, axis=-1, keepdims=True) + EPSILON)
        return jnp.sum(n * n * n)

    x = jnp.asarray(X)
    return lambda: jax.block_until_ready(step(x))


def torch():
    import torch

    x = torch.tensor(X, requires_grad=True)

    def run():
        n = torch.nn.functional.layer_norm(torch.softmax(x, -1), (COLUMNS,), eps=EPSILON)
        value = torch.sum(n * n * n)
        return value.detach(), torch.autograd.grad(value, x)[0]

    return run


WORKS = (
    Work(
        "jit-rowwise",
        "value and gradient of softmax and layer normalisation of rows, 4,096 x 1,024 f32 "
        "(functrace and JAX jitted)",
        {"functrace": functrace, "numpy": numpy, "jax": jax, "torch": torch},
        (Target(1.0), Target(1.0, "torch")),
        rtol=1e-3,
    ),
)
