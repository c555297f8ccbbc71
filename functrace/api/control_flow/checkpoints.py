"""The argument ``checkpoint`` of loops: what a reverse pass keeps of their steps.

Layer: 8.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, TypeAlias, final

from functrace.control.schedules import Schedule
from functrace.errors import ArgumentError


@final
@dataclass(frozen=True, slots=True)
class Binomial:
    """Binomial checkpointing; see `functrace.policies.binomial`.

    Args:
        slots: number of carries that are kept at a time, the initial one included.

    Example:
        >>> import functrace as ft
        >>> ft.policies.binomial(10)
        Binomial(slots=10)
    """

    slots: int

    def schedule(self) -> Schedule:
        """Return the schedule of a loop."""
        return "binomial", self.slots


Checkpoint: TypeAlias = "int | Literal['sqrt'] | Binomial | Iterable[Any]"
"""The argument ``checkpoint``."""


def _size(value: object, owner: str) -> int:
    found = -1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        found = operator.index(value)
    if found < 1:
        raise ArgumentError(
            f"{owner}: checkpoint={value!r}",
            fix="pass an int from 1 on, 'sqrt', functrace.policies.binomial(slots), or a schedule of "
            "the package checkpoint-schedules",
        )
    return found


def schedule_of(checkpoint: Checkpoint, steps: int, owner: str) -> Schedule:
    """Return the schedule of a loop of known length.

    Raises:
        ArgumentError: if ``checkpoint`` is none.
    """
    if isinstance(checkpoint, Binomial):
        return checkpoint.schedule()
    if isinstance(checkpoint, str) and checkpoint == "sqrt":
        return "every", max(1, math.isqrt(max(0, steps - 1)) + 1)
    if type(checkpoint).__module__.partition(".")[0] == "checkpoint_schedules" or hasattr(
        type(checkpoint), "uses_storage_type"
    ):
        from functrace.api.control_flow.schedule_objects import actions_from

        return "actions", actions_from(checkpoint, steps, owner)
    return "every", _size(checkpoint, owner)


def online_schedule_of(checkpoint: Checkpoint, most: int | None, owner: str) -> Schedule:
    """Return the schedule of a loop of unknown length.

    Raises:
        ArgumentError: if ``checkpoint`` is none, or needs the number of steps.
    """
    if isinstance(checkpoint, Binomial):
        return checkpoint.schedule()
    if most is None or hasattr(type(checkpoint), "uses_storage_type"):
        raise ArgumentError(
            f"{owner}: checkpoint={checkpoint!r} needs the number of steps, which is unknown here",
            fix="pass checkpoint=functrace.policies.binomial(slots)"
            + ("" if most is not None else ", or max_steps="),
        )
    _, size = schedule_of(checkpoint, most, owner)
    return "binomial", max(1, -(-most // size))
