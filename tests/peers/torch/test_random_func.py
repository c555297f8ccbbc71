"""Random functions of tensors under ``torch.func``, with closures that want gradients, ``no_grad``,
``detach`` and hooks: the same values, and the same gradients through what the transforms return, as
PyTorch.

``FUNCTRACE_RANDOM_PROGRAMS`` sets how many.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import functrace.torch as ours
from tests.peers.torch.harness import real_torch

real = pytest.importorskip("torch")
COUNT = int(os.environ.get("FUNCTRACE_RANDOM_PROGRAMS", "350"))
Step = tuple[str, int, int, float]

ELEMENTWISE = ("sin", "cos", "exp", "tanh", "sigmoid", "abs", "neg", "relu")
SHAPES: list[tuple[int, ...]] = [(3,), (), (2, 2), (0,), (1,)]


def _without_grad(torch: ModuleType, u: Any, v: Any) -> Any:
    with torch.no_grad():
        w = u.exp()
    return w * v * 0.1


def _hooked(u: Any, n: float) -> Any:
    r = u * 1.5
    r.register_hook(lambda g: g * n)
    return r


STEPS: dict[str, Callable[[ModuleType, Any, Any, Any, int, float], Any]] = {
    "elementwise": lambda torch, u, v, c, k, n: getattr(u, ELEMENTWISE[k % len(ELEMENTWISE)])(),
    "two": lambda torch, u, v, c, k, n: (u * v, u + v, u - v)[k % 3],
    "number": lambda torch, u, v, c, k, n: u * n + 1,
    "closure": lambda torch, u, v, c, k, n: u * c if k % 2 else u + c.sin(),
    "sum": lambda torch, u, v, c, k, n: u * v.sum(),
    "detach": lambda torch, u, v, c, k, n: u.detach() * v,
    "no_grad": lambda torch, u, v, c, k, n: _without_grad(torch, u, v),
    "hook": lambda torch, u, v, c, k, n: _hooked(u, n),
    "index": lambda torch, u, v, c, k, n: u * (u[0] if u.dim() and u.shape[0] else u),
    "where": lambda torch, u, v, c, k, n: torch.where(u > 0.1, u, v * 2),
    "in place": lambda torch, u, v, c, k, n: (u * 1.0).mul_(2).add_(n),
    "reshape": lambda torch, u, v, c, k, n: u.reshape(-1).reshape(u.shape),
    "clone": lambda torch, u, v, c, k, n: u.clone(),
}
TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda torch, f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "jacrev": lambda torch, f, x: torch.func.jacrev(f)(x),
    "grad of grad": lambda torch, f, x: torch.func.grad(
        lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum()
    )(x),
    "vmap of grad": lambda torch, f, x: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(
        torch.stack([x, x * 0.5])
    ),
    "vjp": lambda torch, f, x: torch.func.vjp(f, x)[1](torch.ones_like(x))[0],
    "vmap": lambda torch, f, x: torch.func.vmap(f)(torch.stack([x, x * 0.5])),
    "jacrev of grad": lambda torch, f, x: torch.func.jacrev(torch.func.grad(lambda x: f(x).sum()))(
        x
    ),
}


def drawn(seed: int) -> tuple[str, list[Step], np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """A transform, the steps of a function, its argument and what it closes over, and how many of
    these want gradients.
    """
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    transform = list(TRANSFORMS)[seed // len(SHAPES) % len(TRANSFORMS)]
    kinds = [
        kind for kind in STEPS if kind != "hook" or transform != "vmap"
    ]  # PyTorch has no gradient to hook there
    steps = [
        (
            str(rng.choice(kinds)),
            int(rng.integers(100)),
            int(rng.integers(100)),
            float(rng.normal()),
        )
        for _ in range(rng.integers(2, 7))
    ]
    return transform, steps, rng.normal(size=shape), rng.normal(size=shape), seed % 3


def run(torch: ModuleType, seed: int) -> list[np.ndarray[Any, Any]]:
    """The result, and the gradients of its sum by what wants them, without zeros at the end."""
    transform, steps, at, closed, wanting = drawn(seed)
    x, c = torch.tensor(at), torch.tensor(closed)
    c.requires_grad_(wanting > 0)
    x.requires_grad_(wanting > 1)

    def f(x: Any) -> Any:
        values = [x]
        for kind, i, k, n in steps:
            values.append(
                STEPS[kind](torch, values[i % len(values)], values[k % len(values)], c, k, n)
            )
        return values[-1]

    result = TRANSFORMS[transform](torch, f, x)
    found = [result.detach().numpy()]
    leaves = [t for t in (x, c) if t.requires_grad]
    if leaves and result.requires_grad:
        for t, g in zip(
            leaves, torch.autograd.grad(result.sum(), leaves, allow_unused=True), strict=True
        ):
            found.append(np.zeros(t.shape) if g is None else g.detach().numpy())
    while len(found) > 1 and not found[-1].any():
        found.pop()
    return found


@pytest.mark.parametrize("start", range(0, COUNT, 50))
def test_torch_func_is_pytorchs(start: int) -> None:
    torch = real_torch()
    for seed in range(start, min(start + 50, COUNT)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = run(torch, seed)
            except RuntimeError as error:
                if "ZeroTensor" in str(error):  # PyTorch's own, which NumPy cannot see
                    continue
                raise
            found = run(ours, seed)
        assert len(found) == len(expected), (seed, drawn(seed), found, expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=f"{seed} {drawn(seed)}")
