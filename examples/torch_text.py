"""A small GPT, on either library
===============================

A transformer on text, written for PyTorch: it trains on `functrace.torch` and on PyTorch with the
same code, and prints the same digits.

Embeddings, causal attention by ``scaled_dot_product_attention``, layer norms, AdamW with two
groups of parameters, a schedule and clipped gradients. The text is the Zen of Python. On functrace
the program then differentiates the same module per example, by `ft.vmap` of `ft.grad` over
``torch.func.functional_call``, and checks that the mean of these gradients is the gradient of the
batch.

::

    python examples/torch_text.py            # functrace.torch
    python examples/torch_text.py torch      # PyTorch, if it is installed
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import sys
from typing import Any

from tqdm import tqdm

LIBRARY = "torch" if sys.argv[1:] == ["torch"] else "functrace.torch"
torch: Any = importlib.import_module(LIBRARY)
nn, F = torch.nn, torch.nn.functional

CONTEXT, WIDTH, HEADS, LAYERS, BATCH, STEPS = 32, 48, 4, 2, 16, 120


def load():
    """Return the text as numbers, and its characters."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    text = codecs.decode(this.s, "rot13").lower()
    letters = sorted(set(text))
    return torch.tensor([letters.index(c) for c in text]), letters


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        b, t, n = x.shape
        parts = self.queries(self.first(x)).view(b, t, 3, HEADS, n // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.mix(mixed.transpose(1, 2).reshape(b, t, n))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    """A language model of characters."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)

    def forward(self, x):
        h = self.letters(x) + self.places(torch.arange(x.shape[-1]))
        return self.head(self.norm(self.blocks(h)))


def train(model, text):
    """Train the model; returns its losses."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=STEPS)
    losses = []
    for _ in tqdm(range(STEPS), disable=None):
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,)).tolist()
        x = torch.stack([text[k : k + CONTEXT] for k in starts])
        y = torch.stack([text[k + 1 : k + CONTEXT + 1] for k in starts])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def write(model, text, letters, length=60):
    """Return a continuation of the text's first characters, the most probable one each time."""
    x = text[None, :8]
    with torch.no_grad():
        for _ in range(length):
            nearest = model(x[:, -CONTEXT:])[:, -1].argmax(-1, keepdim=True)
            x = torch.cat([x, nearest], 1)
    return "".join(letters[k] for k in x[0].tolist())


def per_example(model, text):
    """Return the norm of every example's gradient, and the difference of their mean from the
    batch's gradient.
    """
    import functrace as ft

    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    x = torch.stack([text[k : k + CONTEXT] for k in range(0, 40, 10)])
    y = torch.stack([text[k + 1 : k + CONTEXT + 1] for k in range(0, 40, 10)])

    def loss_of(weights, x, y):
        out = torch.func.functional_call(model, weights, (x[None],))
        return F.cross_entropy(out[0], y)

    each = ft.vmap(ft.grad(loss_of), in_axes=(None, 0, 0))(weights, x.numpy(), y.numpy())
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    apart = max(
        abs(each[name].mean(0) - p.grad.numpy()).max() for name, p in model.named_parameters()
    )
    norms = sum((g.reshape(len(g), -1) ** 2).sum(1) for g in each.values()) ** 0.5
    return norms, apart


def main() -> int:
    torch.manual_seed(0)
    text, letters = load()
    model = GPT(len(letters))
    losses = train(model, text)
    for k in range(0, STEPS, 20):
        print(f"step {k:3d}  loss {losses[k]:.3f}")
    print(repr(write(model, text, letters)))
    fits = losses[-1] < 2.1
    if LIBRARY == "torch":
        return 0 if fits else 1
    model.zero_grad()
    norms, apart = per_example(model, text)
    print("norms of gradients, example by example:", " ".join(f"{n:.3f}" for n in norms))
    print(f"their mean differs from the gradient of the batch by {apart:.1e}")
    return 0 if fits and apart < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
