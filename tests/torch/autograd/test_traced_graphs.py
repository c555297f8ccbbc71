"""Functions that differentiate for themselves, and hooks on what is saved, inside functrace's
transforms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import CapturedArrayError, LostGradientError
from functrace.torch.autograd import Function
from functrace.torch.utils.checkpoint import checkpoint

graph = torch.autograd.graph
RNG = np.random.default_rng(0)
X1, X2 = RNG.normal(size=(2, 4, 3))
W1, W2 = RNG.normal(size=(2, 3, 3))
ARGS = X1, X2, W1, W2


def branch(x: Any, w: Any) -> Any:
    return torch.tanh(x @ w)


class RevBlock(Function):
    """A reversible block, as ported code has it: it keeps its outputs, and computes its inputs and
    gradients from them.
    """

    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, w1: Any, w2: Any) -> Any:
        with torch.no_grad():
            y1 = x1 + branch(x2, w1)
            y2 = x2 + branch(y1, w2)
        ctx.save_for_backward(y1.detach(), y2.detach(), w1, w2)
        return y1, y2

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        y1, y2, w1, w2 = ctx.saved_tensors
        with torch.enable_grad():
            y1_, w2_ = y1.detach().requires_grad_(), w2.detach().requires_grad_()
            f2 = branch(y1_, w2_)
            f2.backward(g2)
        with torch.no_grad():
            x2 = y2 - f2
            g1 = g1 + y1_.grad
        with torch.enable_grad():
            x2_, w1_ = x2.detach().requires_grad_(), w1.detach().requires_grad_()
            through, dw1 = torch.autograd.grad(branch(x2_, w1_), (x2_, w1_), g1)
        return g1, g2 + through, dw1, w2_.grad


def plain(x1: Any, x2: Any, w1: Any, w2: Any) -> Any:
    y1 = x1 + branch(x2, w1)
    return y1, x2 + branch(y1, w2)


def loss(
    block: Callable[..., Any], log: list[Any] | None = None, *, again: bool = False
) -> Callable[..., Any]:
    """Return a function of arrays: two blocks, with hooks that note what they see, and as a
    checkpoint.
    """

    def noted(word: str) -> Callable[[Any], Any]:
        def hook(tensor: Any) -> Any:
            assert log is not None
            log.append((word, tuple(tensor.shape)))
            return tensor * 1

        return hook

    def two(*tensors: Any) -> Any:
        a, b = block(*tensors)
        a, b = block(b, a, *tensors[2:])
        return (a * b).sum() + (a * a).sum()

    def of_arrays(*arrays: Any) -> Any:
        tensors = [torch.as_tensor(a) for a in arrays]
        with (
            contextlib.nullcontext()
            if log is None
            else graph.saved_tensors_hooks(noted("pack"), noted("unpack"))
        ):
            return (
                checkpoint(two, *tensors, use_reentrant=False) if again else two(*tensors)
            ).numpy()

    return of_arrays


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_reversible_block_has_its_derivatives_under_every_transform(
    hooked: bool, again: bool
) -> None:
    log: list[Any] | None = [] if hooked else None
    made, wanted = loss(RevBlock.apply, log, again=again), loss(plain)
    every = (0, 1, 2, 3)
    for a, b in zip(
        ft.grad(made, argnums=every)(*ARGS), ft.grad(wanted, argnums=every)(*ARGS), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)
    if log is not None:
        saved = [("pack", shape) for shape in [(4, 3), (4, 3), (3, 3), (3, 3)]]
        assert log[:4] == saved and log[4:8] == [("unpack", shape) for _, shape in saved]
        assert log.count(("pack", (3, 3))) == log.count(("unpack", (3, 3)))
    np.testing.assert_allclose(
        ft.hessian(made, argnums=2)(*ARGS), ft.hessian(wanted, argnums=2)(*ARGS), atol=1e-10
    )
    stacked = [np.stack([a, a / 2]) for a in ARGS]
    batched = [ft.vmap(ft.grad(f, argnums=2))(*stacked) for f in (made, wanted)]
    np.testing.assert_allclose(*batched, atol=1e-12)
    pushed = [
        ft.jvp(ft.grad(f, argnums=3), ARGS, tuple(np.cos(a) for a in ARGS))[1]
        for f in (made, wanted)
    ]
    np.testing.assert_allclose(*pushed, atol=1e-10)
    np.testing.assert_allclose(ft.jit(ft.grad(made))(*ARGS), ft.grad(wanted)(*ARGS), atol=1e-12)


def test_the_same_block_trains_by_backward_and_by_grad() -> None:
    tensors = [torch.tensor(a, requires_grad=True) for a in ARGS]
    a, b = RevBlock.apply(*tensors)
    (a * b).sum().backward()

    def f(*arrays: Any) -> Any:
        a, b = RevBlock.apply(*[torch.as_tensor(x) for x in arrays])
        return (a * b).sum().numpy()

    for tensor, gradient in zip(tensors, ft.grad(f, argnums=(0, 1, 2, 3))(*ARGS), strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, atol=1e-12)


def test_a_graph_kept_in_forward_is_run_in_backward() -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x.sin() * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.autograd.grad(ctx.y, ctx.x, grad)[0]

    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(ft.vmap(ft.grad(Kept.apply))(x), np.cos(x) * x + np.sin(x))
    np.testing.assert_allclose(
        ft.vmap(ft.grad(ft.grad(Kept.apply)))(x), 2 * np.cos(x) - np.sin(x) * x
    )


def test_a_fixed_point_is_differentiated_by_its_own_backward() -> None:
    class Fixed(Function):
        """x = cos(w x), with the implicit derivative found by iteration, as deep equilibrium models
        do.
        """

        @staticmethod
        def forward(ctx: Any, w: Any) -> Any:
            x = torch.ones_like(w)
            for _ in range(60):
                x = (w * x).cos()
            ctx.save_for_backward(w, x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            w, x = ctx.saved_tensors
            with torch.enable_grad():
                w, x = w.detach().requires_grad_(), x.detach().requires_grad_()
                y = (w * x).cos()
            v = grad
            for _ in range(60):
                v = grad + torch.autograd.grad(y, x, v, retain_graph=True)[0]
            return torch.autograd.grad(y, w, v)[0]

    w = np.array([0.3, 0.5, 0.7])

    def unrolled(w: Any) -> Any:
        x = np.ones_like(w)
        for _ in range(60):
            x = np.cos(w * x)
        return np.sum(x)

    implicit = lambda w: np.sum(Fixed.apply(w))
    np.testing.assert_allclose(ft.grad(implicit)(w), ft.grad(unrolled)(w), rtol=1e-9)


def test_a_gradient_of_a_tensor_outside_raises() -> None:
    w = torch.tensor([2.0], requires_grad=True)

    class Leaks(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * w

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                (x * w).backward(grad)
            return x.grad

    with pytest.raises(LostGradientError, match="outside"):
        ft.grad(lambda x: np.sum(Leaks.apply(x)))(np.ones(1))
    assert w.grad is None


def test_overwritten_saved_tensors_raise() -> None:
    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            y.mul_(2)
            return y * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    class Late(Saves):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            y.mul_(0)
            return grad * ctx.saved_tensors[0]

    np.testing.assert_allclose(ft.grad(lambda x: np.sum(Saves.apply(x)))(np.zeros(2)), [2, 2])
    with pytest.raises(CapturedArrayError, match="backward of Late writes"):
        ft.grad(lambda x: np.sum(Late.apply(x)))(np.zeros(2))


def test_hooks_receive_residuals_of_plain_operations() -> None:
    log: list[str] = []

    def halved(x: Any) -> Any:
        with graph.saved_tensors_hooks(
            lambda t: log.append("pack") or t.half(), lambda t: log.append("unpack") or t.double()
        ):
            return (torch.as_tensor(x).exp() * 3 + 1).sum().numpy()

    x = np.array([0.1, 0.2])
    rounded = np.exp(x).astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(ft.grad(halved)(x), 3 * rounded)
    assert log == ["pack", "unpack"]
    np.testing.assert_array_equal(ft.vmap(ft.grad(halved))(x[:, None]), 3 * rounded[:, None])


def test_a_jitted_function_refuses_outside_tensors_that_want_gradients() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    x = torch.tensor([1.0, 5.0])
    scaled = ft.jit(lambda a: a * weight)
    with torch.no_grad():
        assert scaled(x).tolist() == [2.0, 15.0]  # which must not serve where gradients are wanted
    for argument in (x, x.clone().requires_grad_()):
        with pytest.raises(LostGradientError, match="requires grad and is no argument"):
            scaled(argument)
    assert torch.autograd.grad((x * weight).sum(), weight)[0].tolist() == [
        1.0,
        5.0,
    ]  # nothing is left behind


def test_jit_takes_tensors() -> None:
    runs: list[int] = []

    @ft.jit
    def f(x: Any, w: Any, power: int = 2) -> Any:
        runs.append(1)
        y = (x @ w).tanh() ** power
        return {"y": y, "sum": y.sum()}

    x, w = torch.tensor(X1), torch.tensor(W1, requires_grad=True)
    f(x, w)["sum"].backward()
    gradient, w.grad = w.grad, None
    ((x @ w).tanh() ** 2).sum().backward()
    np.testing.assert_allclose(gradient.numpy(), w.grad.numpy(), atol=1e-12)
    f(x * 2, w)
    assert len(runs) == 1
    with torch.no_grad():
        assert not f(x, w)["y"].requires_grad
    assert len(runs) == 2  # what runs may ask whether gradients are wanted
    assert f(x[:2], w)["y"].shape == (2, 3) and len(runs) == 3
    np.testing.assert_allclose(
        torch.func.grad(lambda w: f(x, w)["sum"])(w.detach()).numpy(), gradient.numpy(), atol=1e-12
    )
    cube = ft.jit(lambda a: (a**3).sum())
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(cube(a), a, create_graph=True)
    np.testing.assert_allclose(torch.autograd.grad(first.sum(), a)[0].numpy(), [6.0, 12.0])


def test_the_reentrant_checkpoint_recomputes_under_transforms() -> None:
    def f(x: Any) -> Any:
        return (
            checkpoint(lambda t: t.sin() * t, torch.as_tensor(x), use_reentrant=True).sum().numpy()
        )

    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(ft.grad(f)(x), np.cos(x) * x + np.sin(x))
    np.testing.assert_allclose(np.diag(ft.hessian(f)(x)), 2 * np.cos(x) - np.sin(x) * x)


def test_functional_transforms_raise_as_in_pytorch() -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="inside a functorch transform"):
        torch.func.grad(lambda x: (x * x).sum().backward())(x)
    with pytest.raises(RuntimeError, match="inside of a function"):
        torch.func.grad(lambda x: x.requires_grad_().sum())(x)
