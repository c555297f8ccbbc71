"""TorchDispatchMode, beyond what the script dispatch_modes.py compares with PyTorch."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.utils._python_dispatch import (
    BaseTorchDispatchMode,
    TorchDispatchMode,
    is_in_torch_dispatch_mode,
)


class Seeing(TorchDispatchMode):
    """Notes what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_that_only_looks_changes_nothing() -> None:
    """Values, gradients, nodes and versions are those without it."""

    def compute(x: Any) -> list[Any]:
        y = (x * 2).sin().reshape(3, 2)
        z = y.clone()
        z[0] = 1.0
        z[:, 1].mul_(y[:, 0])
        parts = z.split(1)
        w = torch.cat([parts[0], parts[2]]).softmax(1) @ y.t()
        loss = w.max(1)[0].sum() + z.std() + z.norm() + torch.where(z > 0, z, y).mean()
        loss.backward()
        return [y, z, w, loss, x.grad]

    plain = compute(torch.arange(6.0).requires_grad_())
    with BaseTorchDispatchMode():
        seen = compute(torch.arange(6.0).requires_grad_())
    for a, b in zip(plain, seen, strict=True):
        assert np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
        assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__
        assert a._version == b._version


def test_random_numbers_are_drawn_once() -> None:
    """The handler calls the requested operation with the random numbers already drawn."""
    torch.manual_seed(0)
    plain = torch.zeros(3).uniform_(), torch.full((3,), 0.5).bernoulli()
    after = torch.zeros(3).uniform_()
    torch.manual_seed(0)
    with BaseTorchDispatchMode():
        seen = torch.zeros(3).uniform_(), torch.full((3,), 0.5).bernoulli()
    assert [x.tolist() for x in seen] == [x.tolist() for x in plain]
    assert torch.zeros(3).uniform_().tolist() == after.tolist()


def test_modes_belong_to_their_thread() -> None:
    """Another thread has none."""
    found: list[bool] = []
    with Seeing():
        thread = threading.Thread(target=lambda: found.append(is_in_torch_dispatch_mode()))
        thread.start()
        thread.join()
        assert is_in_torch_dispatch_mode()
    assert found == [False]
    assert MODES.dispatch is None


def test_modes_intercept_deeply_nested_backward() -> None:
    """Where the engine goes on in another thread, the mode goes with it."""
    x = torch.ones(1, requires_grad=True)

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.depth:
                y = torch.ones(1, requires_grad=True)
                with torch.enable_grad():
                    Nested.apply(y, ctx.depth - 1).sum().backward()
                return y.grad, None
            return grad * 3, None

    with Seeing() as mode:
        Nested.apply(x, 45).sum().backward()
    assert x.grad.tolist() == [3.0]
    assert mode.names.count("aten.mul.Tensor") == 47


def test_a_mode_does_not_keep_intercepted_values() -> None:
    """Nothing is held after an operation, without the collector."""
    gc.disable()
    try:
        x = torch.ones(2, requires_grad=True)
        with Seeing():
            y = (x * 2).exp()
        reference = weakref.ref(y)
        node = weakref.ref(y.grad_fn)
        del y
        assert reference() is None and node() is None
    finally:
        gc.enable()


def test_traced_values_are_refused() -> None:
    """Functional transforms trace; a mode would see nothing of what runs in the end."""
    with Seeing(), pytest.raises(NotImplementedError, match="TorchDispatchMode does not see"):
        ft.grad(lambda x: torch.sin(x))(1.0)


def test_results_that_do_not_fit_the_derivative_are_refused() -> None:
    """Without gradients anything goes."""

    class Half(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {})).to(torch.float16)

    x = torch.ones(2, requires_grad=True)
    with Half():
        assert x.detach().exp().dtype == torch.float16
        with pytest.raises(NotImplementedError, match="its derivative would not fit"):
            x.sin()


def test_push_warns_and_keys_are_refused() -> None:
    """The older spellings."""
    with pytest.warns(UserWarning, match="no longer necessary"):
        assert isinstance(BaseTorchDispatchMode.push(), TorchDispatchMode)
    with pytest.raises(AssertionError):
        TorchDispatchMode(object())


def test_a_recomputation_ends_before_the_operation_that_saves_last() -> None:
    x = torch.tensor(1.0, requires_grad=True)
    with Seeing() as mode:
        out = torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)
        out.backward()
    assert mode.names.count("aten.sin.default") == 1
    mode.names.clear()
    with mode, torch.utils.checkpoint.set_checkpoint_early_stop(False):
        torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False).backward()
    assert mode.names.count("aten.sin.default") == 2
