"""Cost of a program: floating-point operations and bytes, per equation and in total.

Conventions. One flop per element and elementwise operation, whatever the function (``add`` and
``exp`` alike: on CPUs both are mostly bound by memory, and a count must not depend on a library's
polynomial). A multiplication with addition is 2. A complex operation counts as one. Reductions
count their input; moving data costs no flops. Dense linear algebra counts its leading term (Golub
and Van Loan, Matrix Computations, 4th ed.). Bytes are those of operands and results: the traffic
between memory and processor without caches. Views count as well.

An equation with sub-programs costs what they cost: a loop its body times its length, a branch its
most expensive case (all cases on every example if the examples differ), a function with a custom
derivative just the function.

Layer: 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Equation, Literal, Program
from functrace.ir.text import equation_text
from functrace.source import Source

Avals = tuple[ShapeDtype, ...]


@final
@dataclass(frozen=True, slots=True)
class EquationCost:
    """Cost of one equation.

    Args:
        text: the equation as listings show it.
        flops: floating-point operations.
        bytes: bytes of its operands and results.
        source: the user's line, if known.
        held: the sub-programs that are counted, each with its number of runs.
    """

    text: str
    flops: int
    bytes: int
    source: Source | None
    held: tuple[tuple[int, Cost], ...] = ()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """Cost of a program, including equations that no output depends on.

    Args:
        flops: floating-point operations.
        bytes: bytes of operands and results of all equations.
        equations: the same per equation, in order.
    """

    flops: int
    bytes: int
    equations: tuple[EquationCost, ...]

    @property
    def intensity(self) -> float:
        """Flops per byte; 0 for a program that moves nothing."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __repr__(self) -> str:
        return f"<Cost: {shown(self.flops)}flop, {shown(self.bytes)}B, {len(self.equations)} equations>"

    def __str__(self) -> str:
        lines = [f"{shown(self.flops)}flop, {shown(self.bytes)}B, {len(self.equations)} equations"]
        rows = list(self._rows(""))
        widths = [max((len(row[k]) for row in rows), default=0) for k in (0, 1)]
        lines += [
            f"  {flops:>{widths[0]}}  {size:>{widths[1]}}  {text}" for flops, size, text in rows
        ]
        return "\n".join(lines)

    def _rows(self, indentation: str) -> Iterator[tuple[str, str, str]]:
        """Yield flops, bytes and text of each equation; indent those of its sub-programs."""
        for e in self.equations:
            where = "" if e.source is None else f"  # {e.source.short}"
            first, *rest = e.text.splitlines()
            yield (
                f"{shown(e.flops)}flop",
                f"{shown(e.bytes)}B",
                f"{indentation}{first}{' …' if rest else ''}{where}",
            )
            for times, cost in e.held:
                if times != 1:
                    yield (
                        f"{shown(cost.flops)}flop",
                        f"{shown(cost.bytes)}B",
                        f"{indentation}  {times} times:",
                    )
                yield from cost._rows(f"{indentation}    ")


def program_cost(program: Program) -> Cost:
    """Count flops and bytes of a program.

    Returns:
        the totals and the cost of every equation.
    """
    equations = tuple(map(_equation_cost, program.equations))
    return Cost(sum(e.flops for e in equations), sum(e.bytes for e in equations), equations)


def _equation_cost(equation: Equation) -> EquationCost:
    inputs = tuple(
        x.aval if not isinstance(x, Literal) else ShapeDtype((), type(x.value))
        for x in equation.inputs
    )
    read = sum(x.aval.nbytes for x in equation.inputs if not isinstance(x, Literal))
    outputs = tuple(out.aval for out in equation.outputs)
    held = _held(equation.primitive, inputs, equation.params.values())
    if held:
        flops = sum(times * cost.flops for times, cost in held)
        moved = sum(times * cost.bytes for times, cost in held)
    else:
        count = equation.primitive.flops or _per_output
        flops, moved = count(inputs, outputs, equation.params), 0
    size = read + sum(out.nbytes for out in outputs) + moved
    return EquationCost(equation_text(equation), int(flops), size, equation.source, held)


def program_flops(program: Program) -> int:
    """Count the flops of a program's live operations, as `program_cost` does, without a listing."""
    return sum([operation_flops(program, k) for k, _ in program.schedule])


def operation_flops(program: Program, k: int) -> int:
    """Count the flops of one operation, with its sub-programs.

    Args:
        program: the program.
        k: the variable of the operation's first result.
    """
    primitive, operands, params = program.ops[k]
    avals, literals = program.avals, program.literals
    inputs = tuple([avals[i] if i >= 0 else ShapeDtype((), type(literals[~i])) for i in operands])
    if primitive.holds is not None:
        return max(
            [
                sum([times * program_flops(held) for times, held in way])
                for way in primitive.holds.runs(inputs, *params)
            ],
            default=0,
        )
    count = program.result_count(k) if primitive.many else 1
    named = dict(zip(primitive.params, params, strict=True))
    return int((primitive.flops or _per_output)(inputs, tuple(avals[k : k + count]), named))


def _held(
    primitive: Primitive, inputs: Avals, params: Iterable[Any]
) -> tuple[tuple[int, Cost], ...]:
    """Return the sub-programs' costs with their numbers of runs; of alternatives, the largest."""
    holds = primitive.holds
    if holds is None:
        return ()
    ways = [
        tuple([(times, program_cost(program)) for times, program in way])
        for way in holds.runs(inputs, *params)
    ]
    return max(
        ways, key=lambda way: (sum(n * c.flops for n, c in way), sum(n * c.bytes for n, c in way))
    )


def shown(n: float) -> str:
    """Return a number with three digits and an SI prefix: ``1.2 M``, ``48 µ``; a count as it is."""
    if 0 < n < 1:
        for prefix in ("m", "µ"):
            n *= 1000
            if n >= 1:
                return f"{n:.3g} {prefix}"
        return f"{n * 1000:.3g} n"
    for prefix in ("", "k", "M", "G", "T"):
        if n < 1000:
            return f"{n:.3g} {prefix}"
        n /= 1000
    return f"{n:.3g} P"


def _per_output(_inputs: Avals, outputs: Avals, _params: object) -> int:
    return max((out.size for out in outputs), default=0)
