"""A GAN with batch normalisation and dropout."""

import torch
from torch import nn

torch.manual_seed(13)
G = nn.Sequential(nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(
    nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(16, 1), nn.Sigmoid()
)
criterion = nn.BCELoss()
g_opt = torch.optim.Adam(G.parameters(), 2e-3, (0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), 2e-3, (0.5, 0.999))
for step in range(30):
    angle = torch.rand(32) * 6.2831853
    real = torch.stack([angle.cos(), angle.sin()], 1)
    fake = G(torch.randn(32, 4))
    d_loss = criterion(D(real), torch.ones(32, 1)) + criterion(D(fake.detach()), torch.zeros(32, 1))
    D.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = criterion(D(fake), torch.ones(32, 1))
    G.zero_grad()
    g_loss.backward()
    g_opt.step()
    if step % 10 == 9:
        print(f"{d_loss.item():.4f} {g_loss.item():.4f}")
print({k: tuple(v.shape) for k, v in G.state_dict().items()})
print(f"{G[1].running_mean.norm().item():.4f}", G[1].num_batches_tracked)
