"""jit-attention: value and gradient of a pre-norm transformer block, batch 8, 128 tokens, width
128, 4 heads, f32; warm.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

BATCH, TOKENS, WIDTH, HEADS = 8, 128, 128, 4
EACH = WIDTH // HEADS
EPSILON = 1e-5
_RNG = np.random.default_rng(0)


def _weight(*shape: int) -> np.ndarray:
    return (_RNG.normal(size=shape) / math.sqrt(shape[0])).astype(np.float32)


PARAMS = (
    _weight(WIDTH, 3 * WIDTH), _weight(WIDTH, WIDTH),
    _weight(WIDTH, 4 * WIDTH), np.zeros(4 * WIDTH, np.float32), _weight(4 * WIDTH, WIDTH),
    np.zeros(WIDTH, np.float32),
    np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32), np.ones(WIDTH, np.float32),
    np.zeros(WIDTH, np.float32),
)  # fmt: skip
X = _RNG.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)


def loss_of(xp):
    """The loss, in NumPy's or JAX's functions."""

    def norm(x, scale, shift):
        d = x - xp.mean(x, axis=-1, keepdims=True)
        return d / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + EPSILON) * scale + shift

    def gelu(x):
        return 0.5 * x * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))

    def loss(params, x):
        wqkv, wo, w1, b1, w2, b2, g1, s1, g2, s2 = params
        qkv = xp.reshape(norm(x, g1, s1) @ wqkv, (BATCH, TOKENS, 3, HEADS, EACH))
        q, k, v = (xp.swapaxes(qkv[:, :, i], 1, 2) for i in range(3))
        scores = q @ xp.swapaxes(k, 2, 3) / math.sqrt(EACH)
        e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        mixed = xp.swapaxes(e / xp.sum(e, axis=-1, keepdims=True) @ v, 1, 2)
        x = x + xp.reshape(mixed, (BATCH, TOKENS, WIDTH)) @ wo
        x = x + gelu(norm(x, g2, s2) @ w1 + b1) @ w2 + b2
        return xp.mean(x * x)

    return loss


def functrace(*, jitted: bool = True):
    import functrace as ft

    step = ft.value_and_grad(loss_of(np))
    run = ft.jit(step) if jitted else step
    return lambda: run(PARAMS, X)


def jax():
    import jax
    import jax.numpy as jnp

    step = jax.jit(jax.value_and_grad(loss_of(jnp)))
    params, x = jax.tree.map(jnp.asarray, (PARAMS, X))
    return lambda: jax.block_until_ready(step(params, x))


def torch():
    import torch

    params = [torch.tensor(p, requires_grad=True) for p in PARAMS]
    wqkv, wo, w1, b1, w2, b2, g1, s1, g2, s2 = params
    inputs = torch.tensor(X)

    def run():
        f = torch.nn.functional
        x = inputs
        qkv = (f.layer_norm(x, (WIDTH,), g1, s1, EPSILON) @ wqkv).reshape(
            BATCH, TOKENS, 3, HEADS, EACH
        )
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + mixed.reshape(BATCH, TOKENS, WIDTH) @ wo
        x = (
            x
            + f.gelu(f.layer_norm(x, (WIDTH,), g2, s2, EPSILON) @ w1 + b1, approximate="tanh") @ w2
            + b2
        )
        value = (x * x).mean()
        return value.detach(), torch.autograd.grad(value, params)

    return run


WORKS = (
    Work(
        "jit-attention",
        "value and gradient of a pre-norm transformer block, 8 x 128 x 128, 4 heads, f32 "
        "(functrace and JAX jitted)",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "jax": jax,
            "torch": torch,
        },
        (Target(1.0),),
        rtol=2e-4,
    ),
)
