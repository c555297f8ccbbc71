"""Runtime checks in a program: conditions on values that NumPy tests before it computes.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Primitive, Values, absent, always
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Kind = Literal["IndexError", "OverflowError", "TypeError", "ValueError", "ZeroDivisionError"]
_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError)
}


def _require_eval(x: Array | None, holds: Array, kind: str, message: str) -> Any:
    if holds is not np.True_ and not np.all(holds):  # for one bool, `all` takes 3 us
        raise _ERRORS[kind](message)
    return x


def _require_aval(x: ShapeDtype, holds: Array, kind: str, message: str) -> ShapeDtype:
    if kind not in Kind.__args__:  # type: ignore[attr-defined]
        raise ProgramError(
            f"require raises {kind!r}", fix=f"name one of {', '.join(Kind.__args__)}"
        )  # type: ignore[attr-defined]
    return x


def _require_check(
    value: Callable[[int], Any], x: ShapeDtype, _holds: Array, kind: str, message: str
) -> None:
    holds = value(1)
    if holds is not None:
        _require_eval(None, holds, kind, message)


def _require_batch(operands: Values, is_batched: Flags, kind: str, message: str) -> Any:
    x, holds = operands
    if not is_batched[0]:
        x = broadcast_to(x, (shape_of(holds)[0], *shape_of(x)))
    return bind(require_p, (x, holds), (kind, message))


require_p = Primitive(
    "require",
    eval=_require_eval,
    aval=_require_aval,
    jvp=lambda _primals, _outputs, tangents, kind, message: tangents[0],
    transpose=absent(
        because="require is carried out beside the derivative", instead="this is a bug in functrace"
    ),
    batch=_require_batch,
    params=("kind", "message"),
    view=True,
    fails=always,
    check=_require_check,
)
"""``require x holds {kind="ValueError", message="…"}``: the identity, which raises unless all of
``holds`` is true."""


def require(x: Value, holds: Array, kind: Kind, message: str) -> Any:
    """Return ``x``; raise an exception of a kind if not all of ``holds`` is true.

    Args:
        x: the value that depends on the condition.
        holds: an array of bools.
        kind: name of the builtin exception.
        message: NumPy's own.
    """
    return bind(require_p, (x, holds), (kind, message))
