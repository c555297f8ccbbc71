"""Memory of a program as machine code: its results, and one block for all temporaries.

The compiler lays out the temporaries of a function in one block, which a call allocates and frees.
Of a program that is split, NumPy's plan has the segments as operations, each with its block.

Layer: 7.
"""

from __future__ import annotations

from functrace.executor.memory.of_plans import timeline_of_block, timeline_of_plan
from functrace.executor.memory.timeline import MemoryPlan
from functrace.executor.plan.planner import Plan
from functrace.native.backend import NativeBackend
from functrace.native.llvm_text import block_bytes


def timeline_of_native(backend: NativeBackend, plan: Plan, name: str) -> MemoryPlan:
    """Return the timeline of a plan that the native backend compiles.

    Args:
        backend: the backend.
        plan: the plan.
        name: name of the function.
    """
    form = backend.form(plan)
    if isinstance(form, Plan):
        return timeline_of_plan(form, name, "jit, machine code in parts")
    return timeline_of_block(
        plan.program, name, "jit, machine code", "machine code", block_bytes(form)
    )
