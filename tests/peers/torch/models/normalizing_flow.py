"""A normalizing flow with coupling layers."""

import torch
from torch import nn
from torch.distributions import Independent, MultivariateNormal, Normal


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.split(1, 1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        return (torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)), scale.squeeze(1)


torch.manual_seed(27)
target = MultivariateNormal(torch.tensor([1.0, -1.0]), torch.tensor([[1.0, 0.7], [0.7, 1.0]]))
base = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
flow = nn.ModuleList(Coupling(bool(k % 2)) for k in range(4))
optimizer = torch.optim.Adamax(flow.parameters(), lr=0.02)
for step in range(20):
    z, log_det = target.sample((64,)), 0.0
    for layer in flow:
        z, more = layer(z)
        log_det = log_det + more
    loss = -(base.log_prob(z) + log_det).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 1:
        print(f"{loss.item():.4f}")
print(f"{target.entropy().item():.5f}")
