"""A Gaussian process
==================

Fit a Gaussian process to real data by the gradient of its log marginal likelihood.

The data are scikit-learn's diabetes study: ten measurements of 442 patients, and how far the
disease was a year later. The kernel has a slope per measurement and a smooth part; SciPy's L-BFGS-B
maximises the likelihood of 200 patients with the gradient from `ft.value_and_grad`, through
`np.linalg.cholesky` and `np.linalg.solve`. The other patients are the test set. Next to this file
the program leaves ``gaussian_process.png``.

::

    python examples/gaussian_process.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes

import functrace as ft

ROWS = 200
PICTURE = Path(__file__).with_suffix(".png")


def kernel(params, a: Float[ft.Array, "n d"], b: Float[ft.Array, "m d"]) -> Float[ft.Array, "n m"]:
    """Return the covariance of f(a) and f(b): a linear part with a slope per column, plus a smooth
    one.
    """
    linear = (a * np.exp(2 * params["log_slope"])) @ b.T
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * (a @ b.T)
    return linear + np.exp(
        2 * params["log_height"] - 0.5 * squares * np.exp(-2 * params["log_scale"])
    )


def noisy_kernel(params, x: Float[ft.Array, "n d"]) -> Float[ft.Array, "n n"]:
    return kernel(params, x, x) + (np.exp(2 * params["log_noise"]) + 1e-8) * np.eye(len(x))


def negative_log_likelihood(
    params, x: Float[ft.Array, "n d"], y: Float[ft.Array, "n"]
) -> Float[ft.Array, ""]:
    """Return -log p(y | x), per observation (Rasmussen & Williams 2006, algorithm 2.1)."""
    covariance = noisy_kernel(params, x)
    white = np.linalg.solve(np.linalg.cholesky(covariance), y)
    _, log_det = np.linalg.slogdet(covariance)
    return 0.5 * (white @ white + log_det) / len(y) + 0.5 * np.log(2 * np.pi)


def posterior_mean(
    params, x: Float[ft.Array, "n d"], y: Float[ft.Array, "n"], new: Float[ft.Array, "m d"]
) -> Float[ft.Array, "m"]:
    return kernel(params, new, x) @ np.linalg.solve(noisy_kernel(params, x), y)


def rms(error):
    return float(np.sqrt(np.mean(error**2)))


def draw(names, slopes, predicted, measured):
    """Save what was predicted for held-out patients, and the slope that each measurement
    was given.
    """
    figure, (patients, columns) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    patients.scatter(predicted, measured, s=12)
    patients.plot([50, 300], [50, 300], color="0.5", linestyle=":")
    patients.set(title="held-out patients", xlabel="predicted", ylabel="measured a year later")
    columns.barh(names, slopes)
    columns.set(title="slopes of the kernel", xlabel="standard deviation of the slope")
    columns.invert_yaxis()
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    data = load_diabetes()
    features, target = data.data, data.target
    order = np.random.default_rng(0).permutation(len(target))
    train, test = order[:ROWS], order[ROWS:]
    center, spread = features[train].mean(axis=0), features[train].std(axis=0)
    features = (features - center) / spread
    mean, unit = target[train].mean(), target[train].std()
    x, y = features[train], (target[train] - mean) / unit

    start = {
        "log_slope": np.full(x.shape[1], -1.0),
        "log_height": -1.0,
        "log_scale": 1.0,
        "log_noise": 0.0,
    }
    leaves, treedef = ft.tree.flatten(start)
    splits = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]

    def unpack(theta):
        parts = np.split(theta, splits)
        return ft.tree.unflatten(
            treedef, [np.reshape(p, np.shape(leaf)) for p, leaf in zip(parts, leaves, strict=True)]
        )

    def objective(theta):
        return negative_log_likelihood(unpack(theta), x, y)

    theta = np.concatenate([np.ravel(leaf) for leaf in leaves])
    begin = time.perf_counter()
    fit = minimize(
        ft.value_and_grad(objective),
        theta,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-4.0, 6.0)] * len(theta),
    )
    seconds = time.perf_counter() - begin

    before, after = -objective(theta), -fit.fun
    print(f"log marginal likelihood per patient: {before:.4f} before, {after:.4f} after")
    print(f"{fit.nit} iterations, {fit.nfev} gradients in {seconds:.1f} s ({fit.message})")

    def held_out(params):
        return rms(target[test] - mean - unit * posterior_mean(params, x, y, features[test]))

    design = np.column_stack([np.ones(ROWS), x])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    linear = rms(
        target[test]
        - mean
        - unit * (np.column_stack([np.ones(len(test)), features[test]]) @ weights)
    )
    constant, fitted = rms(target[test] - mean), held_out(unpack(fit.x))
    print(f"held-out error (RMS, {len(test)} patients):")
    print(f"  predicting the mean         {constant:6.2f}")
    print(f"  least squares               {linear:6.2f}")
    print(f"  Gaussian process, as begun  {held_out(unpack(theta)):6.2f}")
    print(f"  Gaussian process, fitted    {fitted:6.2f}")

    fitted_params = unpack(fit.x)
    predicted = mean + unit * posterior_mean(fitted_params, x, y, features[test])
    draw(data.feature_names, np.exp(fitted_params["log_slope"]), predicted, target[test])
    if not (after > before + 0.01 and fitted < 0.85 * constant):
        print(
            "the fit did not improve the likelihood, or is hardly better than the mean",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
