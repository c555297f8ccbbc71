"""The Hessian of a model's loss by its weights, its eigenvalues, and products with vectors."""

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, vjp

torch.manual_seed(22)
torch.set_default_dtype(torch.float64)
net = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1))
names = [name for name, _ in net.named_parameters()]
start = nn.utils.parameters_to_vector(net.parameters()).detach()
sizes = [p.numel() for p in net.parameters()]
shapes = [p.shape for p in net.parameters()]
x = torch.randn(25, 2)
y = (x[:, :1] * x[:, 1:]).detach()


def loss_of(vector):
    parts = [p.view(s) for p, s in zip(vector.split(sizes), shapes)]
    return nn.functional.mse_loss(functional_call(net, dict(zip(names, parts)), (x,)), y)


H = hessian(loss_of)(start)
print(H.shape, torch.allclose(H, H.T), [f"{v:.5f}" for v in torch.linalg.eigvalsh(H)[-3:].tolist()])
v = torch.ones_like(start)
(product,) = vjp(grad(loss_of), start)[1](v)
print(torch.allclose(product, H @ v))
step = torch.linalg.solve(H + 2.0 * torch.eye(len(v)), grad(loss_of)(start))
print(f"{loss_of(start).item():.6f} {loss_of(start - step).item():.6f}")
_, old = torch.autograd.functional.hvp(loss_of, start, v)
print(torch.allclose(old, product))
