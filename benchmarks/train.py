"""train-…: a step of training of models, by ``functrace.torch`` and PyTorch on the same code.

The first call is the first step of a new model; both libraries use one thread, and so do rows of
``-2`` with two.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

from benchmarks.work import Target, Work

Model = Callable[[ModuleType], tuple[Any, Any, Any]]
"""Returns a module, its inputs, and the classes."""


def mlp(torch: ModuleType, sizes: tuple[int, ...], batch: int):
    nn = torch.nn
    layers: list[Any] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    return model, torch.randn(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))


def small(torch: ModuleType):
    return mlp(torch, (64, 64, 64, 10), 32)


def wide(torch: ModuleType):
    return mlp(torch, (784, 512, 10), 128)


def convolutional(torch: ModuleType):
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 10),
    )  # fmt: skip
    return model, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


def transformer(torch: ModuleType):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(65, 64)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
                for _ in range(2)
            )
            self.head = nn.Linear(64, 65)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(32))

        def forward(self, x: Any) -> Any:
            h = self.embed(x)
            for layer in self.layers:
                h = layer(h, src_mask=self.mask)
            return self.head(h).flatten(0, 1)

    return Model(), torch.randint(0, 65, (8, 32)), torch.randint(0, 65, (256,))


def recurrent(torch: ModuleType):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(16, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.rnn(x)[0][:, -1])

    return Model(), torch.randn(32, 28, 16), torch.randint(0, 10, (32,))


def steps_of(torch: ModuleType, make: Model, threads: int) -> Callable[[], Any]:
    """Return a step of training, which returns the loss of the same weights every time.

    The rate is 0, so that all systems compute the same numbers however often they are called: the
    optimizer computes its steps as with any other rate.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, x, y = make(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)

    def run():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach().numpy()

    return run


def systems(make: Model, threads: int) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return the same model for both libraries."""

    def functrace():
        import functrace.torch

        return steps_of(functrace.torch, make, threads)

    def torch():
        import torch

        return steps_of(torch, make, threads)

    return {"functrace": functrace, "torch": torch}


ABOUT: dict[str, tuple[Model, str, float]] = {
    "small": (small, "64-64-64-10, batch 32", 1.0),
    "wide": (wide, "784-512-10, batch 128", 1.0),
    "cnn": (convolutional, "two convolutions, 28 x 28, batch 64", 2.0),
    "transformer": (transformer, "two layers of width 64, 8 x 32 letters", 1.3),
    "lstm": (recurrent, "LSTM of width 64, 28 steps, batch 32", 1.3),
}
"""Model, what it is, and the ratio to reach."""

WORKS = tuple(
    Work(
        f"train-{name}" + ("" if threads == 1 else f"-{threads}"),
        f"{about}, {threads} thread" + ("s" if threads > 1 else ""),
        systems(make, threads),
        (Target(ratio, "torch"),),
        rounds=9,
        rtol=1e-4,
    )
    for name, (make, about, ratio) in ABOUT.items()
    for threads in (1, 2)
)
