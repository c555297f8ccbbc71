"""``scipy.linalg`` for traced values: solving, factorizations, functions of matrices, matrix
equations, special matrices.

Matrices are in the last two axes, and axes before them are a stack, as in SciPy 1.16 and later.
``overwrite_a`` and similar arguments are accepted and ignored; ``check_finite`` has no effect on
traced values, whose elements may be abstract. Other names are SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import linalg
    >>> a = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> np.round(ft.grad(lambda t: linalg.expm(t * a)[0, 1])(0.0), 12)
    np.float64(1.0)

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import scipy.linalg

from functrace.scipy.linalg.banded import (
    cho_solve_banded,
    cholesky_banded,
    eig_banded,
    eigh_tridiagonal,
    eigvals_banded,
    eigvalsh_tridiagonal,
    solve_banded,
    solveh_banded,
)
from functrace.scipy.linalg.dense import (
    cho_factor,
    cho_solve,
    cholesky,
    coshm,
    cosm,
    det,
    eigh,
    expm,
    inv,
    logm,
    lu,
    lu_factor,
    lu_solve,
    sinhm,
    sinm,
    solve,
    solve_triangular,
    sqrtm,
    svd,
    tanhm,
    tanm,
)
from functrace.scipy.linalg.equations import (
    solve_continuous_are,
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from functrace.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    fiedler,
    hankel,
    khatri_rao,
    leslie,
    matmul_toeplitz,
    solve_circulant,
    solve_toeplitz,
    toeplitz,
)
from functrace.scipy.linalg.spectral import (
    eig,
    eigvals,
    eigvalsh,
    expm_frechet,
    funm,
    hessenberg,
    ldl,
    lstsq,
    norm,
    null_space,
    orth,
    orthogonal_procrustes,
    pinv,
    pinvh,
    polar,
    qr,
    schur,
    svdvals,
)

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cho_solve_banded", "cholesky", "cholesky_banded",
    "circulant", "companion",
    "convolution_matrix", "coshm", "cosm", "det", "eig", "eig_banded", "eigh", "eigh_tridiagonal",
    "eigvals",
    "eigvals_banded", "eigvalsh", "eigvalsh_tridiagonal", "expm", "expm_frechet", "fiedler",
    "funm", "hankel", "hessenberg",
    "inv", "khatri_rao", "ldl", "leslie", "logm", "lstsq", "lu", "lu_factor", "lu_solve",
    "matmul_toeplitz", "norm",
    "null_space", "orth", "orthogonal_procrustes", "pinv", "pinvh", "polar", "qr", "schur",
    "sinhm", "sinm", "solve",
    "solve_banded", "solve_circulant", "solve_continuous_are", "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_sylvester",
    "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.linalg, name)
