"""A neural ODE with the adjoint method in a Function."""

import torch
from torch import nn


def integrate(f, y, t0, t1, n):
    h = (t1 - t0) / n
    for k in range(n):
        t = t0 + k * h
        k1 = f(t, y)
        k2 = f(t + h / 2, tuple(a + h / 2 * b for a, b in zip(y, k1)))
        k3 = f(t + h / 2, tuple(a + h / 2 * b for a, b in zip(y, k2)))
        k4 = f(t + h, tuple(a + h * b for a, b in zip(y, k3)))
        y = tuple(a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4))
    return y


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, net, y0, *weights):
        ctx.net = net
        with torch.no_grad():
            (y1,) = integrate(lambda t, y: (net(y[0]),), (y0,), 0.0, 1.0, 20)
        ctx.save_for_backward(y1)
        return y1

    @staticmethod
    def backward(ctx, grad):
        (y1,) = ctx.saved_tensors
        weights = tuple(ctx.net.parameters())

        def backwards(t, state):
            with torch.enable_grad():
                y = state[0].detach().requires_grad_()
                out = ctx.net(y)
                slopes = torch.autograd.grad(out, (y, *weights), state[1])
            return (out.detach(), *(-s for s in slopes))

        state = (y1, grad, *(torch.zeros_like(w) for w in weights))
        end = integrate(backwards, state, 1.0, 0.0, 20)
        return None, *end[1:]


torch.manual_seed(23)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).double()
y0 = torch.randn(10, 2, dtype=torch.float64, requires_grad=True)
target = y0.detach().roll(1, 1)
loss = (Adjoint.apply(net, y0, *net.parameters()) - target).pow(2).mean()
found = torch.autograd.grad(loss, (y0, *net.parameters()))
(direct,) = integrate(lambda t, y: (net(y[0]),), (y0,), 0.0, 1.0, 20)
expected = torch.autograd.grad((direct - target).pow(2).mean(), (y0, *net.parameters()))
print(f"{loss.item():.6f}", [torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected)])
optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
for _ in range(10):
    loss = (Adjoint.apply(net, y0.detach(), *net.parameters()) - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.5f}")
