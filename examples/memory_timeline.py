"""A deep network under a fifth of its memory
=============================================

``memory_plan`` predicts the memory of a gradient, operation by operation; ``checkpoint`` reduces it.

The network has 64 layers. Its gradient keeps an activation per layer. With nested checkpoints (four
parts of four parts of four layers) it keeps twelve, and runs the layers up to three times more. The
gradients are the same to the bit. The picture has both timelines; the table compares predicted and
measured peaks (tracemalloc sees NumPy's arrays).

The program ends with an error if the peak is not under a fifth, if a prediction is not within ten
percent of what is measured, or if gradients differ. Next to this file it saves
``memory_timeline.png``.

::

    python examples/memory_timeline.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from tqdm import tqdm

import functrace as ft

PARTS, WIDTH, EXAMPLES = 4, 32, 4096
PICTURE = Path(__file__).with_suffix(".png")


def layers(ws, x: Float[ft.Array, "n d"], wrap) -> Float[ft.Array, "n d"]:
    """Run layers; ``wrap`` is applied to each of the four parts, and to their parts."""
    if len(ws) == 1:
        return np.tanh(x @ ws[0])
    size = len(ws) // PARTS
    for k in range(0, len(ws), size):
        x = wrap(lambda part, x: layers(part, x, wrap))(ws[k : k + size], x)
    return x


def plain(ws, x):
    return np.mean(layers(ws, x, lambda part: part) ** 2)


def checkpointed(ws, x):
    return np.mean(layers(ws, x, ft.checkpoint) ** 2)


def draw(plans):
    """Save the timelines, one below the other, on one scale."""
    figure, axes = plt.subplots(
        len(plans), sharey=True, figsize=(8, 2.6 * len(plans)), layout="constrained"
    )
    for axis, (name, plan) in zip(axes, plans.items(), strict=True):
        index = np.array([point.index for point in plan.points])
        live = np.array([point.nbytes for point in plan.points]) / 1e6
        is_backward = np.array([point.phase == "backward" for point in plan.points])
        for phase, chosen in (("forward", ~is_backward), ("backward", is_backward)):
            axis.bar(index[chosen], live[chosen], width=1.0, label=phase)
        axis.set(title=f"{name}: at most {plan.peak_bytes / 1e6:.1f} MB", ylabel="live MB")
    axes[-1].set_xlabel("operation")
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    rng = np.random.default_rng(0)
    ws = [rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH) for _ in range(PARTS**3)]
    x = rng.normal(size=(EXAMPLES, WIDTH))
    checks, gradients = {}, []
    for loss in tqdm([plain, checkpointed], desc="gradients", mininterval=0.5):
        call = ft.jit(ft.grad(loss))
        checks[loss.__name__] = ft.testing.check_memory(call, [ws, x], most="1 GB")
        gradients.append(call(ws, x))
    print(f"{'':14s}{'predicted':>12s}{'measured':>12s}")
    for name, found in checks.items():
        print(f"{name:14s}{found.predicted / 1e6:9.2f} MB{found.measured / 1e6:9.2f} MB")
    print(f"\n{checks['checkpointed'].plan}")
    draw({name: found.plan for name, found in checks.items()})
    wrong = [
        name
        for name, found in checks.items()
        if abs(found.predicted - found.measured) > 0.1 * found.measured
    ]
    if checks["checkpointed"].measured > 0.2 * checks["plain"].measured:
        wrong.append("more than a fifth")
    if not all(np.array_equal(a, b) for a, b in zip(*gradients, strict=True)):
        wrong.append("other gradients")
    if wrong:
        print(f"not as promised: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
