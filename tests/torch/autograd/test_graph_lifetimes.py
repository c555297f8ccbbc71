"""Graphs live by reference counts alone, however long they are and however backward was left."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

import functrace.torch as torch
from functrace.torch import Tensor

LONG = 150_000
DEEP = 2_000


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    """Everything here must die without the cycle collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def refs(*things: object) -> list[weakref.ref[object]]:
    return [weakref.ref(thing) for thing in things]


def alive(found: list[weakref.ref[object]]) -> list[object]:
    return [thing for ref in found if (thing := ref()) is not None]


def test_graph_is_freed_with_its_last_tensor() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = y.exp()
    found = refs(y, z, y.grad_fn, z.grad_fn)
    out = z.sum()
    del y, z
    assert len(alive(found)) == 2, (
        "the tensors are gone, the nodes are held by the edges of the sum"
    )
    del out
    assert not alive(found)


def test_saved_results_make_no_cycle() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp().tanh().sigmoid().softmax(0)
    found = refs(y, y.grad_fn)
    del y
    assert not alive(found)


def test_backward_frees_saved_tensors() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    found = refs(y)
    out = z.sum()
    del y, z
    assert alive(found)
    out.backward()
    assert not alive(found)


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_leaves_nothing_behind(create_graph: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x.exp() * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=create_graph)
    found = refs(y, y.grad_fn, g)
    del y, g
    assert not alive(found)


def test_leaf_references_its_accumulator_weakly() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert y.grad_fn is not None
    accumulator = y.grad_fn.next_functions[0][0]
    found = refs(accumulator)
    del accumulator
    assert alive(found)
    del y
    assert not alive(found)


def test_in_place_and_views_make_no_cycle() -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.zeros(2, 3)
    v = x[0]
    v.mul_(w)
    x[1] = w
    x.exp_()
    found = refs(x, v, x.grad_fn, v.grad_fn)
    del x, v
    assert not alive(found)


def test_hooks_are_freed_with_the_graph() -> None:
    class Hook:
        def __call__(self, g: Tensor) -> None:
            return None

    x = torch.ones(3, requires_grad=True)
    y = x * 2
    hook = Hook()
    handle = y.register_hook(hook)
    y.retain_grad()
    found = refs(hook, y)
    del hook
    y.sum().backward()
    assert len(alive(found)) == 2
    del y
    assert not alive(found)
    handle.remove()


def test_error_in_backward_leaves_nothing_behind() -> None:
    def fail(g: Tensor) -> None:
        raise KeyError("from the hook")

    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(fail)
    out = y.sum()
    found = refs(y, out.grad_fn)
    with pytest.raises(KeyError, match="from the hook") as caught:
        out.backward()
    del y, out, caught
    assert not alive(found)
    assert torch.is_grad_enabled()
    (g,) = torch.autograd.grad((x * 2).sum(), x)
    assert g.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["add", "sin"])
def test_long_chain_runs_and_is_freed(name: str) -> None:
    step = {"add": lambda y: y + 1.0, "sin": lambda y: y.sin()}[name]
    x = torch.tensor([0.5, 2.0], requires_grad=True, dtype=torch.float64)
    y = x
    for _ in range(LONG):
        y = step(y)
    found = refs(y, y.grad_fn)
    y.sum().backward()
    assert x.grad is not None
    if name == "add":
        assert x.grad.tolist() == [1.0, 1.0]
    del y
    assert not alive(found)


def test_long_chain_is_freed_without_a_backward_pass() -> None:
    x = torch.tensor([0.5], requires_grad=True)
    y = x * 1
    first = refs(y.grad_fn)
    for _ in range(LONG):
        y = y * x
    assert alive(first)
    del y
    assert not alive(first)


class Nested(torch.autograd.Function):
    """Its backward runs another backward pass, ``levels`` deep."""

    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        if not ctx.levels:
            return gradient * 3, None
        with torch.enable_grad():
            inner = torch.tensor(1.0, requires_grad=True)
            Nested.apply(inner, ctx.levels - 1).backward()
        return gradient * inner.grad, None


def test_deeply_nested_backward_passes() -> None:
    x = torch.tensor(1.0, requires_grad=True)
    y = Nested.apply(x, DEEP)
    found = refs(y.grad_fn)
    y.backward()
    assert x.grad is not None and x.grad.item() == 3.0
    del y
    assert not alive(found)


def test_error_deep_inside_nested_passes_propagates() -> None:
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.levels = levels
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            if not ctx.levels:
                raise LookupError("at the bottom")
            with torch.enable_grad():
                inner = torch.tensor(1.0, requires_grad=True)
                Failing.apply(inner, ctx.levels - 1).backward()
            return gradient, None

    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(LookupError, match="at the bottom"):
        Failing.apply(x, 100).backward()
    assert x.grad is None
    assert torch.is_grad_enabled()
