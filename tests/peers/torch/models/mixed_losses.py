"""Many losses of one network, weighted by learned uncertainties."""

import torch
from torch import nn

torch.manual_seed(20)
trunk = nn.Sequential(nn.Linear(5, 24), nn.Mish())
heads = nn.ModuleDict(
    {
        "class": nn.Linear(24, 4),
        "value": nn.Linear(24, 1),
        "rank": nn.Linear(24, 1),
        "count": nn.Linear(24, 1),
    }
)
logs = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in heads})
x = torch.randn(32, 5)
classes, values, counts = (
    torch.randint(0, 4, (32,)),
    x.sum(1, keepdim=True),
    torch.poisson(torch.rand(32, 1) * 3),
)
losses = {
    "class": lambda out: nn.functional.cross_entropy(out, classes, label_smoothing=0.1),
    "value": lambda out: nn.functional.gaussian_nll_loss(out, values, torch.full_like(out, 0.5)),
    "rank": lambda out: nn.functional.margin_ranking_loss(
        out[:16], out[16:], torch.sign(values[:16] - values[16:]), 0.1
    ),
    "count": lambda out: nn.functional.poisson_nll_loss(out, counts),
}
optimizer = torch.optim.Adam(
    [
        {"params": trunk.parameters()},
        {"params": heads.parameters(), "lr": 2e-2},
        {"params": logs.parameters(), "lr": 5e-2},
    ],
    lr=1e-2,
)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [1e-2, 2e-2, 5e-2], total_steps=24)
for step in range(24):
    h = trunk(x)
    each = {name: losses[name](head(h)) for name, head in heads.items()}
    loss = sum(torch.exp(-logs[name]) * each[name] + logs[name] for name in each)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 8 == 7:
        print({name: f"{value.item():.4f}" for name, value in each.items()})
print([f"{group['lr']:.5f}" for group in optimizer.param_groups])
print(logs)
