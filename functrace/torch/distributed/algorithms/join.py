"""``torch.distributed.algorithms.join``: names of classes for uneven inputs of several processes.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, NoReturn

from functrace.errors import UnsupportedFunctionError

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """Action of a process after its inputs have ended."""


class Joinable:
    """Objects that can be joined."""


class Join:
    """Context of several processes: refused."""

    def __new__(cls, *_arguments: Any, **_options: Any) -> NoReturn:
        """Raise."""
        raise UnsupportedFunctionError(
            "functrace.torch has no communication between processes",
            fix="train in one process, whose threads use all cores",
        )
