"""Loaders and samplers give PyTorch's batches, and leave PyTorch's random numbers."""

from __future__ import annotations

import importlib
import itertools
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the orders are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")


def plain(value: Any) -> Any:
    """Return a batch, without tensors."""
    if hasattr(value, "tolist"):
        return (str(value.dtype), tuple(value.shape), value.tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


def run(library: ModuleType, kind: str, count: int, seed: int, options: dict[str, Any]) -> Any:
    """Return two epochs of a loader, and the next random numbers; or the exception."""
    data = library.utils.data

    class Mixed(data.Dataset):
        def __len__(self) -> int:
            return count

        def __getitem__(self, k: int) -> Any:
            return {
                "x": library.full((2,), float(k)),
                "n": k,
                "t": (k / 2, str(k)),
                "a": np.arange(k, k + 3),
            }

    class Stream(data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(count))

    library.manual_seed(seed)
    generator = library.Generator().manual_seed(seed + 1)
    given = dict(options)
    if given.pop("own_generator", False):
        given["generator"] = generator
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset: Any = {
                "mixed": lambda: Mixed(),
                "stream": lambda: Stream(),
                "tensors": lambda: data.TensorDataset(library.arange(count), library.rand(count)),
                "list": lambda: list(range(count)),
                "joined": lambda: data.ConcatDataset([Mixed(), Mixed()]),
                "subset": lambda: data.random_split(Mixed(), [0.3, 0.7])[1],
            }[kind]()
            name = given.pop("order", None)
            if name:
                given["sampler"] = {
                    "random": lambda: data.RandomSampler(dataset, num_samples=2 * count + 1),
                    "replaced": lambda: data.RandomSampler(dataset, True, 40, generator),
                    "weighted": lambda: data.WeightedRandomSampler(library.rand(count) + 0.1, 7),
                    "some": lambda: data.SubsetRandomSampler([0, count - 1, 0]),
                }[name]()
            loader = data.DataLoader(dataset, **given)
            found: list[Any] = [plain(x) for _ in range(2) for x in loader]
            if kind != "stream":
                found.append(len(loader))
    except (
        ValueError,
        TypeError,
        AssertionError,
        RuntimeError,
        IndexError,
        ZeroDivisionError,
    ) as error:
        return type(error).__name__, str(error).partition("=<")[0]
    found.append((library.rand(3).tolist(), library.rand(3, generator=generator).tolist()))
    return found


KINDS = ("mixed", "stream", "tensors", "list", "joined", "subset")
OPTIONS = (
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None},
    {"batch_size": 4, "shuffle": True}, {"batch_size": 4, "shuffle": True, "own_generator": True},
    {"batch_size": 5, "order": "random"}, {"batch_size": 5, "order": "replaced"}, {"order": "weighted"},
    {"order": "some", "batch_size": 2}, {"batch_size": None, "shuffle": True},
    {"batch_size": 0}, {"shuffle": True, "order": "some"}, {"drop_last": True, "batch_size": None},
    {"num_workers": -1}, {"prefetch_factor": 3}, {"persistent_workers": True},
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_loaders_without_workers(kind: str) -> None:
    for (k, options), count in itertools.product(enumerate(OPTIONS), (1, 6, 17)):
        expected = run(torch, kind, count, k, options)
        found = run(SHIM, kind, count, k, options)
        assert found == expected, (kind, count, options)


@pytest.mark.parametrize("kind", ["mixed", "stream"])
def test_loaders_with_workers(kind: str) -> None:
    for options in (
        {"num_workers": 2, "batch_size": 3},
        {"num_workers": 1, "batch_size": 4, "shuffle": True},
        {"num_workers": 2, "batch_size": 2, "persistent_workers": True, "prefetch_factor": 1},
    ):
        assert run(SHIM, kind, 9, 0, options) == run(torch, kind, 9, 0, options), (kind, options)


def test_batches_of_any_samples() -> None:
    samples: list[list[Any]] = [
        [1, 2], [1.5, 2], ["a"], [b"a"], [True, False], [1j], [None], [[1, 2], [3]], [(1, "a"), (2, "b")],
        [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}], [np.float32(1), np.float32(2)], [np.ones(2)] * 2,
        [np.array("a")], [np.bool_(True)], [np.array(1), np.array(2)], [range(2)] * 2, [[]], [()], [{}],
        [np.int8(3)], [np.ones((2, 0))], [[np.ones(1), "x"]] * 3,
    ]  # fmt: skip
    for sample in samples:
        for name in ("default_collate", "default_convert"):
            results = []
            for library in (torch, SHIM):
                try:
                    results.append(plain(getattr(library.utils.data, name)(sample)))
                except (TypeError, RuntimeError, ValueError, IndexError) as error:
                    results.append((type(error).__name__, str(error)))
            if isinstance(results[0], tuple) and results[0][0] == "ValueError":
                continue
            assert str(results[1]) == str(results[0]), (name, sample)
