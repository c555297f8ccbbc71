"""Thread pool for work on large arrays: NumPy's functions release the GIL while they compute.

The threads belong to one `ThreadPoolExecutor`, which is imported and started at first use. Results
do not depend on the number of threads: work is divided into independent spans of whole blocks. The
calling thread does a share of the work, and runs jobs that no thread has begun, so nested work
cannot deadlock.

Layer: b (base).
"""

from __future__ import annotations

import contextvars
import itertools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.locks import Lock, after_fork

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

BLOCK = 1 << 16
"""Elements of a block: some arrays of this size stay in a core's cache. With smaller ones, threads
wait for the GIL.
"""

SHARED = 2
"""Factor of the block size if several threads share an array and each has two blocks or more,
unless the user has set the block size. Measured with two threads on 4 million float32,
jit-elementwise: 10.2 ms, and 9.0 with larger blocks (one thread 14.7, 17.0); jit-rowwise 20.9
and 16.8 (28.8, 29.2).
"""

Work = Callable[[int, int], object]
Take = Callable[[], int]
"""Returns 0, 1, 2 … in turn, from any thread."""


@final
class ThreadPool:
    """The worker threads of the process.

    Args:
        count: number of threads, the caller's included; by default the number of cores that the
            process may use.
        block: elements of a block.
    """

    def __init__(self, count: int | None = None, block: int = BLOCK) -> None:
        self.block = block
        affinity = getattr(os, "sched_getaffinity", None)
        self.count = count or (len(affinity(0)) if affinity is not None else os.cpu_count() or 1)
        self._pool: ThreadPoolExecutor | None = None
        self._making = Lock()

    def resize(self, count: int) -> None:
        """Set the number of threads.

        Raises:
            ValueError: for fewer than one.
        """
        if count < 1:
            raise ValueError(f"the number of threads must be at least 1, not {count}")
        with self._making.now:
            if count != self.count:
                self.count, self._pool = count, None

    def block_of(self, size: int) -> int:
        """Return the elements of a block, for an array of ``size`` elements; see `SHARED`."""
        is_usual = self.block == BLOCK and self.count > 1
        return (
            SHARED * BLOCK if is_usual and size >= 2 * SHARED * BLOCK * self.count else self.block
        )

    def forget(self) -> None:
        """Recreate the threads at next use: a forked child has none."""
        self._pool = None

    def spread(self, work: Work, size: int) -> None:
        """Call ``work(start, stop)`` for spans that cover ``range(size)``, each of whole blocks
        except the last.

        Raises:
            BaseException: an exception of the work, after all of it has ended.
        """
        blocks = -(-size // self.block)
        count = max(1, min(self.count, blocks))
        bounds = [min(blocks * k // count * self.block, size) for k in range(count + 1)]
        self._together(work, list(itertools.pairwise(bounds)))

    def share(self, work: Callable[[Take], object], count: int) -> None:
        """Call ``work(take)`` in every free thread: ``take()`` returns the index of the next piece.

        A thread continues until that index is ``count`` or more, so faster threads do more pieces.

        Raises:
            BaseException: an exception of the work, after all of it has ended.
        """
        take = itertools.count().__next__
        self._together(work, [(take,)] * min(self.count, count))

    def share_without_warnings(self, work: Callable[[Take], object], count: int) -> bool:
        """Call ``share`` with NumPy's warnings off; returns True unless one would have come.

        A warning names the user's line, and an error is raised there: only the caller's thread
        knows it. So a caller that gets False does the work again in its own thread.
        """
        noted: list[str] = []
        modes: dict[str, Any] = {
            kind: "ignore" if mode == "ignore" else "call" for kind, mode in np.geterr().items()
        }
        with np.errstate(**modes, call=lambda kind, _flag: noted.append(kind)):
            self.share(work, count)
        return not noted

    def _together(self, work: Callable[..., object], given: Sequence[tuple[Any, ...]]) -> None:
        """Call ``work`` once per tuple of arguments: here, and in the pool."""
        jobs: list[_PoolTask] = []
        try:
            self._begin(jobs, work, given[1:])
            for arguments in (*given[:1], *given[1 + len(jobs) :]):
                work(*arguments)
            for job, arguments in zip(jobs, given[1:], strict=False):
                if job.take_back():
                    work(*arguments)
        finally:
            _wait_for(jobs)
        for job in jobs:
            failure = None if job.future.cancelled() else job.future.exception()
            if failure is not None:
                raise failure

    def _begin(
        self, jobs: list[_PoolTask], work: Callable[..., object], given: Sequence[tuple[Any, ...]]
    ) -> None:
        """Submit jobs to the pool, each in a copy of the caller's context (which contains NumPy's
        error state).

        Args:
            jobs: each is appended at once, so that an interrupted caller can wait for them: fewer
                than ``given``, or none, if the interpreter exits or the system cannot start
                threads.
            work: the function.
            given: its arguments, one tuple per job.
        """
        if not given or sys.is_finalizing():
            return
        pool = self._pool
        if pool is None:
            with self._making.now:
                if self._pool is None and self.count > 1:
                    self._pool = _pool(self.count - 1)
                pool = self._pool
        if pool is not None:
            try:
                for arguments in given:
                    jobs.append(_PoolTask(pool, work, arguments))
            except RuntimeError:  # the interpreter exits
                return


@final
class _PoolTask:
    """A call in the pool, in the caller's context.

    It drops its references before it is done, and when it is cancelled: the caller may then count
    references to an array. (The pool's queue itself keeps a cancelled job until a thread reaches
    it.)
    """

    __slots__ = ("_call", "future")

    def __init__(
        self, pool: ThreadPoolExecutor, work: Callable[..., object], arguments: tuple[Any, ...]
    ) -> None:
        self._call: Any = (contextvars.copy_context(), work, arguments)
        self.future: Future[None] = pool.submit(self)

    def __call__(self) -> None:
        (context, work, arguments), self._call = self._call, None
        context.run(work, *arguments)

    def take_back(self) -> bool:
        """Cancel the job; returns True if no thread has begun it."""
        is_mine = self.future.cancel()
        if is_mine:
            self._call = None
        return is_mine


def _pool(count: int) -> ThreadPoolExecutor | None:
    """Return a pool with all threads started; ``None`` if the system cannot start them."""
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:  # it is first imported while the interpreter exits
        return None
    pool, gate = ThreadPoolExecutor(count, "functrace worker"), threading.Event()
    try:
        for _ in range(count):
            pool.submit(gate.wait)  # (a waiting thread is not idle, so each job starts a new one)
    except RuntimeError:
        pool.shutdown(wait=False)
        return None
    finally:
        gate.set()
    return pool


def _wait_for(jobs: Sequence[_PoolTask]) -> None:
    """Wait until all jobs are done, even if a signal interrupts: they read and write the caller's
    arrays.

    Raises:
        BaseException: an exception of a signal handler (``KeyboardInterrupt``), after all are done.
    """
    interruption: BaseException | None = None
    for job in jobs:
        job.take_back()  # after an exception
        while not job.future.done():
            try:
                job.future.exception()  # waits
            except BaseException as error:
                interruption = error
    if interruption is not None:
        raise interruption


THREADS = ThreadPool()
after_fork(THREADS.forget)
