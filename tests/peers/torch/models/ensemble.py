"""An ensemble evaluated and trained by vmap over stacked parameters."""

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(21)
nets = [nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(5)]
weights, buffers = stack_module_state(nets)
base = nets[0]
x = torch.randn(30, 3)
y = torch.sin(x).sum(1, keepdim=True)


def loss_of(w, b, x, y):
    return nn.functional.mse_loss(functional_call(base, (w, b), (x,)), y)


weights = {k: v.detach() for k, v in weights.items()}
for step in range(30):
    slopes, losses = vmap(grad_and_value(loss_of), in_dims=(0, 0, None, None))(
        weights, buffers, x, y
    )
    weights = {k: weights[k] - 0.1 * slopes[k] for k in weights}
    if step % 10 == 9:
        print([f"{v:.4f}" for v in losses.tolist()])
out = vmap(lambda w, b: functional_call(base, (w, b), (x[:4],)))(weights, buffers)
print(
    [f"{v:.4f}" for v in out.mean(0).flatten().tolist()],
    [f"{v:.4f}" for v in out.std(0).flatten().tolist()],
)
