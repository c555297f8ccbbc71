"""Gradients of every example, three ways: a loop, vmap over grad, and hooks."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(10)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
x, y = torch.randn(7, 1, 8, 8), torch.randint(0, 5, (7,))
weights = {name: p.detach() for name, p in net.named_parameters()}


def loss_of(w, x, y):
    return nn.functional.cross_entropy(functional_call(net, w, (x[None],)), y[None])


each = vmap(grad(loss_of), in_dims=(None, 0, 0))(weights, x, y)
for k in range(7):
    slopes = torch.autograd.grad(
        nn.functional.cross_entropy(net(x[k : k + 1]), y[k : k + 1]), net.parameters()
    )
    for (name, _), slope in zip(net.named_parameters(), slopes):
        assert torch.allclose(each[name][k], slope, atol=1e-6), name
norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
print([f"{n:.4f}" for n in norms.tolist()])
clipped = {
    name: (g * (1 / norms.clamp(min=1)).view(-1, *[1] * (g.dim() - 1))).mean(0)
    for name, g in each.items()
}
print({name: f"{g.norm().item():.4f}" for name, g in clipped.items()})
