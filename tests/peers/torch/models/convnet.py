"""A convolutional network with residual blocks, trained from a DataLoader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Residual(nn.Module):
    def __init__(self, n, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n, n, 3, stride, 1, bias=False), nn.BatchNorm2d(n), nn.ReLU(inplace=True),
            nn.Conv2d(n, n, 3, 1, 1, bias=False), nn.BatchNorm2d(n),
        )  # fmt: skip
        self.short = (
            nn.Sequential(nn.Conv2d(n, n, 1, stride, bias=False), nn.BatchNorm2d(n))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


torch.manual_seed(25)
kinds = torch.randint(0, 3, (60,))
images = 0.3 * torch.randn(60, 1, 12, 12)
for k, kind in enumerate(kinds.tolist()):
    images[k, 0, 3 * kind + 1 : 3 * kind + 4] += 1.0
train, test = random_split(TensorDataset(images, kinds), [48, 12])
net = nn.Sequential(
    nn.Conv2d(1, 6, 3, padding=1),
    Residual(6),
    Residual(6, 2),
    nn.AdaptiveAvgPool2d((2, 1)),
    nn.Flatten(),
    nn.Linear(12, 3),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.5)
for epoch in range(4):
    net.train()
    total = 0.0
    for x, y in DataLoader(train, batch_size=12, shuffle=True, drop_last=True):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    schedule.step()
    net.eval()
    with torch.no_grad():
        hits = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=5))
    print(f"{epoch} {total / 4:.4f} {hits}/12")
print(net)
