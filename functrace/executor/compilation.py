"""Compile a program: the last passes, a plan, a backend.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrace.executor.allocator import FREED, LARGE
from functrace.executor.backend import Backend
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import Plan, planned
from functrace.ir.parts import Compiled
from functrace.ir.program import Program
from functrace.passes import LAST, LATE, optimized
from functrace.phases import phase


def plan_of(program: Program, backend: Backend | None = None, donated: Sequence[int] = ()) -> Plan:
    """Return the plan of a program after the first passes, by which `compile_optimized` runs it."""
    policy = (backend or NUMPY).policy
    optimal = optimized(program, policy.passes(LATE + LAST))
    with phase("plan"):
        return planned(optimal, policy, donated=donated)


def compile_optimized(
    program: Program, backend: Backend | None = None, donated: Sequence[int] = ()
) -> Compiled:
    """Compile a program after the first passes; see `functrace.executor.runner.compile_flat`."""
    backend = backend or NUMPY
    plan = plan_of(program, backend, donated)
    with phase("code"):
        run = backend.compile(plan)
    # A program on large arrays may reuse the memory of its last run, unless sizes are unknown.
    return FREED.around(run, plan.peak_bytes) if not donated and plan.needs(LARGE) else run
