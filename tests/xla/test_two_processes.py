"""Training over processes that exchange values by gloo, on one machine: the same as in one process;
killed, and continued from the last complete checkpoint.

No second machine and no GPU have run these tests.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.xla import training

pytest.importorskip("jax", reason="jax is not installed")


class Job:
    """The processes of one training.

    Args:
        folder: of checkpoints and results.
        count: number of processes.
        devices: devices of each.
        stop: where to wait to be killed.
    """

    def __init__(self, folder: Path, count: int, devices: int, *stop: object) -> None:
        folder.mkdir(exist_ok=True)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.folder = folder
        self.errors = [folder / f"errors{rank}" for rank in range(count)]
        self.processes: list[subprocess.Popen[bytes]] = []
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        for rank in range(count):
            words = map(str, (rank, count, port, folder, *stop))
            with open(self.errors[rank], "w") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", training.__name__, *words],
                    cwd=Path(__file__).parents[2],
                    env={**os.environ, **flags},
                    stdout=errors,
                    stderr=errors,
                )
            self.processes.append(process)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def results(self) -> list[Any]:
        """Wait for the end, and return the results of the processes."""
        codes = [process.wait(120) for process in self.processes]
        assert not any(codes), "\n".join(x.read_text() for x in self.errors)
        ranks = range(len(self.processes))
        return [json.loads((self.folder / f"result{rank}.json").read_text()) for rank in ranks]

    def wait_until_it_waits(self) -> None:
        """Wait until process 1 waits to be killed."""
        mark, end = self.folder / "waits1", time.monotonic() + 120
        while not mark.exists():
            ended = [process for process in self.processes if process.poll() is not None]
            assert not ended, "\n".join(x.read_text() for x in self.errors)
            assert time.monotonic() < end
            time.sleep(0.05)
        mark.unlink()


def train(folder: Path, count: int, devices: int) -> list[Any]:
    """Train to the end."""
    with Job(folder, count, devices) as job:
        return job.results()


def state_of(folder: Path) -> Any:
    """Return the newest checkpoint, as arrays of NumPy."""
    place = ft.distributed.latest(folder)
    assert place is not None
    return ft.distributed.load(place, training.initial_state())


def test_processes_and_devices_compute_the_same(tmp_path: Path) -> None:
    """One process with one device, one with eight, and two with four each."""
    eps = np.finfo(float).eps
    plain, losses = training.initial_state(), []
    for t in range(training.STEPS):  # NumPy
        args = (plain["params"], plain["speed"], *training.batch(t, 0, 1))
        value, plain["params"], plain["speed"] = training.step(*args)
        losses.append(float(value))
    for count, devices in ((1, 1), (1, 8), (2, 4)):
        folder = tmp_path / f"{count}x{devices}"
        for found in train(folder, count, devices):
            assert found["devices"] == count * devices and found["start"] == 0
            assert np.allclose(found["losses"], losses, rtol=100 * eps, atol=0)
        state = state_of(folder)
        assert state["step"] == training.STEPS
        for name in ("params", "speed"):
            pairs = zip(ft.tree.leaves(state[name]), ft.tree.leaves(plain[name]), strict=True)
            for x, y in pairs:
                assert np.max(np.abs(x - y)) <= 1000 * eps * np.max(np.abs(y))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[float]]:
    """The state and the losses of a training that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    losses = train(folder, 2, 4)[0]["losses"]
    return state_of(folder), losses


def continues(folder: Path, start: int, whole: tuple[Any, list[float]]) -> None:
    """Assert that a training continues from a step, and ends with the bits of the whole one."""
    state, losses = whole
    assert ft.distributed.latest(folder) == folder / f"step_{start}"
    for found in train(folder, 2, 4):
        assert found["start"] == start and found["losses"] == losses[start:]
    pairs = zip(ft.tree.leaves(state_of(folder)), ft.tree.leaves(state), strict=True)
    assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


@pytest.mark.full
def test_killed_in_the_middle_of_steps(tmp_path: Path, whole: tuple[Any, list[float]]) -> None:
    with Job(tmp_path, 2, 4, "step", 5) as job:
        job.wait_until_it_waits()
        job.processes[1].kill()
        # (the other one waits for values that never come, until it misses the heartbeat)
        assert job.processes[0].wait(10 * training.HEARTBEAT)
    continues(tmp_path, 4, whole)


@pytest.mark.full
def test_killed_while_it_writes(tmp_path: Path, whole: tuple[Any, list[float]]) -> None:
    with Job(tmp_path, 2, 4, "save", 5) as job:
        job.wait_until_it_waits()
        job.processes[1].kill()
    assert list((tmp_path / "step_6").glob("*.npy"))
    with pytest.raises(ft.errors.ArgumentError, match="no complete checkpoint"):
        ft.distributed.load(tmp_path / "step_6", training.initial_state())
    continues(tmp_path, 4, whole)
