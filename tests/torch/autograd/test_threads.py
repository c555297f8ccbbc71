"""Backward passes in several threads at once: over one leaf, over one graph, with hooks that count
by pass.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import functrace.torch as torch

THREADS = 8
PASSES = 40


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """Let Python switch threads a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_together(work: Callable[[int], object]) -> list[BaseException]:
    """Run a function in several threads; returns what it raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def body(k: int) -> None:
        try:
            start.wait()
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("size", [3, 20_000])
def test_gradients_of_a_shared_leaf_add_up(size: int) -> None:
    """NumPy releases the GIL for large arrays: concurrent additions into one must not be lost."""
    x = torch.ones(size, requires_grad=True)

    def work(k: int) -> None:
        for _ in range(PASSES):
            (x * 2).sum().backward()

    assert not run_together(work)
    assert x.grad is not None and x.grad.tolist() == [2.0 * THREADS * PASSES] * size


@pytest.mark.parametrize("hooks", [False, True])
def test_gradients_of_a_shared_graph_add_up(hooks: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    packing = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    if hooks:
        packing.__enter__()
    middle = (x * 3).exp()
    middle.retain_grad()  # by the pass below, too
    out = (middle * x).sum()
    if hooks:
        packing.__exit__(None, None, None)
    (once,) = torch.autograd.grad(out, x, retain_graph=True)

    def work(k: int) -> None:
        for _ in range(PASSES):
            out.backward(retain_graph=True)

    assert not run_together(work)
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([THREADS * PASSES * g for g in once.tolist()], rel=1e-4)
    assert middle.grad.tolist() == [float(THREADS * PASSES + 1)] * 3


@pytest.mark.parametrize("packs", [False, True])
def test_a_shared_graph_is_freed_once(packs: bool) -> None:
    """A pass that comes too late raises; none reads values that another one has freed."""
    for _ in range(20):
        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: t.detach().numpy().tolist(), torch.tensor
        ):
            out = (x * 3).exp().sum() if packs else (x * 3).sum()
        if not packs:
            out = (x * 3).exp().sum()
        failures = run_together(lambda k, out=out: out.backward())
        assert len(failures) < THREADS
        for failure in failures:
            assert isinstance(failure, RuntimeError) and "Specify retain_graph=True" in str(failure)


def test_hooks_on_several_tensors_are_called_once_per_pass() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    calls: list[list[Any]] = []
    firsts: list[Any] = []
    register = torch.autograd.graph.register_multi_grad_hook
    register([a, b], calls.append)
    register([a, b], firsts.append, mode="any")

    def work(k: int) -> None:
        for _ in range(PASSES):
            (a * b * (k + 1)).sum().backward()

    assert not run_together(work)
    assert len(calls) == len(firsts) == THREADS * PASSES
    assert all(g is not None and g.tolist() == h.tolist() for g, h in calls)


def test_callbacks_belong_to_the_pass_that_queued_them() -> None:
    queue = torch.autograd.Variable._execution_engine.queue_callback
    seen: list[tuple[int, int]] = []

    def work(k: int) -> None:
        x = torch.ones(2, requires_grad=True)

        def hook(gradient: Any) -> None:
            task = torch._C._current_graph_task_id()
            queue(lambda: seen.append((task, torch._C._current_graph_task_id())))

        x.register_hook(hook)
        for _ in range(PASSES):
            (x * 2).sum().backward()

    assert not run_together(work)
    assert len(seen) == THREADS * PASSES
    assert all(queued == running for queued, running in seen)
    assert len({queued for queued, _ in seen}) == THREADS * PASSES


def test_modes_belong_to_threads() -> None:
    answers: list[tuple[bool, bool, bool]] = []

    def ask(k: int) -> None:
        answers.append(
            (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.autograd.is_multithreading_enabled(),
            )
        )

    with torch.inference_mode(), torch.autograd.set_multithreading_enabled(False):
        assert not run_together(ask)
    assert answers == [(True, False, True)] * THREADS
