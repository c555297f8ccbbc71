"""``config.check_nans``: raise where a call makes the first NaN.

While it is on, `Runner` has another ``__call__``: it searches the results of every program for NaN,
and if there is one, evaluates the program again, operation by operation, to find the operation that
made it. While it is off, nothing is replaced, so it has no cost. Jitted functions do likewise
(`functrace.api.staging.jitted`).

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from functrace.errors import NanError
from functrace.executor.config import NAN_CHECKS, NAN_SWITCHES
from functrace.executor.runner import Runner
from functrace.ir.program import Position
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.diagnostics.report import NanReport

_run = Runner.__call__


def are_nans_checked() -> bool:
    """Return True if calls are checked."""
    return NAN_CHECKS[0]


def _switch(is_on: bool) -> None:
    Runner.__call__ = _checked if is_on else _run  # type: ignore[method-assign]


NAN_SWITCHES.append(_switch)


def _checked(
    self: Runner, arguments: Sequence[Any], lines: Sequence[Position] = ()
) -> Sequence[Any]:
    """Run a program, and check its results."""
    results = _run(self, arguments, lines)
    if has_nan(results) and not any(isinstance(value, Tracer) for value in arguments):
        from functrace.diagnostics.report import explain_program

        raise nan_error(
            explain_program(self.program, arguments, lines), self.program.name.rpartition(" of ")[2]
        )
    return results


def has_nan(results: Iterable[Any]) -> bool:
    """Return True if an array or a number is NaN, or has an element that is."""
    from functrace.diagnostics.origins import mask_of

    return any(not isinstance(x, Tracer) and mask_of(x, "nan") is not None for x in results)


def nan_error(report: NanReport, name: str) -> NanError:
    """Return the error for a call whose results have NaN.

    Args:
        report: the search for its origin.
        name: of the function.
    """
    nan = report.nan
    if nan is None:
        what = report.given or (
            "the reference evaluator computes no nan from these arguments: the backend does"
        )
        return NanError(
            f"the result of {name} has nan: {what}",
            fix="functrace.config.check_nans = False lets nan pass",
            report=report,
        )
    place = f" at {list(nan.index)}" if nan.index else ""
    steps = "".join(f", in {step}" for step in nan.steps)
    reason = ""
    if report.first is not None and report.first is not nan:
        derivative = report.first.derivative
        source = f" ({report.first.source.short})" if report.first.source is not None else ""
        reason = f"; {derivative or f'{report.first.primitive} made inf before'}{source}"
    elif nan.derivative:
        reason = f"; {nan.derivative}"
    return NanError(
        f"{nan.primitive} makes the first nan of {name}{place}{steps}{reason}",
        at=nan.source,
        equation=nan.operation,
        fix=report.remedy or "functrace.debug.explain_nan(f)(...) shows the operands",
        report=report,
    )
