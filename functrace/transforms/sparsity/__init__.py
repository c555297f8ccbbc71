"""Sparsity patterns of derivatives, colourings, and derivatives from few sweeps.

Two columns of a Jacobian without a common row can be computed by one tangent: the sum of both unit
vectors. Such columns are put into one group ("colour"); a banded matrix of any size has as many
groups as bands. Likewise, two rows without a common column can be computed by one cotangent, and a
symmetric matrix needs fewer groups, since every element occurs twice. The pattern depends on the
program alone, so it is valid for all values.

    patterns.py     which elements of the outputs depend on which elements of the inputs
    incidence.py    the same for one linear operation
    colouring.py    groups of columns, of rows, of both
    compressed.py   programs that run one sweep per group

Source: A. H. Gebremedhin, F. Manne, A. Pothen, What color is your Jacobian? Graph coloring for
computing derivatives (2005).

Layer: 4.
"""

from functrace.transforms.sparsity.colouring import (
    Colouring,
    coloured,
    independent_groups,
    symmetric_colouring,
)
from functrace.transforms.sparsity.compressed import compressed_jacobian, compressed_pullback
from functrace.transforms.sparsity.patterns import Pattern, dependence

__all__ = [
    "Colouring", "Pattern", "coloured", "compressed_jacobian", "compressed_pullback", "dependence",
    "independent_groups", "symmetric_colouring",
]  # fmt: skip
