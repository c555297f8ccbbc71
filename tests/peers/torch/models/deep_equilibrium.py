"""Deep equilibrium layer: a fixed point, and its implicit derivative in a hook."""

import torch
from torch import nn


def fixed_point(f, z, steps=60):
    for _ in range(steps):
        z = f(z)
    return z


class Equilibrium(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.inner, self.outer = nn.Linear(n, n), nn.Linear(n, n)
        with torch.no_grad():
            self.inner.weight.mul_(0.4)

    def step(self, z, x):
        return torch.tanh(self.inner(z) + self.outer(x))

    def forward(self, x):
        with torch.no_grad():
            z = fixed_point(lambda z: self.step(z, x), torch.zeros_like(x))
        z = self.step(z, x)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.step(z0, x)

        def hook(grad):
            return fixed_point(
                lambda g: torch.autograd.grad(f0, z0, g, retain_graph=True)[0] + grad, grad
            )

        z.register_hook(hook)
        return z


torch.manual_seed(2)
layer, head = Equilibrium(5), nn.Linear(5, 1)
x = torch.randn(40, 5)
y = torch.sin(x.sum(1, keepdim=True))
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.02)
for k in range(25):
    loss = nn.functional.mse_loss(head(layer(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if k % 8 == 0:
        print(f"{loss.item():.5f}")
