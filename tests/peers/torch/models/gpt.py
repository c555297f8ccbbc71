"""A small GPT, trained on letters."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, n, heads, length):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(n, 3 * n), nn.Linear(n, n), heads
        self.register_buffer(
            "mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        )

    def forward(self, x):
        b, t, n = x.size()
        q, k, v = (
            s.view(b, t, self.heads, n // self.heads).transpose(1, 2)
            for s in self.qkv(x).split(n, 2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(b, t, n))


class Block(nn.Module):
    def __init__(self, n, heads, length):
        super().__init__()
        self.first, self.second = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attention = Attention(n, heads, length)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length=24, n=32, heads=4, layers=2):
        super().__init__()
        self.token, self.place = (
            nn.Embedding(vocabulary, n),
            nn.Parameter(torch.zeros(1, length, n)),
        )
        self.blocks = nn.ModuleList([Block(n, heads, length) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, vocabulary, bias=False)
        self.apply(self.start)

    def start(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x, targets=None):
        h = self.token(x) + self.place[:, : x.size(1)]
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        loss = (
            None
            if targets is None
            else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        )
        return logits, loss


torch.manual_seed(16)
text = "to be, or not to be, that is the question: whether 'tis nobler in the mind to suffer "
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text * 4])
model = GPT(len(letters))
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3
)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
for step in range(20):
    starts = torch.randint(len(data) - 24, (8,))
    x = torch.stack([data[i : i + 23] for i in starts])
    y = torch.stack([data[i + 1 : i + 24] for i in starts])
    _, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 6 == 0:
        print(f"{step} {loss.item():.4f} {scheduler.get_last_lr()[0]:.6f}")
model.eval()
x = data[:4][None]
with torch.no_grad():
    for _ in range(16):
        logits, _ = model(x[:, -24:])
        x = torch.cat([x, logits[:, -1].argmax(-1, keepdim=True)], 1)
print("".join(letters[i] for i in x[0].tolist()))
