"""A small U-Net that separates a disc from noise."""

import torch
from torch import nn


class Double(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(2, b), nn.ReLU(inplace=True),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = Double(1, 4), Double(4, 8)
        self.bottom = Double(8, 16)
        self.up2, self.up1 = (
            nn.ConvTranspose2d(16, 8, 2, stride=2),
            nn.ConvTranspose2d(8, 4, 2, stride=2),
        )
        self.join2, self.join1 = Double(16, 8), Double(8, 4)
        self.out = nn.Conv2d(4, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.bottom(self.pool(b))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.out(a)


torch.manual_seed(15)
grid = torch.linspace(-1, 1, 16)
y = ((grid[:, None] ** 2 + grid[None] ** 2) < 0.4).float().expand(4, 1, 16, 16)
x = y + 0.5 * torch.randn(4, 1, 16, 16)
net = UNet()
optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
for step in range(6):
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
print(sum(p.numel() for p in net.parameters()))
