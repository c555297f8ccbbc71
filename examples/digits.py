"""Handwritten digits
==================

Train a two-layer network on real handwritten digits, without a compiler and without a framework.

The data are the 1,797 scanned digits that ship with scikit-learn. The network is plain NumPy, Adam
is a few `tree.map` over the pytree of parameters, and `ft.value_and_grad` gives the derivative. The
program ends with an error if the held-out accuracy is below 97 %. Next to this file it leaves
``digits.png``: the learning curve and digits that were misread.

::

    python examples/digits.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import functrace as ft

EPOCHS, BATCH, HIDDEN, RATE, DECAY, SMOOTH = 60, 64, 128, 3e-3, 1e-4, 0.05
WANTED = 0.97
PICTURE = Path(__file__).with_suffix(".png")


def layer(params, x: Float[ft.Array, "n i"]) -> Float[ft.Array, "n o"]:
    return x @ params["w"] + params["b"]


def predict(params, images: Float[ft.Array, "n pixels"]) -> Float[ft.Array, "n classes"]:
    """Return the log-probability of every class, one row per image."""
    scores = layer(params["out"], np.tanh(layer(params["hidden"], images)))
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def loss(
    params, images: Float[ft.Array, "n pixels"], wanted: Float[ft.Array, "n classes"]
) -> Float[ft.Array, ""]:
    """Return the cross entropy with the wanted probabilities, and a small penalty on the
    weights.
    """
    penalty = sum(np.sum(p["w"] ** 2) for p in params.values())
    return -np.mean(np.sum(wanted * predict(params, images), axis=1)) + DECAY * penalty


def accuracy(params, images: Float[ft.Array, "n pixels"], labels: Int[ft.Array, "n"]) -> float:
    return float(np.mean(np.argmax(predict(params, images), axis=1) == labels))


def initial_params(rng, pixels, classes):
    def dense(n, m):
        return {"w": rng.normal(size=(n, m)) / np.sqrt(n), "b": np.zeros(m)}

    return {"hidden": dense(pixels, HIDDEN), "out": dense(HIDDEN, classes)}


def adam(params, gradient, state, rate, b1=0.9, b2=0.999, eps=1e-8):
    """Return the parameters and the state after one step (Kingma & Ba 2015, algorithm 1)."""
    step, mean, square = state
    step += 1
    mean = ft.tree.map(lambda m, g: b1 * m + (1 - b1) * g, mean, gradient)
    square = ft.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, square, gradient)
    size = rate * np.sqrt(1 - b2**step) / (1 - b1**step)
    params = ft.tree.map(lambda p, m, v: p - size * m / (np.sqrt(v) + eps), params, mean, square)
    return params, (step, mean, square)


def train(rng, params, images, labels, held_images, held_labels):
    """Return trained parameters and the history: (loss, training accuracy, held-out accuracy) of
    every epoch.
    """
    classes = labels.max() + 1
    wanted = np.eye(classes)[labels] * (1 - SMOOTH) + SMOOTH / classes
    zeros = ft.tree.map(np.zeros_like, params)
    state, history = (0, zeros, zeros), []
    epochs = tqdm(range(EPOCHS), desc="digits", unit="epoch", mininterval=0.5)
    for epoch in epochs:
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        losses = []
        for batch in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
            value, gradient = ft.value_and_grad(loss)(params, images[batch], wanted[batch])
            params, state = adam(params, gradient, state, rate)
            losses.append(value)
        seen, held = accuracy(params, images, labels), accuracy(params, held_images, held_labels)
        history.append((float(np.mean(losses)), seen, held))
        epochs.set_postfix(loss=f"{history[-1][0]:.4f}", held_out=f"{held:.2%}", refresh=False)
    return params, history


def draw(history, params, images, labels):
    """Save the learning curve and up to ten misread digits of the held-out ones."""
    guesses = np.argmax(predict(params, images), axis=1)
    wrong = np.flatnonzero(guesses != labels)[:10]
    losses, seen, held = np.transpose(history)
    epochs = np.arange(1, len(history) + 1)

    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])
    axes = left.subplots()
    axes.plot(epochs, 1 - seen, color="tab:blue", label="error, training digits")
    axes.plot(epochs, 1 - held, color="tab:orange", label="error, held-out digits")
    axes.plot(epochs, losses, color="0.6", label="training loss")
    axes.axhline(1 - WANTED, color="0.3", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="epoch",
        ylabel="share misread, or loss",
        yscale="log",
        title=f"learning curve: {held[-1]:.2%} of held-out digits are read right",
    )
    axes.legend(frameon=False)
    right.suptitle(f"misread: {np.sum(guesses != labels)} of {len(labels)}")
    for k, panel in enumerate(right.subplots(2, 5).flat):
        panel.axis("off")
        if k < len(wrong):
            panel.imshow(images[wrong[k]].reshape(8, 8), cmap="gray_r")
            panel.set_title(f"{labels[wrong[k]]} read as {guesses[wrong[k]]}", fontsize=9)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def show_gradient_program():
    """Print the gradient of one small layer as NumPy source."""

    def small_layer(w, b, x):
        return np.sum(np.tanh(x @ w + b) ** 2)

    w, b, x = np.ones((3, 2)), np.zeros(2), np.ones((4, 3))
    print("\nThe gradient of sum(tanh(x @ w + b) ** 2) for w and b, as NumPy:\n")
    print(ft.trace(ft.grad(small_layer, argnums=(0, 1)))(w, b, x).as_python())


def main() -> int:
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    images, held_images, labels, held_labels = train_test_split(
        images / 16.0, labels, test_size=0.2, stratify=labels, random_state=0
    )
    params = initial_params(rng, images.shape[1], labels.max() + 1)
    begin = time.perf_counter()
    params, history = train(rng, params, images, labels, held_images, held_labels)
    seconds = time.perf_counter() - begin
    draw(history, params, held_images, held_labels)
    show_gradient_program()
    held = history[-1][2]
    steps = EPOCHS * (len(images) // BATCH)
    print(
        f"held-out accuracy {held:.2%} after {steps} steps in {seconds:.1f} s; picture: {PICTURE}"
    )
    if held < WANTED:
        print(f"that is less than {WANTED:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
