"""Smoke blown into a shape
========================

Blow smoke into a shape: a fluid simulation, optimised through its own time steps.

A bar of smoke floats in a periodic box of fluid. The initial motion is optimised to carry it, in 25
steps, into the shape of a nabla. The simulation is plain NumPy: semi-Lagrangian advection (Stam
1999), made free of divergence by FFT. `ft.value_and_grad` differentiates through all steps for
SciPy's L-BFGS-B. The gradient is compared with a difference of simulations. Next to this file the
program leaves ``fluid.png``.

::

    python examples/fluid.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize
from tqdm import tqdm

import functrace as ft

SIZE, STEPS, ITERATIONS = 48, 25, 100
PICTURE = Path(__file__).with_suffix(".png")

WAVES = np.stack(np.meshgrid(np.fft.fftfreq(SIZE), np.fft.rfftfreq(SIZE), indexing="ij"))
WAVES[np.abs(WAVES) == 0.5] = 0.0  # the highest wave has no derivative on the grid
SQUARED = np.sum(WAVES**2, axis=0)
SQUARED[SQUARED == 0] = 1.0
CELLS = np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")).astype(float)


def projected(velocity: Float[ft.Array, "2 n n"]) -> Float[ft.Array, "2 n n"]:
    """Return the part of a velocity field that is free of divergence."""
    spectrum = np.fft.rfft2(velocity)
    divergence = np.sum(WAVES * spectrum, axis=0)
    return np.fft.irfft2(spectrum - WAVES * divergence / SQUARED, s=(SIZE, SIZE))


def advected(
    fields: Float[ft.Array, "k n n"], velocity: Float[ft.Array, "2 n n"]
) -> Float[ft.Array, "k n n"]:
    """Return fields carried along: each cell takes what was where it came from, bilinearly
    interpolated.
    """
    came_from = CELLS - velocity
    corner = np.floor(came_from)
    u, v = came_from - corner
    i, j = corner.astype(int) % SIZE
    below, right = (i + 1) % SIZE, (j + 1) % SIZE
    return (
        (1 - u) * (1 - v) * fields[:, i, j]
        + (1 - u) * v * fields[:, i, right]
        + u * (1 - v) * fields[:, below, j]
        + u * v * fields[:, below, right]
    )


def simulate(
    velocity: Float[ft.Array, "2 n n"], smoke: Float[ft.Array, "n n"], each=None
) -> Float[ft.Array, "n n"]:
    """Return the smoke after all steps; every frame is given to ``each``, if there is one."""
    for _ in range(STEPS):
        velocity = projected(velocity)
        carried = advected(np.concatenate([velocity, smoke[None]]), velocity)
        velocity, smoke = carried[:2], carried[2]
        if each is not None:
            each(smoke)
    return smoke


def nabla_shape():
    """Return the wanted smoke: the outline of a triangle that stands on its tip."""
    rows, columns = (CELLS + 0.5) / SIZE
    depth = (rows - 0.25) / 0.5
    half = 0.3 * (1 - depth)
    edge = np.minimum.reduce([depth * 0.5, (half - np.abs(columns - 0.5)) * 0.857])
    return gaussian_filter(((edge > 0) & (edge < 0.09)).astype(float), 0.7)


def bar_shape(amount):
    """Return the smoke at the start: a bar across the middle, as much smoke as is wanted in the
    end.
    """
    bar = np.zeros((SIZE, SIZE))
    bar[SIZE // 2 - 4 : SIZE // 2 + 4, SIZE // 5 : -SIZE // 5] = 1.0
    bar = gaussian_filter(bar, 1.0)
    return bar * amount / bar.sum()


def draw(frames, target, losses, velocity):
    figure, axes = plt.subplots(2, 4, figsize=(13, 6.6), layout="constrained")
    shown = np.linspace(0, len(frames) - 1, 6).astype(int)
    for panel, k in zip(axes.flat, shown, strict=False):
        panel.imshow(frames[k], cmap="magma", vmin=0, vmax=1)
        panel.set(title=f"step {k}", xticks=[], yticks=[])
    coarse = (slice(None, None, 3), slice(None, None, 3))
    axes.flat[0].quiver(
        CELLS[1][coarse],
        CELLS[0][coarse],
        velocity[1][coarse],
        -velocity[0][coarse],
        color="w",
        width=0.004,
    )
    axes.flat[6].imshow(target, cmap="magma", vmin=0, vmax=1)
    axes.flat[6].set(title="wanted", xticks=[], yticks=[])
    axes.flat[7].semilogy(losses)
    axes.flat[7].set(title="mean squared difference", xlabel="simulation")
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    target = nabla_shape()
    smoke = bar_shape(target.sum())

    def loss(velocity: Float[ft.Array, "size"]) -> Float[ft.Array, ""]:
        return np.mean((simulate(velocity.reshape(2, SIZE, SIZE), smoke) - target) ** 2)

    start = np.zeros(2 * SIZE * SIZE)
    gradient = ft.jit(ft.value_and_grad(loss))
    losses = []
    with tqdm(desc="simulations", unit="simulation", mininterval=0.5) as bar:

        def objective(velocity):
            value, slope = gradient(velocity)
            losses.append(value)
            bar.update()
            return value, slope

        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxcor": 20},
        )

    direction = np.random.default_rng(0).normal(size=start.size) * 1e-6
    difference = (loss(found.x + direction) - loss(found.x - direction)) / 2
    slope = gradient(found.x)[1] @ direction
    velocity = projected(found.x.reshape(2, SIZE, SIZE))
    divergence = np.sum(WAVES * np.fft.rfft2(velocity), axis=0)
    frames = [smoke]
    simulate(velocity, smoke, frames.append)
    print(
        f"mean squared difference: {losses[0]:.4f} -> {found.fun:.5f} in {len(losses)} simulations"
    )
    print(f"gradient along a random direction: {slope:.6e}, by differences {difference:.6e}")
    draw(frames, target, losses, velocity)

    if (
        found.fun > 0.05 * losses[0]
        or abs(slope - difference) > 1e-4 * abs(slope)
        or np.abs(divergence).max() > 1e-9
    ):
        print("the smoke did not take the shape, or the gradient is wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
