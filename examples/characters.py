"""A transformer on characters
===========================

A language model of characters, trained on a real text: a transformer in plain NumPy.

The text is the reference that ships with Python (`pydoc_data.topics`, some 450,000 characters). A
causal convolution and two layers of attention (Vaswani et al. 2017) read 48 characters and predict
each next one: `ft.jit(ft.value_and_grad(loss))` and Adam. The model has to beat an n-gram model on
held-out text. Next to this file the program saves ``characters.png``: the learning curve, and the
attention weights.

::

    python examples/characters.py            # half a minute; pass a number of steps for more
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from tqdm import tqdm

import functrace as ft

STEPS, BATCH, CONTEXT, WIDTH, HEADS, LAYERS, NEAR, RATE = 500, 16, 48, 64, 4, 2, 4, 1e-2
PICTURE = Path(__file__).with_suffix(".png")


# sphinx_gallery_thumbnail_path = "_static/characters.png"


def load():
    """Return the text as numbers, training part and held-out part, and the table of characters."""
    names = sorted(topics)
    parts = [
        "\n".join(topics[name] for k, name in enumerate(names) if (k % 15 == 7) is held)
        for held in (False, True)
    ]
    common = [c for c, count in sorted(Counter("".join(parts)).items()) if count > 20]
    numbers = {c: k for k, c in enumerate(common)}
    seen, held = [np.array([numbers.get(c, numbers[" "]) for c in part]) for part in parts]
    return seen, held, common


def initial_params(rng, characters):
    def dense(n, m, scale=1.0):
        return scale * rng.normal(size=(n, m)).astype(np.float32) / np.float32(np.sqrt(n))

    def block():
        return {
            "attend": dense(WIDTH, 3 * WIDTH),
            "mix": dense(WIDTH, WIDTH, 0.3),
            "wide": dense(WIDTH, 4 * WIDTH),
            "narrow": dense(4 * WIDTH, WIDTH, 0.3),
        }

    return {
        "characters": dense(1, characters * WIDTH).reshape(characters, WIDTH),
        "places": dense(1, CONTEXT * WIDTH).reshape(CONTEXT, WIDTH) * np.float32(0.3),
        "near": dense(NEAR * WIDTH, WIDTH),
        "blocks": [block() for _ in range(LAYERS)],
        "out": dense(WIDTH, characters, 0.3),
    }


def normalized(x: Float[ft.Array, "*rows width"]) -> Float[ft.Array, "*rows width"]:
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-5))


def attention(
    block, x: Float[ft.Array, "batch n width"]
) -> tuple[Float[ft.Array, "batch n width"], Float[ft.Array, "batch heads n n"]]:
    """Return causal attention, and its weights."""
    batch, count, _ = x.shape
    parts = (
        (x @ block["attend"])
        .reshape(batch, count, 3, HEADS, WIDTH // HEADS)
        .transpose(2, 0, 3, 1, 4)
    )
    asks, offers, values = parts[0], parts[1], parts[2]
    scores = asks @ offers.swapaxes(-1, -2) * np.float32((WIDTH // HEADS) ** -0.5)
    scores = np.where(np.tri(count, dtype=bool), scores, np.float32(-1e9))
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = weights / np.sum(weights, axis=-1, keepdims=True)
    return (weights @ values).transpose(0, 2, 1, 3).reshape(batch, count, WIDTH) @ block[
        "mix"
    ], weights


def predict(
    params, codes: Int[ft.Array, "batch n"], looks=None
) -> Float[ft.Array, "batch n characters"]:
    """Return log p(next character) at every place."""
    count = codes.shape[1]
    embedded = np.pad(params["characters"][codes], ((0, 0), (NEAR - 1, 0), (0, 0)))
    near = np.concatenate([embedded[:, k : k + count] for k in range(NEAR)], axis=-1)
    x = near @ params["near"] + params["places"][:count]
    for block in params["blocks"]:
        read, weights = attention(block, normalized(x))
        if looks is not None:
            looks.append(weights)
        x = x + read
        x = x + np.maximum(normalized(x) @ block["wide"], 0) @ block["narrow"]
    scores = normalized(x) @ params["out"]
    scores = scores - np.max(scores, axis=-1, keepdims=True)
    return scores - np.log(np.sum(np.exp(scores), axis=-1, keepdims=True))


def loss(params, codes: Int[ft.Array, "batch n"]) -> Float[ft.Array, ""]:
    """Return the cross entropy of the characters 1, 2, ... of every row, in bits."""
    logarithms = predict(params, codes[:, :-1])
    return -np.mean(np.take_along_axis(logarithms, codes[:, 1:, None], axis=2)) / np.float32(
        np.log(2)
    )


def rows(text, starts):
    return text[starts[:, None] + np.arange(CONTEXT + 1)]


def counted_bits(seen, held, characters, order):
    """Return bits per held-out character of a smoothed n-gram model."""
    chance = np.full(len(held) - order, 1 / characters)
    for n in range(order + 1):
        powers = characters ** np.arange(n + 1, dtype=np.int64)[::-1]

        def windows(text, n=n, powers=powers):
            return np.convolve(text, powers[::-1], "valid").astype(np.int64) if n else text

        grams, counts = np.unique(windows(seen), return_counts=True)
        contexts, totals = np.unique(windows(seen) // characters, return_counts=True)
        wanted = windows(held)[order - n :]

        def found(keys, values, asked):
            place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
            return np.where(keys[place] == asked, values[place], 0)

        total = found(contexts, totals, wanted // characters)
        strength = 3.0
        chance = (found(grams, counts, wanted) + strength * chance) / (total + strength)
    return float(-np.mean(np.log2(chance)))


def train(rng, text, held, characters, steps):
    """Return trained parameters, and (step, training bits, held-out bits) along the way."""
    params = initial_params(rng, characters)
    value_and_grad, evaluate = ft.jit(ft.value_and_grad(loss)), ft.jit(loss)
    mean = ft.tree.map(np.zeros_like, params)
    square = ft.tree.map(np.zeros_like, params)
    tests = rows(held, np.arange(0, len(held) - CONTEXT - 1, CONTEXT))
    history, bits = [], []
    bar = tqdm(range(1, steps + 1), desc="characters", unit="step", mininterval=0.5)
    for step in bar:
        value, gradient = value_and_grad(
            params, rows(text, rng.integers(0, len(text) - CONTEXT - 1, BATCH))
        )
        bits.append(value)
        mean = ft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = ft.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, square, gradient)
        size = RATE * min(1.0, step / 50) * 0.5 * (1 + np.cos(np.pi * step / steps))
        size = np.float32(size * np.sqrt(1 - 0.99**step) / (1 - 0.9**step))
        params = ft.tree.map(
            lambda p, m, v, size=size: p - size * m / (np.sqrt(v) + np.float32(1e-8)),
            params,
            mean,
            square,
        )
        if step % max(1, steps // 10) == 0:
            held_bits = float(
                np.mean(
                    [evaluate(params, part) for part in np.array_split(tests, len(tests) // 128)]
                )
            )
            history.append((step, float(np.mean(bits)), held_bits))
            bits.clear()
            bar.set_postfix(
                bits=f"{history[-1][1]:.2f}", held_out=f"{held_bits:.2f}", refresh=False
            )
    return params, history


def write(rng, params, codes, count):
    """Return characters sampled one after the other, each given the previous ones."""
    codes = list(codes)
    step = ft.jit(predict)
    for _ in range(count):
        chances = np.exp(step(params, np.array([codes[-CONTEXT:]]))[0, -1].astype(float))
        codes.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return codes


def draw(history, baselines, looks, line):
    steps, seen, held = np.transpose(history)
    figure = plt.figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.4])
    axes = left.subplots()
    axes.plot(steps, seen, label="training text")
    axes.plot(steps, held, label="held-out text")
    for order, bits in baselines.items():
        axes.axhline(bits, color="0.7", linewidth=0.8)
        axes.annotate(
            f"counted, order {order}",
            (steps[-1], bits),
            ha="right",
            va="bottom",
            fontsize=8,
            color="0.4",
        )
    axes.set(xlabel="step", ylabel="bits per character", title="a transformer of characters")
    axes.legend(frameon=False)
    right.suptitle("what each place looks at, first layer")
    for head, panel in enumerate(right.subplots(1, 2)):
        panel.imshow(np.sqrt(looks[head]), cmap="viridis")
        panel.set_xticks(range(len(line)), line, fontsize=6)
        panel.set_yticks(range(len(line)), line, fontsize=6)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    rng = np.random.default_rng(0)
    text, held, characters = load()
    baselines = {order: counted_bits(text, held, len(characters), order) for order in range(1, 6)}
    params, history = train(rng, text, held, len(characters), steps)
    bits = history[-1][2]
    print(
        f"{len(text)} characters of {len(characters)} kinds; held-out text, in bits per character:"
    )
    for order, value in baselines.items():
        print(f"  counted, order {order}  {value:.3f}")
    print(f"  transformer       {bits:.3f}")

    begun = held[400 : 400 + CONTEXT - 8]
    written = "".join(characters[c] for c in write(rng, params, begun, 200))
    print("it writes:", written[len(begun) :].replace("\n", "\n    "))
    looks: list[np.ndarray] = []
    predict(params, begun[None], looks)
    draw(history, baselines, looks[0][0], [repr(characters[c])[1:-1] for c in begun])

    if bits > baselines[2]:
        print("the model is worse than counting pairs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
