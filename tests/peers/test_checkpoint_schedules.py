"""Loops by the schedules of the package ``checkpoint-schedules``."""

from __future__ import annotations

import gc
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control.offloading import PREFIX
from functrace.control.schedules import binomial_cost, saved_on_disk, steps_run
from functrace.errors import ArgumentError, OffloadError
from functrace.policies import binomial

peer = pytest.importorskip("checkpoint_schedules")
from functrace.api.control_flow.schedule_objects import actions_from  # noqa: E402

RNG = np.random.default_rng(5)
W = RNG.normal(size=(4, 4)) * 0.5
XS = RNG.normal(size=(60, 4))
C0 = RNG.normal(size=4)

SCHEDULES: dict[str, Callable[[int], Any]] = {
    "Revolve": lambda n: peer.Revolve(n, 3),
    "Multistage": lambda n: peer.MultistageCheckpointSchedule(n, 2, 3),
    "Mixed": lambda n: peer.MixedCheckpointSchedule(n, 3),
    "Mixed in memory": lambda n: peer.MixedCheckpointSchedule(n, 3, storage=peer.StorageType.RAM),
    "all in memory": lambda n: peer.SingleMemoryStorageSchedule(),
    "all on disk": lambda n: peer.SingleDiskStorageSchedule(),
    "all on disk, moved": lambda n: peer.SingleDiskStorageSchedule(move_data=True),
    "two levels": lambda n: peer.TwoLevelCheckpointSchedule(4, 2),
    "HRevolve": lambda n: peer.HRevolve(n, 3, 2),
    "DiskRevolve": lambda n: peer.DiskRevolve(n, 3),
    "PeriodicDiskRevolve": lambda n: peer.PeriodicDiskRevolve(n, 3),
}


def f(c: Any, checkpoint: Any, steps: int) -> Any:
    step = lambda h, x: (np.tanh(W @ h + x), h * x)
    h, ys = ft.scan(step, c, XS[:steps], checkpoint=checkpoint)
    return np.sum(h**2) + np.sum(ys**2)


@pytest.mark.parametrize("steps", [2, 3, 17, 60])
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_gradients_by_every_schedule(make: Callable[[int], Any], steps: int) -> None:
    schedule, plain = make(steps), ft.grad(f)(C0, None, steps)
    for transform in (lambda g: g, ft.jit):
        g = transform(ft.grad(lambda c: f(c, schedule, steps)))
        np.testing.assert_array_equal(g(C0), plain)
        np.testing.assert_array_equal(g(C0), plain)  # the object is not used up


@pytest.mark.parametrize(("steps", "slots"), [(10, 3), (100, 7), (1000, 10), (333, 20)])
def test_counts_are_those_of_revolve(steps: int, slots: int) -> None:
    # (the package's count has the reverse's own run of each step, too)
    found = steps_run(actions_from(peer.Revolve(steps, slots), steps, "loop"))
    assert found - 1 == binomial_cost(steps, slots)
    count = peer.multistage.optimal_steps_binomial(steps, slots)
    assert count == binomial_cost(steps, slots) + steps


def directories() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(PREFIX)]


DISKS = ["Multistage", "Mixed", "all on disk", "all on disk, moved", "two levels"]


@pytest.fixture
def private(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("name", DISKS)
def test_carries_on_disk_are_in_files_until_the_reverse_pass_ends(name: str) -> None:
    schedule = SCHEDULES[name](17)
    actions = actions_from(schedule, 17, "loop")
    assert any(action[2:] == ("disk",) for action in actions)
    kept = len(saved_on_disk(("actions", actions), 17))
    value, pull = ft.vjp(lambda c: f(c, schedule, 17), C0)
    files = [file for d in directories() for file in os.listdir(f"{tempfile.gettempdir()}/{d}")]
    assert len([file for file in files if file != "owner"]) == kept
    for _ in range(2):
        np.testing.assert_array_equal(pull(1.0)[0], ft.grad(f)(C0, None, 17))
    del value, pull
    gc.collect()
    assert not directories()


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("name", DISKS)
def test_every_transform_of_carries_on_disk(name: str) -> None:
    schedule, batch = SCHEDULES[name](17), np.stack([C0, -C0, 2.0 * C0])
    for transform in (
        lambda g: ft.vmap(ft.grad(g))(batch),
        lambda g: ft.hessian(g)(C0),
        lambda g: ft.vmap(ft.hessian(g))(batch),
        lambda g: ft.grad(lambda c: np.sum(ft.grad(g)(c) ** 2))(C0),
        lambda g: ft.jit(ft.hessian(g))(C0),
        lambda g: ft.grad(ft.checkpoint(g))(C0),
        lambda g: ft.grad(
            lambda c: np.sum(ft.scan(lambda c, _: (np.sin(c) * g(c), None), c, None, length=2)[0])
        )(C0),
    ):
        expected = transform(lambda c: f(c, None, 17))
        np.testing.assert_array_equal(transform(lambda c: f(c, schedule, 17)), expected)
    gc.collect()
    assert not directories()


@pytest.mark.usefixtures("private")
def test_a_changed_file_raises() -> None:
    _, pull = ft.vjp(lambda c: f(c, peer.SingleDiskStorageSchedule(), 17), C0)
    (directory,) = directories()
    for name in os.listdir(f"{tempfile.gettempdir()}/{directory}"):
        if name != "owner":
            with open(f"{tempfile.gettempdir()}/{directory}/{name}", "r+b") as file:
                file.write(b"no")
    with pytest.raises(OffloadError, match="CRC-32"):
        pull(1.0)
    del pull
    gc.collect()
    assert not directories()


def test_memory_is_that_of_the_carries_that_are_not_on_disk() -> None:
    x = np.linspace(0.0, 1.0, 50_000)

    def g(x: Any) -> Any:
        schedule = peer.MultistageCheckpointSchedule(100, 2, 20)
        step = lambda i, h: h + 1e-2 * np.sin(h)
        return np.sum(ft.fori_loop(0, 100, step, x, checkpoint=schedule))

    ft.grad(g)(x)
    tracemalloc.start()
    ft.grad(g)(x)
    peak = tracemalloc.get_traced_memory()[1] / x.nbytes
    tracemalloc.stop()
    assert peak < 12.0


def test_what_is_no_schedule_of_the_loop_raises() -> None:
    with pytest.raises(ArgumentError, match="for 10 steps, but the loop has 17"):
        f(C0, peer.Revolve(10, 3), 17)
    with pytest.raises(ArgumentError, match="does not reverse"):
        f(C0, peer.NoneCheckpointSchedule(), 17)
    started = peer.Revolve(17, 3)
    next(started)
    with pytest.raises(ArgumentError, match="started"):
        f(C0, started, 17)
    with pytest.raises(ArgumentError, match="number of steps"):
        ft.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), (0, C0), checkpoint=peer.Revolve(3, 2)
        )


def test_binomial_is_not_worse_than_revolve() -> None:
    for steps in range(2, 40):
        for slots in range(1, 6):
            theirs = steps_run(actions_from(peer.Revolve(steps, slots), steps, "loop"))
            assert binomial_cost(steps, slots) <= theirs - 1, (steps, slots)
    assert binomial(3).slots == 3
