"""A NaN hunted down
=================

A map of handwritten digits, whose gradient is NaN: the line that makes it, and the cure.

The map places 150 digits (scikit-learn's, 8 × 8 pixels) in the plane so that their distances there
are those between their pixels (multidimensional scaling). The loss is finite, but its gradient is
not: on the diagonal, a distance is ``sqrt(0)``, whose derivative is infinite, and a mask makes it
``0 * inf``. `ft.config(check_nans=True)` stops at the line, `ft.debug.explain_nan` shows the element
and the derivative, and `ft.strong_zero` keeps the zero cotangent zero.

A second bug is quiet: in float32, a squared distance by ``|x|² + |y|² - 2xy`` is wrong for digits
that are alike. `ft.debug.precision` finds that line, too. Next to this file the program leaves
``nan_hunt.png``.

::

    python examples/nan_hunt.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from sklearn.datasets import load_digits
from tqdm import tqdm

import functrace as ft

COUNT, STEPS, RATE = 150, 300, 0.25
PICTURE = Path(__file__).with_suffix(".png")


def distances(places: Float[ft.Array, "n d"]) -> Float[ft.Array, "n n"]:
    """Return the distances between all places."""
    apart = places[:, None, :] - places[None, :, :]
    squares = np.sum(apart**2, axis=-1)
    lengths = np.sqrt(squares)
    return np.where(np.eye(len(places)) == 1, 0.0, lengths)


def stress(places: Float[ft.Array, "n 2"], wanted: Float[ft.Array, "n n"]) -> Float[ft.Array, ""]:
    """Return the mean square of how far distances are from the wanted ones."""
    return np.mean((distances(places) - wanted) ** 2)


def quick_square(x: Float[ft.Array, "d"], y: Float[ft.Array, "d"]) -> Float[ft.Array, ""]:
    """Return a squared distance by products, which many share between pairs."""
    squares = x @ x + y @ y
    return squares - 2 * (x @ y)


def hunt(places, wanted):
    """Find the line that makes the gradient NaN; return the report."""
    gradient = ft.grad(stress)
    print(f"stress {stress(places, wanted):.3f}, its gradient {gradient(places, wanted)[0]}")
    try:
        with ft.config(check_nans=True):
            gradient(places, wanted)
    except ft.errors.NanError as error:
        print(f"\ncheck_nans: {error}\n")
    report = ft.debug.explain_nan(gradient)(places, wanted)
    print(report)
    return report


def descend(places, wanted):
    """Move the places down the gradient; return them, and the stress as it fell."""
    step = ft.jit(ft.value_and_grad(ft.strong_zero(lambda places: stress(places, wanted))))
    fell = []
    for _ in tqdm(range(STEPS), desc="steps", unit="step"):
        value, slope = step(places)
        fell.append(value)
        places = places - RATE * len(places) * slope
    return places, fell


def draw(start, places, labels, fell):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    for ax, where, title in [(axes[0], start, "at random"), (axes[2], places, "the map")]:
        for digit in range(10):
            x, y = where[labels == digit].T
            ax.scatter(x, y, marker=f"${digit}$", color=plt.cm.tab10(digit), s=40)
        ax.set(title=title, xticks=[], yticks=[], aspect="equal")
    axes[1].semilogy(fell)
    axes[1].set(title="stress", xlabel="step")
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    pixels, labels = load_digits(return_X_y=True)
    pixels, labels = pixels[:COUNT] / 16.0, labels[:COUNT]
    wanted = distances(pixels)
    start = np.random.default_rng(0).normal(size=(COUNT, 2))

    with np.errstate(divide="ignore", invalid="ignore"):
        report = hunt(start, wanted)
        places, fell = descend(start, wanted)
    print(f"\nstress {fell[0]:.3f} -> {fell[-1]:.3f} in {STEPS} steps")
    draw(start, places, labels, fell)

    def safe(places):  # the same distances, with an operand under the root that is never 0
        apart = places[:, None, :] - places[None, :, :]
        same = np.eye(COUNT) == 1
        lengths = np.sqrt(np.where(same, 1.0, np.sum(apart**2, axis=-1)))
        return np.mean((np.where(same, 0.0, lengths) - wanted) ** 2)

    cured = ft.grad(ft.strong_zero(lambda places: stress(places, wanted)))
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.max(np.abs(cured(places) - ft.grad(safe)(places)))
    print(f"strong_zero and a second np.where differ by {off:.1e}")

    digit = pixels[0].astype(np.float32)
    lost = ft.debug.precision(quick_square)(digit, digit + np.float32(1e-3))
    plain = ft.debug.precision(lambda x, y: np.sum((x - y) ** 2))(digit, digit + np.float32(1e-3))
    print(f"\na squared distance of digits that are alike, in float32:\n{lost}\n")
    print(f"as a sum of squared differences it loses {plain.lost:.1f} digits")

    found = report.first
    is_found = found is not None and found.source.expression == "lengths = np.sqrt(squares)"
    if not is_found or off > 1e-12 or fell[-1] > 0.5 * fell[0] or lost.lost < 3 or plain.lost > 2:
        print("the NaN is not found, or not cured", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
