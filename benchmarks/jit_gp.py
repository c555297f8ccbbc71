"""jit-gp: the gradient of a Gaussian process's log marginal likelihood by its parameters, 500
points; compiled, warm.
"""

from __future__ import annotations

import numpy as np

from benchmarks.work import UN_JITTED, Target, Work

SIZE = 500
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, SIZE))
SQUARES = (X[:, None] - X) ** 2
Y = np.sin(X) + 0.1 * RNG.normal(size=SIZE)
EYE = np.eye(SIZE)
HYPER = np.array([0.1, -0.2, -1.5])  # logarithms of height, length and noise


def likelihood(xp, solve_triangular, squares, y, eye, hyper):
    height, length, noise = xp.exp(hyper)
    covariance = height**2 * xp.exp(-0.5 / length**2 * squares) + (noise**2 + 1e-8) * eye
    factor = xp.linalg.cholesky(covariance)
    white = solve_triangular(factor, y)
    return -0.5 * (white @ white) - xp.sum(xp.log(xp.diag(factor)))


def functrace(*, jitted: bool = True):
    import functrace as ft
    from functrace.scipy.linalg import solve_triangular

    def solve(factor, y):
        return solve_triangular(factor, y, lower=True)

    gradient = ft.grad(lambda hyper: likelihood(np, solve, SQUARES, Y, EYE, hyper))
    run = ft.jit(gradient) if jitted else gradient
    return lambda: run(HYPER)


def numpy():
    def gradient(hyper):
        height, length, noise = np.exp(hyper)
        smooth = height**2 * np.exp(-0.5 / length**2 * SQUARES)
        inverse = np.linalg.inv(smooth + (noise**2 + 1e-8) * EYE)
        weights = inverse @ Y
        slope = 0.5 * (np.outer(weights, weights) - inverse)
        scaled = slope * smooth
        return np.array(
            [
                2.0 * np.sum(scaled),
                np.sum(scaled * SQUARES) / length**2,
                2.0 * noise**2 * np.trace(slope),
            ]
        )

    return lambda: gradient(HYPER)


def jax():
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    jax.config.update("jax_enable_x64", True)

    def solve(factor, y):
        return solve_triangular(factor, y, lower=True)

    squares, y, eye, hyper = map(jnp.asarray, (SQUARES, Y, EYE, HYPER))
    gradient = jax.jit(jax.grad(lambda hyper: likelihood(jnp, solve, squares, y, eye, hyper)))
    return lambda: gradient(hyper).block_until_ready()


def torch():
    import torch

    def solve(factor, y):
        return torch.linalg.solve_triangular(factor, y[:, None], upper=False)[:, 0]

    squares, y, eye = map(torch.tensor, (SQUARES, Y, EYE))

    def gradient():
        hyper = torch.tensor(HYPER, requires_grad=True)
        return torch.autograd.grad(likelihood(torch, solve, squares, y, eye, hyper), hyper)

    return gradient


def autograd():
    import autograd.numpy as anp
    from autograd import grad
    from autograd.scipy.linalg import solve_triangular

    def solve(factor, y):
        return solve_triangular(factor, y, lower=True)

    slope = grad(lambda hyper: likelihood(anp, solve, SQUARES, Y, EYE, hyper))
    return lambda: slope(HYPER)


WORKS = (
    Work(
        "jit-gp",
        "jitted gradient of a GP's log marginal likelihood, n=500",
        {
            "functrace": functrace,
            UN_JITTED: lambda: functrace(jitted=False),
            "numpy": numpy,
            "jax": jax,
            "torch": torch,
            "autograd": autograd,
        },
        (Target(0.65, "jax"),),
    ),
)
