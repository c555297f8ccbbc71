"""Events of a walk of a plan's memory (`functrace.executor.plan.liveness`), and their receivers.

Layer: 7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from functrace.executor.plan.layouts import Strides

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan, Step


class MemoryTrace(ABC):
    """Receiver of the events of a walk. What `allocate` returns names the memory in later events."""

    @abstractmethod
    def enter(self, plan: Plan, step: Step) -> None:
        """Begin a body of an operation."""

    @abstractmethod
    def leave(self) -> None:
        """End a body."""

    @abstractmethod
    def allocate(self, step: Step | None, j: int, n: int, nbytes: int) -> Any:
        """Note that the next operation allocates a variable's array.

        Args:
            step: the operation, ``None`` for a copy at the end of the plan.
            j: the variable.
            n: the number of the result.
            nbytes: of the array.
        """

    @abstractmethod
    def work(self, step: Step, nbytes: int) -> Any:
        """Note the work memory of the next operation."""

    @abstractmethod
    def free(self, memory: Any) -> None:
        """Note that memory was used last by the last operation."""

    @abstractmethod
    def point(self, step: Step | None, reads: Sequence[Any]) -> None:
        """Note that an operation runs.

        Args:
            step: the operation; ``None`` for the copies at the end of the plan.
            reads: memory of its operands.
        """

    @abstractmethod
    def end_of_loop(self, step: Step) -> None:
        """Note that the final carries of a loop have been copied."""

    @abstractmethod
    def carry(self, memory: Any) -> None:
        """Note that memory holds a carry of the next step of a loop."""

    @abstractmethod
    def result(self, memory: Any, step: Step, j: int, n: int) -> None:
        """Note that memory of a body holds a result of the operation."""

    @abstractmethod
    def mark(self) -> int:
        """Return the number of points so far."""

    @abstractmethod
    def peak_since(self, mark: int) -> int:
        """Return the most live bytes at the points after a mark; 0 without any."""

    @abstractmethod
    def drop(self, start: int, end: int) -> None:
        """Drop points: steps of a loop that are like another one."""


@final
class Block:
    """Memory of an array.

    Args:
        memory: as the trace names it.
        is_given: True if the caller owns it; then it is not freed here.
    """

    __slots__ = ("is_given", "memory", "users")

    def __init__(self, memory: Any, *, is_given: bool = False) -> None:
        self.memory, self.is_given, self.users = memory, is_given, 0


class Value(NamedTuple):
    """An array.

    Args:
        block: its memory.
        strides: in elements; ``None`` for C order.
    """

    block: Block
    strides: Strides | None = None


def uncounted() -> Value:
    """Return a value whose memory does not count."""
    block = Block(None, is_given=True)
    block.users = 1
    return Value(block)


@final
class ByteCount(MemoryTrace):
    """A trace that only counts bytes; memory is its number of bytes."""

    def __init__(self) -> None:
        self.now = 0
        self.points: list[int] = []

    def enter(self, plan: Plan, step: Step) -> None:
        """Ignore the body."""

    def leave(self) -> None:
        """Ignore the body."""

    def allocate(self, step: Step | None, j: int, n: int, nbytes: int) -> int:
        """Count an array."""
        self.now += nbytes
        return nbytes

    def work(self, step: Step, nbytes: int) -> int:
        """Count work memory."""
        self.now += nbytes
        return nbytes

    def free(self, memory: int) -> None:
        """Count freed memory."""
        self.now -= memory

    def point(self, step: Step | None, reads: Sequence[int]) -> None:
        """Note the live bytes."""
        self.points.append(self.now)

    def end_of_loop(self, step: Step) -> None:
        """Note the live bytes."""
        self.points.append(self.now)

    def carry(self, memory: int) -> None:
        """Ignore the role."""

    def result(self, memory: int, step: Step, j: int, n: int) -> None:
        """Ignore the name."""

    def mark(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def peak_since(self, mark: int) -> int:
        """Return the most bytes since a mark."""
        return max(self.points[mark:], default=0)

    def drop(self, start: int, end: int) -> None:
        """Keep all points: only their peak is read."""
