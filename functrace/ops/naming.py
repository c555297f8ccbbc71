"""Names for values, for residual policies.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

from functrace.ir.primitive import LINEAR, Primitive
from functrace.ops import counts
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value

name_p = Primitive(
    "name",
    eval=lambda x, name: x,
    aval=lambda x, name: x,
    jvp=LINEAR,
    transpose=lambda ct, x, name: (ct,),
    batch=lambda operands, is_batched, name: bind(name_p, operands, (name,)),
    params=("name",),
    view=True,
    flops=counts.moved,
    written="{0}",
)
"""``name x {name="h"}``: the identity, which names a value."""

BUDGET_PREFIX = "budget:"
"""Beginning of the names that `functrace.policies.budget` gives to values that it keeps."""


def named(x: Value, name: str) -> Any:
    """Return ``x``, named."""
    return bind(name_p, (x,), (name,))
