"""shim-chain: 1,000 operations on tensors of three elements, forward and backward: ``functrace.torch`` against PyTorch."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from benchmarks.work import Work

POINT = np.array([0.3, -0.7, 1.1])
TURNS = 500
"""Of two operations each."""


def chain(torch: ModuleType):
    """Return the work, written for PyTorch."""

    def run():
        leaf = torch.tensor(POINT, requires_grad=True)
        x = leaf
        for _ in range(TURNS):
            x = torch.sin(x) * 1.01
        x.sum().backward()
        return leaf.grad

    return run


def functrace():
    import functrace.torch

    run = chain(functrace.torch)
    return lambda: run().numpy()


def torch():
    import torch

    run = chain(torch)
    return lambda: run().numpy()


WORKS = (
    Work(
        "shim-chain",
        "1,000 operations on 3 elements, forward and backward(): functrace.torch and PyTorch",
        {"functrace": functrace, "torch": torch},
        rounds=9,
    ),
)
