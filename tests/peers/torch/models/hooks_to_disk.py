"""Saved tensors on disk: hooks pack them into files, and unpack reads them."""

import os
import tempfile
import uuid

import torch
from torch import nn

torch.manual_seed(5)
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 2))
x = torch.randn(16, 20)
plain = model(x).pow(2).sum()
plain.backward()
expected = [p.grad.clone() for p in model.parameters()]
model.zero_grad()

with tempfile.TemporaryDirectory() as folder:
    written = []

    class File:
        def __init__(self, tensor):
            self.name = os.path.join(folder, str(uuid.uuid4()))
            torch.save(tensor, self.name)
            written.append(tensor.numel())

    def pack(tensor):
        return (
            File(tensor)
            if tensor.numel() >= 100 and not isinstance(tensor, nn.Parameter)
            else tensor
        )

    def unpack(packed):
        return torch.load(packed.name) if isinstance(packed, File) else packed

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = model(x).pow(2).sum()
    print(sorted(written), len(os.listdir(folder)))
    loss.backward()
print(f"{loss.item():.4f}")
print(all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected)))
