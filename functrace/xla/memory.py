"""Memory of a program that XLA compiles, by its own report.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

from functrace.errors import UnsupportedFunctionError
from functrace.executor.memory.of_plans import timeline_of_block
from functrace.executor.memory.timeline import MemoryPlan
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
    program = made.program
    outputs = [program.avals[i] for i in program.output_ids]
    # (results that share an argument's memory, since it is donated, are not allocated)
    more = found.output_size_in_bytes - found.alias_size_in_bytes
    more -= sum([aval.nbytes for aval in outputs if aval.shape])
    nbytes = max(0, int(found.temp_size_in_bytes + more))
    return timeline_of_block(program, name, "jit, XLA", "XLA", nbytes)
