"""Explanation of which part of a program is machine code, for `functrace.debug.explain`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import final

from functrace.executor.plan.fusion import blocks_p
from functrace.executor.plan.planner import Plan, plan, planned
from functrace.executor.policy import Policy
from functrace.executor.runner import Runner
from functrace.ir.program import Equation, Program
from functrace.native.backend import EXACT, NATIVE
from functrace.native.loop_ir import For, Function, MatrixProduct, While, walk
from functrace.native.lowering import NoNativeForm, RowTable, lower
from functrace.native.rows import EXACT_ROWS, ROWS
from functrace.native.segments import operations_of_numpy
from functrace.native.tiles import Tiles, in_tiles, is_concurrent


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of a program that ``jit(f, backend="native")`` runs as machine code and in NumPy.

    Args:
        name: of the function.
        operations: number of operations of the optimized program; those in loops are not counted.
        by_numpy: equations that NumPy runs, with the user's line: those without a native form, and
            in a program of several large products all that is not in tiles.
        loops: number of loops in the machine code; 0 if the program is split.
        statements: number of its statements.
        products: number of matrix products that BLAS computes.
        tiles: number of groups of operations on large arrays that run block by block, on all cores.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> print(ft.debug.explain(lambda x: np.sum(np.exp(x)))(np.ones(1000)).text())
        program: 2 operations, machine code as a whole: 11 loops, 72 statements
    """

    name: str
    operations: int
    by_numpy: tuple[str, ...]
    loops: int
    statements: int
    products: int
    tiles: int = 0

    @property
    def is_whole(self) -> bool:
        """True if the whole program is machine code."""
        return not self.by_numpy

    def text(self) -> str:
        """Return the explanation as lines of text."""
        head = f"{self.name}: {self.operations} operations, "
        tiles = (
            f"{self.tiles} group{'s' * (self.tiles > 1)} in tiles on all cores, "
            if self.tiles
            else ""
        )
        if self.is_whole:
            products = f", {self.products} products by BLAS" if self.products else ""
            return (
                f"{head}{tiles}machine code as a whole: {self.loops} loops, {self.statements} "
                f"statements{products}"
            )
        return "\n".join(
            [f"{head}{tiles}of which NumPy runs {len(self.by_numpy)}:", *self.by_numpy]
        )

    def __str__(self) -> str:
        return self.text()


def explained(program: Program, *, is_exact: bool = False) -> Explanation:
    """Explain how the native backend compiles a program.

    Args:
        program: any program.
        is_exact: True for results that equal NumPy's to the bit.
    """
    backend, rows = (EXACT, EXACT_ROWS) if is_exact else (NATIVE, ROWS)
    made = plan(Runner(program, backend).flat, backend.policy)
    tiled = in_tiles(made.program, backend.lowered, is_exact=is_exact)
    if tiled is not None:
        return _of_tiles(planned(tiled, Policy()), rows, program.name)
    try:
        function = lower(made, rows, made.program.name)
    except NoNativeForm:
        return _explanation(made, operations_of_numpy(made, rows), [], program.name)
    return _explanation(made, set(), [function], program.name)


def _of_tiles(made: Plan, rows: RowTable, name: str) -> Explanation:
    program = made.program
    groups = {step.first: program.ops[step.first][2][1] for step in made.steps
              if program.ops[step.first][0] is blocks_p}  # fmt: skip
    tiles = {k: group.tile for k, group in groups.items() if type(group.tile) is Tiles}
    hosts = (
        {step.first for step in made.steps}
        if is_concurrent(program)
        else operations_of_numpy(made, rows)
    )
    found = _explanation(made, hosts - tiles.keys(), [one.function for one in tiles.values()], name)
    inside = sum(len(program.ops[k][2][0].schedule) - 1 for k in groups)
    return replace(found, operations=found.operations + inside, tiles=len(tiles))


def _explanation(
    made: Plan, hosts: Set[int], functions: Sequence[Function], name: str
) -> Explanation:
    """Return the explanation of a plan.

    Args:
        made: the plan.
        hosts: operations that NumPy runs.
        functions: the functions of machine code that can be counted before compiling.
        name: of the function.
    """
    makers = [step.first for step in made.steps]
    texts = dict(zip(makers, made.program.equations, strict=True))
    lines = [
        f"  {_text(made.program, k, texts[k])}"
        + (f"  # {texts[k].source}" if texts[k].source else "")
        for k in sorted(hosts)
    ]
    statements = [s for function in functions for s in walk(function.body)]
    return Explanation(
        name,
        len(makers),
        tuple(lines),
        sum(type(s) in (For, While) for s in statements),
        len(statements),
        sum(type(s) is MatrixProduct for s in statements),
    )


def _text(program: Program, k: int, equation: Equation) -> str:
    primitive, _, params = program.ops[k]
    if primitive is not blocks_p:
        return str(equation)
    return f"blocks of {len(params[0].schedule)} operations, with matrix products"
