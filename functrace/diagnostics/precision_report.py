"""`PrecisionReport`: digits lost by result, line and operation, as data and as text.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.diagnostics.digits import digits_lost, digits_of
from functrace.diagnostics.frames import Frame, Step
from functrace.diagnostics.precision import (
    Comparison,
    Measurement,
    compare,
    is_compared,
)
from functrace.diagnostics.reasons import number
from functrace.diagnostics.report import one_line
from functrace.ir.pictures import table
from functrace.ir.program import Position, Program
from functrace.ir.text import equation_text
from functrace.ops import elementwise as ew
from functrace.ops.reductions import reduce_sum_p
from functrace.passes.stable_forms import StableForm
from functrace.source import Source
from functrace.typing import Array

SHOWN = 0.5
"""Operations that lose as many digits are shown."""
MOST_LINES = 8
"""Lines that a report shows."""


@final
@dataclass(frozen=True, slots=True)
class ResultPrecision:
    """Correct digits of one result.

    Args:
        number: position among the results.
        dtype: its dtype.
        digits: decimal digits of the dtype.
        lost: how many of them the worst element has lost.
        index: index of that element.
        value, reference: that element, as text.
        error: its relative error.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> (result,) = ft.debug.precision(np.sin)(np.float32(3.0)).results
        >>> result.dtype, round(result.lost)
        (dtype('float32'), 0)
    """

    number: int
    dtype: np.dtype[Any]
    digits: float
    lost: float
    index: tuple[int, ...]
    value: str
    reference: str
    error: float


@final
@dataclass(frozen=True, slots=True)
class OperationPrecision:
    """Digits that one operation loses, in the run and at the element where it loses most.

    Args:
        operation: the equation, as in listings.
        primitive: name of its primitive.
        source: the user's line; ``None`` if it is not known.
        lost: decimal digits that the element has lost in this operation.
        error: relative error of the element.
        before: largest relative error of the elements that it was made from.
        condition: condition number of the operation there: the largest factor by which it multiplies
            relative errors; NaN if it is not known.
        cause: ``"cancellation"``, ``"overflow"``, ``"underflow"``, or empty.
        index: index of the element.
        value, reference: the element, as text.
        steps: steps of loops, and branches, the outermost first.
        runs: how many times the operation ran.
        reaches_result: True if its errors reach a result.
        is_doubtful: True if the reference has too few digits there: all may be lost.
        stable: the stable form of the formula that it is part of; ``None`` if none is known.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> row = ft.debug.precision(lambda x: 1 - np.cos(x))(np.float32(1e-3)).operations[0]
        >>> row.primitive, row.cause, row.stable.stable
        ('sub', 'cancellation', '2 * np.sin(x / 2)**2')
    """

    operation: str
    primitive: str
    source: Source | None
    lost: float
    error: float
    before: float
    condition: float
    cause: str
    index: tuple[int, ...]
    value: str
    reference: str
    steps: tuple[Step, ...]
    runs: int
    reaches_result: bool
    is_doubtful: bool
    stable: StableForm | None

    def __str__(self) -> str:
        place = f" at {list(self.index)}" if self.index else ""
        doubt = ", of which the reference has too few digits" if self.is_doubtful else ""
        by = f" by {self.cause}" if self.cause else ""
        values = f"{self.value} instead of {self.reference}{doubt}"
        lines = [self.operation, f"  loses {self.lost:.1f} digits{by}{place}: {values}"]
        if not np.isnan(self.condition):
            lines.append(f"  condition number {number(self.condition)}")
        lines += [f"  in {step}" for step in self.steps]
        if not self.reaches_result:
            lines.append("  no result depends on the lost digits")
        if self.stable is not None:
            lines.append(f"  stable form of {self.stable.formula}: {self.stable.stable}")
        return "\n".join(lines)


@final
@dataclass(frozen=True, slots=True)
class LinePrecision:
    """Digits that the operations of one line lose.

    Args:
        source: the user's line; ``None`` if it is not known.
        lost: the most that one of its operations loses.
        error: largest relative error of its results.
        operations: its operations, those that lose most first.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> line = ft.debug.precision(lambda x: np.exp(x) - 1)(1e-9).lines[0]
        >>> round(line.lost), [row.primitive for row in line.operations]
        (9, ['sub', 'exp'])
    """

    source: Source | None
    lost: float
    error: float
    operations: tuple[OperationPrecision, ...]

    def __str__(self) -> str:
        lines = [f"{self.source if self.source is not None else 'a line that is not known'}"]
        lines += [
            f"  {text}"
            for row in self.operations
            if row.lost >= SHOWN
            for text in str(row).splitlines()
        ]
        return "\n".join(lines)


@final
@dataclass(frozen=True, slots=True)
class PrecisionReport:
    """Report of `functrace.debug.precision`; prints as text, and is true if digits are lost.

    Args:
        results: one per result with a floating or complex dtype.
        lines: the user's lines, those whose lost digits reach a result first, then by digits lost.
        operations: the operations in the same order.
        unmeasured: operations whose own rounding is not measured, since the reference does not have
            them; errors of their operands are followed by their derivatives.
        unfollowed: operations without a derivative, such as callbacks: what the errors of their
            operands do to their results is not known.
        reference: what the program was compared with.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     return np.log(1 + np.exp(x))
        >>> report = ft.debug.precision(f)(np.array([-30.0, 1.0]))
        >>> round(report.lost), report.results[0].index, report.operations[0].stable.stable
        (13, (0,), 'np.logaddexp(0, x)')
        >>> bool(ft.debug.precision(np.sin)(0.5))
        False
    """

    results: tuple[ResultPrecision, ...]
    lines: tuple[LinePrecision, ...]
    operations: tuple[OperationPrecision, ...]
    unmeasured: tuple[str, ...]
    unfollowed: tuple[str, ...]
    reference: str

    @property
    def lost(self) -> float:
        """Most decimal digits that a result has lost."""
        return max([x.lost for x in self.results], default=0.0)

    def __bool__(self) -> bool:
        if self.unfollowed:
            return True
        return any(row.lost >= SHOWN and row.reaches_result for row in self.operations) or (
            self.lost >= 1.0
        )

    def _repr_html_(self) -> str:
        """Return the operations that lose digits as a table for notebooks."""
        titles = [
            "digits lost",
            "line",
            "operation",
            "computed",
            "reference",
            "condition",
            "stable form",
        ]
        rows: list[tuple[Any, ...]] = [
            (
                f"{row.lost:.1f}",
                f"{row.source if row.source is not None else ''}",
                row.operation,
                row.value,
                row.reference,
                "" if np.isnan(row.condition) else number(row.condition),
                "" if row.stable is None else row.stable.stable,
            )
            for row in self.operations
            if row.lost >= SHOWN
        ]
        head = [
            f"result {x.number}: {x.digits - x.lost:.1f} of {x.digits:.1f} digits"
            for x in self.results
        ]
        found = "<br>".join([f"compared with {self.reference}", *head])
        return f"<p>{found}</p>{table(titles, rows, right=(0, 3, 4, 5))}"

    def __str__(self) -> str:
        found = [f"compared with {self.reference}"]
        for x in self.results:
            name = f"result {x.number}" if len(self.results) > 1 else "the result"
            place = f" at {list(x.index)}" if x.index else ""
            found.append(
                f"{name} ({x.dtype}) has {x.digits - x.lost:.1f} of {x.digits:.1f} digits{place}: "
                f"{x.value} instead of {x.reference}"
            )
        shown = [line for line in self.lines if line.lost >= SHOWN]
        found += ["digits are lost at"] if shown else ["no operation loses digits"]
        for line in shown[:MOST_LINES]:
            found += [f"  {text}" for text in str(line).splitlines()]
        if len(shown) > MOST_LINES:
            found.append(f"  and {len(shown) - MOST_LINES} more lines")
        if self.unmeasured:
            found.append(f"own rounding not measured: {', '.join(self.unmeasured)}")
        if self.unfollowed:
            found.append(f"lost digits are not followed through: {', '.join(self.unfollowed)}")
        if any(row.stable is not None and row.lost >= SHOWN for row in self.operations):
            found.append(
                "fix: write the stable form, or functrace.jit(f, passes=[functrace.passes.stable])"
            )
        return "\n".join(found)


def report_precision(
    program: Program,
    arguments: Sequence[Any],
    lines: Sequence[Position] = (),
    reference: str | None = None,
) -> PrecisionReport:
    """Evaluate a program, compared with a reference, and report the digits lost.

    Args:
        program: the program.
        arguments: plain values, one per input.
        lines: positions of the recording, for a cached program.
        reference: ``"float64"``, ``"longdouble"``, ``"mpmath"``, or ``None`` to choose.
    """
    compared = compare(program, arguments, lines, reference)
    assert compared.frame is not None
    values = [compared.frame.values[i] for i in program.output_ids]
    results = [_result(compared, n, x) for n, x in enumerate(values) if is_compared(x) and x.size]
    rows = [_row(compared, kept) for kept in compared.measured.values()]
    rows.sort(key=_order)
    by_line: dict[str, list[OperationPrecision]] = {}
    for row in rows:
        by_line.setdefault(str(row.source), []).append(row)
    made = [
        LinePrecision(
            group[0].source,
            max(row.lost for row in group),
            max(row.error for row in group),
            tuple(group),
        )
        for group in by_line.values()
    ]
    return PrecisionReport(
        tuple(results),
        tuple(made),
        tuple(rows),
        _named(compared.unmeasured),
        _named(compared.unfollowed),
        compared.reference.name,
    )


def _named(operations: Mapping[tuple[Program, int], Frame]) -> tuple[str, ...]:
    """Return operations with their lines, each once."""
    found = [f"{p.ops[k][0].name} at {frame.source(k)}" for (p, k), frame in operations.items()]
    return tuple(dict.fromkeys(found))


def _order(row: OperationPrecision) -> tuple[bool, float]:
    return not row.reaches_result or row.lost < SHOWN, -row.lost


def _result(compared: Comparison, number: int, x: Array) -> ResultPrecision:
    errors, dtype = np.asarray(x["error"]), x["value"].dtype
    index = np.unravel_index(int(np.argmax(errors)), errors.shape)
    digits, second = digits_of(dtype), compared.reference.second
    return ResultPrecision(
        number,
        dtype,
        digits,
        float(digits_lost(errors[index], dtype)),
        tuple([int(n) for n in index]),
        _text(np.asarray(x["value"])[index], digits),
        second.text(np.asarray(x["second"])[index], _places(digits)),
        float(errors[index]),
    )


def _row(compared: Comparison, kept: Measurement) -> OperationPrecision:
    program, k = kept.frame.program, kept.k
    equation = program.equation(k)
    digits = digits_of(np.asarray(kept.value).dtype)
    return OperationPrecision(
        one_line(equation_text(equation)),
        program.ops[k][0].name,
        kept.frame.source(k),
        kept.lost,
        kept.error,
        kept.before,
        kept.condition,
        _cause(kept),
        kept.index,
        _text(kept.value, digits),
        kept.reference,
        kept.frame.steps,
        kept.runs,
        compared.reaches_result(kept),
        kept.is_doubtful,
        compared.form(program, k) if kept.lost >= SHOWN else None,
    )


def _cause(kept: Measurement) -> str:
    """Return the cause of lost digits, in a word."""
    if kept.lost < SHOWN:
        return ""
    primitive, value = kept.frame.program.ops[kept.k][0], kept.value
    if np.isinf(value):
        return "overflow"
    if value == 0 and primitive in (ew.exp, ew.mul, ew.square, ew.div):
        return "underflow"
    sums = (ew.add, ew.sub, reduce_sum_p)
    return "cancellation" if primitive in sums and kept.condition > 2.0 else ""


def _places(digits: float) -> int:
    return 1 + int(digits)


def _text(value: Array, digits: float) -> str:
    return f"{np.asarray(value)[()]:.{_places(digits)}g}"
