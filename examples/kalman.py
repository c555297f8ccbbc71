"""A Kalman smoother
=================

A Kalman smoother that is one gradient, on a hundred years of the Nile.

The data are the yearly flow of the Nile at Aswan (Cobb 1978, *Biometrika* 65), the level is a
random walk (Durbin & Koopman 2012, *Time Series Analysis by State Space Methods*, chapter 2). The
filter below is `ft.scan` over the years, and gives the likelihood; everything else comes from its
derivatives:

- its gradient by the two variances leads to the book's estimates of them,
- its Hessian there gives their standard errors,
- its gradient by the *observations* smooths: for Gaussian noise of variance r, E[level | all years]
  = y + r d log p(y) / dy (Tweedie's formula), and the Hessian by the observations gives the
  variances of all levels,
- the same function on incomplete data fills the gaps.

The smoother of the textbook, a pass backwards through the years, finds the same numbers. Next to
this file the program leaves ``kalman.png``.

::

    python examples/kalman.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from tqdm import tqdm

import functrace as ft

FLOW = np.array(
    [
        [
            1120,
            1160,
            963,
            1210,
            1160,
            1160,
            813,
            1230,
            1370,
            1140,
            995,
            935,
            1110,
            994,
            1020,
            960,
            1180,
            799,
            958,
            1140,
        ],
        [
            1100,
            1210,
            1150,
            1250,
            1260,
            1220,
            1030,
            1100,
            774,
            840,
            874,
            694,
            940,
            833,
            701,
            916,
            692,
            1020,
            1050,
            969,
        ],
        [
            831,
            726,
            456,
            824,
            702,
            1120,
            1100,
            832,
            764,
            821,
            768,
            845,
            864,
            862,
            698,
            845,
            744,
            796,
            1040,
            759,
        ],
        [
            781,
            865,
            845,
            944,
            984,
            897,
            822,
            1010,
            771,
            676,
            649,
            846,
            812,
            742,
            801,
            1040,
            860,
            874,
            848,
            890,
        ],
        [
            744,
            749,
            838,
            1050,
            918,
            986,
            797,
            923,
            975,
            815,
            1020,
            906,
            901,
            1170,
            912,
            746,
            919,
            718,
            714,
            740,
        ],
    ],
    dtype=float,
).ravel()  # 10^8 m^3 a year
YEARS = np.arange(1871, 1971)
PUBLISHED = {"noise": 15099.0, "drift": 1469.1}  # Durbin & Koopman 2012, section 2.10.3
PICTURE = Path(__file__).with_suffix(".png")


def filtered(
    flow: Float[ft.Array, "t"],
    seen: Bool[ft.Array, "t"],
    noise: Float[ft.Array, ""],
    drift: Float[ft.Array, ""],
) -> tuple[Float[ft.Array, ""], Float[ft.Array, "t"], Float[ft.Array, "t"]]:
    """Return log p(flow) of the years that were seen, given the first, and the mean and variance of
    every level so far.
    """

    def year(state, observation):
        (mean, variance), (y, is_seen) = state, observation
        variance = variance + drift
        total = variance + noise
        surprise = y - mean
        gain = np.where(is_seen, variance / total, 0.0)
        density = np.where(is_seen, -0.5 * (np.log(2 * np.pi * total) + surprise**2 / total), 0.0)
        state = (mean + gain * surprise, variance * (1 - gain))
        return state, (density, *state)

    first = (flow[0], noise)  # nothing is known before it
    _, (densities, means, variances) = ft.scan(year, first, (flow[1:], seen[1:]))
    return np.sum(densities), np.append(first[0], means), np.append(first[1], variances)


def log_likelihood(
    flow: Float[ft.Array, "t"],
    seen: Bool[ft.Array, "t"],
    noise: Float[ft.Array, ""],
    drift: Float[ft.Array, ""],
) -> Float[ft.Array, ""]:
    return filtered(flow, seen, noise, drift)[0]


def smoothed(flow, seen, noise, drift):
    """Return mean and variance of every level, given all years that were seen: derivatives of the
    likelihood.
    """
    slope = ft.grad(log_likelihood)(flow, seen, noise, drift)
    curvature = ft.hessian(log_likelihood)(flow, seen, noise, drift)
    return flow + noise * slope, noise + noise**2 * np.diag(curvature)


def smoothed_backwards(flow, seen, noise, drift):
    """Return the same by the backward pass of Rauch, Tung & Striebel (1965)."""
    _, mean, variance = filtered(flow, seen, noise, drift)
    mean, variance = mean.copy(), variance.copy()
    for t in range(len(flow) - 2, -1, -1):
        ahead = variance[t] + drift
        gain = variance[t] / ahead
        mean[t], variance[t] = (
            mean[t] + gain * (mean[t + 1] - mean[t]),
            variance[t] + gain**2 * (variance[t + 1] - ahead),
        )
    return mean, variance


def fit(flow, seen):
    """Return the most likely variances, their standard errors, and the likelihood there."""

    def objective(logarithms):
        return -log_likelihood(flow, seen, *np.exp(logarithms))

    with tqdm(desc="likelihoods", unit="call") as bar:
        value_and_grad = ft.jit(ft.value_and_grad(objective))

        def counted(logarithms):
            bar.update()
            return value_and_grad(logarithms)

        found = minimize(
            counted, np.log([1e4, 1e4]), jac=True, method="BFGS", options={"gtol": 1e-8}
        )
    variances = np.exp(found.x)
    information = ft.hessian(lambda v: -log_likelihood(flow, seen, v[0], v[1]))(variances)
    return variances, np.sqrt(np.diag(np.linalg.inv(information))), -found.fun


def draw(panels):
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(10, 7), layout="constrained", sharex=True, sharey=True
    )
    for panel, (title, seen, mean, variance) in zip(axes, panels, strict=True):
        width = 1.645 * np.sqrt(variance)
        panel.plot(YEARS[seen], FLOW[seen], ".", color="0.3", label="flow")
        panel.plot(YEARS, mean, color="tab:blue", label="level, given all years")
        panel.fill_between(
            YEARS, mean - width, mean + width, color="tab:blue", alpha=0.2, label="90 %"
        )
        panel.set(title=title, ylabel="10⁸ m³ a year")
        panel.legend(frameon=False, loc="upper right", ncols=3)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    everything = np.ones(len(FLOW), dtype=bool)
    (noise, drift), errors, likelihood = fit(FLOW, everything)
    print(f"log likelihood {likelihood:.2f}")
    for name, value, error in zip(PUBLISHED, (noise, drift), errors, strict=True):
        print(f"  variance of the {name}: {value:8.1f} ± {error:6.1f}, published {PUBLISHED[name]}")

    mean, variance = smoothed(FLOW, everything, noise, drift)
    other_mean, other_variance = smoothed_backwards(FLOW, everything, noise, drift)
    off = max(np.max(np.abs(mean / other_mean - 1)), np.max(np.abs(variance / other_variance - 1)))
    print(f"levels by the gradient, and by a pass backwards, differ by at most {off:.1e}")

    gaps = ~(((YEARS >= 1891) & (YEARS <= 1910)) | ((YEARS >= 1931) & (YEARS <= 1950)))
    gap_mean, gap_variance = smoothed_backwards(FLOW, gaps, noise, drift)
    outside = np.abs(FLOW - gap_mean)[~gaps] > 1.96 * np.sqrt(gap_variance + noise)[~gaps]
    by_gradient, _ = smoothed(FLOW, gaps, noise, drift)
    off = max(off, np.max(np.abs(by_gradient / gap_mean - 1)[gaps]))
    print(f"of 40 years that were hidden, {40 - outside.sum()} lie where 38 are expected")
    draw(
        [
            ("a hundred years of the Nile", everything, mean, variance),
            ("forty of them hidden", gaps, gap_mean, gap_variance),
        ]
    )

    published = np.array(list(PUBLISHED.values()))
    if (
        np.max(np.abs(np.array([noise, drift]) / published - 1)) > 1e-3
        or off > 1e-8
        or outside.sum() > 6
    ):
        print("the estimates are not the published ones, or the smoothers differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
