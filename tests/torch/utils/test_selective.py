"""Selective checkpointing among traced values, and beyond what the script checkpoint_selective.py
compares with PyTorch.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from functrace.torch.utils.selective import _CachingTorchDispatchMode

A = np.arange(6.0).reshape(2, 3) / 10
B = np.arange(6.0).reshape(3, 2) / 7


def region(a: Any, b: Any) -> Any:
    return torch.sin(torch.exp(torch.mm(a, b)))


def selected(policy: Any) -> Any:
    """Return the sum of the region, checkpointed; of None, as it is."""

    def total(a: Any) -> Any:
        if policy is None:
            return torch.sum(region(a, B))
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        return torch.sum(checkpoint(region, a, B, use_reentrant=False, context_fn=contexts))

    return total


MM = [torch.ops.aten.mm.default]


def test_a_policy_chooses_residuals_among_traced_values() -> None:
    """The policy's results are named residuals; without it the region's operands are residuals."""
    kept = ft.saved_residuals(selected(MM))(A)
    assert [r.made for r in kept if r.made.startswith("named")] == [
        'named "selected by a checkpoint\'s policy"'
    ]
    assert not [r for r in ft.saved_residuals(selected([]))(A) if r.made.startswith("named")]


@pytest.mark.parametrize(
    "policy", [MM, [], [torch.ops.aten.exp.default, torch.ops.aten.sin.default]]
)
def test_derivatives_are_those_without_it(policy: Any) -> None:
    """Under every transform."""
    plain, chosen = selected(None), selected(policy)
    assert np.array_equal(ft.grad(plain)(A), ft.grad(chosen)(A))
    assert np.allclose(ft.hessian(plain)(A), ft.hessian(chosen)(A))
    assert np.array_equal(ft.jit(ft.grad(plain))(A), ft.jit(ft.grad(chosen))(A))
    several = np.stack([A, 2 * A])
    assert np.allclose(ft.vmap(ft.grad(plain))(several), ft.vmap(ft.grad(chosen))(several))


def test_a_policy_is_called_for_operations_on_traced_values() -> None:
    """With the operation, tensors for its operands, and its result; once each."""
    asked: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        asked.append(
            (str(op), [tuple(a.shape) for a in args], tuple(ctx.op_output.shape), ctx.is_recompute)
        )
        return CheckpointPolicy.PREFER_SAVE

    ft.grad(selected(policy))(A)
    assert asked == [
        ("aten.mm.default", [(2, 3), (3, 2)], (2, 2), False),
        ("aten.exp.default", [(2, 2)], (2, 2), False),
        ("aten.sin.default", [(2, 2)], (2, 2), False),
    ]


def test_other_contexts_are_refused_among_traced_values() -> None:
    """They could not be entered a second time."""
    around = lambda: (torch.no_grad(), torch.no_grad())
    with pytest.raises(NotImplementedError, match="does not call the function a second time"):
        ft.grad(
            lambda a: torch.sum(checkpoint(region, a, B, use_reentrant=False, context_fn=around))
        )(A)


def test_views_and_writes_among_traced_values() -> None:
    """Views keep their base, and what is overwritten its new value."""

    def body(x: Any) -> Any:
        y = torch.exp(x)
        z = torch.reshape(y, (3, 2))[1:]
        return torch.sin(z) * 2 + torch.sum(torch.max(x, 1)[0])

    def total(policy: Any) -> Any:
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        run = (
            body
            if policy is None
            else functools.partial(checkpoint, body, use_reentrant=False, context_fn=contexts)
        )
        return lambda a: torch.sum(run(a))

    plain = ft.grad(total(None))(A)
    assert np.allclose(plain, ft.grad(total(lambda ctx, op, *args, **kwargs: True))(A))
    assert np.allclose(plain, ft.grad(total(lambda ctx, op, *args, **kwargs: "max" in str(op)))(A))


def test_a_policy_chooses_among_tensors_over_traced_values() -> None:
    """Under torch.func a checkpoint is functrace's, with the policy."""
    asked: list[str] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        asked.append(str(op))
        return op in MM

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def total(a: Any) -> Any:
        return checkpoint(
            region, a, torch.tensor(B), use_reentrant=False, context_fn=contexts
        ).sum()

    found = torch.func.grad(total)(torch.tensor(A))
    assert np.allclose(found.numpy(), ft.grad(selected(None))(A))
    assert asked == ["aten.mm.default", "aten.exp.default", "aten.sin.default"]


def test_cached_values_are_freed_after_use() -> None:
    """Consumed entries hold nothing, also where the graph is retained."""
    first, second = create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: True)
    assert isinstance(first, _CachingTorchDispatchMode)
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    y = checkpoint(
        lambda x: x.sin().exp().cos(), x, use_reentrant=False, context_fn=lambda: (first, second)
    )
    assert sum(hasattr(e, "val") for calls in first.storage.values() for e in calls.values()) == 3
    y.sum().backward(retain_graph=True)
    assert sum(hasattr(e, "val") for calls in first.storage.values() for e in calls.values()) <= 1
