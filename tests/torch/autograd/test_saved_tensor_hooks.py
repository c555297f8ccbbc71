"""Saved-tensor hooks: which are called, what they may do, and what they leave behind."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd.graph import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Run without the cycle collector: only reference counting frees objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


def counting(calls: list[str], name: str = "") -> saved_tensors_hooks:
    """Return hooks that note their calls and change nothing."""

    def pack(tensor: Any) -> Any:
        calls.append(f"pack{name}")
        return tensor.detach()

    def unpack(tensor: Any) -> Any:
        calls.append(f"unpack{name}")
        return tensor

    return saved_tensors_hooks(pack, unpack)


def no_hooks_are_left() -> bool:
    calls: list[str] = []
    leaf(1.0).exp()
    with counting(calls):
        leaf(1.0).exp()
    return calls == ["pack"]


def test_each_saved_field_is_packed_once() -> None:
    calls: list[str] = []
    x = leaf(2.0)
    with counting(calls):
        x * x
    assert calls == ["pack", "pack"]


def test_gradient_is_that_of_the_unpacked_values() -> None:
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(
        lambda t: t.detach().numpy() + 3.0, lambda a: torch.tensor(a.tolist())
    ):
        y = x.sin().sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([4.0, 5.0]), rtol=1e-6)


def test_innermost_hooks_are_called_and_remembered() -> None:
    calls: list[str] = []
    x = leaf(1.0)
    with counting(calls, " outer"):
        with counting(calls, " inner"):
            y = x.exp()
        z = y.exp()
    z.backward()
    assert calls == ["pack inner", "pack outer", "unpack outer", "unpack inner"]


def test_packing_detached_keeps_double_backward() -> None:
    x = leaf(0.5, 1.5)
    with counting([]):
        y = (x.exp() * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    values = np.array([0.5, 1.5])
    np.testing.assert_allclose(h.numpy(), (values + 2.0) * np.exp(values), rtol=1e-5)


def test_hooks_belong_to_their_thread() -> None:
    calls: list[str] = []
    other: list[str] = []

    def body() -> None:
        leaf(1.0).exp()
        with counting(other):
            leaf(1.0).exp()

    with counting(calls):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    assert calls == []
    assert other == ["pack"]
    assert no_hooks_are_left()


def test_hooks_reach_nested_backward_passes_of_any_depth() -> None:
    calls: list[str] = []
    deepest = 45

    class Nest(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with torch.enable_grad():
                inner = leaf(1.0)
                if ctx.depth == deepest:
                    (inner.exp() * 1.0).sum().backward()
                else:
                    Nest.apply(inner, ctx.depth + 1).sum().backward()
            return grad, None

    with counting(calls):
        Nest.apply(leaf(1.0), 1).sum().backward()
    assert calls == ["pack", "unpack"]


@pytest.mark.parametrize("where", ["pack", "unpack", "body"])
def test_hooks_are_taken_away_when_something_fails(where: str) -> None:
    def fails(value: Any) -> Any:
        raise LookupError(where)

    x = leaf(1.0)
    with pytest.raises(LookupError, match=where):
        with saved_tensors_hooks(
            fails if where == "pack" else lambda t: t, fails if where == "unpack" else lambda t: t
        ):
            y = x.exp()
            if where == "body":
                raise LookupError(where)
        y.backward()
    assert torch.is_grad_enabled()
    assert no_hooks_are_left()


@pytest.mark.parametrize("value", [None, 3.0, [1.0], np.ones(1)])
def test_unpack_returns_a_tensor_or_raises(value: Any) -> None:
    with saved_tensors_hooks(lambda t: t, lambda t: value):
        y = leaf(1.0).exp()
    with pytest.raises(TypeError, match="expected to be a Tensor but got result of type"):
        y.backward()


def test_pack_may_not_write_to_its_tensor() -> None:
    x = leaf(1.0)
    hooks = saved_tensors_hooks(lambda t: t.mul_(2.0), lambda t: t)
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"), hooks:
        x.exp()
    assert no_hooks_are_left()


def test_packed_tensors_have_no_version_check() -> None:
    x = leaf(2.0)
    h = x * 1.0
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = h * h
    with torch.no_grad():
        h.mul_(2.0)
    y.backward()
    assert x.grad.tolist() == [8.0]


def test_disabled_hooks_raise_the_given_message() -> None:
    with disable_saved_tensors_hooks("not here"):
        with disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor here"):
            counting([]).__enter__()
        with pytest.raises(RuntimeError, match="not here"):
            counting([]).__enter__()
    with counting([]), pytest.raises(RuntimeError, match="too late"):
        disable_saved_tensors_hooks("too late").__enter__()
    assert no_hooks_are_left()


def test_save_on_cpu_shares_memory_and_makes_no_cycle(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    with save_on_cpu():
        y = x.exp()
    assert y.grad_fn._raw_saved_result.data.numpy() is y.detach().numpy()
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_packed_values_are_freed_with_the_graph_and_in_backward(no_collector: None) -> None:
    class Box:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    boxes: list[weakref.ref[Box]] = []

    def pack(tensor: Any) -> Box:
        box = Box(tensor.detach())
        boxes.append(weakref.ref(box))
        return box

    x = leaf(1.0, 2.0)
    for finish in ("drop", "backward"):
        with saved_tensors_hooks(pack, lambda box: box.tensor):
            y = (x.exp() * x).sum()
        assert [box() is not None for box in boxes] == [True] * 3
        if finish == "backward":
            y.backward()
        else:
            del y
        assert [box() for box in boxes] == [None] * 3
        boxes.clear()


def test_halved_precision_halves_saved_memory() -> None:
    kept: list[int] = []
    x = torch.ones(64, 64, requires_grad=True)

    def pack(tensor: Any) -> Any:
        packed = tensor.detach().to(torch.float16)
        kept.append(packed.nbytes)
        return packed

    with saved_tensors_hooks(pack, lambda t: t.to(torch.float32)):
        y = (x.exp() * x).sum()
    y.backward()
    assert kept == [64 * 64 * 2] * 3
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.e * np.ones((64, 64)), rtol=2e-3)
