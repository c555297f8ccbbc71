"""Which of two functions runs: SciPy's own on plain values, ours on traced ones.

Floor: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from functrace.numpy.operands import Operand, holds_tracer

F = TypeVar("F", bound=Callable[..., Any])


def on_traced(function: Callable[..., Any]) -> Callable[[F], F]:
    """Make a function what SciPy's function of the same signature is on traced values; on plain ones SciPy's runs.

    Args:
        function: SciPy's.
    """

    def wrap(does: F) -> F:
        @functools.wraps(does)
        def call(*args: Operand, **kwargs: Operand) -> Any:
            if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
                return does(*args, **kwargs)
            return function(*args, **kwargs)

        call.of_scipy = function  # type: ignore[attr-defined]  # which `functrace.numpy.lift` hands it out for
        return call  # type: ignore[return-value]

    return wrap
