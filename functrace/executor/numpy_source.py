"""The NumPy backend: a plan becomes straight-line Python over bound NumPy functions.

One statement per operation; a variable's local name is used again or deleted where the plan says that it dies, so that
arrays die as early as they can. Every group is a Python function of its own; several hand values over in a list.

Floor: 6.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, final

import numpy as np

from functrace.executor.backend import Backend, joined
from functrace.executor.blocks import in_blocks
from functrace.executor.kernels import KERNELS, spelled_literal
from functrace.executor.plan import Plan, Step
from functrace.ir.parts import Compiled
from functrace.passes import finished
from functrace.source import GENERATED_FILES, printable
from functrace.tracing.lines import GENERATED, Now
from functrace.typing import Array

_numbers = itertools.count()


@final
class NumPySource:
    """The backend; see the module.

    Args:
        bodies: compiles the programs that operations hold; by default, this one does.
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
    return finished(writer.group(0)), writer.bound


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
    bound = writer.bound
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
        self.bodies = bodies
        self.bound: dict[str, Any] = {}
        self._names_of_values: dict[int, str] = {}
        self._free: list[str] = []
        self._numbers = itertools.count()
        self.operations: dict[int, Now] = {}
        """By line of the group that was written last: what it carries out."""
        self._names = {i: f"x{i}" for i in program.input_ids}
        for i, value in program.constant_values.items():
            self._names[i] = self._bind_value(value)
        given = [i for group in plan.groups for i in group.gives]
        self.places: dict[int, int] = {i: k for k, i in enumerate((*program.input_ids, *given))}
        """By variable: where in the list it is handed over."""

    def group(self, number: int) -> Generator[None, None, str]:
        """Write one group; yields where an operation holds programs that have to be compiled."""
        plan, names, places = self.plan, self._names, self.places
        program, group = plan.program, plan.groups[number]
        self._free = []
        if len(plan.groups) == 1:
            lines = [f"def run({', '.join(names[i] for i in program.input_ids)}):"]
        else:
            names.update({i: f"x{i}" for i in group.takes})
            lines = ["def run(handed):"]
            lines += [f"    {names[i]} = handed[{places[i]}]" for i in group.takes]
            lines += [f"    handed[{places[i]}] = None" for i, dies in group.takes.items() if dies]
        self.operations = {}
        for step in group.steps:
            k = step.first
            position = program.positions[k] if k < len(program.positions) else None
            self.operations[len(lines) + 1] = Now(program.ops[k][0], position)
            lines += yield from self._statements(step)
        if number + 1 < len(plan.groups):
            lines += [f"    handed[{places[i]}] = {names[i]}" for i in group.gives]
            if len(lines) == 1:
                lines.append("    pass")
        else:
            outputs = zip(program.output_ids, plan.copied, strict=True)
            outs = [f"{names[i]}.copy('K')" if copied else names[i] for i, copied in outputs]
            lines.append(f"    return ({', '.join(outs)}{',' if outs else ''})")
        return "\n".join(lines) + "\n"

    def _statements(self, step: Step) -> Generator[None, None, list[str]]:
        """Write one operation, and the end of what dies there."""
        program, names, bind_value = self.plan.program, self._names, self._bind_value
        k, into = step.first, step.into
        primitive, operands, params = program.ops[k]
        arguments = tuple([names[i] if i >= 0 else spelled_literal(program, i, k, bind_value) for i in operands])
        kernel = KERNELS.get(primitive)
        if into is not None:
            word = "out=" if primitive.eval in (np.maximum, np.minimum) else ""  # 0.03 us dearer; these two insist on it
            arguments = (*arguments, word + names[into])
        if step.join is not None:
            run = yield from joined(step, self.bodies) if step.blocks is None else in_blocks(step, NUMPY)
            expression = f"{bind_value(run)}({', '.join(arguments)})"
        elif kernel is not None:
            expression = kernel(arguments, params, bind_value)
        else:
            static = tuple([bind_value(p) for p in params])
            expression = f"{bind_value(primitive.eval)}({', '.join((*arguments, *static))})"
        dead = [names[i] for i in step.dies if not names[i].startswith("k")]
        if into is not None:
            dead.remove(names[into])
        free = self._free
        free.extend(dead)
        results = self.plan.results(step)
        for j in results:
            names[j] = names[into] if into is not None else free.pop() if free else f"v{next(self._numbers)}"
        made = [names[j] for j in results]
        left = ", ".join(made) + ("," if primitive.many else "")
        unused = [d for d in dead if d not in made]
        lines = [f"    {left} = {expression}"]
        if unused:
            lines.append(f"    del {', '.join(dict.fromkeys(unused))}")
        return lines

    def _bind_value(self, value: object) -> str:
        found = self._names_of_values.get(id(value))
        if found is None:
            found = self._names_of_values[id(value)] = f"k{len(self.bound)}"
            self.bound[found] = value
        return found
