"""A deep network under activation checkpoints, in segments and by a policy."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(24)
layers = nn.Sequential(
    *[nn.Sequential(nn.Linear(16, 16), nn.ELU(), nn.Dropout(0.2)) for _ in range(8)]
)
x = torch.randn(12, 16, requires_grad=True)
count = 0


def counted(module, args):
    global count
    count += 1


for layer in layers:
    layer.register_forward_pre_hook(counted)
results = []
for way in ("plain", "each", "segments"):
    torch.manual_seed(0)
    count = 0
    h = x
    if way == "segments":
        h = checkpoint_sequential(layers, 4, h, use_reentrant=False)
    else:
        for layer in layers:
            h = checkpoint(layer, h, use_reentrant=False) if way == "each" else layer(h)
    loss = h.pow(2).sum()
    slopes = torch.autograd.grad(loss, (x, *layers.parameters()))
    print(way, f"{loss.item():.5f} {slopes[0].norm().item():.5f}", count)
    results.append(slopes)
print(all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other)))
