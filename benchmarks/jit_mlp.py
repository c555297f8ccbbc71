"""jit-mlp: value and gradient of a 784-512-512-10 tanh network with softmax cross-entropy, batch
128, float32; warm.
"""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

SIZES = (784, 512, 512, 10)
BATCH = 128
_RNG = np.random.default_rng(0)
PARAMS = [
    ((_RNG.normal(size=(m, n)) / np.sqrt(m)).astype(np.float32), np.zeros(n, np.float32))
    for m, n in itertools.pairwise(SIZES)
]
X = _RNG.normal(size=(BATCH, SIZES[0])).astype(np.float32)
LABELS = _RNG.integers(0, SIZES[-1], BATCH)
Y = np.eye(SIZES[-1], dtype=np.float32)[LABELS]


def functrace(*, jitted: bool = True):
    import functrace as ft

    @ft.value_and_grad
    def step(params, x, y):
        for w, b in params[:-1]:
            x = np.tanh(x @ w + b)
        w, b = params[-1]
        z = x @ w + b
        z = z - np.max(z, axis=1, keepdims=True)
        return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))

    run = ft.jit(step) if jitted else step
    return lambda: run(PARAMS, X, Y)


def numpy():
    def step(params, x, y):
        (w1, b1), (w2, b2), (w3, b3) = params
        h1 = np.tanh(x @ w1 + b1)
        h2 = np.tanh(h1 @ w2 + b2)
        z = h2 @ w3 + b3
        z -= np.max(z, axis=1, keepdims=True)
        e = np.exp(z)
        total = np.sum(e, axis=1, keepdims=True)
        value = -np.mean(np.sum(y * (z - np.log(total)), axis=1))
        z_bar = (e / total - y) / np.float32(BATCH)
        a2_bar = (z_bar @ w3.T) * (1 - h2 * h2)
        a1_bar = (a2_bar @ w2.T) * (1 - h1 * h1)
        gradients = [
            (x.T @ a1_bar, a1_bar.sum(0)),
            (h1.T @ a2_bar, a2_bar.sum(0)),
            (h2.T @ z_bar, z_bar.sum(0)),
        ]
        return value, gradients

    return lambda: step(PARAMS, X, Y)


def jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    @jax.value_and_grad
    def step(params, x, y):
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(x @ w + b), axis=1))

    params, x, y = jax.tree.map(jnp.asarray, (PARAMS, X, Y))
    return lambda: jax.block_until_ready(step(params, x, y))


def torch():
    import torch

    params = [
        (torch.tensor(w, requires_grad=True), torch.tensor(b, requires_grad=True))
        for w, b in PARAMS
    ]
    flat = [p for pair in params for p in pair]
    inputs, labels = torch.tensor(X), torch.tensor(LABELS)

    def run():
        x = inputs
        for w, b in params[:-1]:
            x = torch.tanh(torch.addmm(b, x, w))
        w, b = params[-1]
        value = torch.nn.functional.cross_entropy(torch.addmm(b, x, w), labels)
        return value.detach(), torch.autograd.grad(value, flat)

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import value_and_grad

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = anp.tanh(x @ w + b)
        w, b = params[-1]
        z = x @ w + b
        z = z - anp.max(z, axis=1, keepdims=True)
        return -anp.mean(
            anp.sum(y * (z - anp.log(anp.sum(anp.exp(z), axis=1, keepdims=True))), axis=1)
        )

    step = value_and_grad(loss)
    return lambda: step(PARAMS, X, Y)


WORKS = (
    Work(
        "jit-mlp",
        "value and gradient of a 784-512-512-10 tanh network, batch 128, f32 (functrace and JAX "
        "jitted)",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
            "autograd": autograd,
        },
        (Target(1.0),),
        rtol=2e-4,
    ),
)
