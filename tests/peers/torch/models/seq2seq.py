"""Sequence to sequence with LSTMs and packed batches: reverse the digits."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(17)


class Model(nn.Module):
    def __init__(self, words=12, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, 16, padding_idx=0)
        self.encoder = nn.LSTM(16, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.decoder = nn.LSTMCell(16, width)
        self.head = nn.Linear(width, words)

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(
            self.embed(source), lengths, batch_first=True, enforce_sorted=False
        )
        out, (h, c) = self.encoder(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        state = tuple(self.bridge(torch.cat([s[0], s[1]], -1)) for s in (h, c))
        logits = []
        for t in range(target.size(1) - 1):
            state = self.decoder(self.embed(target[:, t]), state)
            logits.append(self.head(state[0]))
        return torch.stack(logits, 1), out


model = Model()
print(model)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
for step in range(12):
    words = [torch.randint(2, 12, (int(n),)) for n in torch.randint(2, 7, (16,))]
    lengths = torch.tensor([len(w) for w in words])
    source = pad_sequence(words, batch_first=True)
    target = pad_sequence(
        [torch.cat([torch.tensor([1]), w.flip(0)]) for w in words], batch_first=True
    )
    logits, out = model(source, lengths, target)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        print(f"{loss.item():.4f}", tuple(out.shape))
