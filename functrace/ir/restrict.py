"""The part of a program that lies between given variables.

Floor: 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functrace.errors import ProgramError
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ir.tape import Builder


class Restriction(NamedTuple):
    """What `restrict` returns: the program, and for each input asked for whether an output depends on it."""

    program: Program
    used: tuple[bool, ...]


def restrict(program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> Restriction:
    """Return the part of a program that computes ``outputs`` from ``inputs``, any variables of it.

    Operations that do not matter for it are left out; what was computed before a variable in ``inputs`` is, too.

    Raises:
        ProgramError: if an output depends on an input of ``program`` that is not among ``inputs``.
    """
    ops, avals = program.ops, program.avals
    given = set(inputs)
    needed = set(outputs)
    for k in range(len(ops) - 1, -1, -1):
        if k in needed and k not in given:
            needed.update(i for i in ops[k][1] if i >= 0)
    build = Builder()
    moved = {i: build.input(avals[i]) for i in inputs}
    positions: list[Any] = [None] * len(build.ops)
    origins: list[int] = list(inputs)
    for k, (primitive, operands, params) in enumerate(ops):
        if primitive is RESULT:
            continue
        results = range(k, k + program.result_count(k)) if primitive.many else (k,)
        wanted = [j for j in results if j in needed and j not in given]
        if not wanted:
            continue
        if primitive is INPUT:
            name = program.variables[k].name
            raise ProgramError(f"an output depends on input {name}, which is left out", fix="name it among the inputs")
        if primitive is CONSTANT:
            moved[k] = build.constant(program.constant_values[k], avals[k])
        else:
            placed = tuple([moved[i] if i >= 0 else build.literal(program.literals[~i]) for i in operands])
            first = build.append(primitive, placed, tuple([build.spec(i) for i in placed]), params)
            for j in results:
                if j not in given:
                    moved[j] = first + j - k
        position = program.positions[k] if k < len(program.positions) else None
        missing = len(build.ops) - len(positions)
        positions.extend([position] * missing)
        origins.extend([program.origins[k] if k < len(program.origins) else k] * missing)
    made = Program.from_builder(build, [moved[i] for i in outputs], name=program.name, positions=positions, origins=origins)
    return Restriction(made, tuple(i in needed for i in inputs))
