"""State that a backward pass restores, keeps and shows, as PyTorch's own tests require (recorded
from PyTorch 2.13.0).

Layer: 9.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch import Tensor
from functrace.torch.autograd.graph import Node, saved_tensors_hooks
from functrace.torch.utils.checkpoint import checkpoint


def names(node: Any) -> str:
    """Return the names of the nodes below a node."""
    if node is None:
        return "None"
    return type(node).__name__ + "(" + ", ".join(names(n) for n, _ in node.next_functions) + ")"


def itself(x: Any) -> Any:
    return x


@pytest.mark.filterwarnings("ignore:Using backward")
def test_the_copy_in_grad_has_an_edge_to_nothing_first() -> None:
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not None
    assert names(x.grad.grad_fn).startswith("CopyBackwards(None, AddBackward0(")
    x.grad = None


def test_hooks_left_or_entered_during_a_pass_are_restored() -> None:
    outer = saved_tensors_hooks(itself, itself)
    x = torch.ones(3, requires_grad=True)

    def leave(packed: Any) -> Any:
        inner.__exit__()
        return packed

    inner = saved_tensors_hooks(itself, leave)
    with outer:
        inner.__enter__()
        x.sin().sum().backward()
        assert len(torch.autograd.grad_mode.MODES.pairs) == 2
    inner.__exit__()
    x.exp().grad_fn._raw_saved_result.register_hooks(itself, itself)


def test_hooks_entered_during_a_pass_do_not_live_on() -> None:
    def scope() -> weakref.ref[Any]:
        def unpack(packed: Any) -> Any:
            entered_now = reference()
            assert entered_now is not None
            entered_now.__enter__()
            return packed

        entered = saved_tensors_hooks(itself, unpack)
        reference = weakref.ref(entered)
        x = torch.ones(3, requires_grad=True)
        with entered:
            x.sin().sum().backward()
        return weakref.ref(unpack)

    gc.collect()
    gc.disable()
    try:
        assert scope()() is None
    finally:
        gc.enable()


def test_a_hook_registered_on_the_running_node_by_unpack_runs() -> None:
    given: list[Any] = []

    def unpack(packed: Any) -> Any:
        def halve(results: Any, grads: Any) -> Any:
            given.append(grads)
            return tuple(None if r is None else r / 2 for r in results)

        node = torch._C._current_autograd_node()
        assert node is not None
        node.register_hook(halve)
        return packed

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(itself, unpack):
        x.sin().sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, x.detach().cos() / 2)
    assert given == [()]


def test_an_unreachable_input_is_not_awaited_by_a_hook_on_several_tensors() -> None:
    a, b, c = (torch.ones(2, requires_grad=True) * 2 for _ in range(3))
    arrived: list[list[bool]] = []
    torch.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda grads: arrived.append([g is not None for g in grads])
    )
    loss = (b * c).sum()
    loss.backward(inputs=(b, c), retain_graph=True)
    loss.backward(inputs=(a,), retain_graph=True)
    loss.backward(inputs=(a, c), retain_graph=True)
    assert arrived == [[False, True, True], [False, False, True]]


def test_classes_that_count_as_nodes() -> None:
    functions = torch._C._functions
    assert issubclass(functions.DelayedError, Node)
    assert issubclass(functions.AccumulateGrad, Node)
    assert not isinstance(functions.AccumulateGrad, Node)
    assert isinstance(functions.DelayedError("x", 1), Node)
    assert not isinstance(Node, Node)


def test_outputs_saved_for_backward_are_freed_when_a_recomputation_stops() -> None:
    saved: list[weakref.ref[Tensor]] = []

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x.clone()
            ctx.save_for_backward(y)
            saved.append(weakref.ref(y))
            return y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> None:
            ctx.saved_tensors

    x = torch.ones(3, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        checkpoint(Kept.apply, x, use_reentrant=False).sum().backward()
        assert [reference() for reference in saved] == [None, None]
    finally:
        gc.enable()


def test_shapes_of_a_root_and_its_gradient() -> None:
    shapes = torch.autograd._calculate_shape
    root = torch.ones(2, requires_grad=True) * 2
    assert shapes(torch.ones(2, 3), torch.ones(5, 2, 3), True) == ((2, 3), (2, 3))
    assert shapes(torch.autograd.graph.get_gradient_edge(root), torch.ones(3), False) == (
        (2,),
        (3,),
    )


def test_cached_tensors_are_listed_while_that_is_enabled() -> None:
    x = torch.ones(2)
    torch._C._set_cached_tensors_enabled(True)
    try:
        torch._C._add_cached_tensor(x)
        torch._C._add_cached_tensor(x)
        assert torch._C._is_cached_tensor(x)
        torch._C._remove_cached_tensor(x)
        assert not torch._C._is_cached_tensor(x)
    finally:
        torch._C._set_cached_tensors_enabled(False)


def test_the_package_is_an_attribute_of_its_part() -> None:
    assert torch.autograd.torch is torch


def test_a_bare_exit_of_hooks_that_were_not_entered_raises() -> None:
    with pytest.raises(RuntimeError):
        saved_tensors_hooks(itself, itself).__exit__()
