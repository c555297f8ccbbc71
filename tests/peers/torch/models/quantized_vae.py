"""Vector quantisation with a straight-through gradient, and Gumbel softmax."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(28)
encoder, decoder = nn.Linear(10, 4), nn.Linear(4, 10)
codes = nn.Embedding(8, 4)
nn.init.uniform_(codes.weight, -0.5, 0.5)
optimizer = torch.optim.Adagrad(
    [*encoder.parameters(), *decoder.parameters(), *codes.parameters()], lr=0.1
)
x = torch.randn(40, 10)
for step in range(20):
    z = encoder(x)
    nearest = torch.cdist(z, codes.weight).argmin(1)
    q = codes(nearest)
    commit = F.mse_loss(z, q.detach()) * 0.25 + F.mse_loss(q, z.detach())
    q = z + (q - z).detach()
    loss = F.mse_loss(decoder(q), x) + commit
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 1:
        print(f"{loss.item():.4f}", torch.bincount(nearest, minlength=8).tolist())
logits = encoder(x[:3])
hard = F.gumbel_softmax(logits, tau=0.7, hard=True)
hard.pow(2).sum().backward()
print(hard.tolist(), f"{encoder.weight.grad.norm().item():.4f}")
