"""Freed memory: while large arrays are worked on, the C library keeps what they leave behind for those that come next.

glibc gives the memory of large arrays back to the operating system as soon as they are freed, and every new one is a page
fault per 4 KiB: gradients of 100 layers on 2 MiB arrays make 180,000 per call. With ``functrace.config.keep_freed_memory =
True``, `mallopt` makes glibc keep as much as consecutive calls on large arrays need; a second after the last call,
`malloc_trim` gives everything back. This is a setting of the whole process, and so off by default. It has no effect with
other C libraries, and where environment variables configure glibc's malloc.

Measured (un-jitted gradient of memory-chain; jitted gradient of jit-elementwise in float64, 32 MiB per array): 1.60 ->
1.35 s, 181,000 -> 300 page faults; 120 -> 90 ms, 4,200 -> 0. Giving back 300 MiB takes 13 ms.

Layer: 7.
"""

from __future__ import annotations

import functools
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from functrace.ir.parts import Compiled
from functrace.locks import Lock, after_fork
from functrace.typing import Array

if TYPE_CHECKING:
    from ctypes import CDLL

LARGE = 1 << 20
"""Bytes: a program that needs less takes less time than to note that it has run."""

SECONDS = 1.0
"""How long memory is kept for the next call."""

FEWEST_KEPT = 64 << 20
"""Bytes that may stay with the process in any case: what glibc settles at by itself, after an array of 32 MB."""

LARGEST_MAPPED = 32 << 20
"""Bytes: larger arrays have memory of their own, from the operating system, while nothing is kept."""

GAPS = 8 << 20
"""Bytes between arrays that are given back while a large program runs, if the process has grown by as much."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in malloc.h


@functools.lru_cache(maxsize=1)
def _library() -> CDLL | None:
    """The C library, if it is glibc and nobody has told it what to keep."""
    told = any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"))
    if sys.platform != "linux" or told or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    name = "CS_GNU_LIBC_VERSION"
    if name not in os.confstr_names or not (os.confstr(name) or "").startswith("glibc"):
        return None
    import ctypes

    return ctypes.CDLL(None)


@functools.lru_cache(maxsize=1)
def _asks(library: CDLL) -> Callable[[], Any]:
    """glibc's function for what its heap holds: a structure with the ``free`` bytes."""
    import ctypes

    names = ("arena", "chunks", "small", "maps", "mapped", "most", "fast", "used", "free", "top")
    ask: Any = library.mallinfo2
    ask.restype = type("Heap", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names]})
    return ask


def _resident() -> int:
    """Bytes that the process has in memory; 0 where that cannot be read."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _free(library: CDLL) -> int:
    """Bytes that glibc has and nobody uses."""
    return _asks(library)().free


@final
class FreedMemory:
    """What is kept of freed memory, for whom.

    Args:
        seconds: how long.
        is_kept: whether anything is kept.
    """

    def __init__(self, seconds: float = SECONDS, *, is_kept: bool = False) -> None:
        self.seconds = seconds
        self.is_kept = is_kept
        """Setting: True if freed memory is kept."""
        self.kept = 0
        """Bytes that the largest of the calls needs, for which memory is kept."""
        self.has_budget = False
        """Whether somebody has said how many bytes are to suffice: then new pages are the lesser evil."""
        self._needed = 0  # by the largest call since the thread has looked
        self._held = 0  # the most bytes that the process had, when it had been looked for gaps
        self._running: list[tuple[int, int]] = []  # the threads that run large programs, and their bytes
        self._is_watched = False
        self._turn = Lock()

    def forget(self) -> None:
        """Start anew: after a fork there is no thread that watches."""
        self.kept = self._needed = self._held = 0
        self._is_watched = False
        self._running = [entry for entry in self._running if entry[0] == threading.get_ident()]

    def used(self, nbytes: int) -> None:
        """Note that arrays of so many bytes together are worked on."""
        if self.is_kept and nbytes > self._needed:
            self._needed = nbytes
            if nbytes > self.kept:
                self._keep(nbytes)

    def around(self, run: Compiled, nbytes: int) -> Compiled:
        """Return a function that needs so many bytes as one that says so."""
        if nbytes < LARGE:
            return run

        @functools.wraps(run)
        def keeping(*arguments: Array) -> tuple[Any, ...]:
            if not self.is_kept:
                return run(*arguments)
            entry = threading.get_ident(), nbytes
            self._running.append(entry)
            self.used(nbytes)
            try:
                return run(*arguments)
            finally:
                self._running.remove(entry)
                self.used(nbytes)

        return keeping

    def close_gaps(self) -> None:
        """Give back what lies between arrays, if there is a budget, and the process has grown; asked while a program runs.

        Arrays that live on, such as gradients, stand where larger ones have died; what is left around them fits nothing.
        """
        library = _library() if self.has_budget else None
        if library is None or not hasattr(library, "mallinfo2"):
            return
        held = _resident()
        if held - self._held < GAPS:
            return
        if _free(library) >= GAPS:
            library.malloc_trim(0)
            held = _resident()
        self._held = max(self._held, held)

    def give_back(self, needed: int = 0) -> None:
        """Keep only what calls that need so many bytes leave behind."""
        library = _library()
        if library is not None:
            self.kept, self._held = needed, 0
            self._tell(library)
            library.malloc_trim(0)

    def _keep(self, nbytes: int) -> None:
        library = _library()
        if library is None or sys.is_finalizing():
            return
        with self._turn.now:
            self.kept = max(self.kept, nbytes)
            self._tell(library)
            if not self._is_watched:
                self._is_watched = True
                try:
                    threading.Thread(target=self._watch, name="functrace freed memory", daemon=True).start()
                except RuntimeError:  # the interpreter is about to exit, and frees all
                    self._is_watched = False

    def _watch(self) -> None:
        """Give memory back when the calls that needed it are over."""
        while self._is_watched:
            time.sleep(self.seconds)
            with self._turn.now:
                needed, self._needed = max([self._needed, *[nbytes for _, nbytes in self._running]]), 0
                if 2 * needed <= self.kept:
                    self.give_back(needed)
                self._is_watched = self.kept > 0

    def _tell(self, library: CDLL) -> None:
        """Say how much to keep. (Larger arrays than 32 MB can be kept since glibc 2.35; before, it takes no notice.)"""
        library.mallopt(_TRIM_THRESHOLD, min(FEWEST_KEPT + 2 * self.kept, (1 << 31) - 1))
        library.mallopt(_MMAP_THRESHOLD, LARGEST_MAPPED)
        if self.kept:
            library.mallopt(_MMAP_THRESHOLD, 2 * LARGEST_MAPPED)


FREED = FreedMemory()
"""The process's freed memory."""
after_fork(FREED.forget)
