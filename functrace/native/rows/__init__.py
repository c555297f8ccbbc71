"""Lowerings of primitives: one row each, by subject.

Layer: 7.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import final

from functrace.ir.primitive import Primitive
from functrace.native.lowering import COMPLEX, FUSED, Row, RowTable
from functrace.native.rows import (
    arithmetic,
    contraction,
    control,
    elementwise,
    exact,
    factorizations,
    identities,
    layout,
    orthogonal,
    reductions,
    sorting,
    special,
    statistics,
)

FUSED.update((*elementwise.ROWS, *arithmetic.ROWS, *reductions.FUSED, *layout.FUSED))
COMPLEX.update(
    (
        *elementwise.COMPLEX,
        *layout.ROWS,
        *identities.ROWS,
        *control.ROWS,
        *reductions.COMPLEX,
        *contraction.COMPLEX,
        *factorizations.ROWS,
    )
)

_TABLE: Mapping[Primitive, Row] = {
    **elementwise.ROWS,
    **arithmetic.ROWS,
    **layout.ROWS,
    **identities.ROWS,
    **reductions.ROWS,
    **statistics.ROWS,
    **sorting.ROWS,
    **contraction.ROWS,
    **factorizations.ROWS,
    **orthogonal.ROWS,
    **control.ROWS,
}


@final
class _Rows(RowTable):
    """The rows; those of SciPy's functions are there once a program can have them."""

    is_exact = False

    def __getitem__(self, primitive: Primitive) -> Row:
        found = _TABLE.get(primitive)
        if found is None and "functrace.ops.special.logarithms" in sys.modules:
            found = special.special_rows().get(primitive)
        if found is None:
            raise KeyError(primitive)
        return found

    def __iter__(self) -> Iterator[Primitive]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)


@final
class _ExactRows(RowTable):
    """The rows of `functrace.native.rows.exact`."""

    is_exact = True

    def __init__(self) -> None:
        self._rows = exact.exact_rows()

    def __getitem__(self, primitive: Primitive) -> Row:
        return self._rows[primitive]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


ROWS: RowTable = _Rows()
"""Lowering by primitive."""
EXACT_ROWS: RowTable = _ExactRows()
"""Likewise; results equal NumPy's to the bit."""
