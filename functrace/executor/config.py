"""``functrace.config``: block size, number of threads, freed memory, machine code, checks for NaN.

Layer: 7.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from functrace.errors import ArgumentError
from functrace.executor.allocator import FREED
from functrace.locks import Lock
from functrace.threads import THREADS

_UNCHANGED: Any = object()


@final
class Config:
    """Settings of the process, which affect time and memory but no result; a call sets them for a
    ``with`` block.

    Args:
        threads: number of threads that work on one array; by default the number of cores that the
            process may use.
        block: elements of a block (65,536 by default); arrays of at least four blocks are tiled.
        keep_freed_memory: True to keep freed memory of large arrays for the next call (glibc only;
            False by default).
        native: None (the default) to compile programs on small arrays to machine code once they
            have run 1,000 times, if their results then equal NumPy's to the bit; True to compile
            after 32 runs, with rounding as the native backend has it; False not to. It holds for
            ``jit`` without a backend and for un-jitted transforms, where llvmlite is installed.
        check_nans: True to raise `functrace.errors.NanError` at the user's line where a call makes
            the first NaN of its results (False by default).

    Returns:
        a context manager, which restores the settings at the end of the block.

    Raises:
        ArgumentError: if ``threads`` or ``block`` is less than 1, or ``keep_freed_memory`` or
            ``check_nans`` is not a bool, or ``native`` not a bool or None.

    Example:
        >>> import functrace as ft
        >>> with ft.config(threads=1, block=1 << 14):
        ...     print(ft.config)
        Config(threads=1, block=16384)
    """

    __slots__ = ()

    @property
    def threads(self) -> int:
        """Number of threads that work on one array; by default the number of cores that the process
        may use.
        """
        return THREADS.count

    @threads.setter
    def threads(self, count: int) -> None:
        THREADS.resize(_positive("threads", count))

    @property
    def block(self) -> int:
        """Elements of a block; programs compiled from then on divide arrays of at least four
        blocks.

        The default is 65,536: a few such blocks stay in a core's cache. With smaller blocks,
        threads wait for each other, so the default doubles where several threads share an array.
        For numbers wider than four bytes, a block has proportionally fewer elements.
        """
        return THREADS.block

    @block.setter
    def block(self, size: int) -> None:
        THREADS.block = _positive("block", size)

    @property
    def keep_freed_memory(self) -> bool:
        """True if glibc keeps freed memory of large arrays for the next call, until a second after
        the last one.

        Large arrays then have no page faults: a jitted elementwise gradient of 32 MiB arrays takes
        90 ms instead of 120. It is off by default, since it changes settings of the C library
        (``mallopt``) for the whole process.
        """
        return FREED.is_kept

    @keep_freed_memory.setter
    def keep_freed_memory(self, is_kept: bool) -> None:
        FREED.is_kept = _flag("keep_freed_memory", is_kept)
        if not is_kept and FREED.kept:
            FREED.give_back()

    @property
    def native(self) -> bool | None:
        """Which programs on small arrays are compiled to machine code once they run often.

        None: those whose results then equal NumPy's to the bit (no elementary functions, products
        of matrices or factorizations); True: all, up to rounding; False: none. Functions that are
        jitted from then on use it, unless they name a ``backend``, and so do un-jitted transforms
        whose calls record the same operations. It needs the extra ``native`` (llvmlite).
        """
        return NATIVE[0]

    @native.setter
    def native(self, is_used: bool | None) -> None:
        NATIVE[0] = None if is_used is None else _flag("native", is_used)

    @property
    def check_nans(self) -> bool:
        """True if a call whose result has NaN raises `functrace.errors.NanError`, a
        ``FloatingPointError``.

        It holds for all transforms and for ``jit`` with every backend; the results of each program
        are searched, and if there is a NaN, the program is evaluated again, operation by operation,
        to name the user's line that made it (as `functrace.debug.explain_nan` does). A NaN that no
        result depends on does not raise. Plain NumPy, and loops that Python runs on plain arrays,
        are not checked: see ``np.errstate``. The setting is that of the process. While it is off,
        it has no cost.
        """
        return NAN_CHECKS[0]

    @check_nans.setter
    def check_nans(self, is_on: bool) -> None:
        with _switching.now:
            if _flag("check_nans", is_on) is not NAN_CHECKS[0]:
                NAN_CHECKS[0] = is_on
                for switch in NAN_SWITCHES:
                    switch(is_on)

    @contextmanager
    def __call__(
        self,
        *,
        threads: int | None = None,
        block: int | None = None,
        keep_freed_memory: bool | None = None,
        native: bool | None = _UNCHANGED,
        check_nans: bool | None = None,
    ) -> Generator[None]:
        """Set for a ``with`` block; other threads of the process see the settings too.

        Raises:
            ArgumentError: if ``threads`` or ``block`` is less than 1, or ``keep_freed_memory`` or
                ``check_nans`` is not a bool, or ``native`` not a bool or None.
        """
        before = (
            self.threads,
            self.block,
            self.keep_freed_memory,
            self.native,
            self.check_nans,
        )
        try:
            if keep_freed_memory is not None:
                self.keep_freed_memory = keep_freed_memory
            if threads is not None:
                self.threads = threads
            if block is not None:
                self.block = block
            if native is not _UNCHANGED:
                self.native = native
            if check_nans is not None:
                self.check_nans = check_nans
            yield
        finally:
            (
                self.threads,
                self.block,
                self.keep_freed_memory,
                self.native,
                self.check_nans,
            ) = before

    if not TYPE_CHECKING:  # so that type checkers report a misspelt name

        def __getattr__(self, name: str) -> object:
            """Raise an error that lists the settings."""
            from functrace.names import unknown_name

            raise unknown_name(
                "functrace.config",
                name,
                ("block", "check_nans", "keep_freed_memory", "native", "threads"),
            )

    def __repr__(self) -> str:
        return f"Config(threads={self.threads}, block={self.block})"


NATIVE: list[bool | None] = [None]
"""The setting of `Config.native`."""


NAN_CHECKS: list[bool] = [False]
"""The setting of `Config.check_nans`."""

NAN_SWITCHES: list[Callable[[bool], None]] = []
"""Functions that turn the checks of `Config.check_nans` on and off, where programs run."""

_switching = Lock()


def _flag(name: str, value: bool) -> bool:
    if value is not True and value is not False:
        raise ArgumentError(
            f"config.{name} must be True or False, not {value!r}",
            fix=f"functrace.config.{name} = True",
        )
    return value


def _positive(name: str, value: int) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = 0
    if found < 1:
        raise ArgumentError(
            f"config.{name} must be an integer of at least 1, not {value!r}",
            fix=f"functrace.config.{name} = 1",
        )
    return found


CONFIG = Config()
"""The settings of the process."""
