"""Averages of the weights: an exponential one, and SWA with a schedule and new batch statistics."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(19)
model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 1))
own = copy.deepcopy(model)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
swa = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
swa_schedule = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
x = torch.randn(40, 6)
y = x.prod(1, keepdim=True).tanh()
for step in range(20):
    loss = nn.functional.smooth_l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(own.parameters(), model.parameters()):
            p.lerp_(q, 0.1)
    ema.update_parameters(model)
    if step > 9:
        swa.update_parameters(model)
        swa_schedule.step()
    else:
        schedule.step()
update_bn([x[:20], x[20:]], swa)
for name, net in (("model", model), ("own", own), ("ema", ema), ("swa", swa)):
    net.eval()
    with torch.no_grad():
        print(name, f"{nn.functional.smooth_l1_loss(net(x), y).item():.6f}")
print(f"{optimizer.param_groups[0]['lr']:.6f}", swa.n_averaged.item())
