"""shim-…: ``functrace.torch`` and PyTorch on the same code: forward and ``backward()`` on the CPU.

The first rows are warm. In rows of new shapes, numbers and positions each of these occurs for the
first time; operations themselves have been used before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import jit_mlp
from benchmarks.work import Target, Work

Code = Callable[[ModuleType], Callable[[], Any]]
"""A work, written for PyTorch."""

POINT = np.array([0.3, -0.7, 1.1])
TURNS = 500
"""Iterations, of two operations each."""
NEW = 300
"""New shapes, or numbers."""
POSITIONS = 1_000


def chain(torch: ModuleType):
    def run():
        leaf = torch.tensor(POINT, requires_grad=True)
        x = leaf
        for _ in range(TURNS):
            x = torch.sin(x) * 1.01
        x.sum().backward()
        return leaf.grad

    return run


def double(torch: ModuleType):
    def run():
        leaf = torch.tensor(POINT, requires_grad=True)
        x = leaf
        for _ in range(50):
            x = torch.sin(x) * x + torch.exp(-x)
        (gradient,) = torch.autograd.grad(x.sum(), leaf, create_graph=True)
        (gradient * gradient).sum().backward()
        return leaf.grad

    return run


def mlp(torch: ModuleType):
    """Three layers by hand, cross-entropy, and a step of gradient descent."""
    generator = np.random.default_rng(0)
    sizes = list(itertools.pairwise(jit_mlp.SIZES))
    weights = [torch.tensor(w, requires_grad=True) for w, _ in jit_mlp.PARAMS]
    biases = [torch.zeros(n, requires_grad=True) for _, n in sizes]
    start = [parameter.detach().clone() for parameter in (*weights, *biases)]
    data = torch.tensor(jit_mlp.X)
    labels = torch.tensor(generator.integers(0, 10, jit_mlp.BATCH))

    def run():
        with torch.no_grad():
            for parameter, before in zip([*weights, *biases], start, strict=True):
                parameter.copy_(before)
        x = data
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            x = torch.tanh(x @ w + b)
        loss = torch.nn.functional.cross_entropy(x @ weights[-1] + biases[-1], labels)
        loss.backward()
        with torch.no_grad():
            for parameter in (*weights, *biases):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        return loss.detach()

    return run


def million(torch: ModuleType):
    """Ten elementwise operations on a million numbers of single precision."""
    x = torch.tensor(
        np.random.default_rng(0).uniform(0.5, 1.5, 1 << 20).astype(np.float32), requires_grad=True
    )

    def run():
        x.grad = None
        y = (x * x + 1.0) / (x + 2.0) - x * 0.5
        torch.sqrt(torch.abs(y * y + x)).sum().backward()
        return x.grad

    return run


def checkpointed(torch: ModuleType):
    import importlib

    checkpoint = importlib.import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    generator = np.random.default_rng(0)
    weights = [
        torch.tensor(generator.normal(0, 0.1, (64, 64)), requires_grad=True) for _ in range(20)
    ]
    data = torch.tensor(generator.standard_normal((32, 64)))

    def layers(x, *ws):
        for w in ws:
            x = torch.tanh(x @ w)
        return x

    def run():
        x = data
        for k in range(0, 20, 5):
            x = checkpoint(layers, x, *weights[k : k + 5], use_reentrant=False)
        return torch.autograd.grad(x.sum(), weights[0])[0]

    return run


def shapes(torch: ModuleType):
    """A layer on batches of changing sizes."""
    generator = np.random.default_rng(0)
    w, b = (torch.tensor(generator.standard_normal(s), requires_grad=True) for s in ((8, 4), (4,)))
    batches = [torch.tensor(generator.standard_normal((n, 8))) for n in range(10, 12 + NEW)]

    def step(x):
        torch.relu(x @ w + b).sum().backward()

    return seen_first(torch, step, batches, lambda: w.grad)


def elementwise(torch: ModuleType):
    """A chain of elementwise operations on vectors of changing lengths."""
    vectors = [
        torch.tensor(np.linspace(0.0, 1.0, n), requires_grad=True) for n in range(10, 12 + NEW)
    ]

    def step(x):
        (torch.sin(x) * torch.exp(x) + x * 2.0).sum().backward()

    return seen_first(torch, step, vectors, lambda: vectors[0].grad)


def numbers(torch: ModuleType):
    """Powers and bounds that change at every step."""
    x = torch.tensor(np.linspace(0.1, 1.0, 5), requires_grad=True)

    def step(n):
        (torch.pow(x, n) + torch.clamp(x, max=n)).sum().backward()

    return seen_first(torch, step, [2.5 + k / 1000 for k in range(NEW + 2)], lambda: x.grad)


def positions(torch: ModuleType):
    """One element after the other."""
    x = torch.tensor(np.linspace(0.1, 1.0, POSITIONS + 4), requires_grad=True)

    def step(k):
        x[k].backward()

    return seen_first(torch, step, range(2, POSITIONS + 4), lambda: x.grad)


def seen_first(
    torch: ModuleType, step: Callable[[Any], None], cases: Any, result: Callable[[], Any]
) -> Callable[[], Any]:
    """Return a run over new cases, after two others that use the operations."""
    if torch.__name__ != "torch":
        from functrace.torch.dispatch import plans, sizes

        plans.PLANS.clear()
        sizes.DERIVATIONS.clear()
    for case in cases[:2]:
        step(case)

    def run():
        for case in cases[2:]:
            step(case)
        return result()

    return run


def systems(code: Code) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return the same code for both libraries."""

    def functrace():
        import functrace.torch

        run = code(functrace.torch)
        return lambda: run().numpy()

    def torch():
        import torch

        run = code(torch)
        return lambda: run().numpy()

    return {"functrace": functrace, "torch": torch}


def row(
    name: str, about: str, code: Code, ratio: float, *, cold: bool = False, rtol: float = 1e-9
) -> Work:
    """Return the work of some code: functrace takes at most ``ratio`` times what PyTorch takes."""
    return Work(
        f"shim-{name}",
        about,
        systems(code),
        (Target(ratio, "torch", "first" if cold else "later"),),
        cold=cold,
        rounds=9,
        rtol=rtol,
    )


WORKS = (
    row("chain", "1,000 operations on 3 elements", chain, 1.0),
    row(
        "mlp", "a step of training by hand: 784-512-512-10, batch 128, float32", mlp, 1.0, rtol=1e-5
    ),
    row("double", "a gradient of a gradient, 250 operations on 3 elements", double, 1.5),
    row("million", "elementwise operations on 1 M elements, float32", million, 1.2, rtol=1e-5),
    row("checkpoint", "20 layers 64 x 64 in checkpoints of 5", checkpointed, 1.0),
    row("shapes", "300 new batch sizes of relu(x @ w + b).sum()", shapes, 4.0, cold=True),
    row("elementwise", "300 new lengths of elementwise operations", elementwise, 4.0, cold=True),
    row("numbers", "300 new exponents and bounds", numbers, 4.0, cold=True),
    row("positions", "x[k] at 1,000 positions", positions, 4.0, cold=True),
)
