"""Rematerialization: recompute a large array in the backward part instead of keeping it, if that
costs no time.

A derivative reads values that the forward part computed long before: ``sin(z)`` and ``exp(-h * h)``
besides ``h`` and ``z``. Keeping an array means writing to new memory and reading from memory;
recomputing it from arrays that are kept anyway takes a few passes over data in cache. So values
that can be recomputed this cheaply are not kept across the peak of live bytes. The same functions
on the same values give the same bits.

Measured on memory-chain (100 layers ``tanh(sin(h @ w) * exp(-h * h))``, float32): 3 arrays per two
layers are kept, not 8: 423 MiB instead of 914, in 1.22 s instead of 1.10 (1.62 and 1.56 without
freed memory being kept, executor/allocator.py). A pass over 2 MiB in cache takes 0.14 ms, ``exp``
0.22, ``sin`` 0.27; to keep an array and to read it 0.30, and more if memory is scarce. In float64
``sin`` takes 2.5 ms, and is kept.

Layer: 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import CONSTANT, Primitive
from functrace.ir.program import Program
from functrace.ops import elementwise as ew
from functrace.ops.naming import name_p
from functrace.ops.shaping import convert_p

LEAST_PEAK = 1 << 24
"""Minimum peak of live bytes; programs with less stay mostly in cache, and are unchanged."""

LEAST_VALUE = 1 << 16
"""Minimum bytes of a rematerialized array."""

IN_CACHE = 1 << 22
"""Bytes computed between two reads of an array: with fewer, it is still in cache, and kept."""

MOST_PASSES = 4.0
"""Maximum cost of rematerializing an array, in passes over it: the cost of keeping it."""

MOST_OPERATIONS = 16
"""Maximum number of operations that rematerialize one array."""

SOON = 16
"""A rematerialization due within this many arrays of its size runs earlier, and is shared by two
readers.
"""

LEAST_GAIN = 0.05
"""Minimum reduction of the peak, as a fraction."""

ROUNDS = 12
"""Maximum number of rounds: each lowers the highest peak."""

ONE_PASS: frozenset[Primitive] = frozenset(
    {
        ew.add, ew.sub, ew.mul, ew.div, ew.neg, ew.positive, ew.square, ew.sqrt, ew.reciprocal,
        ew.absolute, ew.fabs,
        ew.maximum, ew.minimum, ew.sign, ew.equal, ew.not_equal, ew.less, ew.less_equal,
        ew.greater, ew.greater_equal,
        ew.logical_and, ew.logical_or, ew.logical_not, ew.isfinite, ew.isinf, ew.isnan, ew.signbit,
        ew.bitwise_and, ew.bitwise_or, ew.bitwise_xor, ew.invert, convert_p,
    }
)  # fmt: skip
"""Memory-bound operations."""

SEVERAL: dict[np.dtype[np.float32 | np.float64], dict[Primitive, float]] = {
    np.dtype(np.float32): dict.fromkeys((ew.exp, ew.log, ew.sin, ew.cos, ew.tanh), 2.0),
    np.dtype(np.float64): {ew.exp: 2.0, ew.tanh: 3.0},
}
"""Cost in passes, by dtype of the result, of functions that NumPy vectorizes."""

_NEVER = math.inf


def rematerialize_values(program: Program) -> Program:
    """Rematerialize cheap values, to lower the peak of live bytes.

    Args:
        program: any program.

    Returns:
        an equal program with the same inputs and outputs, and possibly more operations.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(np.sin(x)))(np.ones(3))
        >>> ft.passes.rematerialize_values(program) == program  # too small to profit
        True

    Cost:
        about 3 us per equation and round, where more than `LEAST_PEAK` bytes are alive; otherwise
        0.2 us.
    """
    avals = program.avals
    counts = Counter([avals[k] for k, _ in program.schedule])
    if (
        len(program.schedule) < 3
        or sum([count * aval.nbytes for aval, count in counts.items()]) < LEAST_PEAK
    ):
        return program
    lives = _lives(program)
    for _ in range(ROUNDS):
        lower = _once(lives)
        if lower is None:
            break
        lives = lower
    return lives.program


class _Lifetimes(NamedTuple):
    """Lifetimes of the arrays of a program.

    Args:
        program: the program.
        nbytes: by variable, its size.
        owners: by variable, the owner of its memory.
        made: by variable, the place of its operation in the schedule; -1 for inputs and constants.
        reads: by owner, the places of the operations that read it or a view of it, ascending.
        alive: by place, the live bytes.
        traffic: by place, the bytes computed up to there.
        outputs: the owners of the program's outputs.
    """

    program: Program
    nbytes: list[int]
    owners: list[int]
    made: list[int]
    reads: list[list[int]]
    alive: list[int]
    traffic: list[int]
    outputs: set[int]

    def is_there(self, i: int, when: int, dropped: Mapping[int, int]) -> bool:
        """Return True if a number, or a variable of the part before the peak, is alive at a time
        after the peak.
        """
        if i < 0 or self.made[i] < 0:
            return True
        root = self.owners[i]
        return root in self.outputs or (root not in dropped and self.reads[root][-1:] >= [when])

    def is_due(self, i: int, when: int, dropped: Mapping[int, int]) -> bool:
        """Return True if a variable is rematerialized anyway, soon after a time."""
        late = dropped.get(self.owners[i], -1)
        return late >= when and self.traffic[late] - self.traffic[when] <= SOON * self.nbytes[i]


def _lives(program: Program) -> _Lifetimes:
    ops, avals, schedule = program.ops, program.avals, program.schedule
    end = len(schedule)
    sizes = {aval: aval.nbytes for aval in set(avals)}
    nbytes = [sizes[aval] for aval in avals]
    owners, made = list(range(len(ops))), [-1] * len(ops)
    reads: list[list[int]] = [[] for _ in ops]
    traffic = [0] * (end + 1)
    for place, (k, _) in enumerate(schedule):
        primitive, operands, _ = ops[k]
        if primitive.view and operands[0] >= 0:
            owners[k] = owners[operands[0]]
        made[k], computed = place, nbytes[k]
        if primitive.many:
            for j in range(k + 1, k + program.result_count(k)):
                made[j] = place
                computed += nbytes[j]
        for i in operands:
            if i >= 0 and reads[owners[i]][-1:] != [place]:
                reads[owners[i]].append(place)
        traffic[place + 1] = traffic[place] + (computed if owners[k] == k else 0)
    changes = [0] * (end + 1)
    heirs: set[int] = set()
    kept = {owners[i] for i in program.output_ids}
    for i, place in enumerate(made):
        if place >= 0 and owners[i] == i:
            last = end - 1 if i in kept else reads[i][-1] if reads[i] else place
            heir = schedule[last][0]
            if (
                last > place
                and i not in kept
                and ops[heir][0].is_ufunc
                and avals[heir] is avals[i]
                and heir not in heirs
            ):
                heirs.add(heir)  # it overwrites i
                last -= 1
            changes[place] += nbytes[i]
            changes[last + 1] -= nbytes[i]
    alive: list[int] = []
    now = 0
    for change in changes[:end]:
        now += change
        alive.append(now)
    return _Lifetimes(program, nbytes, owners, made, reads, alive, traffic, kept)


def _once(lives: _Lifetimes) -> _Lifetimes | None:
    """Return the lifetimes of a program with a lower peak; ``None`` if nothing is gained."""
    highest = max(lives.alive)
    if highest < LEAST_PEAK:
        return None
    peak = lives.alive.index(highest)
    dropped = _dropped(lives, peak)
    if not dropped:
        return None
    made = _lives(_written(lives, peak, dropped))
    return made if max(made.alive) <= (1.0 - LEAST_GAIN) * highest else None


def _dropped(lives: _Lifetimes, peak: int) -> dict[int, int]:
    """Choose the arrays to rematerialize after the peak; returns the time of each."""
    made, reads, ops, nbytes = lives.made, lives.reads, lives.program.ops, lives.nbytes
    dropped: dict[int, int] = {}

    def cost(i: int, when: int, seen: set[int], *, is_paid: bool = False) -> float:
        """Return the bytes to read or write to rematerialize a variable at a time, except those
        already counted.
        """
        if lives.is_there(i, when, dropped) or i in seen:
            return 0.0
        seen.add(i)
        is_paid = lives.is_due(i, when, dropped) or (is_paid and lives.owners[i] not in dropped)
        own = 0.0 if lives.owners[i] != i else _cost(lives, i)
        if own == _NEVER or len(seen) > MOST_OPERATIONS:
            return _NEVER
        return (0.0 if is_paid else own) + sum(
            [cost(j, when, seen, is_paid=is_paid) for j in ops[i][1]]
        )

    for i, place in enumerate(made):
        if (
            not 0 <= place < peak
            or lives.owners[i] != i
            or i in lives.outputs
            or nbytes[i] < LEAST_VALUE
            or not reads[i]
            or reads[i][-1] <= peak
        ):
            continue
        own, most = _cost(lives, i), MOST_PASSES * nbytes[i]
        if own > most:
            continue
        late = next(t for t in reads[i] if t > peak)
        early = max([place, *[t for t in reads[i] if t <= peak]])
        if lives.traffic[late] - lives.traffic[early + 1] < IN_CACHE:
            continue
        seen = {i}
        if own + sum([cost(j, late, seen) for j in ops[i][1]]) <= most:
            dropped[i] = late
    return dropped


def _cost(lives: _Lifetimes, i: int) -> float:
    """Return the cost of an operation in bytes of memory traffic; infinite if it must not be
    repeated.
    """
    primitive, operands, _ = lives.program.ops[i]
    dtype = lives.program.avals[i].dtype
    if primitive in ONE_PASS:
        passes = 1.0 if dtype.kind in "fbiu" and dtype != np.float16 else _NEVER
    else:
        passes = SEVERAL.get(dtype, {}).get(primitive, _NEVER)
    return passes * max([lives.nbytes[i], *[lives.nbytes[j] for j in operands if j >= 0]])


def _written(lives: _Lifetimes, peak: int, dropped: Mapping[int, int]) -> Program:
    """Write the program, with rematerialized operations before their first readers."""
    program, owners = lives.program, lives.owners
    write = Rewrite(program)
    placed: set[int] = set()

    def again(i: int, when: int, near: dict[int, int]) -> int:
        """Return the variable that holds a value from before the peak, at a time after it."""
        root = owners[i] if i >= 0 else i
        if lives.is_there(i, when, dropped) or (i in placed and lives.reads[root][-1] >= when):
            return write.operand(i)
        if i not in near:
            primitive, operands, params = program.ops[i]
            given = [apart(i, j, again(j, when, near)) for j in operands]
            near[i] = write.place(primitive, tuple(given), params, write.position(i))
            if root in dropped and i not in placed and lives.is_due(i, when, dropped):
                placed.add(i)
                write.moved[i] = near[i]
        return near[i]

    def apart(i: int, j: int, given: int) -> int:
        """Name an operand of a repeated operation; see Note [Deliberate rematerialization] in
        passes/cse.py.
        """
        is_kept = given >= 0 and write.moved.get(j) == given and program.ops[j][0] is not CONSTANT
        return write.place(name_p, (given,), ("again",), write.position(i)) if is_kept else given

    kept = [k for k, _ in program.schedule]
    write.keep_each(kept[: peak + 1])
    for place, k in enumerate(kept[peak + 1 :], peak + 1):
        for i in program.ops[k][1]:
            if i >= 0 and owners[i] in dropped and lives.made[i] <= peak:
                for j in (owners[i], i):  # all views of an array share one copy
                    if j not in placed:
                        near: dict[int, int] = {}
                        write.moved[j] = again(j, place, near)
                        placed.add(j)
        write.keep(k)
    return write.finish()
