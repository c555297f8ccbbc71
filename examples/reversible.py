"""A reversible network
====================

A reversible network on real handwritten digits: its depth costs no memory, because backward
recomputes the inputs.

Blocks as in RevNet (Gomez et al. 2017): ``y1 = x1 + f(x2)``, ``y2 = x2 + g(y1)``, from which ``x2 =
y2 - g(y1)`` and ``x1 = y1 - f(x2)``. One ``autograd.Function`` holds all blocks: it saves the last
outputs only, and its backward walks back through the blocks, differentiating each by
``autograd.grad`` of its own. The plain network is the same without the Function.

The memory of one step is measured at several depths (tracemalloc sees NumPy's arrays), then the
network is trained. The program ends with an error if the two networks' gradients differ, if 64
blocks do not fit into a quarter of the plain network's memory, or if the held-out accuracy is below
96 %. Next to this file it leaves ``reversible.png``.

::

    python examples/reversible.py
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import functrace.torch as torch

WIDTH, BLOCKS, EPOCHS, BATCH, RATE, MOMENTUM = 48, 6, 20, 64, 0.03, 0.9
DEPTHS = (4, 16, 64)
WANTED = 0.96
PICTURE = Path(__file__).with_suffix(".png")


def residual(
    x: Float[torch.Tensor, "n width"],
    weight: Float[torch.Tensor, "width width"],
    bias: Float[torch.Tensor, "width"],
) -> Float[torch.Tensor, "n width"]:
    """Return the residual that one half of a block adds to the other half."""
    return torch.tanh(x @ weight + bias)


def blocks_forward(
    x1: Float[torch.Tensor, "n width"], x2: Float[torch.Tensor, "n width"], weights
) -> tuple[Float[torch.Tensor, "n width"], Float[torch.Tensor, "n width"]]:
    """Run all blocks; each has two weights and two biases, in a row."""
    for k in range(0, len(weights), 4):
        x1 = x1 + residual(x2, *weights[k : k + 2])
        x2 = x2 + residual(x1, *weights[k + 2 : k + 4])
    return x1, x2


def residual_and_gradients(x, weights, gradient):
    """Return the residual, and its gradients by x and by its weights."""
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_() for t in (x, *weights)]
        added = residual(*inputs)
        gradients = torch.autograd.grad(added, inputs, gradient)
    return added.detach(), gradients[0], gradients[1:]


class Reversible(torch.autograd.Function):
    """All blocks as one operation that saves only its outputs."""

    @staticmethod
    def forward(ctx, x1, x2, *weights):
        y1, y2 = blocks_forward(x1, x2, weights)
        ctx.save_for_backward(y1, y2, *weights)
        return y1, y2

    @staticmethod
    def backward(ctx, gradient1, gradient2):
        y1, y2, *weights = ctx.saved_tensors
        found = []
        for k in reversed(range(0, len(weights), 4)):
            added, by_y1, by_g = residual_and_gradients(y1, weights[k + 2 : k + 4], gradient2)
            y2, gradient1 = y2 - added, gradient1 + by_y1
            added, by_x2, by_f = residual_and_gradients(y2, weights[k : k + 2], gradient1)
            y1, gradient2 = y1 - added, gradient2 + by_x2
            found[:0] = [*by_f, *by_g]
        return gradient1, gradient2, *found


def reversible(x1, x2, weights):
    return Reversible.apply(x1, x2, *weights)


def initial_params(rng, depth, pixels, classes):
    """Return the first layer, the last layer, and the weights of the blocks."""

    def matrix(rows, columns, scale=1.0):
        return torch.tensor(
            scale * rng.normal(size=(rows, columns)) / np.sqrt(rows),
            dtype=torch.float32,
            requires_grad=True,
        )

    def zeros(columns):
        return torch.zeros(columns, requires_grad=True)

    weights = [t for _ in range(2 * depth) for t in (matrix(WIDTH, WIDTH, 0.5), zeros(WIDTH))]
    return matrix(pixels, 2 * WIDTH), matrix(2 * WIDTH, classes), weights


def loss(
    params, images: Float[torch.Tensor, "n pixels"], labels: Int[torch.Tensor, "n"], network
) -> Float[torch.Tensor, ""]:
    return torch.nn.functional.cross_entropy(scores(params, images, network), labels)


def scores(
    params, images: Float[torch.Tensor, "n pixels"], network
) -> Float[torch.Tensor, "n classes"]:
    first, last, weights = params
    x = images @ first
    return torch.cat(network(x[:, :WIDTH], x[:, WIDTH:], weights), dim=1) @ last


def step_memory(params, images, labels, network):
    """Return the gradients of one step, and the bytes that were in use at its peak beyond those
    before it.
    """
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    loss(params, images, labels, network).backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    leaves = [params[0], params[1], *params[2]]
    gradients = [p.grad for p in leaves]
    for p in leaves:
        p.grad = None
    return gradients, peak - before


def compare(rng, images, labels):
    """Measure both networks at each depth; returns the megabytes, and the largest difference of
    their gradients.
    """
    sizes, gap = {"plain": [], "reversible": []}, 0.0
    for depth in DEPTHS:
        params = initial_params(rng, depth, images.shape[1], 10)
        found = {}
        for name, network in (("plain", blocks_forward), ("reversible", reversible)):
            found[name], size = step_memory(params, images, labels, network)
            sizes[name].append(size / 1e6)
        gap = max(gap, *(float((a - b).abs().max()) for a, b in zip(*found.values(), strict=True)))
        print(
            f"{depth:3d} blocks: plain {sizes['plain'][-1]:6.1f} MB, reversible "
            f"{sizes['reversible'][-1]:5.1f} MB"
        )
    print(f"largest difference between the gradients: {gap:.1e}")
    return sizes, gap


def train(rng, images, labels, held_images, held_labels):
    """Train the reversible network by gradient descent with momentum; returns the held-out accuracy
    after each epoch.
    """
    first, last, weights = params = initial_params(rng, BLOCKS, images.shape[1], 10)
    leaves = [first, last, *weights]
    momenta = [torch.zeros_like(p) for p in leaves]
    curve = []
    epochs = tqdm(range(EPOCHS), desc="reversible", unit="epoch", mininterval=0.5)
    for epoch in epochs:
        rate = RATE * 0.5 * (1 + float(np.cos(np.pi * epoch / EPOCHS)))
        for batch in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
            rows = torch.from_numpy(batch)
            loss(params, images[rows], labels[rows], reversible).backward()
            with torch.no_grad():
                for p, m in zip(leaves, momenta, strict=True):
                    m.mul_(MOMENTUM).add_(p.grad)
                    p.sub_(rate * m)
                    p.grad = None
        with torch.no_grad():
            right = scores(params, held_images, reversible).argmax(dim=1) == held_labels
        curve.append(right.float().mean().item())
        epochs.set_postfix(held_out=f"{curve[-1]:.2%}", refresh=False)
    return curve


def draw(sizes, curve):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for name, megabytes in sizes.items():
        left.plot(DEPTHS, megabytes, "o-", label=name)
    left.set(xlabel="blocks", ylabel="memory of one step, MB", ylim=(0, None))
    left.legend()
    right.plot(range(1, EPOCHS + 1), curve)
    right.set(xlabel="epoch", ylabel="held-out accuracy")
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(0)
    pixels, numbers = load_digits(return_X_y=True)
    pixels, held_pixels, numbers, held_numbers = train_test_split(
        pixels / 16.0, numbers, test_size=0.2, stratify=numbers, random_state=0
    )
    images, held_images = (torch.tensor(x, dtype=torch.float32) for x in (pixels, held_pixels))
    labels, held_labels = torch.tensor(numbers), torch.tensor(held_numbers)

    sizes, gap = compare(rng, images, labels)
    begin = time.perf_counter()
    curve = train(rng, images, labels, held_images, held_labels)
    print(
        f"held-out accuracy {curve[-1]:.2%} after {EPOCHS} epochs in "
        f"{time.perf_counter() - begin:.1f} s"
    )
    draw(sizes, curve)
    if gap > 1e-4 or curve[-1] < WANTED or sizes["reversible"][-1] > 0.25 * sizes["plain"][-1]:
        print(
            f"expected equal gradients, a quarter of the memory and {WANTED:.0%}", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
