"""``saved_residuals``: the values kept for the derivative, as a table.

Layer: 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from functrace.api.capture.arguments import function_name
from functrace.api.capture.programs import input_names
from functrace.api.capture.record import Operands, stage
from functrace.api.capture.transformed import transformed
from functrace.api.residuals.context import policy_in_force, with_policy
from functrace.control.choosing import NamedValues
from functrace.control.cond import cond_p
from functrace.control.policies import RECOMPUTE
from functrace.control.residuals import pack_p, unpack_p
from functrace.control.storages import Storage
from functrace.errors import entry
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program, plain_position
from functrace.ops.naming import BUDGET_PREFIX, name_p
from functrace.passes import inline_calls
from functrace.source import Source
from functrace.tracing.binding import OPEN
from functrace.transforms import is_differentiable, linearize_program
from functrace.tree import map_leaves
from functrace.typing import P


@dataclass(frozen=True)
class Residual:
    """One residual.

    Args:
        aval: its shape and dtype.
        made: its origin: ``argument x``, ``captured array``, ``named 'a'``, or the operation that
            computes it.
        why: the operation whose derivative reads it first, if known.
        source: the user's line that it comes from, if known.
        each: True if there is one for each step of a loop whose length is known at run time only.
        is_packed: True if a policy stores it in another form, so that the kept bytes are unknown.
        storage: the form: ``packed``, ``compressed by int8``, ``offloaded`` …; empty if it is kept
            as it is.
        is_offloaded: True if it is kept in a file.
    """

    aval: ShapeDtype
    made: str
    why: str
    source: Source | None
    each: bool = False
    is_packed: bool = False
    storage: str = ""
    is_offloaded: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes, before packing; of one step if ``each``."""
        return self.aval.nbytes

    @property
    def is_compressed(self) -> bool:
        """True if `functrace.policies.compress` compresses it."""
        return self.storage.startswith("compressed")


