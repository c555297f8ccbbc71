"""jit-rnn: the gradient through a recurrent network, 200 steps, batch 16, width 64,
float64; warm.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

STEPS, BATCH, WIDTH = 200, 16, 64
_RNG = np.random.default_rng(0)
PARAMS = (
    _RNG.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH),
    _RNG.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH),
    np.zeros(WIDTH),
)
XS = 0.5 * _RNG.normal(size=(STEPS, BATCH, WIDTH))
START = np.zeros((BATCH, WIDTH))


def functrace(*, jitted: bool = True):
    import functrace as ft

    @ft.grad
    def gradient(params, xs):
        w, u, b = params

        def step(h, x):
            h = np.tanh(h @ w + x @ u + b)
            return h, None

        h, _ = ft.scan(step, START, xs)
        return np.sum(h * h)

    run = ft.jit(gradient) if jitted else gradient
    return lambda: run(PARAMS, XS)


def numpy():
    def gradient(params, xs):
        w, u, b = params
        hs = [START]
        for x in xs:
            hs.append(np.tanh(hs[-1] @ w + x @ u + b))
        w_bar, u_bar, b_bar = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
        h_bar = 2.0 * hs[-1]
        for t in range(len(xs) - 1, -1, -1):
            a_bar = h_bar * (1.0 - hs[t + 1] ** 2)
            w_bar += hs[t].T @ a_bar
            u_bar += xs[t].T @ a_bar
            b_bar += a_bar.sum(0)
            h_bar = a_bar @ w.T
        return w_bar, u_bar, b_bar

    return lambda: gradient(PARAMS, XS)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    @jax.jit
    @jax.grad
    def gradient(params, xs):
        w, u, b = params

        def step(h, x):
            return jnp.tanh(h @ w + x @ u + b), None

        h, _ = jax.lax.scan(step, jnp.asarray(START), xs)
        return jnp.sum(h * h)

    params, xs = jax.tree.map(jnp.asarray, (PARAMS, XS))
    return lambda: jax.block_until_ready(gradient(params, xs))


def torch():
    import torch

    w, u, b = (torch.tensor(p, requires_grad=True) for p in PARAMS)
    xs, start = torch.tensor(XS), torch.tensor(START)

    def run():
        h = start
        for x in xs:
            h = torch.tanh(h @ w + x @ u + b)
        return torch.autograd.grad((h * h).sum(), (w, u, b))

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import grad

    def loss(params, xs):
        w, u, b = params
        h = START
        for x in xs:
            h = anp.tanh(h @ w + x @ u + b)
        return anp.sum(h * h)

    gradient = grad(loss)
    return lambda: gradient(PARAMS, XS)


WORKS = (
    Work(
        "jit-rnn",
        "gradient through 200 steps of a recurrent network, batch 16, width 64, f64 (functrace and "
        "JAX: jitted scan)",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
            "autograd": autograd,
        },
        (Target(1.0),),
        rtol=1e-8,
    ),
)
