"""The reverse pass of a checkpointed loop, run by its schedule.

Layer: 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from functrace.control.checkpointed_steps import DISK
from functrace.control.residuals import PackedArray, packed
from functrace.control.schedules import (
    Action,
    Schedule,
    reverse_actions,
    reverse_kept,
    saved_forward,
    saved_on_disk,
)
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Compiled, output_avals, restrict, without_kept
from functrace.ir.program import Program
from functrace.ir.structures import HostCall, Lowering
from functrace.typing import Array


@final
class ReverseSweep(NamedTuple):
    """The params of a reverse pass: a loop over the carries of another loop, from its last step to
    its first.

    Its operands are constants, initial carry and arrays of the forward loop; for a loop of unknown
    length, the number of steps and the steps before which the carries were kept; the kept carries;
    initial states (sums, and cotangents of the carry); and arrays (cotangents of results). Its
    results are the final states, and stacked results of the steps.

    Args:
        record: a step of the forward loop: from constants, carry and slices of its arrays to carry,
            results and residuals. It runs again without its side effects, and without results.
        adjoint: a step of the reverse loop: from constants, states, residuals, slices of the forward
            loop's arrays and of its own to states and slices.
        cond: for a loop of unknown length, from constants and carry to a bool, as in the forward
            loop; else ``None``.
        length: number of steps, or ``None``.
        reverse: True if the forward loop runs from the last slice to the first.
        constants, carries, states: numbers of these operands.
        results: number of results of a step of the forward loop.
        shared: places, among the constants, of those of the forward sweep; others are invariants.
        schedule: of the loop.
        lead: sizes of batch axes, if each example has its own number of steps: then states have
            these axes first. (A choice per example gives zeros to examples that run no step.)
        owned: True if it may overwrite the kept carries: see control/checkpoint_ownership.py.
    """

    record: Program
    adjoint: Program
    cond: Program | None
    length: int | None
    reverse: bool
    constants: int
    carries: int
    states: int
    results: int
    shared: tuple[int, ...]
    schedule: Schedule
    lead: tuple[int, ...]
    owned: bool

    @property
    def arrays(self) -> int:
        """Number of arrays of the forward loop."""
        return len(self.record.input_ids) - self.constants - self.carries

    @property
    def residuals(self) -> int:
        """Number of residuals of a step."""
        return len(self.record.output_ids) - self.carries - self.results

    @property
    def own_arrays(self) -> int:
        """Number of arrays of the reverse loop."""
        before = self.constants + self.states + self.residuals + self.arrays
        return len(self.adjoint.input_ids) - before

    def groups(self, values: Sequence[Any]) -> SweepOperands:
        """Divide operands, or one value for each."""
        numbers = 2 if self.length is None else 0
        counts = (
            self.constants, self.carries, self.arrays, numbers, self.carries, self.states,
            self.own_arrays,
        )  # fmt: skip
        found: list[list[Any]] = []
        place = 0
        for count in counts:
            found.append(list(values[place : place + count]))
            place += count
        return SweepOperands(*found)

    def rows(self) -> int:
        """Return the number of rows of the stacks of kept carries."""
        if self.length is None:
            return self.schedule[1]
        return len(saved_forward(self.schedule, self.length))


@final
class SweepOperands(NamedTuple):
    """The operands of a reverse pass in groups; see `ReverseSweep`."""

    constants: list[Any]
    carry: list[Any]
    arrays: list[Any]
    numbers: list[Any]
    kept: list[Any]
    states: list[Any]
    own_arrays: list[Any]

    def joined(self) -> list[Any]:
        """Return all of them in order."""
        return [x for group in self for x in group]


def reverse_lowering(sweep: ReverseSweep) -> Lowering:
    """Return the lowering of the reverse pass."""
    record, carries = sweep.record, sweep.carries
    key = (reverse_lowering, carries, sweep.results)
    found = record.derived.get(key)
    if found is None:
        again, outs = without_kept(record), range(len(record.output_ids))
        carry, residuals = outs[:carries], outs[carries + sweep.results :]
        found = record.derived[key] = tuple([
            restrict(
                again, again.input_ids, [again.output_ids[k] for k in chosen], keep=True
            ).program
            for chosen in (carry, residuals, (*carry, *residuals))
        ])  # fmt: skip
    return Lowering((*found, sweep.adjoint), HostCall(_Reverse(sweep), sweep.length), fresh=True)


def _unchanged(x: Any) -> Any:
    """Return a residual as a plain loop of unknown length keeps it."""
    return x


def _contiguous(x: Any) -> Any:
    """Return a residual in the memory order of a row of a stack, as which a plain loop of known
    length keeps it.
    """
    if type(x) is not np.ndarray:
        return x
    array: np.ndarray[Any, Any] = x
    return array if array.flags.c_contiguous else array.copy("C")


def _read(x: Any) -> Any:
    """Return the array of a kept carry, which may be in a file."""
    return x.unpack() if isinstance(x, PackedArray) else x


def work_bytes(_inputs: object, _outputs: object, params: Mapping[str, Any]) -> int:
    """Return the bytes that a reverse pass keeps besides its operands, at most: residuals of the
    steps that it has run again, the carries and states of two consecutive steps, and carries for
    which there is no row. A ``scratch`` rule.
    """
    sweep = ReverseSweep(**params)
    avals = output_avals(sweep.record)
    carry = sum([a.nbytes for a in avals[: sweep.carries]])
    residuals = sum([a.nbytes for a in avals[sweep.carries + sweep.results :]])
    two = 2 * carry + sum([a.nbytes for a in output_avals(sweep.adjoint)[: sweep.states]])
    if sweep.length is None:
        return two + residuals + (0 if sweep.owned else sweep.rows() * carry)
    return two + _most_kept(sweep.schedule, sweep.length, sweep.owned, carry, residuals)


@functools.lru_cache(maxsize=64)
def _most_kept(schedule: Schedule, length: int, owned: bool, carry: int, residuals: int) -> int:
    """Return the most bytes that the actions of a reverse pass keep; see `_Reverse`."""
    rows = set(saved_forward(schedule, length)) - saved_on_disk(schedule, length)
    free, own, tape, most = 0, set[int](), set[int](), 0
    for action in reverse_actions(schedule, length):
        kind, k = action[0], action[1]
        if kind == "save" and action[2:] != ("disk",):
            if free:
                free -= 1
                rows.add(k)
            else:
                own.add(k)
        elif action[2:] == ("disk",) or kind == "drop":
            own.discard(k)
            if k in rows and owned:
                free += 1
            rows.discard(k)
        elif kind == "tape":
            tape.update(range(k, action[2]))
        steps = len(tape) + (kind == "reverse" and k not in tape)
        most = max(most, len(own) * carry + steps * residuals)
        if kind == "reverse":
            tape.discard(k)
    return most


@final
class _Reverse:
    """The function of a reverse pass."""

    __slots__ = ("sweep",)

    def __init__(self, sweep: ReverseSweep) -> None:
        self.sweep = sweep

    def _actions(self, count: int, places: Array | None) -> Iterable[Action]:
        """Return the actions of the reverse pass."""
        sweep = self.sweep
        if sweep.length is not None:
            return reverse_actions(sweep.schedule, sweep.length)
        if not count or places is None:
            return ()
        last = count - 1
        kept = sorted([int(k) for k in places[:-1] if 0 < k < last])
        return (
            ("load", last), ("reverse", last), ("drop", last),
            *(reverse_kept(kept, last, sweep.schedule[1]) if last else ()),
        )  # fmt: skip

    def __call__(self, runs: Sequence[Compiled]) -> Callable[..., tuple[Any, ...]]:
        """Return the function from operands to results."""
        sweep, (advance, residuals_of, record, adjoint) = self.sweep, runs
        carries, states = sweep.carries, sweep.states
        avals = output_avals(sweep.adjoint)[states:]
        is_backward, owned = sweep.reverse, sweep.owned
        as_kept = _unchanged if sweep.length is None else _contiguous

        def run(*operands: Array) -> tuple[Any, ...]:
            given = sweep.groups(operands)
            return run_each(given) if sweep.lead else run_all(given)

        def run_each(given: SweepOperands) -> tuple[Any, ...]:
            counts, places = [np.asarray(x) for x in given.numbers]
            table = np.concatenate([counts[..., None], places], axis=-1)
            distinct, which = np.unique(
                table.reshape(-1, table.shape[-1]), axis=0, return_inverse=True
            )
            which = which.reshape(sweep.lead)
            made = [np.array(x) for x in given.states]
            for number, row in enumerate(distinct):
                # The results of other examples are dropped, and so are their warnings.
                with np.errstate(all="ignore") if len(distinct) > 1 else np.errstate():
                    results = run_all(given._replace(numbers=[row[0], row[1:]]))
                for out, result in zip(made, results, strict=True):
                    out[which == number] = result[which == number]
            return tuple(made)

        def run_all(given: SweepOperands) -> tuple[Any, ...]:
            fixed, initial, arrays, numbers, stacks, cts, own = given
            if sweep.length is None:
                length, places = int(numbers[0]), numbers[1]
                actions = self._actions(length, places)
                rows = {int(k): row for row, k in enumerate(places) if k >= 0}
            else:
                length = sweep.length
                actions = self._actions(length, None)
                rows = {k: row for row, k in enumerate(saved_forward(sweep.schedule, length))}
            kept: dict[int, Any] = {k: [stack[row] for stack in stacks] for k, row in rows.items()}
            kept[0] = initial
            if any(isinstance(stack, PackedArray) for stack in stacks):
                rows = {}  # of files: none is used again
            free = list[int]()  # rows that may be overwritten
            swept = [np.empty((length, *a.shape), a.dtype) for a in avals]
            tape: dict[int, Any] = {}
            carry: Any = initial
            for action in actions:
                kind, k = action[0], action[1]
                if kind == "forward":
                    for n in range(k, action[2]):
                        t = length - 1 - n if is_backward else n
                        carry = advance(*fixed, *carry, *[a[t] for a in arrays])
                elif action[2:] == ("disk",):
                    kept[k] = [packed(x, DISK) for x in (carry if kind == "save" else kept[k])]
                elif kind == "move":
                    kept[k] = [*map(_read, kept[k])]
                elif kind == "save" and free:
                    row = rows[k] = free.pop()
                    for stack, value in zip(stacks, carry, strict=True):
                        stack[row] = value
                    kept[k] = [stack[row] for stack in stacks]
                elif kind == "save":
                    kept[k] = carry  # results of a step are new arrays
                elif kind == "load":
                    carry = kept[k]
                    if any(isinstance(x, PackedArray) for x in carry):
                        carry = [*map(_read, carry)]
                elif kind == "drop":
                    used = kept.pop(k)
                    if owned and k in rows:
                        free.append(rows.pop(k))
                        if carry is used:  # (it is read before the row is overwritten)
                            carry = [np.copy(c)[()] for c in carry]
                elif kind == "tape":
                    for n in range(k, action[2]):
                        t = length - 1 - n if is_backward else n
                        results = record(*fixed, *carry, *[a[t] for a in arrays])
                        carry, tape[n] = results[:carries], [*map(as_kept, results[carries:])]
                else:
                    t = length - 1 - k if is_backward else k
                    slices = [a[t] for a in arrays]
                    held = tape.pop(k, None)
                    if held is None:
                        held = [*map(as_kept, residuals_of(*fixed, *carry, *slices))]
                    results = adjoint(*fixed, *cts, *held, *slices, *[a[t] for a in own])
                    del held
                    cts = results[:states]
                    for stack, result in zip(swept, results[states:], strict=True):
                        stack[t] = result
            return (*([np.copy(c)[()] for c in cts] if not length else cts), *swept)

        return run


def operand_avals_of(sweep: ReverseSweep) -> list[ShapeDtype]:
    """Return the avals of the operands of a reverse pass."""
    record, adjoint = sweep.record, sweep.adjoint
    middle = sweep.constants + sweep.carries
    first = [record.avals[i] for i in record.input_ids]
    carry = first[sweep.constants : middle]
    own = [adjoint.avals[i] for i in adjoint.input_ids]
    states = own[sweep.constants : sweep.constants + sweep.states]
    rows, integer = sweep.rows(), np.dtype(np.int64)
    numbers = [ShapeDtype(sweep.lead, integer), ShapeDtype((*sweep.lead, rows), integer)]

    def stacked(count: int, avals: Sequence[ShapeDtype]) -> list[ShapeDtype]:
        return [ShapeDtype((count, *a.shape), a.dtype) for a in avals]

    return [
        *first[:middle],
        *stacked(sweep.length or 0, first[middle:]),
        *(numbers if sweep.length is None else []),
        *stacked(rows, carry),
        *states,
        *stacked(sweep.length or 0, own[len(own) - sweep.own_arrays :]),
    ]
