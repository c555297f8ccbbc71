"""Memory of a program that XLA compiles, by its own report.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

from functrace.errors import UnsupportedFunctionError
from functrace.executor.memory.of_plans import allocate_given
from functrace.executor.memory.timeline import MemoryPlan, TimelineWriter
from functrace.ir.aval import ShapeDtype
from functrace.xla.program import XlaProgram


def timeline_of_xla(made: XlaProgram, name: str) -> MemoryPlan:
    """Return the timeline of a compiled program: a single point, with the results and all
    temporaries.

    Args:
        made: the program.
        name: name of the function.

    Raises:
        UnsupportedFunctionError: if JAX does not report the memory on this device.
    """
    found: Any = made.staged().compile().memory_analysis()
    if found is None:
        raise UnsupportedFunctionError(
            f"memory_plan of {name}: JAX does not report the memory of programs on this device",
            fix='memory_plan(f, backend="numpy") for the plan of NumPy',
        )
    program, write = made.program, TimelineWriter()
    given = allocate_given(write, program)
    results = [
        write.allocate(str(program.variables[i].name), program.avals[i], "XLA", None, "forward")
        for i in program.output_ids
        if program.avals[i].shape
    ]
    # (results that share an argument's memory, since it is donated, are not allocated)
    more = found.output_size_in_bytes - found.alias_size_in_bytes
    more -= sum([record.value.nbytes for record in results])
    nbytes = max(0, int(found.temp_size_in_bytes + more))
    work = write.allocate_work(nbytes, ShapeDtype((nbytes,), "uint8"), "XLA", None, "forward")
    text = f"{len(program.schedule)} operations of {program.name}, one executable"
    index = write.point("XLA", text, None, "forward", 0)
    for record in given.values():
        write.read(record, index, "forward")
    write.free_work(work)
    return write.finish(name, "jit, XLA", results)
