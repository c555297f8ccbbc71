"""Memory of a program as machine code: its results, and one block for all temporaries.

The compiler lays out the temporaries of a function in one block, which a call allocates and frees.
Of a program that is split, NumPy's plan has the segments as operations, each with its block.

Layer: 7.
"""

from __future__ import annotations

from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.memory.of_plans import allocate_given, timeline_of_plan
from functrace.executor.memory.timeline import MemoryPlan, TimelineWriter
from functrace.executor.parallel.concurrent import group_concurrent
from functrace.executor.plan.planner import Plan, planned
from functrace.executor.policy import Policy
from functrace.ir.aval import ShapeDtype
from functrace.native.backend import NativeBackend
from functrace.native.llvm_text import block_bytes
from functrace.native.loop_ir import NoNativeForm
from functrace.native.numpy_order import are_results_in_c_order
from functrace.native.tiles import in_tiles, is_concurrent
from functrace.native.zero_dimensional import has_branch_results


def timeline_of_native(backend: NativeBackend, plan: Plan, name: str) -> MemoryPlan:
    """Return the timeline of a plan that the native backend compiles; LLVM does not run.

    Args:
        backend: the backend.
        plan: the plan.
        name: name of the function.
    """
    program, is_exact = plan.program, backend.is_exact
    if is_exact and has_branch_results(program):
        return timeline_of_plan(planned(program), name, "jit, NumPy")
    tiled = in_tiles(program, backend.lowered, is_exact=is_exact)
    if tiled is not None and is_concurrent(tiled):
        policy = Policy(NUMPY.policy.tuned, group_concurrent)
        return timeline_of_plan(planned(tiled, policy), name, "jit, machine code in tiles")
    if tiled is None and not (is_exact and not are_results_in_c_order(plan)):
        try:
            nbytes = block_bytes(backend.lowered(program))
        except NoNativeForm:
            pass
        else:
            return _of_one_function(plan, name, nbytes)
    parts = backend.segmented_plan(program if tiled is None else tiled)
    return timeline_of_plan(parts, name, "jit, machine code in segments")


def _of_one_function(plan: Plan, name: str, nbytes: int) -> MemoryPlan:
    """Return the timeline of one function: a single point.

    Args:
        plan: the plan.
        name: name of the function.
        nbytes: of its temporaries.
    """
    program, write = plan.program, TimelineWriter()
    given = allocate_given(write, program)
    results = [
        write.allocate(
            str(program.variables[i].name), program.avals[i], "machine code", None, "forward"
        )
        for i in program.output_ids
        if program.avals[i].shape
    ]
    work = write.allocate_work(
        nbytes, ShapeDtype((nbytes,), "uint8"), "machine code", None, "forward"
    )
    text = f"{len(plan.steps)} operations of {program.name}, one function"
    index = write.point("machine code", text, None, "forward", 0)
    for record in given.values():
        write.read(record, index, "forward")
    write.free_work(work)
    return write.finish(name, "jit, machine code", results)
