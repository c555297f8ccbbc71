"""Lowerings of primitives: one row each, by subject.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Mapping

from functrace.ir.primitive import Primitive
from functrace.native.lowering import Row
from functrace.native.rows import contraction, control, elementwise, layout, reductions

FUSED: frozenset[Primitive] = frozenset((*elementwise.ROWS, *reductions.FUSED))
"""Primitives that read their operands element by element, so that they can be deferred."""

ROWS: Mapping[Primitive, Row] = {
    **elementwise.ROWS,
    **layout.ROWS,
    **reductions.ROWS,
    **contraction.ROWS,
    **control.ROWS,
}
"""Lowering by primitive."""
