"""A contrastive loss (InfoNCE) with augmentations."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(18)
encoder = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(
    encoder.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4
)
data = torch.randn(48, 16)


def info_nce(a, b, temperature=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    similar = z @ z.t() / temperature
    similar.fill_diagonal_(float("-inf"))
    n = len(a)
    return F.cross_entropy(similar, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


for step in range(15):
    one, other = (data + 0.1 * torch.randn_like(data) for _ in range(2))
    loss = info_nce(encoder(one), encoder(other))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"{loss.item():.4f}")
a, b = encoder(data[:5]), encoder(data[5:10])
print([f"{v:.4f}" for v in F.cosine_similarity(a, b).tolist()])
print(f"{F.triplet_margin_loss(a, a + 0.1, b).item():.4f}")
