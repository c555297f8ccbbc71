"""A traced value is not left in a tensor from outside of the transform: the write raises, in the
user's line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import FunctraceError, LostGradientError

EVERY, MASK = torch.tensor([0, 1, 2]), torch.tensor([True, False, True])


def assign_data(keep: Any, x: Any) -> None:
    keep.data = x * 2


WRITES: dict[str, Callable[[Any, Any], object]] = {
    "copy_": lambda keep, x: keep.copy_(x),
    "copy_ of a constant": lambda keep, x: keep.copy_(x.detach()),
    "copy_ under no_grad": lambda keep, x: torch.no_grad()(keep.copy_)(x),
    "fill_": lambda keep, x: keep.fill_(x[0]),
    "add_": lambda keep, x: keep.add_(x),
    "addcmul_": lambda keep, x: keep.addcmul_(x, x),
    "lerp_": lambda keep, x: keep.lerp_(x, 0.5),
    "pow_": lambda keep, x: keep.pow_(x),
    "masked_fill_": lambda keep, x: keep.masked_fill_(MASK, x[0]),
    "index_add_": lambda keep, x: keep.index_add_(0, EVERY, x),
    "scatter_": lambda keep, x: keep.scatter_(0, EVERY, x),
    "item": lambda keep, x: keep.__setitem__(0, x[0]),
    "slice": lambda keep, x: keep.__setitem__(slice(1, None), x[1:]),
    "mask": lambda keep, x: keep.__setitem__(MASK, x[:2]),
    "positions": lambda keep, x: keep.__setitem__(EVERY, x),
    "through a view": lambda keep, x: keep[1:].add_(x[1:]),
    "through an alias": lambda keep, x: keep.detach().copy_(x),
    "through data": lambda keep, x: keep.data.copy_(x),
    "data": assign_data,
    "set_": lambda keep, x: keep.set_(x),
    "out=": lambda keep, x: torch.add(x, 1, out=keep),
    "out= of another size": lambda keep, x: torch.cat((x, x), out=keep),
}


def grad(write: Callable[[Any], Any], x: Any) -> None:
    torch.func.grad(lambda x: (write(x), x.sum())[1])(x)


def jvp(write: Callable[[Any], Any], x: Any) -> None:
    torch.func.jvp(lambda x: (write(x), x.sum())[1], (x,), (x,))


def vmap(write: Callable[[Any], Any], x: Any) -> None:
    torch.func.vmap(lambda x: (write(x), x.sum())[1])(torch.stack((x, x)))


def inner(write: Callable[[Any], Any], x: Any) -> None:
    torch.func.grad(lambda y: torch.func.grad(lambda x: (write(x), (x * y).sum())[1])(x).sum())(x)


def core(write: Callable[[Any], Any], x: Any) -> None:
    ft.grad(lambda x: ((t := torch.as_tensor(x)), write(t), t.sum()._array)[-1])(x.numpy())


@pytest.mark.parametrize("transform", [grad, jvp, vmap, inner, core])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_tensor_from_outside_raises_and_does_not_change_it(
    transform: Callable[..., None], write: Callable[[Any, Any], object]
) -> None:
    keep = torch.zeros(3)
    with pytest.raises((FunctraceError, RuntimeError)) as caught:
        transform(lambda x: write(keep, x), torch.tensor([1.0, 2.0, 3.0]))
    if isinstance(caught.value, FunctraceError):
        assert "test_outside.py" in str(caught.value)
        assert "fix:" in str(caught.value)
    assert isinstance(keep._array, np.ndarray)
    assert keep.tolist() == [0, 0, 0]
    assert (keep + 1).sum().item() == 3


def test_the_body_of_a_loop_does_not_write_to_tensors_of_its_caller() -> None:
    def loss(x: Any) -> Any:
        keep = torch.zeros(())

        def body(carry: Any, item: Any) -> Any:
            keep.copy_(torch.as_tensor(item))
            return carry + item, None

        return ft.scan(body, x.sum(), x)[0]

    with pytest.raises(LostGradientError, match="from outside of"):
        ft.grad(loss)(np.ones(3))


def test_tensors_created_inside_are_writable() -> None:
    outside = torch.tensor([1.0, 2.0, 3.0])

    def loss(x: Any) -> Any:
        made = [
            torch.zeros(3),
            torch.zeros_like(x),
            outside.clone(),
            outside * 2,
            torch.tensor([0.0, 0.0, 0.0]),
            torch.ones(3) + 1,
        ]
        for tensor in made:
            tensor.add_(x)
            tensor[0] = x[1]
        outer = torch.zeros(())
        torch.func.vmap(lambda y: (y * x).sum())(torch.ones(2, 3))
        outer.copy_(x[0])
        return sum((t.sum() for t in made), outer)

    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.func.grad(loss)(x).tolist() == [1, 12, 6]
    assert outside.tolist() == [1, 2, 3]


def test_backward_writes_to_tensors_of_forward_and_to_no_older_ones() -> None:
    outside = torch.zeros(3)

    class Buffered(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, into: Any) -> Any:
            ctx.buffer = torch.zeros(3) if into is None else into
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.buffer.copy_(grad) * 2, None

    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.func.grad(lambda x: Buffered.apply(x, None).sum())(x).tolist() == [2, 2, 2]
    assert torch.func.hessian(lambda x: (Buffered.apply(x, None) ** 2).sum())(
        x
    ).diagonal().tolist() == [8, 8, 8]
    with pytest.raises(LostGradientError, match="outside"):
        torch.func.grad(lambda x: Buffered.apply(x, [outside][0]).sum())(x)
    assert outside.tolist() == [0, 0, 0]
