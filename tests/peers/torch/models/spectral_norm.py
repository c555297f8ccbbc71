"""A discriminator with spectral normalisation, by both interfaces."""

import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import spectral_norm as parametrized

torch.manual_seed(4)
first = nn.Sequential(
    spectral_norm(nn.Linear(6, 12)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(12, 1))
)
torch.manual_seed(4)
other = nn.Sequential(
    parametrized(nn.Linear(6, 12)), nn.LeakyReLU(0.2), parametrized(nn.Linear(12, 1))
)
x = torch.randn(50, 6)
for net in (first, other):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(15):
        loss = nn.functional.relu(1 - net(x) * torch.sign(x[:, :1])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        print(f"{loss.item():.5f} {net(x).abs().max().item():.5f}")
    print(sorted(net.state_dict()))
    print(f"{torch.linalg.matrix_norm(net[0].weight.detach(), 2).item():.4f}")
