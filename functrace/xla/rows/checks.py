"""Lowerings of `functrace.ops.checks`, `functrace.ops.solutions`, `functrace.ops.naming` and
`functrace.ops.derivative_links`.

Layer: 7.
"""

from __future__ import annotations

import builtins
from typing import Any

from jax import lax

from functrace.errors import NotDifferentiableError
from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register


@register(PRIMITIVES["require"])
def _require(op: Operation, x: Value, holds: Value, kind: str, message: str) -> Any:
    op.require(holds, getattr(builtins, kind), message)
    return x


@register(PRIMITIVES["required"])
def _required(op: Operation, x: Value, ok: Value, message: str, fix: str) -> Any:
    op.require(ok, NotDifferentiableError, message, fix)
    return x


@register(PRIMITIVES["refused"])
def _refused(op: Operation, *rest: Value) -> Any:
    *_, message, fix, _results = rest
    raise NotDifferentiableError(message, fix=fix)


register(PRIMITIVES["undifferentiated"], PRIMITIVES["reverse_only"], PRIMITIVES["name"])(
    lambda op, x, *_: x
)
register(PRIMITIVES["returned"], PRIMITIVES["with_derivative"])(lambda op, x, *_: x)
register(PRIMITIVES["derivative_only"])(lambda op, x: lax.full_like(x, 0))
