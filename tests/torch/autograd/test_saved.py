"""SavedTensor: kept values, detected modifications, and the time of freeing.

The parity scripts compare its messages with PyTorch's.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Run without the cycle collector: only reference counting frees objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


def memory(tensor: Any) -> weakref.ref[Any]:
    """Return a reference to the array of a tensor, which aliases share."""
    return weakref.ref(tensor.detach().numpy())


def test_saved_input_is_the_same_object() -> None:
    x, y = leaf(2.0), leaf(3.0)
    node = (x * y).grad_fn
    assert node._saved_self is x
    assert node._saved_other is y


def test_saved_output_is_an_alias_with_the_node_attached() -> None:
    y = leaf(2.0).exp()
    saved = y.grad_fn._saved_result
    assert saved is not y
    assert saved.grad_fn is y.grad_fn
    assert saved.detach().numpy() is y.detach().numpy()


def test_only_tensors_that_backward_needs_are_saved() -> None:
    node = (leaf(2.0) * torch.tensor([3.0])).grad_fn
    assert node._saved_self is None
    assert node._saved_other is not None
    with pytest.raises(RuntimeError, match="None is forbidden"):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@pytest.mark.parametrize("through", ["itself", "detached alias", "view"])
def test_overwriting_a_saved_tensor_is_noticed(through: str) -> None:
    x = leaf(2.0, 3.0)
    h = x * 1.0
    y = (h * h).sum()
    target = {"itself": h, "detached alias": h.detach(), "view": h[:1]}[through]
    with torch.no_grad():
        target.mul_(2.0)
    with pytest.raises(
        RuntimeError, match="which is output 0 of Mul, is at version 1; expected version 0 instead"
    ):
        y.backward()
    assert x.grad is None


def test_overwriting_a_saved_output_is_noticed() -> None:
    y = leaf(2.0).exp()
    y.add_(1.0)
    with pytest.raises(
        RuntimeError, match="which is output 0 of Exp, is at version 1; expected version 0"
    ):
        y.backward()


def test_writing_through_numpy_is_not_noticed() -> None:
    x = leaf(2.0)
    h = x * 1.0
    y = h * h
    h.detach().numpy()[:] = 5.0
    y.backward()
    assert x.grad.tolist() == [10.0]


def test_freed_tensors_cannot_be_read() -> None:
    y = leaf(2.0).exp()
    y.backward()
    for read in (lambda: y.grad_fn._saved_result, lambda: y.backward()):
        with pytest.raises(
            RuntimeError, match="Trying to backward through the graph a second time"
        ):
            read()


def test_registered_hooks_replace_the_saved_tensor(no_collector: None) -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    original = memory(y)
    y.grad_fn._raw_saved_result.register_hooks(
        lambda t: t.numpy().tolist(), lambda values: torch.tensor(values)
    )
    z = y.sum()
    del y
    assert original() is None
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


def test_failing_pack_hook_leaves_the_tensor_as_it_was() -> None:
    x = leaf(2.0)
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    with pytest.raises(ZeroDivisionError):
        raw.register_hooks(lambda t: 1 / 0, lambda t: t)
    assert torch.is_grad_enabled()
    raw.register_hooks(lambda t: t, lambda t: t * 0.0)
    y.backward()
    assert x.grad.tolist() == [0.0]


@pytest.mark.parametrize(
    "function", [lambda x: x.exp(), lambda x: x * x, lambda x: (x * 2.0).exp().sin() * x]
)
def test_graph_is_freed_with_its_last_tensor(no_collector: None, function: Any) -> None:
    x = leaf(2.0, 3.0)
    y = function(x)
    node, array = weakref.ref(y.grad_fn), memory(y)
    del y
    assert node() is None
    assert array() is None


def test_graph_is_freed_after_reading_saved_attributes(no_collector: None) -> None:
    y = leaf(2.0).exp()
    node = weakref.ref(y.grad_fn)
    saved, raw = y.grad_fn._saved_result, y.grad_fn._raw_saved_result
    raw.register_hooks(lambda t: t, lambda t: t)
    again = y.grad_fn._saved_result
    assert again.grad_fn is node()
    del y, saved, again
    assert node() is None
    assert raw.data.tolist() == [pytest.approx(np.exp(2.0))]


def test_buffers_are_freed_during_backward(no_collector: None) -> None:
    x = leaf(2.0, 3.0)
    h = x.exp()
    y = h.sin().sum()
    array = memory(h)
    del h
    assert array() is not None
    y.backward()
    assert array() is None
    assert y.grad_fn is not None


def test_graph_is_freed_after_an_error_in_backward(no_collector: None) -> None:
    x = leaf(2.0)
    h = x * 1.0
    y = h.exp() * h
    with torch.no_grad():
        h.add_(1.0)
    node = weakref.ref(y.grad_fn)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    del y
    assert node() is None


def test_graph_is_freed_after_an_error_in_deeply_nested_backward(no_collector: None) -> None:
    class Nest(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            if not ctx.depth:
                raise LookupError
            with torch.enable_grad():
                Nest.apply(x.detach().requires_grad_(), ctx.depth - 1).backward()
            return grad, None

    h = leaf(2.0) * 1.0
    y = Nest.apply(h, 50)
    array = memory(h)
    with pytest.raises(LookupError):
        y.backward()
    del h, y
    assert array() is None


def test_double_backward_through_saved_outputs() -> None:
    x = leaf(0.5, 1.0)
    (g,) = torch.autograd.grad(x.exp().sin().sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    e = np.exp([0.5, 1.0])
    np.testing.assert_allclose(h.numpy(), np.cos(e) * e - np.sin(e) * e * e, rtol=1e-5)


def test_saved_tensor_is_not_made_from_python() -> None:
    with pytest.raises(RuntimeError, match="from Python is forbidden"):
        torch.autograd.SavedTensor()
