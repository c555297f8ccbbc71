"""Explanation of which part of a program is machine code, for `functrace.debug.explain`.

Layer: 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from functrace.executor.plan.planner import plan
from functrace.executor.runner import Runner
from functrace.ir.program import Program
from functrace.native.backend import EXACT, NATIVE
from functrace.native.loop_ir import For, MatrixProduct, While, walk
from functrace.native.lowering import NoNativeForm, lower
from functrace.native.rows import EXACT_ROWS, ROWS
from functrace.native.segments import operations_of_numpy


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """How ``jit(f, backend="native")`` runs a program.

    Args:
        name: of the function.
        operations: number of operations of the optimized program; those in loops are not counted.
        by_numpy: equations that NumPy runs, since they have no native form, with the user's line.
        loops: number of loops in the machine code; 0 if the program is split.
        statements: number of its statements.
        products: number of matrix products that BLAS computes.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> print(ft.debug.explain(lambda x: np.sum(np.exp(x)))(np.ones(1000)).text())
        <lambda>: 2 operations, machine code as a whole: 2 loops, 10 statements
    """

    name: str
    operations: int
    by_numpy: tuple[str, ...]
    loops: int
    statements: int
    products: int

    @property
    def is_whole(self) -> bool:
        """True if the whole program is one function of machine code."""
        return not self.by_numpy

    def text(self) -> str:
        """Return the explanation as lines of text."""
        head = f"{self.name}: {self.operations} operations, "
        if self.is_whole:
            products = f", {self.products} products by BLAS" if self.products else ""
            return (
                f"{head}machine code as a whole: {self.loops} loops, {self.statements} statements"
                f"{products}"
            )
        return "\n".join([f"{head}of which NumPy runs {len(self.by_numpy)}:", *self.by_numpy])

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
    found = made.program
    try:
        function = lower(made, rows, found.name)
    except NoNativeForm:
        hosts = operations_of_numpy(made, rows)
        makers = [step.first for step in made.steps]
        texts = dict(zip(makers, found.equations, strict=True))
        lines = [
            f"  {texts[k]}" + (f"  # {texts[k].source}" if texts[k].source else "")
            for k in sorted(hosts)
        ]
        return Explanation(found.name, len(makers), tuple(lines), 0, 0, 0)
    statements = list(walk(function.body))
    return Explanation(
        found.name,
        len(made.steps),
        (),
        sum(type(s) in (For, While) for s in statements),
        len(statements),
        sum(type(s) is MatrixProduct for s in statements),
    )
