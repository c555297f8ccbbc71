"""Worker threads of a loader.

PyTorch's workers are processes. Threads share the dataset's memory, and need no pickles; NumPy's
functions run concurrently in them. As in PyTorch's processes, each has random numbers of its own,
seeded by the loader's seed and its number, a copy of the dataset object (whose attributes
``worker_init_fn`` may set), and grad mode on. Numbers of Python's ``random`` and of ``np.random``
are those of the process.

Layer: 9.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.torch._utils import ExceptionWrapper
from functrace.torch.random.engine import Engine
from functrace.torch.random.generator import GENERATOR
from functrace.torch.utils.data._utils.fetch import Fetcher, fetcher_of

__all__ = ["WorkerInfo", "get_worker_info"]


@final
@dataclass(frozen=True)
class WorkerInfo:
    """Identity of a worker.

    Args:
        id: its number.
        num_workers: number of workers.
        seed: seed of its random numbers.
        dataset: its copy of the dataset object.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str = "thread"


class _Local(threading.local):
    """State of a thread: its worker, and its engine of random numbers."""

    info: WorkerInfo | None = None
    engine: Engine | None = None


_LOCAL = _Local()


def get_worker_info() -> WorkerInfo | None:
    """Return the identity of the worker in which this is called; None outside of workers."""
    return _LOCAL.info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return four numbers of 32 bits that seed ``np.random`` in a worker: NumPy's hash of both.

    Args:
        base_seed: seed of the loader.
        worker_id: number of the worker.
    """
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


@final
class _EngineOfThread:
    """The engine of the process' generator, or in a worker that of the worker.

    It takes the place of the former when the first worker begins.

    Args:
        engine: the engine of the process.
    """

    __slots__ = ("_engine",)

    def __init__(self, engine: Any) -> None:
        object.__setattr__(self, "_engine", engine)

    def __getattr__(self, name: str) -> Any:
        return getattr(_LOCAL.engine or self._engine, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_LOCAL.engine or self._engine, name, value)


_INSTALLING = threading.Lock()


def separate_engines() -> None:
    """Give worker threads random numbers of their own."""
    with _INSTALLING:
        if not isinstance(GENERATOR.engine, _EngineOfThread):
            engine: Any = _EngineOfThread(GENERATOR.engine)
            GENERATOR.engine = engine


# -- the thread ------------------------------------------------------------------------------------


class Ended:
    """Result of a worker whose stream has ended."""


class Resumed:
    """Result of a worker that begins the dataset again."""


RESUME = object()
"""Task that begins the dataset again."""


@final
@dataclass(frozen=True)
class Work:
    """The part of a task that all workers of a loader share.

    Args:
        is_stream: True for streams; see `functrace.torch.utils.data._utils.fetch.Fetcher` for the
            next four.
        init: called in each worker with its number.
        seed: seed of the first worker.
        count: number of workers.
        results: where results go: number of the task, result, number of the worker.
        done: set to end the workers.
    """

    is_stream: bool
    dataset: Any
    is_batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    seed: int
    count: int
    results: queue.SimpleQueue[tuple[Any, Any, int]]
    done: threading.Event


def run_worker(work: Work, number: int, tasks: queue.SimpleQueue[Any]) -> None:
    """Run a worker until it gets None.

    Args:
        work: what all workers share.
        number: number of this one.
        tasks: where its tasks come from: number and indices.
    """
    where = f"in DataLoader worker process {number}"
    seed = work.seed + number
    try:
        dataset = copy.copy(work.dataset)
    except (TypeError, copy.Error):  # it cannot be copied: the workers share it
        dataset = work.dataset
    _LOCAL.info = WorkerInfo(number, work.count, seed, dataset)
    _LOCAL.engine = Engine(seed % 2**64)
    failure: ExceptionWrapper | None = None
    fetcher: Fetcher | None = None
    make = lambda: fetcher_of(  # noqa: E731
        work.is_stream, dataset, work.is_batched, work.collate, work.drop_last
    )
    try:
        if work.init is not None:
            work.init(number)
        fetcher = make()
    except Exception:
        failure = ExceptionWrapper(where=where)
    has_ended = False
    while (task := tasks.get()) is not None and not work.done.is_set():
        if task is RESUME:
            try:
                fetcher, has_ended = make(), False
            except Exception:
                fetcher, failure = None, ExceptionWrapper(where=where)
            work.results.put((RESUME, Resumed(), number))
            continue
        place, index = task
        if has_ended:
            continue
        result: Any
        if fetcher is None:
            result = failure
        else:
            try:
                result = fetcher.fetch(index)
            except StopIteration:
                has_ended = work.is_stream
                result = Ended() if work.is_stream else ExceptionWrapper(where=where)
            except Exception:
                result = ExceptionWrapper(where=where)
        work.results.put((place, result, number))
        del result, task
