"""A convolutional network, on either library
===========================================

A network for handwritten digits, written for PyTorch: convolutions, batch normalisation, dropout, a
DataLoader. It trains on `functrace.torch` and on PyTorch with the same code.

The data are scikit-learn's 1,797 digits of 8 x 8 pixels. Weights, order of the examples and dropout
masks are the same numbers in both libraries, so the losses are too. The network has to recognize
95 % of the digits that were held out.

::

    python examples/torch_images.py          # functrace.torch
    python examples/torch_images.py torch    # PyTorch, if it is installed
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from sklearn.datasets import load_digits
from tqdm import tqdm

LIBRARY = "torch" if sys.argv[1:] == ["torch"] else "functrace.torch"
torch: Any = importlib.import_module(LIBRARY)
data: Any = importlib.import_module(f"{LIBRARY}.utils.data")
nn = torch.nn

EPOCHS, BATCH = 3, 32


def load():
    """Return the digits as two datasets: those to learn from, and 400 others."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32).unsqueeze(1)
    whole = data.TensorDataset(images, torch.tensor(digits.target))
    return data.random_split(whole, [len(whole) - 400, 400])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 10),
    )  # fmt: skip


def accuracy(model, examples):
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).sum().item() for x, y in data.DataLoader(examples, 100)]
    model.train()
    return sum(hits) / len(examples)


def main() -> int:
    torch.manual_seed(0)
    examples, held_out = load()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y in tqdm(data.DataLoader(examples, BATCH, shuffle=True), disable=None):
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        schedule.step()
        mean = total / len(examples)
        print(f"epoch {epoch}  loss {mean:.3f}  held-out accuracy {accuracy(model, held_out):.2%}")
    return 0 if accuracy(model, held_out) > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
