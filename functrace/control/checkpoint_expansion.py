"""Replace checkpointed loops by plain ones, in programs whose reverse pass is differentiated again in
reverse mode.

The reverse pass of a reverse pass has no schedule. If a program has the forward sweep of a loop and
its reverse pass, and the latter carries derivatives, both become plain loops, of which the first
stacks the residuals: as in the program of the loop without ``checkpoint``. Sums are then in the same
order, and derivatives have the same bits.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from functrace.control.checkpointed_forward import checkpointed_forward_p
from functrace.control.checkpointed_reverse import checkpointed_reverse_p, kept_places
from functrace.control.checkpointed_steps import CheckpointedLoop, extra_avals
from functrace.control.checkpointed_sweep import ReverseSweep
from functrace.control.scan import scan_p
from functrace.control.while_trips import places_read, with_inputs
from functrace.ir.parts import Rewrite
from functrace.ir.primitive import ZERO
from functrace.ir.program import Program
from functrace.ops.shaping import permute_p


def plain_pairs(program: Program, active: Sequence[bool]) -> Program:
    """Replace the forward sweeps and reverse passes of loops of known length by plain loops.

    Args:
        program: the program.
        active: one flag per input: True if it carries derivatives.
    """
    found = _Finder(program, active)
    pairs = found.pairs()
    if not pairs:
        return program
    write = Rewrite(program)
    by_reverse = {k: pair for pair in pairs for k in pair.reverses}
    by_forward = {pair.forward: pair for pair in pairs}
    stacks: dict[int, list[int]] = {}
    for k, _ in program.schedule:
        if k in by_forward:
            stacks[k] = _write_forward(write, by_forward[k])
        elif k in by_reverse:
            _write_reverse(write, k, stacks[by_reverse[k].forward])
        elif k not in found.moves:
            write.keep_each([k])
    return write.finish()


@final
class _Pair(NamedTuple):
    """A forward sweep, and the reverse passes that read its kept carries: operations."""

    forward: int
    reverses: list[int]


@final
class _Finder:
    """Finds forward sweeps whose kept carries are only read by reverse passes with derivatives.

    Args:
        program: the program.
        active: one flag per input.
    """

    def __init__(self, program: Program, active: Sequence[bool]) -> None:
        self.program = program
        self.moves: set[int] = set()
        """Operations that permute axes of kept carries."""
        self.readers: dict[int, list[int]] = {}
        self.active = {i for i, flag in zip(program.input_ids, active, strict=True) if flag}
        for k, _ in program.schedule:
            primitive, operands, _ = program.ops[k]
            for i in operands:
                self.readers.setdefault(i, []).append(k)
            if primitive.jvp is not ZERO and not self.active.isdisjoint(operands):
                self.active.update(range(k, k + program.result_count(k)))

    def pairs(self) -> list[_Pair]:
        """Return the pairs."""
        program, found = self.program, list[_Pair]()
        for k, _ in program.schedule:
            if program.ops[k][0] is checkpointed_forward_p:
                pair = self._pair(k)
                if pair is not None:
                    found.append(pair)
        return found

    def _pair(self, first: int) -> _Pair | None:
        program = self.program
        _, _, params = program.ops[first]
        loop = CheckpointedLoop._make(params)
        if loop.length is None:
            return None
        count, end = len(loop.body.output_ids), program.result_count(first)
        assert end == count + len(extra_avals(loop)), "kept carries are the last results"
        reverses: dict[int, None] = {}
        moves: set[int] = set()
        outputs = set(program.output_ids)
        for row, i in enumerate(range(first + count, first + end)):
            waiting = [i]
            while waiting:
                i = waiting.pop()
                if i in outputs:
                    return None
                for k in self.readers.get(i, ()):
                    primitive, operands, params = program.ops[k]
                    if primitive is permute_p:
                        moves.add(k)
                        waiting.append(k)
                    elif primitive is checkpointed_reverse_p:
                        place = kept_places(ReverseSweep._make(params))[row : row + 1]
                        if [i] != [operands[n] for n in place]:
                            return None
                        reverses[k] = None
                    else:
                        return None
        if not reverses:
            return None
        records = [program.ops[k][2][0] for k in reverses]
        if any(record is not records[0] for record in records) or any(
            self.active.isdisjoint(program.ops[k][1]) for k in reverses
        ):
            return None
        self.moves |= moves
        return _Pair(first, list(reverses))


def _write_forward(write: Rewrite, pair: _Pair) -> list[int]:
    """Write the loop that stacks residuals; return its results."""
    program = write.source
    loop = CheckpointedLoop._make(program.ops[pair.forward][2])
    sweep = ReverseSweep._make(program.ops[pair.reverses[0]][2])
    record, constants = sweep.record, sweep.constants
    outs = list(dict.fromkeys(record.output_ids[sweep.carries :]))
    _, operands, _ = program.ops[pair.forward]
    chosen = [*sweep.shared, *range(constants, len(record.input_ids))]
    body = with_inputs(record, chosen, [*record.output_ids[: sweep.carries], *outs])
    first = write.place(
        scan_p,
        tuple(map(write.operand, operands)),
        (body.interned(), loop.length, loop.reverse, loop.constants, sweep.carries),
        write.position(pair.forward),
    )
    place = {i: first + sweep.carries + n for n, i in enumerate(outs)}
    results = [first + n for n in range(sweep.carries)]
    results += [place[i] for i in record.output_ids[sweep.carries :]]
    write.replace(pair.forward, results[: len(loop.body.output_ids)])
    return results


def _write_reverse(write: Rewrite, k: int, results: Sequence[int]) -> None:
    """Write the loop that reads the residuals."""
    program = write.source
    _, operands, params = program.ops[k]
    sweep = ReverseSweep._make(params)
    given = sweep.groups(operands)
    adjoint, constants = sweep.adjoint, sweep.constants
    read = places_read(adjoint, adjoint.output_ids)
    chosen = [n for n in range(len(adjoint.input_ids)) if n >= constants or n in read]
    body = with_inputs(adjoint, chosen, adjoint.output_ids)
    fixed = [x for n, x in enumerate(given.constants) if n in read]
    first = write.place(
        scan_p,
        (
            *map(write.operand, [*fixed, *given.states]),
            *results[sweep.carries + sweep.results :],
            *map(write.operand, [*given.arrays, *given.own_arrays]),
        ),
        (body.interned(), sweep.length, not sweep.reverse, len(fixed), sweep.states),
        write.position(k),
    )
    write.replace(k, range(first, first + program.result_count(k)))
