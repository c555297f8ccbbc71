"""Handwritten digits, on two processes with four devices each
===========================================================

Train the network of ``digits.py`` data-parallel: two processes, each with four virtual devices of the
CPU, exchange gradients by gloo. The loss is plain NumPy.

``jit(..., backend="xla")`` divides each batch over the eight devices; XLA adds the sums of the
gradients. Each process has half of the digits, and saves its part of the state after each tenth
epoch: killed and started again with the same folder, the training continues. In the end, the same
steps in one process with NumPy give the same parameters up to rounding. Next to this file it leaves
``digits_distributed.png``: the learning curve, which device has which rows of a batch, and what the
devices exchange.

::

    python examples/digits_distributed.py [FOLDER]
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
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

PROCESSES, DEVICES = 2, 4
EPOCHS, BATCH, HIDDEN, RATE, MOMENTUM, SAVE_EVERY = 20, 128, 64, 0.3, 0.9, 10
WANTED = 0.96
PICTURE = Path(__file__).with_suffix(".png")


def predict(params, images: Float[ft.Array, "n pixels"]) -> Float[ft.Array, "n classes"]:
    """Return the log-probability of every class, one row per image."""
    hidden = np.tanh(images @ params["hidden"]["w"] + params["hidden"]["b"])
    scores = hidden @ params["out"]["w"] + params["out"]["b"]
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def loss(params, images: Float[ft.Array, "n pixels"], wanted: Float[ft.Array, "n classes"]):
    """Return the cross entropy."""
    return -np.mean(np.sum(wanted * predict(params, images), axis=1))


def step(params, speed, images, wanted):
    """Return the loss, and parameters and velocities after one step with momentum."""
    value, gradient = ft.value_and_grad(loss)(params, images, wanted)
    speed = ft.tree.map(lambda v, g: MOMENTUM * v - RATE * g, speed, gradient)
    return value, ft.tree.map(lambda p, v: p + v, params, speed), speed


def accuracy(params, images: Float[ft.Array, "n pixels"], labels: Int[ft.Array, "n"]) -> float:
    return float(np.mean(np.argmax(predict(params, images), axis=1) == labels))


def initial_params(rng):
    def dense(n, m):
        return {"w": rng.normal(size=(n, m)) / np.sqrt(n), "b": np.zeros(m)}

    return {"hidden": dense(64, HIDDEN), "out": dense(HIDDEN, 10)}


def digits():
    """Return training digits and held-out digits, with their labels."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16.0, labels, test_size=0.2, stratify=labels, random_state=0)


