"""jit-stencil: value and gradient through 100 steps of advection and diffusion on 256 x 256 points,
float32; warm.

The loop is Python's and the stencil is written with ``np.roll``; JAX's is a ``scan``, since such a
loop takes it minutes to compile.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import XLA, Target, Work, xla

STEPS, SIZE = 100, 256
DIFFUSION, DRIFT = 0.1, 0.05
_GRID = np.linspace(0, 2 * np.pi, SIZE, endpoint=False)
U = (np.sin(_GRID)[:, None] * np.cos(2 * _GRID)).astype(np.float32)


def _step_with(roll):
    """One step, by a library's ``roll``."""

    def step(u):
        up, down, left, right = roll(u, -1, 0), roll(u, 1, 0), roll(u, -1, 1), roll(u, 1, 1)
        spread = up + down + left + right - 4 * u
        drift = up - down + left - right
        return u + DIFFUSION * spread - DRIFT * u * drift

    return step


def functrace():
    import functrace as ft

    one = _step_with(np.roll)

    @ft.jit
    @ft.value_and_grad
    def step(u):
        for _ in range(STEPS):
            u = one(u)
        return np.sum(u * u)

    return lambda: step(U)


def functrace_scan():
    """The same loop as JAX's; XLA runs unrolled steps slowly."""
    import functrace as ft

    one = _step_with(np.roll)

    @ft.jit
    @ft.value_and_grad
    def step(u):
        u, _ = ft.scan(lambda u, _: (one(u), None), u, length=STEPS)
        return np.sum(u * u)

    return lambda: step(U)


def numpy():
    one = _step_with(np.roll)

    def drifts(u):
        return np.roll(u, -1, 0) - np.roll(u, 1, 0) + np.roll(u, -1, 1) - np.roll(u, 1, 1)

    def spreads(u):
        return np.roll(u, -1, 0) + np.roll(u, 1, 0) + np.roll(u, -1, 1) + np.roll(u, 1, 1) - 4 * u

    def run():
        u, seen = U, []
        for _ in range(STEPS):
            seen.append(u)
            u = one(u)
        u_bar = 2 * u
        for before in reversed(seen):
            # The drift is antisymmetric, the spread symmetric.
            u_bar = (
                u_bar
                + DIFFUSION * spreads(u_bar)
                - DRIFT * (drifts(before) * u_bar - drifts(before * u_bar))
            )
        return np.sum(u * u), u_bar

    return run


def jax():
    import jax
    import jax.numpy as jnp

    one = _step_with(jnp.roll)

    @jax.jit
    @jax.value_and_grad
    def step(u):
        u, _ = jax.lax.scan(lambda u, _: (one(u), None), u, None, STEPS)
        return jnp.sum(u * u)

    u = jnp.asarray(U)
    return lambda: jax.block_until_ready(step(u))


def torch():
    import torch

    one = _step_with(torch.roll)
    start = torch.tensor(U, requires_grad=True)

    def run():
        u = start
        for _ in range(STEPS):
            u = one(u)
        value = torch.sum(u * u)
        return value.detach(), torch.autograd.grad(value, start)[0]

    return run


def autograd():
    import autograd.numpy as anp
    from autograd import value_and_grad

    one = _step_with(anp.roll)

    def loss(u):
        for _ in range(STEPS):
            u = one(u)
        return anp.sum(u * u)

    step = value_and_grad(loss)
    return lambda: step(U)


WORKS = (
    Work(
        "jit-stencil",
        "value and gradient through 100 steps of a 256 x 256 stencil with np.roll, f32 (functrace "
        "and JAX jitted)",
        {
            "functrace": functrace,
            XLA: xla(functrace_scan),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
            "autograd": autograd,
        },
        (Target(0.7),),
        rtol=2e-4,
    ),
    Work(
        "jit-stencil-scan",
        "the same with the loop as a scan, as JAX has it in both",
        {"functrace": functrace_scan, "jax": jax},
        (Target(0.7),),
        rtol=2e-4,
    ),
)
