"""Training steps leave nothing behind: with the cycle collector off, neither objects nor memory
become more.

The long version, with as many steps as one likes, prints the resident memory as it goes:

    python -m tests.torch.autograd.test_memory 10000
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch import Tensor
from functrace.torch.utils.checkpoint import checkpoint

graph, grad = torch.autograd.graph, torch.autograd.grad
Parameters = list[Tensor]


class Scaled(torch.autograd.Function):
    """Saves an input, an output and a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        result = x * factor
        ctx.save_for_backward(x, result)
        ctx.factor = factor
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _x, _result = ctx.saved_tensors
        return gradient * ctx.factor, None


def model(p: Parameters, x: Tensor) -> Tensor:
    return torch.nn.functional.linear(
        torch.tanh(torch.nn.functional.linear(x, p[0], p[1])), p[2], p[3]
    )


def plain(p: Parameters, x: Tensor) -> None:
    (model(p, x) ** 2).mean().backward()


def with_function(p: Parameters, x: Tensor) -> None:
    Scaled.apply(model(p, x), 0.5).exp().sum().backward()


def with_views(p: Parameters, x: Tensor) -> None:
    hidden = model(p, x)
    hidden[:, 0].mul_(2)
    hidden.t()[0] = hidden[0, 0]
    hidden.sum().backward()


def with_hooks(p: Parameters, x: Tensor) -> None:
    hidden = model(p, x)
    hidden.retain_grad()
    hidden.register_hook(lambda g: g * 2)
    hidden.grad_fn.register_prehook(lambda grads: None)
    handle = graph.register_multi_grad_hook([hidden, *p], lambda grads: None)
    queue = torch.autograd.Variable._execution_engine.queue_callback
    hidden.register_hook(lambda g: queue(lambda: None))
    (hidden * hidden).sum().backward()
    handle.remove()


def with_saved_tensor_hooks(p: Parameters, x: Tensor) -> None:
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        loss = model(p, x).sin().sum()
    loss.backward()


def with_checkpoint(p: Parameters, x: Tensor) -> None:
    checkpoint(lambda x: model(p, x), x, use_reentrant=False).sum().backward()
    checkpoint(
        lambda x: model(p, x).exp(), x.detach().requires_grad_(), use_reentrant=True
    ).sum().backward()


def of_second_order(p: Parameters, x: Tensor) -> None:
    grads = grad(model(p, x).sum(), p, create_graph=True)
    sum(((g * g).sum() for g in grads), torch.zeros(())).backward()


def with_mutation(p: Parameters, x: Tensor) -> None:
    with graph.allow_mutation_on_saved_tensors():
        hidden = torch.tanh(torch.nn.functional.linear(x, p[0], p[1]))
        loss = (hidden**2).sum()
        hidden.mul_(2)
        loss.backward()


def in_anomaly_mode(p: Parameters, x: Tensor) -> None:
    with torch.autograd.set_detect_anomaly(True):
        model(p, x).sum().backward()


def in_inference_mode(p: Parameters, x: Tensor) -> None:
    with torch.inference_mode():
        model(p, x).add_(1)


def in_batches(p: Parameters, x: Tensor) -> None:
    grad(model(p, x).sum(0), p, torch.eye(2), is_grads_batched=True)


def that_fails(p: Parameters, x: Tensor) -> None:
    hidden = model(p, x)
    loss = (hidden * hidden).sum()
    hidden.register_hook(lambda g: {}["missing"])
    with pytest.raises(KeyError):
        loss.backward()


KINDS: list[Callable[[Parameters, Tensor], None]] = [
    plain, with_function, with_views, with_hooks, with_saved_tensor_hooks, with_checkpoint,
    of_second_order, with_mutation,
    in_inference_mode, in_batches, that_fails,
]  # fmt: skip


def train(
    steps: int, kinds: list[Callable[[Parameters, Tensor], None]], report: Callable[[int], None]
) -> None:
    """Run training steps, of all kinds in turn."""
    rng = np.random.default_rng(0)
    p = [
        torch.tensor(rng.normal(size=size), dtype=torch.float32, requires_grad=True)
        for size in ((8, 4), (8,), (2, 8), (2,))
    ]
    x = torch.tensor(rng.normal(size=(16, 4)), dtype=torch.float32)
    for step in range(steps):
        kinds[step % len(kinds)](p, x)
        with torch.no_grad():
            for parameter in p:
                if parameter.grad is not None:
                    parameter -= 1e-4 * parameter.grad
                    parameter.grad = None
        report(step)


@pytest.mark.parametrize("kind", [*KINDS, in_anomaly_mode], ids=lambda kind: kind.__name__)
def test_steps_leave_no_objects(kind: Callable[[Parameters, Tensor], None]) -> None:
    counts: list[int] = []
    gc.collect()
    gc.disable()
    try:
        train(
            40,
            [kind],
            lambda step: counts.append(len(gc.get_objects())) if step in (19, 39) else None,
        )
    finally:
        gc.enable()
    assert counts[1] - counts[0] <= 10, f"{counts[1] - counts[0]} objects more after 20 steps"


@pytest.mark.full
def test_steps_leave_no_memory() -> None:
    """Plans and compiled programs are made in the first steps; from then on memory stays."""
    sizes: list[int] = []
    gc.disable()
    try:
        train(1_500, KINDS, lambda step: sizes.append(resident()) if step in (499, 1_499) else None)
    finally:
        gc.enable()
    assert sizes[1] - sizes[0] < 2 << 20, f"{sizes[1] - sizes[0]} bytes more after 1,000 steps"


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("there is no /proc to read the resident memory from")
    return int(statm.read_text().split()[1]) * 4096


if __name__ == "__main__":
    gc.disable()
    total = int(sys.argv[1])
    train(
        total,
        KINDS,
        lambda step: (
            None if step % (total // 10) else print(f"step {step}: {resident() / 1e6:.2f} MB")
        ),
    )
