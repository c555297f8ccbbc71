"""Lowerings of primitives: one row each, by subject.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Mapping

from functrace.ir.primitive import Primitive
from functrace.native.lowering import COMPLEX, FUSED, Row
from functrace.native.rows import (
    arithmetic,
    contraction,
    control,
    elementwise,
    factorizations,
    identities,
    layout,
    reductions,
    sorting,
    statistics,
)

FUSED.update((*elementwise.ROWS, *arithmetic.ROWS, *reductions.FUSED))
COMPLEX.update(
    (
        *elementwise.COMPLEX,
        *layout.ROWS,
        *identities.ROWS,
        *control.ROWS,
        *reductions.COMPLEX,
        *contraction.COMPLEX,
    )
)

ROWS: Mapping[Primitive, Row] = {
    **elementwise.ROWS,
    **arithmetic.ROWS,
    **layout.ROWS,
    **identities.ROWS,
    **reductions.ROWS,
    **statistics.ROWS,
    **sorting.ROWS,
    **contraction.ROWS,
    **factorizations.ROWS,
    **control.ROWS,
}
"""Lowering by primitive."""
