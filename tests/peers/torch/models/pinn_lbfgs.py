"""A physics-informed network for u'' = -pi^2 sin(pi x), by LBFGS with a line search."""

import math

import torch
from torch import nn

torch.manual_seed(9)
torch.set_default_dtype(torch.float64)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
x = torch.linspace(0, 1, 24).reshape(-1, 1).requires_grad_()
ends = torch.tensor([[0.0], [1.0]])
optimizer = torch.optim.LBFGS(
    net.parameters(), max_iter=12, history_size=8, line_search_fn="strong_wolfe"
)


def residual():
    u = net(x)
    (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    inside = second + math.pi**2 * torch.sin(math.pi * x)
    return inside.pow(2).mean() + 50 * net(ends).pow(2).mean()


def closure():
    optimizer.zero_grad()
    loss = residual()
    loss.backward()
    return loss


for _ in range(4):
    print(f"{optimizer.step(closure).item():.4e}")
with torch.no_grad():
    print(f"{(net(x) - torch.sin(math.pi * x)).abs().max().item():.3e}")
print(optimizer.state[next(net.parameters())]["n_iter"])