def batches(epoch: int, count: int):
    """Return the rows of the batches of an epoch: the same in all processes."""
    order = np.random.default_rng([epoch, 1]).permutation(count)
    return order[: count // BATCH * BATCH].reshape(-1, BATCH)


def train_part(rank: int, port: int, folder: Path) -> None:
    """Train as one of the processes; process 0 shows the progress, and saves the history."""
    ft.distributed.initialize(f"127.0.0.1:{port}", PROCESSES, rank)
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = ft.distributed.mesh()
    everywhere, rows = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("data",)))
    run = ft.jit(
        step,
        backend="xla",
        in_shardings=(everywhere, everywhere, rows, rows),
        out_shardings=everywhere,
        keep_on_device=True,
    )
    images, held_images, labels, held_labels = digits()
    params = initial_params(np.random.default_rng(0))
    state = {
        "params": ft.distributed.global_array(params, everywhere),
        "speed": ft.distributed.global_array(ft.tree.map(np.zeros_like, params), everywhere),
        "epoch": 0,
        "history": np.zeros((EPOCHS, 2)),
    }
    place = ft.distributed.latest(folder)
    if place is not None:
        state = ft.distributed.load(place, state)
    params, speed, history = state["params"], state["speed"], state["history"]
    own = slice(rank * BATCH // PROCESSES, (rank + 1) * BATCH // PROCESSES)
    epochs = range(state["epoch"], EPOCHS)
    epochs = tqdm(epochs, "digits", unit="epoch", mininterval=0.5, disable=rank > 0)
    for epoch in epochs:
        losses = []
        for batch in batches(epoch, len(images)):
            x = ft.distributed.global_array(images[batch[own]], rows)
            y = ft.distributed.global_array(np.eye(10)[labels[batch[own]]], rows)
            value, params, speed = run(params, speed, x, y)
            losses.append(value)
        held = accuracy(ft.tree.map(np.asarray, params), held_images, held_labels)
        history[epoch] = np.mean([float(value) for value in losses]), held
        epochs.set_postfix(loss=f"{history[epoch, 0]:.4f}", held_out=f"{held:.2%}", refresh=False)
        if (epoch + 1) % SAVE_EVERY == 0:
            now = {"params": params, "speed": speed, "epoch": epoch + 1, "history": history}
            ft.distributed.save(folder / f"epoch_{epoch + 1}", now)
    shape = ft.ShapeDtype((BATCH, 64)), ft.ShapeDtype((BATCH, 10))
    report = ft.debug.collectives(run, mesh)(params, speed, *shape)
    if rank == 0:
        (folder / "collectives.txt").write_text(report.text())
    jax.distributed.shutdown()


def start(folder: Path) -> None:
    """Run the processes to their end.

    Raises:
        RuntimeError: if one of them fails.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "process", str(rank), str(port), str(folder)],
            env={**os.environ, **flags},
        )
        for rank in range(PROCESSES)
    ]
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    if any(codes):
        raise RuntimeError(f"the processes ended with the codes {codes}")


def train_in_numpy():
    """Return the parameters after the same steps, in this process."""
    images, _, labels, _ = digits()
    params = initial_params(np.random.default_rng(0))
    speed = ft.tree.map(np.zeros_like, params)
    for epoch in range(EPOCHS):
        for batch in batches(epoch, len(images)):
            _, params, speed = step(params, speed, images[batch], np.eye(10)[labels[batch]])
    return params


def draw(history: Float[ft.Array, "epochs 2"], report: str) -> None:
    """Save the learning curve, the layout of a batch, and the report on collectives."""
    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])
    axes = left.subplots()
    epochs = np.arange(1, len(history) + 1)
    axes.plot(epochs, history[:, 0], color="0.6", label="training loss")
    axes.plot(epochs, 1 - history[:, 1], color="tab:orange", label="error, held-out digits")
    for epoch in range(SAVE_EVERY, EPOCHS + 1, SAVE_EVERY):
        axes.axvline(epoch, color="tab:blue", linewidth=0.8, linestyle=":")
    axes.set(xlabel="epoch (dotted: saved)", yscale="log", title="learning curve")
    axes.legend(frameon=False)
    upper, lower = right.subplots(2, 1, height_ratios=[1, 1.4])
    count = PROCESSES * DEVICES
    size = BATCH // count
    for k in range(count):
        color = ("tab:blue", "tab:green")[k // DEVICES]
        upper.barh(0, size, left=k * size, color=color, edgecolor="white", linewidth=2)
        upper.text(
            (k + 0.5) * size,
            0,
            f"device {k}\n{size} rows",
            ha="center",
            va="center",
            color="white",
            fontsize=7,
        )
    upper.set(yticks=[], xlim=(0, BATCH), xlabel="rows of a batch; one color per process")
    lower.axis("off")
    lower.text(0, 1, report, va="top", family="monospace", fontsize=6.5, wrap=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def main() -> int:
    if importlib.util.find_spec("jax") is None:
        print("JAX is not installed: pip install functrace-numpy[xla]")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else scratch)
        folder.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        start(folder)
        seconds = time.perf_counter() - begin
        place = ft.distributed.latest(folder)
        params = initial_params(np.random.default_rng(0))
        like = {"params": params, "speed": params, "epoch": 0, "history": np.zeros((EPOCHS, 2))}
        state = ft.distributed.load(place, like)
        report = (folder / "collectives.txt").read_text()
    print(report)
    draw(state["history"], report)
    pairs = zip(ft.tree.leaves(state["params"]), ft.tree.leaves(train_in_numpy()), strict=True)
    difference = max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
    held = state["history"][-1, 1]
    print(
        f"held-out accuracy {held:.2%} after {seconds:.1f} s on {PROCESSES} x {DEVICES} devices; "
        f"largest relative difference from NumPy {difference:.1e}; picture: {PICTURE}"
    )
    if held < WANTED or difference > 1e-8:
        print(f"wanted: {WANTED:.0%}, and a difference below 1e-8", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["process"]:
        train_part(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        sys.exit(main())
