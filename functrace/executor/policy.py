"""Policies: a backend's choice of cost-dependent passes and of fusion groups, made before planning.

The meaning of a program and the lifetimes of its arrays are the same for all backends.
Profitability is not: whether to rematerialize a value, split a loop, tile a product, or fuse
operations depends on a backend's costs. A backend's `Policy` selects among such passes, and forms
its fusion groups.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from functrace.executor.parallel.concurrent import group_concurrent
from functrace.executor.plan.fusion import grouped
from functrace.ir.program import Program
from functrace.passes import PIPELINE, REORDERING, Pass


@final
@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a backend. Without arguments, no cost-dependent pass runs and nothing is fused.

    Args:
        tuned: names of the cost-dependent passes (`Pass.tuned`) that the backend enables. All other
            passes always apply.
        group: program → equal program with fusion groups; see
            `functrace.executor.plan.fusion.write_group`.
        reuses: True if operations may overwrite operands at their last use.
    """

    tuned: frozenset[str] = frozenset()
    group: Callable[[Program], Program] | None = None
    reuses: bool = True

    def passes(self, rows: Iterable[Pass]) -> Sequence[Pass]:
        """Return the rows that apply: all passes that do not depend on costs, and those in
        `tuned`.
        """
        return [row for row in rows if not row.tuned or row.name in self.tuned]

    @property
    def ungrouped(self) -> Policy:
        """The same policy without fusion groups."""
        return replace(self, group=None)


ONE_BY_ONE = Policy(reuses=False)
"""One operation after the other, each with results in new memory."""

NUMPY_POLICY = Policy(
    frozenset([row.name for row in (*PIPELINE, *REORDERING) if row.tuned]),
    lambda program: group_concurrent(grouped(program)),
)
"""The policy of the NumPy backend: all passes; groups run in cache-sized blocks, large products
concurrently.
"""
