"""Memory of activations under saved-tensor hooks
==============================================

Saved-tensor hooks reduce the memory of the graph: half precision, compression, the disk, and
composition of hooks.

The network is a deep autoencoder of scikit-learn's scanned digits. One step runs without hooks and
under each of them. The table shows the bytes in memory for backward (tracemalloc sees NumPy's
arrays), the bytes on disk meanwhile, the time, and the difference of the gradients from those
without hooks. The last row recomputes by ``checkpoint``, for comparison.

A layer ends with ``where``, which saves a mask of one byte per number. ``torch.relu`` would save
its result, and the next product would save that again: without hooks this is one array, but hooks
are called for both (in PyTorch, too).

The program ends with an error if a lossless method changes any bit of the gradients, if half
precision changes them by more than one percent, or if a method saves less than it promises. Next to
this file it saves ``activation_memory.png``.

::

    python examples/activation_memory.py
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from sklearn.datasets import load_digits
from tqdm import tqdm

import functrace.torch as torch
from functrace.torch.autograd.graph import (
    compose,
    save_compressed,
    save_on_disk,
    saved_tensors_hooks,
)
from functrace.torch.utils.checkpoint import checkpoint

SIZES = (64, 256, 256, 128, 16, 128, 256, 256, 64)
PICTURE = Path(__file__).with_suffix(".png")


def initial_params(rng):
    params = []
    for n, m in itertools.pairwise(SIZES):
        weight = torch.tensor(
            rng.normal(size=(n, m)) * np.sqrt(2 / n), dtype=torch.float32, requires_grad=True
        )
        params += [weight, torch.zeros(m, requires_grad=True)]
    return params


def layers(
    x: Float[torch.Tensor, "n i"], *params: Float[torch.Tensor, "..."]
) -> Float[torch.Tensor, "n o"]:
    """Run layers; weights and biases alternate in the list."""
    for weight, bias in zip(params[::2], params[1::2], strict=True):
        y = x @ weight + bias
        x = torch.where(y > 0, y, 0.0)
    return x


def loss(
    params, images: Float[torch.Tensor, "n pixels"], recompute=False
) -> Float[torch.Tensor, ""]:
    """Return the mean squared error of the reconstructed pictures."""
    *hidden, weight, bias = params
    x = images
    for k in range(0, len(hidden), 6):
        three = hidden[k : k + 6]
        x = checkpoint(layers, x, *three, use_reentrant=False) if recompute else layers(x, *three)
    return ((x @ weight + bias - images) ** 2).mean()


def step(params, images, hooks, directory, recompute):
    """Run a step; returns the bytes held for backward, in memory and on disk, the peak, the time,
    and the gradients.
    """
    begin = time.perf_counter()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    with hooks:
        value = loss(params, images, recompute)
    held = tracemalloc.get_traced_memory()[0] - before
    on_disk = sum(file.stat().st_size for file in directory.iterdir())
    value.backward()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    seconds = time.perf_counter() - begin
    gradients = [p.grad.numpy() for p in params]
    for p in params:
        p.grad = None
    return held, on_disk, peak, seconds, gradients


def ways(directory):
    """Return by name: hooks, whether layers are recomputed, the share of bytes that may remain."""

    def half():
        return saved_tensors_hooks(
            lambda x: x.half() if x.dtype == torch.float32 else x.detach(),
            lambda x: x.float() if x.dtype == torch.float16 else x,
        )

    return {
        "no hooks": (contextlib.nullcontext(), False, 1.0),
        "half precision": (half(), False, 0.7),
        "compressed": (save_compressed(), False, 0.65),
        "on disk": (save_on_disk(directory), False, 0.1),
        "half, then on disk": (compose(half(), save_on_disk(directory)), False, 0.1),
        "recomputed": (contextlib.nullcontext(), True, 0.5),
    }


def draw(names, held, on_disk):
    """Save the bytes that each way holds for backward, in memory and on disk."""
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    axes.barh(names, held, label="in memory")
    axes.barh(names, on_disk, left=held, color="0.8", label="on disk")
    axes.set(title="what is held for backward", xlabel="MB")
    axes.invert_yaxis()
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(0)
    pixels, _ = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16.0, dtype=torch.float32)
    params = initial_params(rng)
    wrong, rows = [], []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        step(params, images, contextlib.nullcontext(), directory, False)  # warm up
        for way, (hooks, recompute, most) in tqdm(
            ways(directory).items(), desc="ways to save", mininterval=0.5
        ):
            rows.append((way, most, *step(params, images, hooks, directory, recompute)))
        left = list(directory.iterdir())

    _, _, whole, _, _, _, exact = rows[0]
    scale = max(np.abs(g).max() for g in exact)
    print(f"{'':20s}{'held':>9s}{'on disk':>9s}{'peak':>9s}{'time':>9s}   gradients differ by")
    for way, most, held, on_disk, peak, seconds, gradients in rows:
        gap = max(np.abs(a - b).max() for a, b in zip(gradients, exact, strict=True)) / scale
        megabytes = "".join(f"{size / 1e6:6.2f} MB" for size in (held, on_disk, peak))
        print(f"{way:20s}{megabytes}{1e3 * seconds:6.0f} ms   {gap:.1e}")
        if held > most * whole or gap > (1e-2 if "half" in way else 0.0):
            wrong.append(way)
    draw([row[0] for row in rows], [row[2] / 1e6 for row in rows], [row[3] / 1e6 for row in rows])
    if wrong or left:
        print(f"not as promised: {', '.join(wrong)}; files left: {left}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
