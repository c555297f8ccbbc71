"""`DataLoader`: batches of a dataset, in PyTorch's order, optionally read by threads.

Layer: 9.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar, final

from functrace.torch._utils import ExceptionWrapper
from functrace.torch.errors.warnings import warn
from functrace.torch.utils.data._utils.collate import default_collate, default_convert
from functrace.torch.utils.data._utils.fetch import fetcher_of
from functrace.torch.utils.data._utils.worker import (
    RESUME,
    Ended,
    Resumed,
    Work,
    get_worker_info,
    run_worker,
    separate_engines,
)
from functrace.torch.utils.data.dataset import Dataset, IterableDataset
from functrace.torch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
"""Attributes that cannot be set later."""
_REPLICAS = (
    "For multiprocessing data-loading, this could be caused by not properly configuring the "
    "IterableDataset replica at each worker. Please see "
    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
)
"""Part of the warning of a stream that is longer than its length, if it has workers."""


@final
class _Endless(Sampler[Any]):
    """Sampler of a stream, which has no indices."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Args:
        dataset: a dataset by index, or an `IterableDataset`.
        batch_size: samples of a batch; None for single samples.
        shuffle: True for a random order in each epoch.
        sampler: the order: a sampler, or any iterable of indices.
        batch_sampler: the batches: an iterable of lists of indices; instead of ``batch_size``,
            ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: number of threads that read samples; 0 to read them when they are used.
        collate_fn: makes a batch of a list of samples; by default `default_collate`.
        pin_memory: ignored, with a warning: there is no device to copy to.
        drop_last: True to drop a last batch that is smaller.
        timeout: seconds to wait for a worker; 0 to wait for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: a start method of processes; ignored: workers are threads.
        generator: draws the order, and the seed of the workers; by default the generator of the
            process.
        prefetch_factor: batches that each worker reads ahead; 2 by default.
        persistent_workers: True to keep workers after an epoch.
        pin_memory_device: ignored.
        in_order: False to return batches of workers as soon as they are there.

    Raises:
        ValueError: for arguments that exclude each other, and negative numbers.

    Example:
        >>> import functrace.torch as torch
        >>> data = torch.utils.data.TensorDataset(torch.arange(5))
        >>> [batch for (batch,) in DataLoader(data, batch_size=2)]
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Dataset[T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    batch_sampler: Any
    prefetch_factor: int | None
    _iterator: _WorkerIterator | None = None
    _is_made = False

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        self.generator = generator
        self._is_stream = isinstance(dataset, IterableDataset)
        if self._is_stream:
            _check_stream(shuffle, sampler, batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        order: Any = self._default_sampler(shuffle) if sampler is None else sampler
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(order, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = order, batch_sampler
        self.collate_fn = collate_fn or (
            default_collate if self._auto_collation else default_convert
        )
        self._reported_length: int | None = None
        self._is_made = True
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._is_stream:
            return _Endless()
        source: Any = self.dataset
        return (
            RandomSampler(source, generator=self.generator)
            if shuffle
            else SequentialSampler(source)
        )

    @property
    def multiprocessing_context(self) -> Any:
        """The context of processes; it has no effect."""
        return self.__dict__["_context"]

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers > 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{known!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self.__dict__["_context"] = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_made and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Any:
        if self.pin_memory:
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used."
            )
        if not self.num_workers:
            return _PlainIterator(self)
        self.check_worker_number_rationality()
        if not self.persistent_workers:
            return _WorkerIterator(self)
        if self._iterator is None:
            self._iterator = _WorkerIterator(self)
        else:
            self._iterator.restart()
        return self._iterator

    def __len__(self) -> int:
        if not self._is_stream:
            return len(self._index_sampler)
        source: Any = self.dataset
        length = self._reported_length = len(source)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than cores."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers > (cores or 1):
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {cores}, which is smaller "
                "than what this DataLoader is going to create. Please be aware that excessive "
                "worker creation might get DataLoader running slow or even freeze, lower the worker "
                "number to avoid potential slowness/freeze if necessary."
            )


def _check_workers(
    count: int, timeout: float, prefetch: int | None, persistent_workers: bool
) -> None:
    """Check the arguments about workers.

    Raises:
        ValueError: if they are negative, or pointless without workers.
    """
    if count < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not count and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
            "to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and not count:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Check that no order is set for a stream.

    Raises:
        ValueError: if one is.
    """
    given = (
        ("shuffle", shuffle if shuffle else None),
        ("sampler", sampler),
        ("batch_sampler", batch_sampler),
    )
    for name, value in given:
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


# -- iterators -------------------------------------------------------------------------------------


class _LoaderIterator:
    """One epoch of a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._begin()
        self._seed = draw_seed(loader.generator)

    def _begin(self) -> None:
        self._indices = iter(self._loader._index_sampler)
        self._given = 0

    def __iter__(self) -> Any:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        batch = self._next()
        self._given += 1
        loader = self._loader
        expected = loader._reported_length
        if loader._is_stream and expected is not None:
            most = len(loader)
            if self._given > most:
                message = (
                    f"Length of IterableDataset {loader.dataset} was reported to be {most}(when "
                    f"accessing len(dataloader)), but {self._given} samples have been fetched. "
                )
                warn(message + _REPLICAS if loader.num_workers else message)
        return batch

    def _next(self) -> Any:
        raise NotImplementedError


@final
class _PlainIterator(_LoaderIterator):
    """An epoch without workers."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.timeout:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        super().__init__(loader)
        self._fetcher = fetcher_of(
            loader._is_stream,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )

    def _next(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


def _end(done: threading.Event, tasks: list[queue.SimpleQueue[Any]]) -> None:
    """End the workers of an iterator."""
    done.set()
    for worker in tasks:
        worker.put(None)


@final
class _WorkerIterator(_LoaderIterator):
    """Epochs with workers: tasks are dealt out in turn, and results are put in order."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        separate_engines()
        self._count = loader.num_workers
        self._results: queue.SimpleQueue[tuple[Any, Any, int]] = queue.SimpleQueue()
        self._tasks: list[queue.SimpleQueue[Any]] = [
            queue.SimpleQueue() for _ in range(self._count)
        ]
        done = threading.Event()
        super().__init__(loader)
        work = Work(
            loader._is_stream,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            self._seed,
            self._count,
            self._results,
            done,
        )
        for number, tasks in enumerate(self._tasks):
            arguments = (work, number, tasks)
            threading.Thread(target=run_worker, args=arguments, daemon=True).start()
        self._close = weakref.finalize(self, _end, done, self._tasks)
        self._deal()

    def restart(self) -> None:
        """Begin another epoch with the same workers."""
        for tasks in self._tasks:
            tasks.put(RESUME)
        waiting = self._count
        while waiting:  # results of an epoch that was not finished are dropped
            waiting -= isinstance(self._get()[1], Resumed)
        self._begin()
        self._deal()

    def _deal(self) -> None:
        """Deal out the first tasks."""
        self._owner: dict[int, int] = {}
        self._ready: dict[int, Any] = {}
        self._sent = self._taken = self._outstanding = 0
        self._is_active = [True] * self._count
        self._turn = 0
        for _ in range((self._loader.prefetch_factor or 0) * self._count):
            self._send()

    def _send(self) -> None:
        """Send the next task to the worker whose turn it is."""
        if not any(self._is_active):
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        while not self._is_active[self._turn]:
            self._turn = (self._turn + 1) % self._count
        worker, self._turn = self._turn, (self._turn + 1) % self._count
        self._owner[self._sent] = worker
        self._tasks[worker].put((self._sent, index))
        self._sent += 1
        self._outstanding += 1

    def _get(self) -> tuple[Any, Any, int]:
        """Wait for a result.

        Raises:
            RuntimeError: if it takes too long.
        """
        timeout = self._loader.timeout
        try:
            return self._results.get(timeout=timeout or None)
        except queue.Empty:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None

    def _next(self) -> Any:
        while True:
            while self._taken < self._sent and not (
                self._taken in self._ready
                or (self._taken in self._owner and self._is_active[self._owner[self._taken]])
            ):
                self._owner.pop(self._taken, None)
                self._taken += 1
            if self._taken == self._sent:
                if not self._loader.persistent_workers:
                    self._close()
                raise StopIteration
            if self._taken in self._ready:
                return self._deliver(self._taken, self._ready.pop(self._taken))
            place, result, worker = self._get()
            self._outstanding -= 1
            if isinstance(result, Ended):
                self._is_active[worker] = False
                self._owner.pop(place, None)
                self._send()
            elif place == self._taken or not self._loader.in_order:
                return self._deliver(place, result)
            else:
                self._ready[place] = result

    def _deliver(self, place: int, result: Any) -> Any:
        self._owner.pop(place, None)
        if place == self._taken:
            self._taken += 1
        self._send()
        if isinstance(result, ExceptionWrapper):
            result.reraise()
        return result
