"""Every parameter is updated as soon as its gradient is there, which is then freed."""

import torch
from torch import nn

torch.manual_seed(6)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizers = {p: torch.optim.AdamW([p], lr=0.01, foreach=False) for p in model.parameters()}
order = []
names = {p: name for name, p in model.named_parameters()}


def update(parameter):
    order.append(names[parameter])
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(update)
x = torch.randn(64, 10)
y = x.pow(2).sum(1, keepdim=True)
for k in range(40):
    loss = nn.functional.huber_loss(model(x), y)
    loss.backward()
    if k % 13 == 0:
        print(f"{loss.item():.5f}", all(p.grad is None for p in model.parameters()))
print(order[:6])
