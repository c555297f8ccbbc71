"""Training that survives being killed
====================================

Train a network on handwritten digits, kill the training twice, and resume it: the same bits.

A process saves parameters, the optimizer's state and a random key after each epoch, with `ft.save`:
the file is the old one or the new one, whatever happens. It kills itself with SIGKILL in the middle
of an epoch. The next process loads the file and continues. In the end, the parameters equal those
of an uninterrupted run bit for bit. Next to this file it leaves ``resume.png``: the learning curve,
one color per process.

::

    python examples/resume.py
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
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

EPOCHS, BATCH, HIDDEN, RATE = 15, 64, 64, 1e-2
KILLED_IN = (4, 9)
"""Epochs in which the process kills itself."""
WANTED = 0.96
PICTURE = Path(__file__).with_suffix(".png")


def predict(params, images: Float[ft.Array, "n pixels"]) -> Float[ft.Array, "n classes"]:
    hidden = np.tanh(images @ params["hidden"]["w"] + params["hidden"]["b"])
    return ft.nn.log_softmax(hidden @ params["out"]["w"] + params["out"]["b"])


def loss(params, images: Float[ft.Array, "n pixels"], wanted: Float[ft.Array, "n classes"]):
    """Return the cross entropy."""
    return -np.mean(np.sum(wanted * predict(params, images), axis=1))


def accuracy(params, images: Float[ft.Array, "n pixels"], labels: Int[ft.Array, "n"]) -> float:
    return float(np.mean(np.argmax(predict(params, images), axis=1) == labels))


def optimizer(steps: int):
    rate = ft.optim.warmup_cosine_decay_schedule(0.0, RATE, steps // 10, steps)
    return ft.optim.chain(ft.optim.clip_by_global_norm(1.0), ft.optim.adamw(rate))


def initial(key, tx):
    """Return what a file has: all that the rest of the training depends on."""
    keys = ft.random.split(key, 3)

    def dense(key, n, m):
        return {"w": ft.random.normal(key, (n, m)) / np.sqrt(n), "b": np.zeros(m)}

    params = {"hidden": dense(keys[0], 64, HIDDEN), "out": dense(keys[1], HIDDEN, 10)}
    history = np.zeros((EPOCHS, 2))
    return {
        "params": params,
        "state": tx.init(params),
        "key": keys[2],
        "epoch": 0,
        "history": history,
    }


def digits():
    """Return training digits and held-out digits, with their labels."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16.0, labels, test_size=0.2, stratify=labels, random_state=0)


def start(file: Path | None, count: int):
    """Return the optimizer, and the state in the file; without one, the initial state."""
    tx = optimizer(EPOCHS * count)
    now = initial(ft.random.key(0), tx)
    return tx, ft.load(file, like=now) if file is not None and file.exists() else now


def train(file: Path | None, may_be_killed: bool):
    """Train to the end, from the file if there is one; return what was reached."""
    images, held_images, labels, held_labels = digits()
    count = len(images) // BATCH
    tx, now = start(file, count)

    @ft.jit
    def step(params, state, images, wanted):
        value, grads = ft.value_and_grad(loss)(params, images, wanted)
        updates, state = tx.update(grads, state, params)
        return ft.optim.apply_updates(params, updates), state, value

    first = now["epoch"]
    bar = tqdm(range(first, EPOCHS), "digits", EPOCHS, initial=first, unit="epoch", mininterval=0.5)
    for epoch in bar:
        key, draw = ft.random.split(now["key"])
        params, state, losses = now["params"], now["state"], []
        order = ft.random.permutation(draw, len(images))[: count * BATCH]
        for number, batch in enumerate(order.reshape(count, BATCH)):
            if may_be_killed and epoch in KILLED_IN and epoch > first and number == count // 2:
                signal.raise_signal(signal.SIGKILL)
            params, state, value = step(params, state, images[batch], np.eye(10)[labels[batch]])
            losses.append(value)
        row = [np.mean(losses), accuracy(params, held_images, held_labels)]
        history = now["history"].copy()
        history[epoch] = row
        now = {
            "params": params,
            "state": state,
            "key": key,
            "epoch": epoch + 1,
            "history": history,
        }
        if file is not None:
            ft.save(file, now)
        bar.set_postfix(loss=f"{row[0]:.4f}", held_out=f"{row[1]:.2%}", refresh=False)
    return now


def draw(history: Float[ft.Array, "epochs 2"], starts: list[int]) -> None:
    """Save the learning curve, with one color per process."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    epochs = np.arange(1, len(history) + 1)
    for first, last in zip(starts, [*starts[1:], len(history)], strict=True):
        part = slice(max(first - 1, 0), last)
        axes.plot(epochs[part], history[part, 0], label=f"process {starts.index(first) + 1}")
    axes.plot(epochs, 1 - history[:, 1], color="0.6", label="error, held-out digits")
    axes.set(xlabel="epoch", yscale="log", title="training loss, resumed after each kill")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def main() -> int:
    if sys.platform == "win32":
        print("this example needs SIGKILL")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "training.npz"
        count = len(digits()[0]) // BATCH
        starts: list[int] = []
        while True:
            starts.append(start(file, count)[1]["epoch"])
            code = subprocess.run([sys.executable, __file__, str(file)]).returncode
            if code == 0:
                break
            if code != -signal.SIGKILL:
                print(f"the training ended with the code {code}", file=sys.stderr)
                return 1
            print("killed; resuming")
        resumed = start(file, count)[1]
        left = [path.name for path in Path(folder).iterdir()]
    whole = train(None, may_be_killed=False)
    pairs = zip(ft.tree.leaves(resumed), ft.tree.leaves(whole), strict=True)
    same = all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
    draw(resumed["history"], starts)
    held = resumed["history"][-1, 1]
    print(
        f"{len(starts)} processes, which began in epochs {starts}: held-out accuracy {held:.2%}; "
        f"all bits of an uninterrupted run: {same}; picture: {PICTURE}"
    )
    if held < WANTED or not same or len(starts) != len(KILLED_IN) + 1 or left != [file.name]:
        print(f"wanted: {WANTED:.0%}, the same bits, and one file", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), may_be_killed=True)
    else:
        sys.exit(main())
