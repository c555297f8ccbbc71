"""Cases of functrace.scipy: functions of scipy.special and linalg that do not take traced values by
themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.scipy import linalg, special
from tests.cases.case import Case

_rng = np.random.default_rng(21)


def draw(*shape: int) -> Any:
    return _rng.normal(size=shape)


A, B, C = 0.6 * draw(3, 3), 0.5 * draw(3, 3), draw(2, 3, 3)
POSITIVE = np.stack([x @ x.T + 2 * np.eye(3) for x in C])
P, Q = POSITIVE
Z = A + 0.5j * B
H = Z @ Z.conj().T + 2 * np.eye(3)
V, M = draw(3), draw(3, 2)
X = draw(2, 3)
NEAR = 4 * np.eye(3)  # added, it makes matrices regular, with positive eigenvalues
UNIT, AMOUNT = _rng.uniform(0.1, 0.9, (2, 3)), _rng.uniform(0.4, 3.0, (2, 3))


def _hermitian(x: Any) -> Any:
    return 0.5 * (x + np.conj(np.swapaxes(x, -1, -2)))


def _pair(x: Any) -> Any:
    w, v = x
    return w, np.abs(v)


SPECIAL = [
    Case("scipy/logsumexp", lambda x: special.logsumexp(x), (X,), edge=((X[0].astype(np.float32),),
    (np.arange(3),), (np.full(2, -np.inf),), (np.array([np.inf, 1.0]),), (np.array([np.nan,
    1.0]),), (X[0, 0],))),
    Case("scipy/logsumexp, axis", lambda x: special.logsumexp(x, axis=-1, keepdims=True), (X,)),
    Case("scipy/logsumexp, factors", lambda x, b: special.logsumexp(x, axis=0, b=b), (X, AMOUNT),
    diff=(0, 1)),
    Case("scipy/logsumexp, zero factors", lambda x: special.logsumexp(x, b=np.array([1.0, 0.0,
    2.0])), (X,)),
    Case("scipy/logsumexp, sign", lambda x, b: special.logsumexp(x, axis=1, b=b, return_sign=True),
    (X, X[::-1]), diff=(0, 1)),
    Case("scipy/softmax", lambda x: special.softmax(x, axis=1), (X,),
    edge=((X.astype(np.float32),), (np.arange(3.0)[None],))),
    Case("scipy/softmax, all", lambda x: special.softmax(x), (X,)),
    Case("scipy/log_softmax", lambda x: special.log_softmax(x, axis=0), (X,), edge=((100 * X,),)),
    Case("scipy/polygamma", lambda x: special.polygamma(np.array([0, 1, 3]), x), (AMOUNT,)),
    Case("scipy/polygamma, number", lambda x: special.polygamma(2, x), (AMOUNT,)),
    Case("scipy/multigammaln", lambda x: special.multigammaln(x, 3), (AMOUNT + 1.5,)),
    Case("scipy/factorial", lambda n: special.factorial(n), (AMOUNT,), edge=((np.array([-1.0, 0.0,
    3.0]),), (np.arange(4),), (np.float32(2.5),))),
    Case("scipy/perm", lambda n, k: special.perm(n, k), (AMOUNT + 3, AMOUNT), diff=(0, 1),
    edge=((np.array([-1.0, 0.0, 3.0]), np.array([1.0, 1.0, -1.0])),)),
    Case("scipy/comb", lambda n, k: special.comb(n, k), (AMOUNT + 3, AMOUNT), diff=(0, 1)),
]  # fmt: skip

LINALG = [
    *[Case(f"scipy/solve_triangular, {t}, {lower}", lambda a, b, t=t,
    lower=lower: linalg.solve_triangular(a, b, t, lower), (A + NEAR, M), diff=(0, 1)) for t in (0,
    1) for lower in (False, True)],
    Case("scipy/solve_triangular, unit", lambda a, b: linalg.solve_triangular(a, b, lower=True,
    unit_diagonal=True), (A, V), diff=(0, 1)),
    Case("scipy/solve_triangular, adjoint", lambda a, b: linalg.solve_triangular(a, b, "C"),
    (Z + NEAR, M), diff=(0, 1)),
    Case("scipy/solve", lambda a, b: linalg.solve(a, b), (A + NEAR, M), diff=(0, 1)),
    *[Case(f"scipy/solve, {kind}", lambda a, b, kind=kind: linalg.solve(a, b, assume_a=kind), (P,
    M), diff=(0, 1)) for kind in ("sym", "pos", "upper triangular", "lower triangular", "diagonal",
    "tridiagonal")],
    Case("scipy/solve, her, lower", lambda a, b: linalg.solve(a, b, assume_a="her", lower=True),
    (H, M), diff=(1,)),
    Case("scipy/inv", lambda a: linalg.inv(a), (A + NEAR,)), Case("scipy/det",
    lambda a: linalg.det(a), (A,)),
    Case("scipy/cholesky", lambda a: linalg.cholesky(_hermitian(a)), (P,)),
    Case("scipy/cholesky, lower", lambda a: linalg.cholesky(_hermitian(a), lower=True), (H,)),
    Case("scipy/cho_factor", lambda a: np.triu(linalg.cho_factor(_hermitian(a))[0]), (P,)),
    Case("scipy/cho_solve", lambda a, b: linalg.cho_solve(linalg.cho_factor(_hermitian(a)), b), (P,
    V), diff=(0, 1)),
    Case("scipy/cho_solve, lower", lambda a, b: linalg.cho_solve(linalg.cho_factor(_hermitian(a),
    True), b), (H, M), diff=(0, 1)),
    *[Case(f"scipy/lu, {m}, {n}", lambda a: linalg.lu(a), (draw(m, n),)) for m, n in ((3, 3), (4,
    2), (2, 4))],
    Case("scipy/lu, permuted", lambda a: linalg.lu(a, permute_l=True), (A,)),
    Case("scipy/lu, positions", lambda a: linalg.lu(a, p_indices=True)[1:], (draw(4, 4),)),
    Case("scipy/lu, order", lambda a: linalg.lu(a, p_indices=True)[0], (draw(4, 4),), diff=()),
    Case("scipy/lu_factor", lambda a: linalg.lu_factor(a), (A,)),
    *[Case(f"scipy/lu_solve, {t}", lambda a, b, t=t: linalg.lu_solve(linalg.lu_factor(a), b, t),
    (A, M), diff=(0, 1)) for t in (0, 1)],
    Case("scipy/lu_solve, adjoint", lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 2), (Z,
    V + 0j), diff=(0, 1)),
    Case("scipy/eigh", lambda a: _pair(linalg.eigh(_hermitian(a))), (P,)),
    *[Case(f"scipy/eigh, type {k}", lambda a, b, k=k: _pair(linalg.eigh(_hermitian(a),
    _hermitian(b), type=k)), (P, Q), diff=(0, 1), tol=1e-4) for k in (1, 2, 3)],
    Case("scipy/eigh, some values", lambda a, b: linalg.eigh(_hermitian(a), _hermitian(b),
    eigvals_only=True, subset_by_index=(1, 2)), (P, Q), diff=(0, 1)),
    Case("scipy/svd", lambda a: linalg.svd(a, compute_uv=False), (A,)),
    *[Case(f"scipy/{f.__name__}", lambda a, f=f: f(a), (A,), tol=1e-4) for f in (linalg.expm,
    linalg.cosm, linalg.sinm, linalg.tanm, linalg.coshm, linalg.sinhm, linalg.tanhm)],
    *[Case(f"scipy/{f.__name__}", lambda a, f=f: f(a), (A + NEAR,),
    tol=1e-4) for f in (linalg.logm, linalg.sqrtm)],
    *[Case(f"scipy/{f.__name__}, complex", lambda a, f=f: f(a), (Z + NEAR,),
    tol=1e-4) for f in (linalg.expm, linalg.logm, linalg.sqrtm)],
    Case("scipy/solve_sylvester", lambda a, b, q: linalg.solve_sylvester(a, b, q), (A + NEAR, B[:2,
    :2], M), diff=(0, 1, 2)),
    Case("scipy/solve_sylvester, complex", lambda a, b, q: linalg.solve_sylvester(a, b, q),
    (Z + NEAR, Z, H), diff=(0, 1, 2)),
    Case("scipy/solve_continuous_lyapunov", lambda a, q: linalg.solve_continuous_lyapunov(a, q),
    (A + NEAR, B), diff=(0, 1)),
    *[Case(f"scipy/solve_discrete_lyapunov, {m}", lambda a, q,
    m=m: linalg.solve_discrete_lyapunov(a, q, m), (0.4 * A, B), diff=(0, 1)) for m in ("direct",
    "bilinear", None)],
    Case("scipy/toeplitz", lambda c: linalg.toeplitz(c), (V,)), Case("scipy/toeplitz, row",
    lambda c, r: linalg.toeplitz(c, r), (V, draw(4)), diff=(0, 1)),
    Case("scipy/block_diag", lambda a, b, c: linalg.block_diag(a, b, c), (A, M, V), diff=(0, 1, 2)),
]  # fmt: skip

CASES: list[Case] = SPECIAL + LINALG
