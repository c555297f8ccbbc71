"""Straight-through estimator: a sign in the forward pass, an identity in the backward pass."""

import torch
from torch import nn


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1).to(grad.dtype)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, Sign.apply(self.weight), self.bias)


torch.manual_seed(0)
model = nn.Sequential(BinaryLinear(8, 16), nn.Hardtanh(), BinaryLinear(16, 1))
x = torch.randn(64, 8)
y = (x[:, :1] * x[:, 1:2] > 0).float()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(30):
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"{step} {loss.item():.5f}")
print(model)
