"""``scipy.sparse`` for traced values: products with matrices whose elements are plain or traced,
and systems of equations.

For plain arguments the classes here are SciPy's own, and also take traced operands: ``A @ x``,
``x @ A``, ``A * x``. For traced elements, ``csr_array((data, indices, indptr))`` and similar
constructors return a `Sparse`, with a plain pattern and differentiable elements. Other names are
SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import sparse
    >>> a = sparse.csr_array(np.array([[2.0, 0.0], [1.0, 3.0]]))
    >>> ft.grad(lambda x: np.sum((a @ x) ** 2))(np.array([1.0, 1.0]))
    array([16., 24.])

Layer: 9.
"""

# pyright: reportUnusedImport=false
# (what is imported here is exported; `__getattr__` adds SciPy's other names)
from __future__ import annotations

from typing import Any

import scipy.sparse

from functrace.scipy.sparse import linalg  # noqa: F401
from functrace.scipy.sparse.building import block_diag, hstack, kron, vstack  # noqa: F401
from functrace.scipy.sparse.matrices import (  # noqa: F401
    Sparse,
    bsr_array,
    bsr_matrix,
    coo_array,
    coo_matrix,
    csc_array,
    csc_matrix,
    csr_array,
    csr_matrix,
    dia_array,
    dia_matrix,
)
from functrace.scipy.sparse.nodes import SparseElements  # noqa: F401


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.sparse, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.sparse)})