@dataclass(frozen=True)
class Residuals:
    """All residuals of a function; iterable, and printed as a table.

    Args:
        of: name of the function.
        kept: its residuals, one row each.

    Example:
        >>> import numpy as np, functrace as ft
        >>> kept = ft.saved_residuals(lambda x: np.sum(np.sin(x)))(np.ones(1000))
        >>> len(kept), kept.nbytes, kept.kept[0].aval
        (1, 8000, f64[1000])
    """

    of: str
    kept: tuple[Residual, ...]

    @property
    def nbytes(self) -> int:
        """Total size in bytes of residuals that are neither packed nor per step."""
        return sum(r.nbytes for r in self.kept if not r.each and not r.is_packed)

    @property
    def nbytes_each(self) -> int:
        """Size in bytes, per step, of unpacked residuals of loops whose length is known at run time
        only."""
        return sum(r.nbytes for r in self.kept if r.each and not r.is_packed)

    @property
    def nbytes_packed(self) -> int:
        """Size in bytes, before packing, of arrays that are kept packed or compressed in memory; of
        one step for those per step."""
        return sum(r.nbytes for r in self.kept if r.is_packed and not r.is_offloaded)

    @property
    def nbytes_offloaded(self) -> int:
        """Size in bytes, before packing, of arrays that are kept in files; of one step for those
        per step."""
        return sum(r.nbytes for r in self.kept if r.is_offloaded)

    def __iter__(self) -> Any:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return the rows of the table: titles, residuals, and the total."""
        counts = Counter(
            (r.aval, r.made, r.why, "" if r.source is None else _line(r.source)) for r in self.kept
        )
        rows = [("bytes", "value", "what it is", "kept for", "line")]
        for (aval, made, why, line), count in counts.items():  # a Python loop makes many equal rows
            rows.append(
                (
                    f"{count * aval.nbytes:,}",
                    f"{count} x {aval}" if count > 1 else str(aval),
                    made,
                    why,
                    line,
                )
            )
        each = f", and {self.nbytes_each:,} for each step of a loop" if self.nbytes_each else ""
        forms = [
            (
                "what pack makes of {:,}",
                [r for r in self.kept if r.is_packed and not (r.is_compressed or r.is_offloaded)],
            ),
            (
                "{:,} before compression",
                [r for r in self.kept if r.is_compressed and not r.is_offloaded],
            ),
            ("{:,} in files", [r for r in self.kept if r.is_offloaded]),
        ]
        others = "".join(
            [f", and {form.format(sum(r.nbytes for r in of))}" for form, of in forms if of]
        )
        rows.append(
            (f"{self.nbytes:,}", f"kept for the derivative of {self.of}{each}{others}", "", "", "")
        )
        return rows

    def _repr_html_(self) -> str:
        """Return the table as HTML for notebooks."""
        from functrace.ir.pictures import table

        titles, *rows = self._rows()
        return table(list(titles), rows, right=(0,))

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[k]) for row in rows[:-1]) for k in range(4)]
        widths[0] = max(widths[0], len(rows[-1][0]))
        lines: list[str] = []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[1:4], widths[1:], strict=True)]
            lines.append("  ".join([row[0].rjust(widths[0]), *cells, row[4]]).rstrip())
        return "\n".join(lines)


def _line(source: Source) -> str:
    return f"{source.short}  {source.expression}".rstrip()


@entry
def saved_residuals(f: Callable[P, Any]) -> Callable[P, Residuals]:
    """Make a function that lists the residuals of ``f``'s reverse-mode derivative.

    Nothing is computed. Residuals of loops are listed as their stacks; residuals of a `while_loop`,
    whose length is unknown, as those of one step. The size of a packed or compressed array is known
    at run time only: ``nbytes`` leaves such arrays out, ``nbytes_packed`` is their size before
    packing, and ``nbytes_offloaded`` that of arrays in files (`functrace.policies.offload`). A
    policy of `functrace.residual_policy` that is in force counts.

    Args:
        f: a function of arrays (pytrees of them).

    Returns:
        a function of ``f``'s arguments that returns `functrace.stages.Residuals`: an iterable of
        rows with ``nbytes``, ``aval``, ``made``, ``why``, ``source``, ``is_packed`` and
        ``storage``. Its ``nbytes`` is the total in bytes, and it prints as a table.

    Example:
        >>> import numpy as np, functrace as ft
        >>> kept = ft.saved_residuals(lambda x: np.sum(np.sin(x)))(np.ones(1000))
        >>> kept.nbytes
        8000
    """
    name = function_name(f)

    @transformed("saved_residuals", f)
    def listed(*args: object, **kwargs: object) -> Residuals:
        args, kwargs = map_leaves(
            lambda leaf: np.float64(leaf) if type(leaf) is float else leaf, (args, kwargs)
        )
        operands = Operands(args, kwargs)
        owner = f"saved_residuals of {name}"
        names = input_names(f, args, kwargs)
        program = stage(
            f, operands, owner, name, scope=OPEN, input_names=[names[k] for k in operands.places]
        ).program
        active = [is_differentiable(aval) for aval in operands.avals]
        policy = policy_in_force()
        forward, linear = linearize_program(
            program if policy is None else with_policy(program, policy, active),
            active + [False] * (len(program.input_ids) - len(active)),
        )
        return residuals_of(program, forward, linear, name)

    return listed


def residuals_of(program: Program, forward: Program, linear: Program, name: str) -> Residuals:
    """List the residuals that `linearize_program` passes from ``forward`` to ``linear``."""
    count = len(program.output_ids)
    forward, linear = inline_calls(forward), inline_calls(linear)
    operations = _operations(program)
    avals = {i: forward.avals[i] for i in forward.output_ids}
    described = _ForwardProgram(forward, count, forward.input_names, "captured array")
    kept: dict[int, Residual] = {}
    values = NamedValues(forward).values  # a value and its names are one array
    for outer, inner in zip(forward.output_ids[count:], linear.input_ids, strict=False):
        why = _reader(linear, inner, operations)
        if why is not None:
            made = described.made(outer)
            kept.setdefault(values[outer], made.residual(avals[outer], why))
    return Residuals(name, (*kept.values(), *_of_each_step(linear, operations)))


def _of_each_step(linear: Program, operations: dict[Any, set[str]]) -> Iterator[Residual]:
    """Yield the residuals that loops of unknown length keep per step."""
    for k, _ in linear.schedule:
        primitive, _, params = linear.ops[k]
        keeps = None if primitive.holds is None else primitive.holds.keeps
        for held, place, kinds, readers in () if keeps is None else keeps(*params):
            made = _made_in(held, place, kinds)
            for program, at in readers:
                inner = inline_calls(program)
                why = _reader(inner, inner.input_ids[at], operations)
                if why is not None:
                    aval = held.avals[held.output_ids[place]]
                    made = made._replace(text=f"{made.text} of each step")
                    yield made.residual(aval, why, each=True)
                    break


class _ResidualOrigin(NamedTuple):
    """Origin of a residual: a description, the line, and the form in which it is kept."""

    text: str
    source: Source | None
    storage: str = ""
    is_offloaded: bool = False

    def residual(
        self, aval: ShapeDtype, why: tuple[str, Source | None], *, each: bool = False
    ) -> Residual:
        """Return the row of the listing."""
        return Residual(
            aval, self.text, why[0], self.source or why[1], each, bool(self.storage), self.storage,
            self.is_offloaded,
        )  # fmt: skip


def _made_in(held: Program, place: int, kinds: Sequence[str]) -> _ResidualOrigin:
    """Describe the origin of an output of an operation's body."""
    body = inline_calls(held)
    part = _ForwardProgram(body, len(body.output_ids), kinds, "")
    made = part.made(body.output_ids[place])
    return made._replace(text=made.text.removeprefix("argument "))


