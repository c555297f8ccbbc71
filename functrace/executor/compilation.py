"""Compile a program without calls: the last passes, a plan, a backend.

See Note [Compiling is imported when it begins] in executor/runner.py.

Floor: 6.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from functrace.executor.backend import Backend, compiled
from functrace.executor.freed import FREED, LARGE
from functrace.executor.numpy_source import NUMPY
from functrace.executor.plan import Plan, planned, planning
from functrace.ir.check import held_programs
from functrace.ir.parts import Compiled
from functrace.ir.program import Program
from functrace.passes import LAST, LATE, optimized, optimizing

FEWEST_IN_PIECE = 32
"""Equations: shorter programs are compiled in one piece."""


def compile_flat(program: Program, backend: Backend | None = None, donated: Sequence[int] = ()) -> Compiled:
    """Compile at once.

    Args:
        program: the program.
        backend: what compiles it; NumPy source by default.
        donated: inputs in whose memory results may be written; see `planning`. The memory of such a run is not kept.
    """
    plan = planned(optimized(program, LATE + LAST), donated=donated)
    run = compiled(plan, backend or NUMPY)
    return run if donated else _keeping_freed(run, plan)


def compiling(program: Program, backend: Backend | None, size: int | None = None) -> Generator[None, None, Compiled]:
    """Compile in steps; see Note [No call is slower than the first].

    Args:
        program: the program.
        backend: what compiles it; NumPy source by default.
        size: equations per step; by default a quarter of them, or a twelfth where a step takes longer.
    """
    count = _equations(program)
    optimised = yield from optimizing(program, size or max(FEWEST_IN_PIECE, -(-count // 4)), LATE + LAST)
    yield
    plan = yield from planning(optimised, size or max(FEWEST_IN_PIECE, -(-count // 12)), fresh=True)
    return _keeping_freed((yield from (backend or NUMPY).compiling(plan)), plan)


def _keeping_freed(run: Compiled, plan: Plan) -> Compiled:
    """Let a program on large arrays find the memory of its last run; not one for sizes that are unknown."""
    return FREED.around(run, plan.peak_bytes) if plan.needs(LARGE) else run


def _equations(program: Program) -> int:
    """How many equations a program has, those of the programs in it counted that are compiled with it."""
    count = len(program.schedule)
    for k, _ in program.schedule:
        primitive, _, params = program.ops[k]
        if primitive.holds is not None and primitive.holds.lowers is not None:
            count += sum([_equations(held) for _, held in held_programs(params, "")])
    return count
