"""The rows of linear algebra: ``torch.linalg``, and the older functions of ``torch``.

Factorizations and their derivatives are those of `functrace.ops`: NumPy's LAPACK. LU and LDL
factors, and the matrix exponential, are SciPy's, which is imported when they are called.

Layer: 9.
"""

from functrace.torch.functions.linear_algebra import contractions as _contractions
from functrace.torch.functions.linear_algebra.checks import ROWS
from functrace.torch.functions.linear_algebra.factors import linalg_qr
from functrace.torch.functions.linear_algebra.norms import matrix_norm
from functrace.torch.functions.linear_algebra.powers import adjoint
from functrace.torch.functions.linear_algebra.spectra import linalg_svd

__all__ = ["ROWS", "adjoint", "linalg_qr", "linalg_svd", "matrix_norm"]

del _contractions  # (imported for its rows)
