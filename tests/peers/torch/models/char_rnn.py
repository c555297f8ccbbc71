"""A character GRU, trained on a line of text, and its samples."""

import torch
from torch import nn

torch.manual_seed(11)
text = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 2
letters = sorted(set(text))
codes = torch.tensor([letters.index(c) for c in text])


class Net(nn.Module):
    def __init__(self, n, width=32):
        super().__init__()
        self.embed = nn.Embedding(n, 16)
        self.rnn = nn.GRU(16, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, n)

    def forward(self, x, state=None):
        out, state = self.rnn(self.embed(x), state)
        return self.head(out), state


net = Net(len(letters))
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
windows = codes[:160].view(8, 20)
for step in range(25):
    logits, _ = net(windows[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    if step % 8 == 0:
        print(f"{step} {loss.item():.4f}")
with torch.no_grad():
    state, x, out = None, codes[:1][None], []
    for _ in range(20):
        logits, state = net(x, state)
        x = torch.multinomial(logits[:, -1].softmax(-1), 1)
        out.append(letters[x.item()])
print("".join(out))
