"""The NumPy backend: a plan becomes straight-line Python over bound NumPy functions.

Every group is a Python function of its own; several hand values over in a list. The lines in them are written by
`functrace.executor.statements` and, in loops, `functrace.executor.loops`.

Floor: 6.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, final

from functrace.executor.backend import Backend
from functrace.executor.freed import FEWEST_KEPT, FREED
from functrace.executor.loops import WithLoops
from functrace.executor.plan import Plan
from functrace.executor.statements import Values
from functrace.ir.parts import Compiled
from functrace.source import GENERATED_FILES, printable
from functrace.steps import finished
from functrace.tracing.lines import GENERATED, Now
from functrace.typing import Array

BETWEEN_LOOKS = 8
"""Lines of a program on very large arrays after which it may give back gaps between them."""

CLOSE_GAPS = FREED.close_gaps

_numbers = itertools.count()


@final
class NumPySource:
    """The backend; see the module.

    Args:
        bodies: compiles the programs that operations hold; by default, this one does, and writes loops in line.
    """

    def __init__(self, bodies: Backend | None = None) -> None:
        self.bodies = bodies or self

    def compiling(self, plan: Plan) -> Generator[None, None, Compiled]:
        """Compile a plan, a group at a time."""
        writer = _Writer(plan, self.bodies)
        last = len(plan.groups) - 1
        pieces: list[Callable[..., Any]] = []
        for number in range(last + 1):
            source = yield from writer.group(number)
            yield
            pieces.append(_defined(plan.program.name, source, writer))
            if number < last:
                yield
        return pieces[0] if not last else _in_turn(pieces, len(plan.program.input_ids), len(writer.places))

    def pieces(self, plan: Plan) -> Iterator[Callable[..., Any]]:
        """Compile a plan at once; yields the function of each group: of the arguments, or of the list that values are in."""
        writer = _Writer(plan, self.bodies)
        for number in range(len(plan.groups)):
            yield _defined(plan.program.name, finished(writer.group(number)), writer)


NUMPY = NumPySource()


def generate(plan: Plan) -> tuple[str, dict[str, Any]]:
    """Return the source of a plan of one group, and the values that its names are bound to."""
    writer = _Writer(plan, NUMPY)
    return finished(writer.group(0)), writer.values.bound


def _in_turn(pieces: list[Callable[..., Any]], width: int, places: int) -> Compiled:
    """The function that calls the groups' functions one after the other."""
    *before, last = pieces
    rest = [None] * (places - width)

    def run(*arguments: Array) -> tuple[Any, ...]:
        handed = [*arguments, *rest]
        for piece in before:
            piece(handed)
        return last(handed)

    return run


def _defined(name: str, source: str, writer: _Writer) -> Callable[..., Any]:
    """Return the function ``run`` that a source, the last one that was written, defines."""
    filename = f"{GENERATED_FILES}{printable(name)} {next(_numbers)}>"
    bound = writer.values.bound
    exec(compile(source, filename, "exec"), bound)
    function = bound.pop("run")
    bound.setdefault(GENERATED, {})[filename] = writer.operations
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)  # for tracebacks
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


@final
class _Writer:
    """Writes the groups of a plan, in order."""

    def __init__(self, plan: Plan, bodies: Backend) -> None:
        program = plan.program
        self.plan = plan
        self.values = Values(bodies, NUMPY)
        self.operations: dict[int, Now] = {}
        """By line of the group that was written last: what it carries out."""
        self._names = {i: f"x{i}" for i in program.input_ids}
        self._statements = WithLoops(plan, self._names, self.values)
        given = [i for group in plan.groups for i in group.gives]
        self.places: dict[int, int] = {i: k for k, i in enumerate((*program.input_ids, *given))}
        """By variable: where in the list it is handed over."""

    def group(self, number: int) -> Generator[None, None, str]:
        """Write one group; yields where an operation holds programs that have to be compiled."""
        plan, names, places = self.plan, self._names, self.places
        program, group = plan.program, plan.groups[number]
        self._statements.free = []
        if len(plan.groups) == 1:
            lines = [f"def run({', '.join(names[i] for i in program.input_ids)}):"]
        else:
            names.update({i: f"x{i}" for i in group.takes})
            lines = ["def run(handed):"]
            lines += [f"    {names[i]} = handed[{places[i]}]" for i in group.takes]
            lines += [f"    handed[{places[i]}] = None" for i, dies in group.takes.items() if dies]
        self.operations = {}
        look = f"    {self.values.bind(CLOSE_GAPS)}()" if plan.needs(FEWEST_KEPT) else ""
        for count, (text, now) in enumerate((yield from self._statements.write(group.steps))):
            if look and not count % BETWEEN_LOOKS and now is not None and text[0] != " ":
                lines.append(look)
            if now is not None:
                self.operations[len(lines) + 1] = now
            lines.append(f"    {text}")
        if number + 1 < len(plan.groups):
            lines += [f"    handed[{places[i]}] = {names[i]}" for i in group.gives]
            if len(lines) == 1:
                lines.append("    pass")
        else:
            outputs = zip(program.output_ids, plan.copied, strict=True)
            outs = [f"{names[i]}.copy('K')" if copied else names[i] for i, copied in outputs]
            lines.append(f"    return ({', '.join(outs)}{',' if outs else ''})")
        return "\n".join(lines) + "\n"
