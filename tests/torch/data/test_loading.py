"""`torch.utils.data`: orders and batches recorded from PyTorch 2.13.0, workers, errors."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
TEN = TensorDataset(torch.arange(10), torch.arange(10) * 2)


class Squares(Dataset[Any]):
    """Squares of the index."""

    def __init__(self, count: int = 10, wait: float = 0.0) -> None:
        self.count, self.wait = count, wait

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        time.sleep(self.wait * (index % 3))
        return index * index


class Stream(IterableDataset[int]):
    """Numbers below a count."""

    def __init__(self, count: int) -> None:
        self.start, self.count = 0, count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.count))


def listed(loader: Any) -> list[Any]:
    """Return the batches as lists."""
    return [x.tolist() if isinstance(x, torch.Tensor) else x for x in loader]


# -- orders ----------------------------------------------------------------------------------------


def test_shuffled_batches_are_those_of_pytorch() -> None:
    for workers in (0, 2):
        torch.manual_seed(0)
        loader = DataLoader(TEN, batch_size=4, shuffle=True, num_workers=workers)
        assert [a.tolist() for a, _ in loader] == [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]
        assert f"{torch.rand(1).item():.4f}" == "0.3074"
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(TEN, batch_size=4, shuffle=True, generator=generator)
    assert [a.tolist() for a, _ in loader] == [[4, 6, 9, 2], [3, 1, 0, 7], [8, 5]]
    assert f"{torch.rand(1).item():.4f}" == "0.4963"


def test_samplers_draw_the_numbers_of_pytorch() -> None:
    torch.manual_seed(0)
    assert list(RandomSampler(TEN)) == [6, 9, 0, 7, 3, 5, 4, 2, 1, 8]
    torch.manual_seed(0)
    drawn = list(RandomSampler(TEN, replacement=True, num_samples=45))
    assert drawn[:6] == [6, 0, 4, 3, 9, 5] and drawn[-4:] == [5, 8, 6, 5] and len(drawn) == 45
    torch.manual_seed(0)
    weighted = WeightedRandomSampler([0.1, 0.9, 0.4], 5)
    assert list(weighted) == [2, 1, 1, 2, 1]
    assert list(WeightedRandomSampler([0.1, 0.9, 0.4], 2, replacement=False)) == [1, 2]
    torch.manual_seed(0)
    assert [list(part.indices) for part in random_split(TEN, [3, 7])] == [
        [4, 1, 7], [5, 3, 9, 0, 8, 6, 2],
    ]  # fmt: skip
    assert [list(part.indices) for part in random_split(TEN, [0.25, 0.25, 0.5])] == [
        [3, 9, 4], [2, 7], [8, 6, 0, 5, 1],
    ]  # fmt: skip


def test_distributed_samplers_share_the_indices() -> None:
    assert list(DistributedSampler(TEN, 3, 0)) == [4, 5, 0, 2]
    assert list(DistributedSampler(TEN, 3, 2, shuffle=False)) == [2, 5, 8, 1]
    assert list(DistributedSampler(TEN, 3, 2, seed=3, drop_last=True)) == [3, 5, 2]
    sampler: DistributedSampler = DistributedSampler(TEN, 3, 1, seed=3)
    sampler.set_epoch(2)
    assert list(sampler) == [4, 3, 2, 1] and len(sampler) == 4
    with pytest.raises(ValueError, match="Invalid rank 3"):
        DistributedSampler(TEN, 3, 3)
    with pytest.raises(RuntimeError, match="distributed package"):
        DistributedSampler(TEN)


# -- datasets --------------------------------------------------------------------------------------


def test_datasets_join_stack_and_split() -> None:
    joined = Squares(3) + Squares(2)
    assert [joined[k] for k in range(-5, 5)] == [0, 1, 4, 0, 1] * 2 and len(joined) == 5
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    assert list(ChainDataset([Stream(1), Stream(2)])) == [0, 0, 1]
    assert StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    assert StackDataset(a=Squares(3), b=Squares(3))[2] == {"a": 4, "b": 4}
    assert [Subset(Squares(), [3, 1])[k] for k in range(2)] == [9, 1]
    assert TEN[torch.tensor([1, 2])][1].tolist() == [2, 4] and len(TEN) == 10


def test_datasets_refuse_sizes_that_differ() -> None:
    for kind, match, attempt in (
        (AssertionError, "Size mismatch between tensors", lambda: TensorDataset(
            torch.ones(2), torch.ones(3))),
        (AssertionError, "empty iterable", lambda: ConcatDataset([])),
        (ValueError, "Size mismatch between datasets", lambda: StackDataset(Squares(1), Squares(2))),
        (ValueError, "both types", lambda: StackDataset(Squares(1), a=Squares(1))),
        (ValueError, "Sum of input lengths", lambda: random_split(TEN, [3, 8])),
        (ValueError, "should not exceed", lambda: ConcatDataset([Squares(2)])[-3]),
        (NotImplementedError, "__getitem__", lambda: Dataset()[0]),
        (TypeError, "abstract class", lambda: IterableDataset()),  # type: ignore[abstract]
    ):  # fmt: skip
        with pytest.raises(kind, match=match):
            attempt()


# -- batches ---------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "a b")


def test_batches_of_numbers_arrays_and_containers() -> None:
    assert default_collate([1.5, 2]).dtype is torch.float64
    assert default_collate([1, 2]).dtype is torch.int64
    assert default_collate([True, False]).dtype is torch.bool
    assert default_collate([np.float32(1), np.float32(2)]).dtype is torch.float32
    assert default_collate([np.ones(2), np.zeros(2)]).shape == (2, 2)
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert [x.tolist() for x in default_collate([(1, 2.0), (3, 4.0)])] == [[1, 3], [2.0, 4.0]]
    pair = default_collate([Pair(1, "x"), Pair(2, "y")])
    assert isinstance(pair, Pair) and pair.a.tolist() == [1, 2] and pair.b == ("x", "y")
    ordered = default_collate([collections.OrderedDict(a=1)] * 2)
    assert isinstance(ordered, collections.OrderedDict) and ordered["a"].tolist() == [1, 1]
    converted = default_convert({"x": np.ones(2), "n": 3, "t": (np.int64(1),)})
    assert converted["x"].dtype is torch.float64 and converted["t"][0].item() == 1
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [3]])
    with pytest.raises(TypeError, match="found <class 'NoneType'>"):
        default_collate([None])


def test_single_samples_and_own_collation() -> None:
    assert listed(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert listed(DataLoader(Squares(3), batch_size=2, collate_fn=sum)) == [1, 4]
    assert listed(DataLoader(Squares(5), batch_size=2, drop_last=True)) == [[0, 1], [4, 9]]
    assert listed(DataLoader(Squares(5), batch_sampler=[[1], [4, 2]])) == [[1], [16, 4]]
    assert listed(DataLoader(Squares(5), sampler=[4, 0])) == [[16], [0]]
    assert len(DataLoader(Squares(5), batch_size=2)) == 3
    assert list(BatchSampler([1, 2, 3], 2, False)) == [[1, 2], [3]]


def test_arguments_that_exclude_each_other() -> None:
    for match, options in (
        ("batch_size should be a positive", {"batch_size": 0}),
        ("mutually exclusive with shuffle", {"shuffle": True, "sampler": [0]}),
        ("batch_sampler option is mutually", {"batch_sampler": [[1]], "batch_size": 2}),
        ("disables auto-batching", {"batch_size": None, "drop_last": True}),
        ("num_workers option should be", {"num_workers": -1}),
        ("timeout option", {"timeout": -1}),
        ("prefetch_factor option could", {"prefetch_factor": 2}),
        ("persistent_workers option", {"persistent_workers": True}),
        ("multiprocessing_context can only", {"multiprocessing_context": "fork"}),
    ):
        with pytest.raises(ValueError, match=match):
            DataLoader(TEN, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        DataLoader(TEN, num_workers=1, multiprocessing_context=object())
    found = DataLoader(TEN, num_workers=1, multiprocessing_context="spawn").multiprocessing_context
    assert found.get_start_method() == "spawn"
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(Stream(3), shuffle=True)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        DataLoader(TEN).batch_size = 3
    with pytest.warns(UserWarning, match="no accelerator"):
        next(iter(DataLoader(TEN, pin_memory=True)))


# -- streams ---------------------------------------------------------------------------------------


def test_streams_end_and_warn_of_wrong_lengths() -> None:
    assert listed(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert listed(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert listed(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    for workers in (1, 2, 3):
        found = listed(DataLoader(Stream(5), batch_size=2, num_workers=workers))
        assert found == [x for x in ([0, 1], [2, 3], [4]) for _ in range(workers)]

    class Wrong(Stream):
        def __len__(self) -> int:
            return 3

    loader = DataLoader(Wrong(5), batch_size=2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2.*but 3 samples"):
        assert len(list(loader)) == 3
    with pytest.warns(UserWarning, match="have been fetched. For multiprocessing data-loading"):
        assert len(list(DataLoader(Wrong(5), batch_size=2, num_workers=1))) == 3


def test_seeds_of_numpy_are_pytorchs() -> None:  # recorded from torch 2.13.0
    from functrace.torch.utils.data._utils.worker import _generate_state

    expected = [2884386318, 1088094898, 3523808998, 3860348662]
    assert _generate_state(13434589827475259383, 4) == expected


def test_a_stream_is_shared_out_by_worker_info() -> None:
    def share(_: int) -> None:
        info = get_worker_info()
        assert info is not None
        width = info.dataset.count // info.num_workers
        info.dataset.start, info.dataset.count = info.id * width, (info.id + 1) * width

    stream = Stream(8)
    loader = DataLoader(stream, batch_size=2, num_workers=2, worker_init_fn=share)
    assert listed(loader) == [[0, 1], [4, 5], [2, 3], [6, 7]]
    assert (stream.start, stream.count) == (0, 8) and get_worker_info() is None


# -- workers ---------------------------------------------------------------------------------------


def test_workers_return_batches_in_order() -> None:
    plain = listed(DataLoader(Squares(17), batch_size=3))
    for workers, prefetch in ((1, 1), (2, 2), (3, 4)):
        loader = DataLoader(
            Squares(17, wait=0.002), batch_size=3, num_workers=workers, prefetch_factor=prefetch
        )
        assert listed(loader) == plain
        assert listed(loader) == plain
    loader = DataLoader(Squares(17, wait=0.002), num_workers=3, in_order=False)
    assert sorted(listed(loader)) == [[k * k] for k in range(17)]


class Numbers(Dataset[Any]):
    """Worker, seed and random number of each sample."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        assert torch.is_grad_enabled()
        return index, info.id, info.seed, round(torch.rand(1).item(), 4), torch.initial_seed()


