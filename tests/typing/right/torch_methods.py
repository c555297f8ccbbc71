"""Methods, operators and functions of `functrace.torch`, by keyword and by position, as their rows
say.
"""

import numpy as np

import functrace.torch as torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
total: torch.Tensor = x.sum(dim=(0, 1), keepdim=True)
rows: torch.Tensor = x.mean(0).view(1, -1).reshape((2,)).expand(3, 2)
product: torch.Tensor = x @ x.T + 2 * x - x / 3 + 2**x
scaled: torch.Tensor = (
    x.add(1.0, alpha=2).sub(x).mul(np.float64(2.0)).clamp(min=torch.zeros(1), max=torch.ones(1))
)
whole: torch.Tensor = torch.ones(2, dtype=torch.int64).long().int().float().double()
chosen = torch.where(x > 1, x, 0.0)
largest = torch.max(x, dim=1).values
with torch.no_grad():
    x.add_(1.0).sin_().clamp_(-1, 1)
    x *= 2
    x[0] = 1.0
loss = torch.nn.functional.cross_entropy(x, torch.tensor([0, 1]), ignore_index=-1, reduction="sum")
loss.backward(retain_graph=True)
first: torch.Tensor = x[0, 1:]
same: bool = torch.equal(x, x) and torch.allclose(x, x, rtol=1e-3)
kind: torch.dtype = torch.float
assert (
    total.shape == (1, 1)
    and rows.shape == (3, 2)
    and largest.shape == (2,)
    and product.shape == (2, 2)
)
assert (
    scaled.shape == chosen.shape and whole.dtype == torch.float64 and first.shape == (1,) and same
)
