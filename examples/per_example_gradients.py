"""Gradients of single examples
============================

Gradients of every single example, by `vmap(grad(...))`: their norms, and clipping as in
differentially private training.

The data are scikit-learn's 569 breast-cancer biopsies. A logistic regression is trained with
clipped per-example gradients (Abadi et al. 2016, without the noise): no patient changes a step by
more than the clipping norm. The batched gradients are checked against a Python loop over the
examples. Next to this file the program leaves ``per_example_gradients.png``.

::

    python examples/per_example_gradients.py
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
from sklearn.datasets import load_breast_cancer

import functrace as ft

STEPS, RATE, CLIP = 150, 2.0, 0.5
PICTURE = Path(__file__).with_suffix(".png")


def loss(params, x: Float[ft.Array, "d"], y: Float[ft.Array, ""]) -> Float[ft.Array, ""]:
    """Return the logistic loss of one example; ``y`` is 1 or -1."""
    return np.logaddexp(0.0, -y * (x @ params["w"] + params["b"]))


per_example = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))


def norms(gradients):
    """Return the norm of every example's gradient, over all leaves together."""
    squares = [np.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in ft.tree.leaves(gradients)]
    return np.sqrt(sum(squares))


def clipped_mean(gradients):
    """Return the mean gradient after shortening every example's to at most `CLIP`."""
    factor = np.minimum(1.0, CLIP / np.maximum(norms(gradients), 1e-12))
    return ft.tree.map(lambda g: np.einsum("i,i...->...", factor, g) / len(factor), gradients)


def milliseconds(run):
    begin = time.perf_counter()
    result = run()
    return 1e3 * (time.perf_counter() - begin), result


def draw(scores, sizes, y):
    """Save the norm of every example's gradient over its score, and what clipping leaves of it."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for label, name in ((1.0, "benign"), (-1.0, "malignant")):
        axes.scatter(scores[y == label], sizes[y == label], s=12, label=name)
    axes.axhline(CLIP, color="0.5", linestyle=":", label="clipped to")
    axes.set(
        title="norm of every patient's gradient",
        xlabel="score (positive: called benign)",
        ylabel="norm",
        yscale="log",
    )
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    x, labels = load_breast_cancer(return_X_y=True)
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * labels - 1.0
    params = {"w": np.zeros(x.shape[1]), "b": 0.0}

    for _ in range(STEPS):
        step = clipped_mean(per_example(params, x, y))
        params = ft.tree.map(lambda p, g: p - RATE * g, params, step)
    right = float(np.mean(np.sign(x @ params["w"] + params["b"]) == y))
    print(f"{right:.1%} of {len(y)} biopsies are classified right after {STEPS} clipped steps")

    def loop():
        rows = [ft.grad(loss)(params, x[i], y[i]) for i in range(len(y))]
        return ft.tree.map(lambda *leaves: np.stack(leaves), *rows)

    per_example(params, x, y)
    batched_ms, batched = milliseconds(lambda: per_example(params, x, y))
    loop_ms, looped = milliseconds(loop)
    gap = max(
        np.max(np.abs(a - b))
        for a, b in zip(ft.tree.leaves(batched), ft.tree.leaves(looped), strict=True)
    )
    print(
        f"vmap(grad) {batched_ms:.2f} ms, loop of grad {loop_ms:.1f} ms, largest difference "
        f"{gap:.1e}"
    )

    size = norms(batched)
    print(
        f"gradient norms: median {np.median(size):.4f}, largest {size.max():.2f}; "
        f"{np.mean(size > CLIP):.1%} are clipped"
    )
    print("the examples that pull hardest:")
    for i in np.argsort(size)[::-1][:5]:
        score = x[i] @ params["w"] + params["b"]
        truth = "benign" if y[i] > 0 else "malignant"
        print(
            f"  patient {i:3d}: {truth:9s}, probability of benign {1 / (1 + np.exp(-score)):.3f}, "
            f"norm {size[i]:.2f}"
        )

    draw(x @ params["w"] + params["b"], size, y)
    largest = norms(ft.tree.map(lambda g: g[None], clipped_mean(batched)))[0]
    if gap > 1e-10 or right < 0.95 or largest > CLIP * (1 + 1e-9):
        print("vmap differs from the loop, or the training did not work", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
