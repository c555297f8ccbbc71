"""Policies: what a backend decides before its plans are made. Which passes suit its costs, and what it fuses.

What a program means, and how long arrays live, is the same for all backends. What is profitable is not: to compute a value
again instead of keeping it, to divide a loop, to cut a product into parts, to run operations block by block. A backend has a
`Policy`, which names the passes of that kind that it wants, and groups operations in its own way.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from functrace.executor.beside import beside
from functrace.executor.groups import grouped
from functrace.ir.program import Program
from functrace.passes import PIPELINE, REORDERING, Pass


@final
@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a backend. That without arguments takes programs as they are written, and fuses nothing.

    Args:
        tuned: the names of the passes that it wants, of those that are tuned to a backend's costs (`Pass.tuned`). All other
            passes are always applied.
        group: from a program to an equal one in which operations that are to run together stand in groups; see
            `functrace.executor.groups.write_group`.
    """

    tuned: frozenset[str] = frozenset()
    group: Callable[[Program], Program] | None = None

    def passes(self, rows: Iterable[Pass]) -> Sequence[Pass]:
        """Leave out the passes that are tuned to other costs."""
        return [row for row in rows if not row.tuned or row.name in self.tuned]

    @property
    def ungrouped(self) -> Policy:
        """The same policy without groups."""
        return replace(self, group=None)


NUMPY_POLICY = Policy(
    frozenset([row.name for row in (*PIPELINE, *REORDERING) if row.tuned]), lambda program: beside(grouped(program))
)
"""That of NumPy: all passes; groups run in blocks that stay in cache, and large products concurrently."""
