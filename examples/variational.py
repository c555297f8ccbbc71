"""Variational inference
=====================

Variational inference of a model's weights on real data, checked by sampling.

The data are the 569 tumours that ship with scikit-learn. A logistic regression has 31 weights with
a normal prior; the posterior is approximated by a normal distribution with full covariance, found
by the gradient of the evidence lower bound through its samples (Kucukelbir et al. 2017, with the
reparameterisation of Kingma & Welling 2014): `ft.value_and_grad` over `ft.vmap`. Hamiltonian Monte
Carlo (Neal 2011), 32 chains at once by `ft.vmap(ft.grad(...))`, is slower and exact, and shows how
good the approximation is. Next to this file the program leaves ``variational.png``.

::

    python examples/variational.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import functrace as ft

DRAWS, CHAINS, SAMPLES, BURN_IN, LEAPS, LEAP = 512, 32, 150, 50, 6, 0.27
PICTURE = Path(__file__).with_suffix(".png")


def load():
    """Return features with a constant column, and labels -1 and 1, of two thirds of the tumours and
    of the others.
    """
    features, labels = load_breast_cancer(return_X_y=True)
    parts = train_test_split(
        features, 2.0 * labels - 1, test_size=1 / 3, random_state=0, stratify=labels
    )
    scaler = StandardScaler().fit(parts[0])
    x, held = [np.column_stack([np.ones(len(part)), scaler.transform(part)]) for part in parts[:2]]
    return x, parts[2], held, parts[3]


def log_joint(
    weights: Float[ft.Array, "d"], x: Float[ft.Array, "n d"], y: Float[ft.Array, "n"]
) -> Float[ft.Array, ""]:
    """Return log p(y, weights | x), up to a constant."""
    return -np.sum(np.logaddexp(0.0, -y * (x @ weights))) - 0.5 * np.sum(weights**2)


def lower_bound(
    mean: Float[ft.Array, "d"],
    scale: Float[ft.Array, "d d"],
    draws: Float[ft.Array, "draws d"],
    x: Float[ft.Array, "n d"],
    y: Float[ft.Array, "n"],
) -> Float[ft.Array, ""]:
    """Return the evidence lower bound of a normal distribution, up to a constant.

    Args:
        mean: of the distribution.
        scale: lower triangular: the Cholesky factor of the covariance, its diagonal as logarithms.
        draws: standard normal.
        x, y: features and labels.
    """
    factor = np.tril(scale, -1) + np.diag(np.exp(np.diag(scale)))
    each = ft.vmap(lambda draw: log_joint(mean + factor @ draw, x, y))(draws)
    return np.mean(each) + np.sum(np.diag(scale))


def fit(rng, x, y):
    """Return mean and Cholesky factor of the approximation, and the bound as it rose."""
    size = x.shape[1]
    rows, columns = np.tril_indices(size)
    half = rng.normal(size=(DRAWS // 2, size))
    draws = np.concatenate(
        [half, -half]
    )  # antithetic, and the same throughout: the bound is a smooth function

    def unpack(theta):
        scale = ft.numpy.zeros((size, size))
        scale[rows, columns] = theta[size:]
        return theta[:size], scale

    def objective(theta):
        return -lower_bound(*unpack(theta), draws, x, y)

    bounds = []
    gradient = ft.jit(ft.value_and_grad(objective))
    start = np.concatenate([np.zeros(size), np.where(rows == columns, -1.0, 0.0)])
    with tqdm(desc="lower bounds", unit="call", mininterval=0.5) as bar:

        def counted(theta):
            value, slope = gradient(theta)
            bounds.append(-value)
            bar.update()
            return value, slope

        found = minimize(counted, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    mean, scale = unpack(found.x)
    return mean, np.tril(scale, -1) + np.diag(np.exp(np.diag(scale))), bounds


def sample(rng, start, metric, x, y):
    """Return samples (n, chains, d) of the posterior by Hamiltonian Monte Carlo, and the share of
    moves accepted.

    Args:
        start: shape (chains, d).
        metric: shape (d, d): a guess at the Cholesky factor of the covariance; the chains move in
            coordinates it whitens.
    """

    def energy(position: Float[ft.Array, "d"]) -> Float[ft.Array, ""]:
        return -log_joint(metric @ position, x, y)

    energies = ft.jit(ft.vmap(energy))
    slopes = ft.jit(ft.vmap(ft.grad(energy)))
    position = np.linalg.solve(metric, start.T).T
    kept, accepted = [], 0.0
    for step in tqdm(
        range(BURN_IN + SAMPLES), desc=f"{CHAINS} chains", unit="move", mininterval=0.5
    ):
        momentum = rng.normal(size=position.shape)
        new, speed = position, momentum - 0.5 * LEAP * slopes(position)
        for leap in range(LEAPS):
            new = new + LEAP * speed
            speed = speed - (LEAP if leap < LEAPS - 1 else 0.5 * LEAP) * slopes(new)
        change = energies(position) - energies(new) + 0.5 * np.sum(momentum**2 - speed**2, axis=1)
        moved = np.log(rng.uniform(size=CHAINS)) < change
        position = np.where(moved[:, None], new, position)
        if step >= BURN_IN:
            kept.append(position @ metric.T)
            accepted += np.mean(moved) / SAMPLES
    return np.array(kept), accepted


def between_chains(samples):
    """Return the potential scale reduction of every weight (Gelman & Rubin 1992): 1 when chains
    agree.
    """
    within = np.mean(np.var(samples, axis=0, ddof=1), axis=0)
    between = np.var(np.mean(samples, axis=0), axis=0, ddof=1)
    return np.sqrt(1 - 1 / len(samples) + between / within)


def surprise(weights, x, y):
    """Return the mean of -log2 p(label), the weights averaged over: bits per tumour."""
    chances = np.mean(1 / (1 + np.exp(-y[:, None] * (x @ weights.T))), axis=1)
    return float(-np.mean(np.log2(chances)))


def draw(bounds, mean, deviation, samples):
    flat = samples.reshape(-1, samples.shape[-1])
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    axes[0].plot(bounds)
    axes[0].set(
        title="evidence lower bound",
        xlabel="gradient",
        ylim=(np.quantile(bounds, 0.1), max(bounds) + 2),
    )
    for panel, ours, theirs, what in [
        (axes[1], mean, flat.mean(axis=0), "means"),
        (axes[2], deviation, flat.std(axis=0), "standard deviations"),
    ]:
        panel.axline((ours[0], ours[0]), slope=1, color="0.7")
        panel.plot(theirs, ours, ".", color="tab:blue")
        panel.set(title=f"{what} of the weights", xlabel="sampled", ylabel="approximated")
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(0)
    x, y, held, held_labels = load()
    mean, factor, bounds = fit(rng, x, y)
    deviation = np.sqrt(np.sum(factor**2, axis=1))
    approximate = mean + rng.normal(size=(CHAINS * SAMPLES, len(mean))) @ factor.T
    samples, accepted = sample(rng, approximate[:CHAINS], factor, x, y)

    flat = samples.reshape(-1, len(mean))
    spread = flat.std(axis=0)
    mean_off = np.max(np.abs(mean - flat.mean(axis=0)) / spread)
    deviation_off = np.max(np.abs(deviation / spread - 1))
    reduction = np.max(between_chains(samples))
    single = minimize(
        lambda w: tuple(-v for v in ft.value_and_grad(log_joint)(w, x, y)),
        np.zeros(len(mean)),
        jac=True,
    ).x
    print(f"chains: {accepted:.0%} of moves accepted, scale reduction at most {reduction:.3f}")
    print(
        f"means differ by at most {mean_off:.2f} standard deviations, those by at most "
        f"{deviation_off:.0%}"
    )
    print("surprise per held-out tumour, in bits:")
    bits = {
        "most likely weights": surprise(single[None], held, held_labels),
        "variational": surprise(approximate, held, held_labels),
        "sampled": surprise(flat, held, held_labels),
    }
    for name, value in bits.items():
        print(f"  {name:<20} {value:.4f}")
    draw(bounds, mean, deviation, samples)

    good = (
        reduction < 1.1
        and mean_off < 0.35
        and deviation_off < 0.3
        and abs(bits["variational"] - bits["sampled"]) < 0.01
    )
    if not good:
        print("the approximation is far from the samples", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
