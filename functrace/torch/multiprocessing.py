"""``torch.multiprocessing``: the standard library's. Tensors are copied to other processes.

Layer: 9.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 (the same names)
from typing import Any

__all__ = [*multiprocessing.__all__]  # pyright: ignore[reportUnsupportedDunderAll]
__all__ += [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process failed.

    Args:
        msg: the message.
        error_index: number of the process.
        pid: its id.
    """

    def __init__(self, msg: str, error_index: int, pid: int | None) -> None:
        super().__init__(msg)
        self.error_index, self.pid = error_index, pid


class ProcessExitedException(ProcessException):
    """A process ended with an exit code that is not zero."""


def get_all_sharing_strategies() -> set[str]:
    """Return the ways to share tensors."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """Return the way to share tensors."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Do nothing: tensors are copied."""


def _set_thread_name(name: str) -> None:
    """Name this thread."""
    threading.current_thread().name = name


def _get_thread_name() -> str:
    """Return this thread's name."""
    return threading.current_thread().name


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run a function in several processes.

    Args:
        fn: called as ``fn(number, *args)``; it must be importable.
        args: its further arguments.
        nprocs: number of processes.
        join: True to wait for all of them.
        daemon: True for processes that end with this one.
        start_method: how processes are started.

    Returns:
        None; without ``join``, the processes.

    Raises:
        ProcessExitedException: if one fails.
    """
    context = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    for k in range(nprocs):
        process = context.Process(target=fn, args=(k, *args), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
    if not join:
        return processes
    for process in processes:
        process.join()
    for k, process in enumerate(processes):
        if process.exitcode:
            raise ProcessExitedException(
                f"process {k} terminated with exit code {process.exitcode}", k, process.pid
            )
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run a function in several processes; see `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
