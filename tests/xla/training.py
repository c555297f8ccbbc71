"""Data-parallel training as one of several processes, which can be killed and continued.

``python -m tests.xla.training RANK COUNT PORT FOLDER [WHERE STEP]``, with WHERE "step" or "save", stops
in the middle of that step, or of its checkpoint, and waits to be killed. `test_two_processes` starts it.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import functrace as ft

STEPS, BATCH, SIZES, EVERY = 8, 64, (16, 64, 8), 2
HEARTBEAT = 6
SHIFT = np.linspace(0.0, 1e-3, BATCH * SIZES[0]).reshape(BATCH, -1)
"""A constant of the program, too large to be part of its code."""


def loss(params: Any, x: Any, y: Any) -> Any:
    """Return the mean cross entropy."""
    x = x + SHIFT
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    z = x @ w + b
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))


def step(params: Any, speed: Any, x: Any, y: Any) -> Any:
    """Return loss, parameters and velocities after a step with momentum."""
    value, slope = ft.value_and_grad(loss)(params, x, y)
    speed = ft.tree.map(lambda v, g: 0.9 * v - 0.1 * g, speed, slope)
    return value, ft.tree.map(lambda p, v: p + v, params, speed), speed


def batch(t: int, rank: int, count: int) -> tuple[Any, Any]:
    """Return the rows of a process of batch ``t``."""
    rng = np.random.default_rng([t, 1])
    x, labels = rng.normal(size=(BATCH, SIZES[0])), rng.integers(0, SIZES[-1], BATCH)
    own = slice(rank * BATCH // count, (rank + 1) * BATCH // count)
    return x[own], np.eye(SIZES[-1])[labels][own]


def initial_state() -> dict[str, Any]:
    """Return the state before the first step."""
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(SIZES)
    params = [(rng.normal(size=(m, n)) / np.sqrt(m), np.zeros(n)) for m, n in pairs]
    return {"params": params, "speed": ft.tree.map(np.zeros_like, params), "step": 0}


def raises(kind: type[Exception], text: str, run: Callable[[], Any]) -> None:
    """Assert that an error is raised, whose message has a text."""
    try:
        run()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_refusals(rows: Any, everywhere: Any, rank: int) -> None:
    """Check what raises where processes have different parts of an array."""
    double = ft.jit(lambda x: x * 2.0, backend="xla", in_shardings=rows, out_shardings=rows)
    x = np.ones((8, 4))
    raises(ft.errors.ArgumentError, "global_array", lambda: double(x))
    parts = ft.distributed.global_array(np.full((4, 4), float(rank)), rows)
    assert parts.shape == (8, 4)
    raises(ft.errors.ArgumentError, "keep_on_device", lambda: double(parts))
    total = ft.jit(np.sum, backend="xla", in_shardings=rows, out_shardings=everywhere)
    assert total(parts) == 16.0 and type(total(parts)) is np.float64
    different = np.full(3, float(rank))
    raises(
        ft.errors.ArgumentError,
        "different",
        lambda: ft.distributed.global_array(different, everywhere),
    )
    inverse = ft.jit(np.linalg.inv, backend="xla", in_shardings=rows, out_shardings=rows)
    singular = ft.distributed.global_array(np.zeros((4, 2, 2)), rows)
    raises(np.linalg.LinAlgError, "Singular", lambda: inverse(singular))


def wait_to_be_killed(folder: Path, rank: int) -> None:
    """Tell the test that this process waits, and wait."""
    (folder / f"waits{rank}").touch()
    time.sleep(600)


def hang_between_files(folder: Path, rank: int) -> None:
    """Have process 1 write two files of a checkpoint, and hang."""
    from functrace.distributed import saving

    write, written = saving.write_atomically, []

    def slow(path: Path, content: bytes) -> None:
        write(path, content)
        written.append(path)
        if rank == 1 and len(written) == 2:
            wait_to_be_killed(folder, rank)

    saving.write_atomically = slow


def main() -> None:
    """Train, from the newest checkpoint on."""
    rank, count, port, root, *stop = sys.argv[1:]
    rank, count, folder = int(rank), int(count), Path(root)
    where, at = (stop[0], int(stop[1])) if stop else ("", -1)
    if count > 1:
        ft.distributed.initialize(
            f"127.0.0.1:{port}",
            count,
            rank,
            initialization_timeout=60,
            heartbeat_timeout_seconds=HEARTBEAT,
        )
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = ft.distributed.mesh()
    everywhere, rows = (NamedSharding(mesh, PartitionSpec(*x)) for x in ((), ("data",)))
    if count > 1:
        check_refusals(rows, everywhere, rank)
    run = ft.jit(
        step,
        backend="xla",
        in_shardings=(everywhere, rows, rows, rows),
        out_shardings=(everywhere, everywhere, rows),
        keep_on_device=True,
    )
    state = initial_state()  # velocities are divided: each process saves a part of them
    make = ft.distributed.global_array
    state["params"] = make(state["params"], everywhere)
    begin = initial_state()["speed"]
    own = ft.tree.map(lambda v: v[: len(v) // count], begin)
    state["speed"] = make(own, rows)
    place = ft.distributed.latest(folder)
    if place is not None:
        state = ft.distributed.load(place, state)
    start, losses = state["step"], []
    for t in range(start, STEPS):
        if where == "step" and t == at and rank == 1:
            wait_to_be_killed(folder, rank)
        x, y = make(batch(t, rank, count), rows)
        value, params, speed = run(state["params"], state["speed"], x, y)
        state = {"params": params, "speed": speed, "step": t + 1}
        losses.append(float(value))
        if (t + 1) % EVERY == 0:
            if where == "save" and t == at:
                hang_between_files(folder, rank)
            ft.distributed.save(folder / f"step_{t + 1}", state, writer="npy")
    found = {"start": start, "losses": losses, "devices": jax.device_count()}
    (folder / f"result{rank}.json").write_text(json.dumps(found))
    if count > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main()
