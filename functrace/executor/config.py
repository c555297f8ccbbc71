"""``functrace.config``: block size, number of threads, freed memory, machine code, checks for NaN.

Layer: 7.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, final

from functrace.errors import ArgumentError
from functrace.executor.allocator import FREED
from functrace.locks import Lock
from functrace.threads import THREADS

_UNCHANGED: Any = object()


@final
class Config:
    """Settings, which affect time and memory but no result; a call sets them for a ``with`` block.

    Args:
        threads: number of threads that work on one array; by default the number of cores that the
            process may use.
        block: elements of a block (65,536 by default); arrays of at least four blocks are tiled.
        keep_freed_memory: True to keep freed memory of large arrays for the next call (glibc only;
            False by default).
        native: None (the default) to compile programs to machine code once they have run 1,000
            times, if their results then equal NumPy's to the bit; True to compile
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
        """Which programs are compiled to machine code once they run often.

        None: those whose results then equal NumPy's to the bit (no elementary functions, products
        of matrices or factorizations); True: all, up to rounding; False: none. Functions that are
        jitted from then on use it, unless they name a ``backend``, and so do un-jitted transforms
        whose calls record the same operations on small arrays. It needs the extra ``native`` (llvmlite).
        """
        return NATIVE[0]

    @native.setter
    def native(self, is_used: bool | None) -> None:
        with _switching.now:
            NATIVE[0] = None if is_used is None else _flag("native", is_used)
            _update_dispatch()

    @property
    def check_nans(self) -> bool:
        """True if a call whose result has NaN raises `functrace.errors.NanError`, a
        ``FloatingPointError``.

        It holds for all transforms and for ``jit`` with every backend; the results of each program
        are searched, and if there is a NaN, the program is evaluated again, operation by operation,
        to name the user's line that made it (as `functrace.debug.explain_nan` does). A NaN that no
        result depends on does not raise. Plain NumPy, and loops that Python runs on plain arrays,
        are not checked: see ``np.errstate``. A ``with`` block sets it for its thread, or asyncio's
        task, like ``np.errstate``; an assignment outside of such blocks sets it for the process.
        While it is off, it has no cost.
        """
        return are_nans_checked()

    @check_nans.setter
    def check_nans(self, is_on: bool) -> None:
        _flag("check_nans", is_on)
        if _checks.get() is not None:
            _checks.set(is_on)
            return
        with _switching.now:
            _process_checks[0] = is_on
            _update_dispatch()

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
        """Set for a ``with`` block, at whose end the given settings are restored. Other threads of
        the process see the settings too, except ``check_nans``.

        Raises:
            ArgumentError: if ``threads`` or ``block`` is less than 1, or ``keep_freed_memory`` or
                ``check_nans`` is not a bool, or ``native`` not a bool or None.
        """
        given: dict[str, Any] = {
            "keep_freed_memory": keep_freed_memory,
            "threads": threads,
            "block": block,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if native is not _UNCHANGED:
            given["native"] = native
        before = {name: getattr(self, name) for name in given}
        checks = None if check_nans is None else _checks.set(_flag("check_nans", check_nans))
        if checks is not None:
            _count_blocks(1)
        try:
            for name, value in given.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)
            if checks is not None:
                _count_blocks(-1)
                _checks.reset(checks)

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


CHECKED: Final = "checked"
"""The entry of `DISPATCH` while results are searched for NaN in some thread."""

DISPATCH: list[object] = [None]
"""The setting that a run of a program reads: that of `Config.native`, or `CHECKED`."""

NAN_SWITCHES: list[Callable[[bool], None]] = []
"""Called when the first thread begins to search results for NaN, and when the last one ends."""

_process_checks: list[bool] = [False]
_checks: ContextVar[bool | None] = ContextVar("whether results are searched for NaN", default=None)
_blocks: list[int] = [0]
_switching = Lock()


def are_nans_checked() -> bool:
    """Return True if the results of calls in this thread are searched for NaN."""
    found = _checks.get()
    return _process_checks[0] if found is None else found


def _count_blocks(change: int) -> None:
    """Count the ``with`` blocks that set `Config.check_nans`."""
    with _switching.now:
        _blocks[0] += change
        _update_dispatch()


def _update_dispatch() -> None:
    is_checked, was_checked = _blocks[0] > 0 or _process_checks[0], DISPATCH[0] is CHECKED
    DISPATCH[0] = CHECKED if is_checked else NATIVE[0]
    if is_checked is not was_checked:
        for switch in NAN_SWITCHES:
            switch(is_checked)


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
