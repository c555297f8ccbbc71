"""``config.check_nans``: raise where a call makes the first NaN.

While it is on in some thread, runs of programs find `CHECKED` among their settings
(`functrace.executor.config.DISPATCH`). They then search their results for NaN, and if there is one,
evaluate the program again, operation by operation, to find the operation that made it. Jitted
functions do likewise (`functrace.api.staging.jitted`).

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from functrace.errors import NanError
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.diagnostics.report import NanReport


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
