"""Work on large arrays, spread over the cores: NumPy's functions let other threads run while they compute.

The threads are made when they are first needed. What is computed does not depend on how many there are: work is divided
into spans of whole blocks, and whoever gives it sees to it that blocks do not depend on each other.

Note [Handing work over by locks]
    A multiplication of a million float32 takes 0.42 ms, half of it 0.21. Half of it in a thread that waits for a lock, and
    the other half here, take 0.25 ms together; by ``concurrent.futures`` 0.31 ms.

Floor: 6.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, final

from functrace.locks import Lock, after_fork

BLOCK = 1 << 16
"""Elements: arrays of this many stay in a core's cache. With smaller ones two threads wait for each other's Python code."""

SHARED = 2
"""Where several threads share an array, and each has two blocks or more, a block has so many times as many elements, unless
somebody has set its size. Measured with two threads on 4 million float32, jit-elementwise: 10.2 ms, and 9.0 with larger
blocks (one thread 14.7, 17.0); jit-rowwise 20.9 and 16.8 (28.8, 29.2)."""

LOOKS = 100
"""How often a thread that waits for another one looks before it sleeps, 1 us each: to wake up takes longer than that.
Measured with two threads, a product of 4 MB: 0.45 ms whole, 0.44 with a sleep, 0.38."""

Work = Callable[[int, int], object]
Take = Callable[[], int]
"""Returns 0, 1, 2 … in turn, whoever calls it."""


@final
class Job:
    """A piece of work that a thread does for another one.

    Args:
        work: what is to be called.
    """

    __slots__ = ("_ended", "failure", "is_done", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.is_done, self.failure = False, None
        self._ended = threading.Lock()
        self._ended.acquire()

    failure: BaseException | None
    """What it has raised."""

    def end(self) -> None:
        """Note that it is done, in the thread that has done it."""
        self.is_done = True
        self._ended.release()

    def wait(self) -> None:
        """Return once it is done. Who has been interrupted may wait again."""
        for _ in range(LOOKS):
            if self.is_done:
                return
            time.sleep(0)  # gives Python's own lock away
        while not self.is_done:
            self._ended.acquire()


def wait_for(jobs: Sequence[Job]) -> None:
    """Wait until all jobs are done, also where a signal interrupts: they read and write the caller's arrays.

    Raises:
        BaseException: what a signal's handler has raised meanwhile (``KeyboardInterrupt``), once all are done.
    """
    interruption: BaseException | None = None
    while not all(job.is_done for job in jobs):
        try:
            for job in jobs:
                job.wait()
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption


@final
class Worker:
    """A thread that does one piece of work at a time."""

    def __init__(self) -> None:
        self.free = threading.Lock()
        """Held by who gives it work, until that is done."""
        self._given = threading.Lock()
        self._given.acquire()
        self._job: Job | None = None
        threading.Thread(target=self._run, name="functrace worker", daemon=True).start()

    def begin(self, work: Callable[..., object], *arguments: object) -> Job:
        """Let the thread begin, in the caller's context (NumPy's error state stands in it)."""
        context = contextvars.copy_context()
        job = self._job = Job(lambda: context.run(work, *arguments))
        self._given.release()
        return job

    def _run(self) -> None:
        while True:
            self._given.acquire()
            job, self._job = self._job, None
            assert job is not None
            try:
                job.work()
            except BaseException as error:
                job.failure = error
            self.free.release()
            job.end()
            del job  # and the arrays that it holds


@final
class Threads:
    """The threads of the process.

    Args:
        count: how many work at a time, the caller's among them; by default as many as the process may use cores.
        block: elements of a block.
    """

    def __init__(self, count: int | None = None, block: int = BLOCK) -> None:
        self.block = block
        affinity = getattr(os, "sched_getaffinity", None)
        self.count = count or (len(affinity(0)) if affinity is not None else os.cpu_count() or 1)
        self._workers: list[Worker] = []
        self._making = Lock()

    def resize(self, count: int) -> None:
        """Let this many threads work.

        Raises:
            ValueError: for fewer than one.
        """
        if count < 1:
            raise ValueError(f"at least one thread works, not {count}")
        self.count = count

    def block_of(self, size: int) -> int:
        """Elements of a block of so many; see `SHARED`."""
        is_usual = self.block == BLOCK and self.count > 1
        return SHARED * BLOCK if is_usual and size >= 2 * SHARED * BLOCK * self.count else self.block

    def forget(self) -> None:
        """Make threads anew when they are needed: after a fork there are none."""
        self._workers = []

    def spread(self, work: Work, size: int) -> None:
        """Call ``work(start, stop)`` for spans that make up ``range(size)``, each of whole blocks but for the last.

        Threads that are at work for somebody else are not waited for.

        Raises:
            BaseException: what the work raises, once all of it has ended.
        """
        blocks = -(-size // self.block)
        helpers = self._taken(min(self.count, blocks) - 1)
        count = len(helpers) + 1
        bounds = [min(blocks * k // count * self.block, size) for k in range(count + 1)]
        self._together(helpers, work, list(itertools.pairwise(bounds)))

    def share(self, work: Callable[[Take], object], count: int) -> None:
        """Call ``work(take)`` in every thread that is free: ``take()`` gives the number of the piece that is next.

        A thread is to go on until that number is ``count`` or more. So who is faster does more of them.

        Raises:
            BaseException: what the work raises, once all of it has ended.
        """
        take = itertools.count().__next__
        helpers = self._taken(min(self.count, count) - 1)
        self._together(helpers, work, [(take,)] * (len(helpers) + 1))

    def _together(self, helpers: list[Worker], work: Callable[..., object], given: Sequence[tuple[Any, ...]]) -> None:
        """Call ``work``, in every helper and here."""
        jobs: list[Job] = []
        try:
            for worker, arguments in zip(helpers, given[1:], strict=True):
                jobs.append(worker.begin(work, *arguments))
            work(*given[0])
        finally:
            wait_for(jobs)
        for job in jobs:
            if job.failure is not None:
                raise job.failure

    def _taken(self, count: int) -> list[Worker]:
        """Return workers that are free, and now the caller's; none while the interpreter exits, which ends all threads."""
        found: list[Worker] = []
        if sys.is_finalizing():
            return found
        if count > len(self._workers):
            with self._making.now:
                while count > len(self._workers):
                    try:
                        self._workers.append(Worker())
                    except RuntimeError:  # no thread can be started: too many, or the interpreter is about to exit
                        break
        for worker in self._workers:
            if len(found) >= count:
                break
            if worker.free.acquire(blocking=False):
                found.append(worker)
        return found


THREADS = Threads()
after_fork(THREADS.forget)