def test_workers_have_random_numbers_of_their_own() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, collate_fn=list)
    seed = 900450186894289455
    expected = [
        [(0, 0, seed, 0.7821, seed), (1, 0, seed, 0.0536, seed)],
        [(2, 1, seed + 1, 0.6938, seed + 1), (3, 1, seed + 1, 0.298, seed + 1)],
    ]
    with torch.no_grad():
        assert list(loader) == expected
    assert f"{torch.rand(1).item():.4f}" == "0.0885"
    state = torch.get_rng_state()
    torch.manual_seed(3)
    torch.set_rng_state(state)
    assert f"{torch.rand(1).item():.4f}" == "0.1320"


def test_persistent_workers_run_several_epochs() -> None:
    started: list[int] = []
    loader = DataLoader(
        Squares(6),
        batch_size=2,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=started.append,
    )
    expected = [[0, 1], [4, 9], [16, 25]]
    assert listed(loader) == expected and listed(loader) == expected
    assert next(iter(loader)).tolist() == [0, 1]  # an epoch that is not finished
    assert listed(loader) == expected
    assert sorted(started) == [0, 1]
    streams = DataLoader(Stream(3), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert listed(streams) == [[0, 1], [0, 1], [2], [2]]


class Failing(Squares):
    """An exception at one index."""

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise KeyError("bad item")
        return index


def test_exceptions_of_workers_keep_their_class() -> None:
    with pytest.raises(KeyError, match="bad item"):
        list(DataLoader(Failing()))
    loader = iter(DataLoader(Failing(), num_workers=1))
    assert [next(loader).tolist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(KeyError) as caught:
        next(loader)
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process 0.\nOriginal Traceback")
    assert "in __getitem__" in text
    assert next(loader).tolist() == [3]

    def refuse(worker: int) -> None:
        raise ValueError(f"worker {worker}")

    with pytest.raises(ValueError, match="worker 0"):
        list(DataLoader(Squares(), num_workers=1, worker_init_fn=refuse))


def test_a_slow_worker_times_out() -> None:
    loader = DataLoader(Squares(4, wait=2.0), num_workers=1, timeout=0.05, sampler=[1])
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds"):
        list(loader)
    with pytest.raises(AssertionError):
        iter(DataLoader(Squares(4), timeout=1))


def test_workers_end_with_their_iterator() -> None:
    before = threading.active_count()
    for _ in range(3):
        iterator = iter(DataLoader(Squares(100), num_workers=2))
        next(iterator)
        del iterator
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