class _ForwardProgram:
    """A forward program, whose residuals are described.

    Args:
        program: without calls.
        count: number of outputs that are not residuals.
        names: of its inputs.
        others: description of unnamed inputs.
    """

    def __init__(
        self, program: Program, count: int, names: Sequence[str | None], others: str
    ) -> None:
        self.program = program
        self.names: dict[int, str | None] = dict(zip(program.input_ids, names, strict=False))
        self.others = others
        self.labels: dict[int, str] = {
            operands[0]: params[0]
            for primitive, operands, params in program.ops
            if primitive is name_p
            and params != RECOMPUTE
            and not params[0].startswith(BUDGET_PREFIX)
        }
        self.needed = set(program.output_ids[:count])
        for k in range(len(program.ops) - 1, -1, -1):
            if k in self.needed:
                self.needed.update(program.ops[k][1])

    def made(self, variable: int) -> _ResidualOrigin:
        """Describe the origin of a variable."""
        program, first = self.program, variable
        while program.ops[first][0] is RESULT:
            first -= 1
        primitive, operands, params = program.ops[first]
        source = program.source(first)
        if primitive is pack_p:
            made = self.made(operands[0])
            storage: Storage = params[0]
            if made.storage:  # an array that an inner call has packed stays packed
                return made
            return _ResidualOrigin(
                f"{made.text}, {storage.label}",
                made.source or source,
                storage.label,
                storage.in_files,
            )
        if primitive is INPUT:
            name = self.names.get(first)
            return _ResidualOrigin(self.others if name is None else f"argument {name}", source)
        if primitive is CONSTANT:
            return _ResidualOrigin("constant", source)
        if primitive is name_p and params == RECOMPUTE:  # the mark of an inlined call
            return self.made(operands[0])
        if primitive is name_p and not params[0].startswith(BUDGET_PREFIX):
            return _ResidualOrigin(f"named {params[0]!r}", source)
        if variable in self.labels:
            return _ResidualOrigin(f"named {self.labels[variable]!r}", source)
        if primitive is name_p:
            return self.made(operands[0])
        if primitive.holds is not None and primitive.holds.gives is not None:
            given = primitive.holds.gives(variable - first, *params)
            if given is not None:
                held, place, kinds, runs = given
                made = _made_in(held, place, kinds)
                return made._replace(text=f"{made.text} of {runs}", source=made.source or source)
        only = "" if variable in self.needed else ", for the derivative only"
        if (
            primitive is cond_p and not params[1]
        ):  # a batched choice unpacks the residuals of its branches
            branches: tuple[Program, ...] = params[0]
            names = ["argument"] * len(operands)
            made = [_made_in(branch, variable - first, names) for branch in branches]
            stored = next((origin for origin in made if origin.storage), None)
            if stored is not None:
                return stored._replace(
                    text=f"result of {primitive.name}{only}, {stored.storage} where a branch does",
                    source=source,
                )
        return _ResidualOrigin(f"result of {primitive.name}{only}", source)


def _operations(program: Program) -> dict[Any, set[str]]:
    """Map positions to the user's operations, including those of sub-programs."""
    found: dict[Any, set[str]] = {}
    program = inline_calls(program)
    for k, (primitive, _, params) in enumerate(program.ops):
        position = program.position(k)
        if position is not None and primitive not in (INPUT, CONSTANT, RESULT, name_p):
            found.setdefault(plain_position(position), set()).add(primitive.name)
        for held in (
            p
            for param in params
            for p in (cast("tuple[Any, ...]", param) if isinstance(param, tuple) else (param,))
        ):
            if isinstance(held, Program):
                for key, names in _operations(held).items():
                    found.setdefault(key, set()).update(names)
    return found


def _reader(
    linear: Program, variable: int, operations: dict[Any, set[str]]
) -> tuple[str, Source | None] | None:
    """Return the operation whose derivative reads a residual, and its line; ``None`` if there is
    none."""
    reader = next((k for k, _ in linear.schedule if variable in linear.ops[k][1]), None)
    if reader is None:
        return None
    primitive, operands, params = linear.ops[reader]
    if primitive is unpack_p:
        return _reader(linear, reader, operations) or ("", None)
    holds = primitive.holds
    fed = holds.feeds(operands.index(variable), *params) if holds and holds.feeds else ()
    for program, place in fed:
        inner = inline_calls(program)
        found = _reader(inner, inner.input_ids[place], operations)
        if found is not None:
            return found
    if fed:
        return None
    position = linear.position(reader)
    names = set[str]() if position is None else operations.get(plain_position(position), set())
    return f"derivative of {next(iter(names))}" if len(names) == 1 else "derivative", linear.source(
        reader
    )
