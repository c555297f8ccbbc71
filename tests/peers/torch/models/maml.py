"""MAML on sine waves: a gradient through an inner step of gradient descent."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(8)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
weights = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}


def loss_of(w, x, y):
    return ((functional_call(net, w, (x,)) - y) ** 2).mean()


def adapted(w, x, y, rate=0.05):
    slopes = grad(loss_of)(w, x, y)
    return {name: w[name] - rate * slopes[name] for name in w}


def outer(w, x1, y1, x2, y2):
    return loss_of(adapted(w, x1, y1), x2, y2)


optimizer = torch.optim.Adam(weights.values(), lr=3e-3)
for step in range(15):
    amplitude, phase = torch.rand(6, 1, 1) * 4 + 0.1, torch.rand(6, 1, 1) * 3
    x = torch.rand(6, 20, 1) * 10 - 5
    y = amplitude * torch.sin(x - phase)
    losses = vmap(outer, in_dims=(None, 0, 0, 0, 0))(
        weights, x[:, :10], y[:, :10], x[:, 10:], y[:, 10:]
    )
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"{losses.mean().item():.4f}")
