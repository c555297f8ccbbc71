"""Reversible blocks: backward computes the inputs from the outputs."""

import torch
from torch import nn


class Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x1, x2, f, g, *weights):
        with torch.no_grad():
            y1 = x1 + f(x2)
            y2 = x2 + g(y1)
        ctx.save_for_backward(y1.detach(), y2.detach())
        ctx.f, ctx.g, ctx.count = f, g, len(list(f.parameters()))
        return y1, y2

    @staticmethod
    def backward(ctx, d1, d2):
        y1, y2 = ctx.saved_tensors
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            inner = ctx.g(y1)
            of_g = torch.autograd.grad(inner, (y1, *ctx.g.parameters()), d2)
        d1 = d1 + of_g[0]
        with torch.no_grad():
            x2 = y2 - inner
        with torch.enable_grad():
            x2 = x2.detach().requires_grad_()
            inner = ctx.f(x2)
            of_f = torch.autograd.grad(inner, (x2, *ctx.f.parameters()), d1)
        return d1, d2 + of_f[0], None, None, *of_f[1:], *of_g[1:]


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, n))
        self.g = nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, n))

    def forward(self, x1, x2):
        return Reversible.apply(x1, x2, self.f, self.g, *self.f.parameters(), *self.g.parameters())


torch.manual_seed(1)
blocks = nn.ModuleList(Block(6) for _ in range(3))
head = nn.Linear(12, 3)
x, target = torch.randn(32, 12), torch.randint(0, 3, (32,))
parameters = [*blocks.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
for _ in range(20):
    a, b = x.chunk(2, 1)
    for block in blocks:
        a, b = block(a, b)
    loss = nn.functional.cross_entropy(head(torch.cat([a, b], 1)), target)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.5f}", sum(p.numel() for p in parameters))
print(blocks[0])
