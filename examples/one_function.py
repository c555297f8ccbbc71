"""One autograd.Function, two ways to train
========================================

One ``autograd.Function``, trained twice: as PyTorch's users do, by ``backward()``, and by
``functrace.value_and_grad``.

The Function is a swish that saves only its input and recomputes the rest. The network classifies
scikit-learn's 569 breast-cancer biopsies. The first loop uses tensors, calls ``backward()`` and
writes into the parameters; the second uses NumPy arrays in a dict and calls a transform of the same
lines. Both have the same losses. Finally, a feature of the transform only: the gradient of each
single biopsy, by ``ft.vmap``.

The program ends with an error if the losses differ, or if the accuracy is below 97 %. Next to this
file it saves ``one_function.png``.

::

    python examples/one_function.py
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
from tqdm import tqdm

import functrace as ft
import functrace.torch as torch

STEPS, RATE, HIDDEN = 200, 0.5, 16
PICTURE = Path(__file__).with_suffix(".png")


class Swish(torch.autograd.Function):
    """``x * sigmoid(x)``, which keeps x."""

    @staticmethod
    def forward(x):
        return x / (1 + (-x).exp())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = 1 / (1 + (-x).exp())
        return gradient * s * (1 + x * (1 - s))


def scores(params, x: Float[torch.Tensor | ft.Array, "n d"]) -> Float[torch.Tensor | ft.Array, "n"]:
    """Return a number per row, positive for benign; of tensors and of arrays."""
    return (Swish.apply(x @ params["hidden"] + params["bias"]) @ params["out"]).reshape(-1)


def by_backward(initial, x, y):
    """Train as in PyTorch."""
    params = {name: torch.tensor(p, requires_grad=True) for name, p in initial.items()}
    x, y = torch.tensor(x), torch.tensor(y)
    losses = []
    for _ in tqdm(range(STEPS), desc="backward()", unit="step", mininterval=0.5):
        loss = torch.logaddexp(torch.zeros_like(y), -y * scores(params, x)).mean()
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for p in params.values():
                p.sub_(RATE * p.grad)
                p.grad = None
    return losses, {name: p.detach().numpy() for name, p in params.items()}


def loss_of_arrays(
    params, x: Float[ft.Array, "n d"], y: Float[ft.Array, "*n"]
) -> Float[ft.Array, ""]:
    return np.mean(np.logaddexp(0.0, -y * scores(params, x)))


def by_transform(initial, x, y):
    """Train as in functrace."""
    params, losses = initial, []
    loss_and_gradient = ft.value_and_grad(loss_of_arrays)
    for _ in tqdm(range(STEPS), desc="ft.value_and_grad", unit="step", mininterval=0.5):
        loss, gradient = loss_and_gradient(params, x, y)
        losses.append(float(loss))
        params = ft.tree.map(lambda p, g: p - RATE * g, params, gradient)
    return losses, params


def draw(losses, others, sizes):
    """Save both learning curves, one above the other, and the norms of the gradients of single
    biopsies.
    """
    figure, (curves, singles) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    curves.plot(losses, linewidth=5, color="0.8", label="backward()")
    curves.plot(others, linewidth=1.5, label="ft.value_and_grad")
    curves.set(title="one Function, two ways to train", xlabel="step", ylabel="loss", yscale="log")
    curves.legend(frameon=False)
    singles.plot(np.sort(sizes)[::-1])
    singles.set(
        title="gradients of single biopsies",
        xlabel="biopsies, the largest first",
        ylabel="norm",
        yscale="log",
    )
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(0)
    x, labels = load_breast_cancer(return_X_y=True)
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * labels - 1.0
    initial = {
        "hidden": rng.normal(size=(x.shape[1], HIDDEN)) / np.sqrt(x.shape[1]),
        "bias": np.zeros(HIDDEN),
        "out": rng.normal(size=(HIDDEN, 1)) / np.sqrt(HIDDEN),
    }
    results = []
    for train in (by_backward, by_transform):
        begin = time.perf_counter()
        losses, params = train(initial, x, y)
        results.append((losses, params))
        milliseconds = 1e3 * (time.perf_counter() - begin) / STEPS
        print(
            f"{train.__name__:13s} loss {losses[0]:.12f} -> {losses[-1]:.12f}, {milliseconds:.2f} "
            "ms per step"
        )
    (losses, _), (others, params) = results
    gap = max(abs(a - b) for a, b in zip(losses, others, strict=True))
    right = float(np.mean(np.sign(scores(params, x)) == y))
    print(
        f"largest difference of {STEPS} losses: {gap:.1e}; {right:.1%} of {len(y)} biopsies are "
        "told apart"
    )

    single = ft.vmap(ft.grad(lambda p, x, y: loss_of_arrays(p, x[None], y)), in_axes=(None, 0, 0))(
        params, x, y
    )
    sizes = np.sqrt(sum(np.sum(g.reshape(len(y), -1) ** 2, axis=1) for g in ft.tree.leaves(single)))
    whole = ft.grad(loss_of_arrays)(params, x, y)
    apart = max(
        np.abs(np.mean(a, axis=0) - b).max()
        for a, b in zip(ft.tree.leaves(single), ft.tree.leaves(whole), strict=True)
    )
    print(
        f"biopsy {sizes.argmax()} pulls hardest: {sizes.max():.2f}, the median is "
        f"{np.median(sizes):.4f}"
    )
    draw(losses, others, sizes)
    if gap > 1e-10 or right < 0.97 or apart > 1e-10:
        print(
            "expected the same losses, 97 %, and single gradients whose mean is the whole one",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
