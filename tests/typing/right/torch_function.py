"""Code written for PyTorch: an autograd.Function, a training step, checkpoint."""

from typing import Any

import numpy as np

import functrace as ft
import functrace.torch as torch
from functrace.torch.utils.checkpoint import checkpoint


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


w = torch.randn(3, requires_grad=True, dtype=torch.float64)
for _ in range(2):
    loss = (Cube.apply(w).sum() - torch.ones(1).double()).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        assert w.grad is not None
        w -= 0.01 * w.grad
    w.grad = None
t = torch.tensor([1.0, 2.0], requires_grad=True)
(gradient,) = torch.autograd.grad(checkpoint(torch.sin, t, use_reentrant=False).sum(), t)
shape: tuple[int, ...] = tuple(gradient.shape)
assert shape == (2,) and torch.ones(2).float().tolist() and t.detach().numpy().shape == (2,)
handle = t.register_hook(lambda g: g * 2)
handle.remove()
assert ft.torch.is_tensor(t) and isinstance(torch.nn.functional.relu(t), torch.Tensor)
assert ft.vmap(ft.grad(Cube.apply))(np.array([1.0, 2.0])).shape == (2,)
