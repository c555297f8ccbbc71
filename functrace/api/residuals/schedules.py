"""Optimal schedules of a chain of segments: which to keep, and which to recompute, for a number of
bytes.

Note [Optimal schedules of chains]
    Either the first segment of a chain keeps its residuals, or the chain is divided: its first part
    runs without keeping any, the values that cross the cut are kept, the second part runs forward
    and backward, and then the first part runs again, now with all the memory. The least cost for a
    number of bytes follows from those of shorter chains: this is a dynamic program. It is exact for
    the sizes of segments that it is given, and for any program: the bytes that cross a cut are those
    of all live values, so skip connections count once, however many cuts they cross.

    Memory is counted in `SLOTS` units.

Source: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous
chains", arXiv:1911.13214 (2019); with options per segment: Zhao et al., "Rockmate", ICML 2023.

Layer: 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from functrace.api.residuals.segments import Chain

SLOTS = 255
"""Units in which memory is counted."""


class Selection(NamedTuple):
    """A way to keep only some residuals of a part of a program.

    Args:
        values: the variables that are kept.
        nbytes: their bytes.
        cost: to recompute the others.
        repeated: the operations that run again.
        gap: relative distance from the optimum, at most.
    """

    values: frozenset[int]
    nbytes: float
    cost: float
    repeated: frozenset[int]
    gap: float = 0.0


class Kept(NamedTuple):
    """Operations whose residuals are kept; with a selection, only those values of them.

    Args:
        operations: the variables of their first results.
        selection: ``None`` if everything is kept.
    """

    operations: tuple[int, ...]
    selection: Selection | None = None


class Recomputed(NamedTuple):
    """Operations that run again in the reverse pass.

    Args:
        items: what happens to them in that second run.
    """

    items: tuple[Any, ...]


Items = tuple[Kept | Recomputed, ...]


@final
class Schedules:
    """The optimal schedules of a chain for all numbers of bytes.

    Args:
        chain: the segments.
        options: by segment, selections of its residuals.

    Cost:
        S^3 / 6 vector operations of `SLOTS` numbers for S segments: 0.5 s for 96.
    """

    def __init__(self, chain: Chain, options: Sequence[Sequence[Selection]] = ()) -> None:
        count = chain.count
        self.chain = chain
        self.options = options or [()] * count
        total = float(chain.kept.sum() + chain.gradients.sum() + 2 * chain.needed.max(initial=0.0))
        self.unit = max(total, 1.0) / SLOTS
        self.best = np.full((count + 1, count + 1, SLOTS + 2), math.inf)
        """Least cost of segments ``s`` to ``t - 1``; the place is 1 + the slots of memory."""
        self.choices = np.zeros((count + 1, count + 1, SLOTS + 2), np.int16)
        """-1 - o: the first segment keeps its residuals by option o; n: the chain is cut at n."""
        self._fill()

    def _slots(self, nbytes: Any) -> Any:
        return np.rint(np.asarray(nbytes) / self.unit).astype(np.intp)

    def _fill(self) -> None:
        chain, count = self.chain, self.chain.count
        places = np.arange(SLOTS + 2)
        sums = np.concatenate([[0.0], np.cumsum(chain.costs)])
        gradients = self._slots(np.concatenate([[0.0], np.cumsum(chain.gradients)]))
        ends = np.concatenate([[0.0], np.cumsum(chain.kept)])
        kept = np.diff(self._slots(ends))
        crossing = self._slots(chain.crossing)
        for n in range(count + 1):
            self.best[n, n, 1:] = 0.0
        for length in range(1, count + 1):
            for first in range(count - length + 1):
                end = first + length
                after = gradients[end] - gradients[first]
                needs = kept[first] + after + self._slots(chain.needed[first])
                fits = places > needs
                found = self.best[first + 1, end, np.maximum(places - kept[first], 0)]
                found = np.where(fits, chain.costs[first] + found, math.inf)
                chosen = np.full(SLOTS + 2, -1, np.int16)
                for o, option in enumerate(self.options[first], 1):
                    behind = np.maximum(places - self._slots(option.nbytes), 0)
                    other = chain.costs[first] + option.cost + self.best[first + 1, end, behind]
                    better = fits & (other < found)
                    found[better] = other[better]
                    chosen[better] = -1 - o
                if length > 1:
                    cuts = np.arange(first + 1, end)
                    given = gradients[end] - gradients[cuts] + crossing[first, cuts]
                    rows = cuts[:, None]
                    right = self.best[
                        rows, end, np.maximum(places - crossing[first, cuts][:, None], 0)
                    ]
                    left = self.best[first, rows, np.maximum(places - given[:, None], 0)]
                    made = right + left + (sums[cuts] - sums[first])[:, None]
                    row = made.argmin(axis=0)
                    least = made[row, places]
                    better = least < found
                    found[better] = least[better]
                    chosen[better] = cuts[row][better]
                self.best[first, end], self.choices[first, end] = found, chosen

    @property
    def memories(self) -> list[int]:
        """The least memories, in slots, of all different costs, from the largest on."""
        costs = self.best[0, self.chain.count]
        return [
            m
            for m in range(SLOTS + 1, 0, -1)
            if math.isfinite(costs[m]) and not costs[m - 1] <= costs[m]
        ]

    def schedule(self, memory: int) -> Items:
        """Return the optimal schedule for a memory."""
        return self._items(0, self.chain.count, memory)

    def _items(self, first: int, end: int, memory: int) -> Items:
        chain = self.chain
        found: list[Kept | Recomputed] = []
        gradients = self._slots(np.concatenate([[0.0], np.cumsum(chain.gradients)]))
        kept = np.diff(self._slots(np.concatenate([[0.0], np.cumsum(chain.kept)])))
        while first < end:
            chosen = int(self.choices[first, end, memory])
            if chosen < 0:
                option = self.options[first][-chosen - 2] if chosen < -1 else None
                found.append(Kept(tuple(chain.operations(first, first + 1)), option))
                memory -= int(kept[first] if option is None else self._slots(option.nbytes))
                first += 1
                continue
            crossing = int(self._slots(chain.crossing[first, chosen]))
            left = memory - int(gradients[end] - gradients[chosen]) - crossing
            found.append(Recomputed(self._items(first, chosen, left)))
            memory -= crossing
            first = chosen
        return tuple(found)
