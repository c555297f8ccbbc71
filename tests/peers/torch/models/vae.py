"""A variational autoencoder on small images."""

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
grid = torch.linspace(-1, 1, 8)
centers = torch.rand(96, 2) * 1.4 - 0.7
images = torch.exp(
    -8
    * (
        (grid[None, :, None] - centers[:, :1, None]) ** 2
        + (grid[None, None] - centers[:, 1:, None]) ** 2
    )
)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
        self.decoder = nn.Sequential(
            nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 64), nn.Unflatten(1, (8, 8))
        )

    def forward(self, x):
        mean, log_std = self.encoder(x).chunk(2, -1)
        q = Normal(mean, log_std.exp())
        logits = self.decoder(q.rsample())
        nll = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return nll + kl_divergence(q, Normal(0.0, 1.0)).sum()


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    total = 0.0
    for (batch,) in DataLoader(TensorDataset(images), batch_size=16, shuffle=True):
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"{epoch} {total / len(images):.4f}")
