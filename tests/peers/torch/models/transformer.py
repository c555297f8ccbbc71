"""PyTorch's own transformer modules, with masks and warm-up."""

import torch
from torch import nn

torch.manual_seed(26)
d, length = 16, 9
embed = nn.Embedding(13, d)
model = nn.Transformer(d, 4, 1, 1, 32, dropout=0.0, batch_first=True, norm_first=True)
head = nn.Linear(d, 13)
parameters = [*embed.parameters(), *model.parameters(), *head.parameters()]
optimizer = torch.optim.RAdam(parameters, lr=3e-3)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
later = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=20)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, later], milestones=[5])
source = torch.randint(1, 13, (10, length))
target = source.flip(1)
padding = torch.zeros(10, length, dtype=torch.bool)
padding[::3, -2:] = True
causal = nn.Transformer.generate_square_subsequent_mask(length - 1)
for step in range(12):
    out = model(
        embed(source),
        embed(target[:, :-1]),
        tgt_mask=causal,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    loss = nn.functional.cross_entropy(head(out).flatten(0, 1), target[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 4 == 3:
        print(f"{loss.item():.4f} {schedule.get_last_lr()[0]:.6f}")
attention = nn.MultiheadAttention(d, 2, batch_first=True)
_, weights = attention(embed(source), embed(source), embed(source), key_padding_mask=padding)
print(tuple(weights.shape), f"{weights[0, 0, :3].sum().item():.4f}")
