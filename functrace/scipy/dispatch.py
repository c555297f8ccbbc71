"""Dispatch between SciPy's own functions, for plain values, and ours, for traced ones.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.protocol.operands import Operand, holds_tracer

F = TypeVar("F", bound=Callable[..., Any])


def on_traced(function: Callable[..., Any]) -> Callable[[F], F]:
    """Make a function the traced version of SciPy's function; on plain values SciPy's runs.

    Args:
        function: SciPy's function.
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


def scipys(module: ModuleType, name: str) -> Any:
    """Return SciPy's attribute that is missing here; a function rejects traced values.

    For packages whose functions call the user's: SciPy's own error would be raised far from the
    call.

    Raises:
        AttributeError: if SciPy does not have it either.
    """
    found = getattr(module, name)
    if not isinstance(found, FunctionType):
        return found

    @functools.wraps(found)
    def plain_only(*args: Operand, **kwargs: Operand) -> Any:
        if any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values())):
            raise UnsupportedFunctionError(
                f"{module.__name__}.{name} does not take traced values here",
                fix="take one that docs/scipy_coverage.md lists; or call it through "
                "functrace.primitive, with a derivative",
            )
        return found(*args, **kwargs)

    return plain_only
