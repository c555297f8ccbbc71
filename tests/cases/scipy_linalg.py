"""Cases of functrace.scipy.linalg: banded matrices, special matrices, orthogonal factors,
eigenvalues.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.scipy import linalg
from tests.cases.case import Case
from tests.cases.scipy_functions import NEAR, A, B, M, P, Q, V, Z, _hermitian, draw

W, U = draw(4), draw(3)
AB = draw(4, 5) + np.array([0.0, 0.0, 6.0, 0.0])[:, None]  # one diagonal below, two above
AB[0, :2] = AB[1, 0] = AB[3, -1] = 0
HB = np.stack(
    [np.array([0.0, 0.0, 0.3, -0.4, 0.2]), np.array([0.0, 0.5, 0.1, 0.6, -0.2]), 4 + draw(5) ** 2]
)  # upper form
LB = np.stack([HB[2], np.append(HB[1, 1:], 0.0), np.append(HB[0, 2:], [0.0, 0.0])])
ZB = AB + 0.3j * draw(4, 5) * (AB != 0)
RIGHT = draw(5, 2)


def _signless(x: Any) -> Any:
    """Factors whose columns are LAPACK's up to sign: products of them."""
    q, r = x
    return np.abs(q), np.abs(r)


CASES: list[Case] = [
    Case("scipy/solve_banded", lambda ab, b: linalg.solve_banded((1, 2), ab, b), (AB, RIGHT),
    diff=(0, 1)),
    Case("scipy/solve_banded, vector", lambda ab, b: linalg.solve_banded((1, 2), ab, b), (AB,
    RIGHT[:, 0]), diff=(0, 1), raises=(((AB, RIGHT[:3]), ValueError),)),
    Case("scipy/solve_banded, complex", lambda ab, b: linalg.solve_banded((1, 2), ab, b), (ZB,
    RIGHT), diff=(0, 1)),
    Case("scipy/solve_banded, tridiagonal", lambda ab, b: linalg.solve_banded((1, 1), ab, b),
    (AB[1:], RIGHT), diff=(0, 1)),
    Case("scipy/solve_banded, diagonal", lambda ab, b: linalg.solve_banded((0, 0), ab, b),
    (AB[2:3], RIGHT), diff=(0, 1)),
    *[Case(f"scipy/{f.__name__}, {lower}", lambda ab, b, f=f, lower=lower: f(ab, b, lower=lower),
    (LB if lower else HB, RIGHT), diff=(0,
    1)) for f in (linalg.solveh_banded,) for lower in (False, True)],
    *[Case(f"scipy/cholesky_banded, {lower}", lambda ab, lower=lower: linalg.cholesky_banded(ab,
    lower=lower), (LB if lower else HB,)) for lower in (False, True)],
    *[Case(f"scipy/cho_solve_banded, {lower}", lambda ab, b,
    lower=lower: linalg.cho_solve_banded((linalg.cholesky_banded(ab, lower=lower), lower), b),
    (LB if lower else HB, RIGHT), diff=(0, 1)) for lower in (False, True)],
    Case("scipy/eigvals_banded", lambda ab: linalg.eigvals_banded(ab), (HB,)),
    Case("scipy/eig_banded", lambda ab: _signless(linalg.eig_banded(ab, lower=True)), (LB,)),
    Case("scipy/eigh_tridiagonal", lambda d, e: _signless(linalg.eigh_tridiagonal(d, e)), (W, U),
    diff=(0, 1)),
    Case("scipy/eigh_tridiagonal, some", lambda d, e: linalg.eigh_tridiagonal(d, e, True, "i", (1,
    2)), (W, U), diff=(0, 1)),
    Case("scipy/eigvalsh_tridiagonal", lambda d, e: linalg.eigvalsh_tridiagonal(d, e), (W, U),
    diff=(0, 1)),
    Case("scipy/circulant", lambda c: linalg.circulant(c), (W,)), Case("scipy/hankel",
    lambda c: linalg.hankel(c), (W,)),
    Case("scipy/hankel, row", lambda c, r: linalg.hankel(c, r), (W, V), diff=(0, 1)),
    Case("scipy/companion", lambda a: linalg.companion(a), (W + 3.0,)), Case("scipy/fiedler",
    lambda a: linalg.fiedler(a), (W,)),
    Case("scipy/leslie", lambda f, s: linalg.leslie(f, s), (W, U), diff=(0, 1)),
    *[Case(f"scipy/convolution_matrix, {mode}, {n}", lambda a, n=n,
    mode=mode: linalg.convolution_matrix(a, n, mode), (W,)) for mode in ("full", "valid",
    "same") for n in (3, 4, 6)],
    Case("scipy/khatri_rao", lambda a, b: linalg.khatri_rao(a, b), (A, M.T), diff=(0, 1)),
    Case("scipy/solve_toeplitz", lambda c, b: linalg.solve_toeplitz(c, b), (W + np.array([5.0, 0,
    0, 0]), draw(4, 2)), diff=(0, 1)),
    Case("scipy/solve_toeplitz, row", lambda c, r, b: linalg.solve_toeplitz((c, r), b),
    (W + np.array([5.0, 0, 0, 0]), draw(4), draw(4)), diff=(0, 1, 2)),
    Case("scipy/matmul_toeplitz", lambda c, r, x: linalg.matmul_toeplitz((c, r), x), (W, V, draw(3,
    2)), diff=(0, 1, 2)),
    Case("scipy/matmul_toeplitz, complex", lambda c, x: linalg.matmul_toeplitz(c, x), (Z[0], V),
    diff=(0, 1)),
    Case("scipy/solve_circulant", lambda c, b: linalg.solve_circulant(c, b), (W + np.array([5.0, 0,
    0, 0]), draw(4, 2)), diff=(0, 1)),
    *[Case(f"scipy/qr, {mode}", lambda a, mode=mode: linalg.qr(a, mode=mode),
    (A,)) for mode in ("full", "economic", "r")],
    *[Case(f"scipy/qr, pivoting, {mode}", lambda a, mode=mode: linalg.qr(a, mode=mode,
    pivoting=True)[:2], (A + NEAR * np.array([1.0, 2.0, 3.0]),),
    written=False) for mode in ("full", "economic")],
    Case("scipy/qr, tall", lambda a: linalg.qr(a, mode="economic"), (draw(4, 2),)),
    Case("scipy/svdvals", lambda a: linalg.svdvals(a), (A,)), Case("scipy/eigvalsh",
    lambda a: linalg.eigvalsh(_hermitian(a)), (P,)),
    Case("scipy/eigvalsh, pair", lambda a, b: linalg.eigvalsh(_hermitian(a), _hermitian(b)), (P,
    Q), diff=(0, 1)),
    Case("scipy/eigvals", lambda a: linalg.eigvals(a), (Z,)), Case("scipy/eig",
    lambda a: (linalg.eig(a)[0], np.abs(linalg.eig(a)[1])), (Z,)),
    *[Case(f"scipy/polar, {side}", lambda a, side=side: linalg.polar(a, side),
    (A + NEAR,)) for side in ("right", "left")],
    Case("scipy/polar, tall", lambda a: linalg.polar(a), (draw(4, 2),)),
    Case("scipy/pinv", lambda a: linalg.pinv(a), (draw(4, 2),)), Case("scipy/pinv, rank",
    lambda a: linalg.pinv(a, rtol=1e-3, return_rank=True)[0], (A,)),
    Case("scipy/pinvh", lambda a: linalg.pinvh(a), (P,)), Case("scipy/lstsq", lambda a,
    b: linalg.lstsq(a, b)[0], (draw(4, 2), draw(4)), diff=(0, 1)),
    *[Case(f"scipy/norm, {order}", lambda a, order=order: linalg.norm(a, order),
    (A,)) for order in (None, "fro", 1, 2, np.inf, "nuc")],
    Case("scipy/expm_frechet", lambda a, e: linalg.expm_frechet(a, e), (A, B), diff=(0, 1),
    tol=1e-4),
    Case("scipy/orthogonal_procrustes", lambda a, b: linalg.orthogonal_procrustes(a, b), (draw(5,
    3), draw(5, 3)), diff=(0, 1)),
]  # fmt: skip
