"""Constraints on weights: a parametrization, weight normalisation, and pruning; saved and loaded."""

import io

import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import weight_norm


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


torch.manual_seed(29)
net = nn.Sequential(
    nn.Linear(6, 6), nn.Hardswish(), weight_norm(nn.Linear(6, 6)), nn.Softsign(), nn.Linear(6, 1)
)
parametrize.register_parametrization(net[0], "weight", Symmetric())
prune.l1_unstructured(net[4], "weight", amount=0.5)
x, y = torch.randn(20, 6), torch.randn(20, 1)
optimizer = torch.optim.Rprop(net.parameters(), lr=0.01)
for step in range(15):
    loss = nn.functional.l1_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(
    f"{loss.item():.5f}",
    torch.equal(net[0].weight, net[0].weight.T),
    int((net[4].weight == 0).sum()),
)
print(list(net.state_dict()))
file = io.BytesIO()
torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": 15}, file)
file.seek(0)
found = torch.load(file, weights_only=True)
with torch.no_grad():
    for p in net.parameters():
        p.zero_()
print(net.load_state_dict(found["net"]), f"{nn.functional.l1_loss(net(x), y).item():.5f}")
optimizer.load_state_dict(found["optimizer"])
prune.remove(net[4], "weight")
parametrize.remove_parametrizations(net[0], "weight")
print(sorted(name for name, _ in net.named_parameters()), found["step"])
print(net)
