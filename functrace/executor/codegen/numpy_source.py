"""The NumPy backend: a plan becomes straight-line Python over bound NumPy functions.

`functrace.executor.codegen.statements` writes the lines of an operation,
`functrace.executor.codegen.loops` those of a loop.

Layer: 7.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import Any, final

from functrace.executor.allocator import FEWEST_KEPT, FREED
from functrace.executor.backend import Backend
from functrace.executor.codegen.loops import LoopStatements
from functrace.executor.codegen.statements import NameBindings
from functrace.executor.plan.planner import Plan
from functrace.executor.policy import NUMPY_POLICY
from functrace.ir.parts import Compiled
from functrace.source import GENERATED_FILES, printable
from functrace.tracing.lines import GENERATED, CurrentOperation

BETWEEN_LOOKS = 8
"""Number of lines, in a program on very large arrays, after which it may return free memory between
arrays to the system.
"""

CLOSE_GAPS = FREED.close_gaps

_numbers = itertools.count()


@final
class NumPySource:
    """The NumPy backend; see the module's docstring.

    Args:
        bodies: compiles sub-programs; by default, this backend, which inlines loops.
    """

    def __init__(self, bodies: Backend | None = None) -> None:
        self.policy = NUMPY_POLICY
        self.bodies = bodies or self

    def compile(self, plan: Plan) -> Compiled:
        """Compile a plan."""
        return self.timed(plan, None)

    def timed(self, plan: Plan, tick: Tick | None) -> Compiled:
        """Compile a plan; if ``tick`` is given, the code calls it after every operation."""
        writer = _Writer(plan, self.bodies)
        return _defined(plan.program.name, writer.source(tick), writer)


Tick = Callable[[int, float], float]
"""Function of the index of a step that has run, and the result of the previous call (0.0 for the
first).
"""

NUMPY = NumPySource()


def generate(plan: Plan) -> tuple[str, dict[str, Any]]:
    """Return the source of a plan, and the values of its names."""
    writer = _Writer(plan, NUMPY)
    return writer.source(None), writer.values.bound


def _defined(name: str, source: str, writer: _Writer) -> Compiled:
    """Return the function ``run`` that a source defines."""
    filename = f"{GENERATED_FILES}{printable(name)} {next(_numbers)}>"
    bound = writer.values.bound
    exec(compile(source, filename, "exec"), bound)
    function = bound.pop("run")
    bound[GENERATED] = {filename: writer.operations}
    linecache.cache[filename] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        filename,
    )  # for tracebacks
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


@final
class _Writer:
    """Writer of the source of a plan."""

    def __init__(self, plan: Plan, bodies: Backend) -> None:
        self.plan = plan
        self.values = NameBindings(bodies, NUMPY)
        self.operations: dict[int, CurrentOperation] = {}
        """Operations by line of the source."""
        self._names = {i: f"x{i}" for i in plan.program.input_ids}

    def source(self, tick: Tick | None) -> str:
        """Return the source."""
        plan, names = self.plan, self._names
        program = plan.program
        statements = LoopStatements(plan, names, self.values)
        lines = [f"def run({', '.join(names[i] for i in program.input_ids)}):"]
        if tick is not None:
            lines.append(f"    t = {self.values.bind(tick)}(-1, 0.0)")
        look = f"    {self.values.bind(CLOSE_GAPS)}()" if plan.needs(FEWEST_KEPT) else ""
        count = 0
        for number, step in enumerate(plan.steps):
            for text, now in statements.write([step]):
                if look and not count % BETWEEN_LOOKS and now is not None and text[0] != " ":
                    lines.append(look)
                count += 1
                if now is not None:
                    self.operations[len(lines) + 1] = now
                lines.append(f"    {text}")
            if tick is not None:
                lines.append(f"    t = {self.values.bind(tick)}({number}, t)")
        outputs = zip(program.output_ids, plan.copied, strict=True)
        outs = [f"{names[i]}.copy('K')" if copied else names[i] for i, copied in outputs]
        lines.append(f"    return ({', '.join(outs)}{',' if outs else ''})")
        return "\n".join(lines) + "\n"
