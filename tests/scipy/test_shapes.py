"""The shapes in signatures of `functrace.scipy.linalg` are checked by beartype on traced values.

Plain values are SciPy's to check. The import hook acts when a package is imported, so the checks
run in a Python process of their own; it writes no byte code (-B), because jaxtyping would store
modules that it imports without the hook under the hook's name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("functrace.scipy.linalg", "beartype.beartype"):
    from functrace.scipy import linalg
import numpy as np

import functrace as ft

rng = np.random.default_rng(0)
A = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
P = A @ A.T
B, TALL, WIDE = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
V, W = np.array([5.0, 1.0, 2.0]), np.array([1.0, 2.0])
BANDS = np.array([[0.0, 1.0, 0.5], [5.0, 6.0, 7.0]])
ALL_BANDS = np.array([[0.0, 1.0, 0.5], [5.0, 6.0, 7.0], [0.5, 1.0, 0.0]])
I2 = np.eye(2)
banded = lambda ab, b: linalg.solve_banded((1, 1), ab, b)
tridiagonal = lambda d, e: linalg.eigh_tridiagonal(d, e)
by_index = lambda a: linalg.eigvalsh(a, subset_by_index=(0, 1))

# (function, arguments, does it take stacks?)
CALLS = {
    **{name: [(getattr(linalg, name), (A,), True)] for name in (
        "coshm", "cosm", "det", "eig", "eigvals", "expm", "inv", "lu", "lu_factor", "sinhm", "sinm", "tanhm", "tanm")},
    **{name: [(getattr(linalg, name), (P,), True)] for name in ("cho_factor", "cholesky", "logm", "pinvh", "sqrtm")},
    **{name: [(getattr(linalg, name), (x,), True) for x in (TALL, WIDE)]
        for name in ("pinv", "polar", "qr", "svd", "svdvals")},
    **{name: [(getattr(linalg, name), (A, b), True) for b in (B, V)] for name in ("solve", "solve_triangular")},
    **{name: [(getattr(linalg, name), (x,), True) for x in (V, W)] for name in (
        "circulant", "companion", "fiedler", "hankel", "toeplitz")},
    **{name: [(getattr(linalg, name), (A, np.eye(3)), True)]
        for name in ("expm_frechet", "solve_continuous_lyapunov", "solve_discrete_lyapunov")},
    **{name: [(getattr(linalg, name), (I2, I2, I2, I2), False), (getattr(linalg, name), (1.0, 1.0, 1.0, 1.0), False),
        (getattr(linalg, name), (A, B, np.eye(3), I2), False)] for name in ("solve_continuous_are", "solve_discrete_are")},
    "block_diag": [(linalg.block_diag, (A, B, V), False), (linalg.block_diag, (A, B), True)],
    "cho_solve": [(lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), (P, b), True) for b in (B, V)],
    "cho_solve_banded": [(lambda ab, b: linalg.cho_solve_banded((linalg.cholesky_banded(ab), False), b),
        (BANDS, b), True) for b in (B, V)],
    "cholesky_banded": [(linalg.cholesky_banded, (BANDS,), True)],
    "convolution_matrix": [(lambda a, mode=mode: linalg.convolution_matrix(a, 4, mode), (V,), True)
        for mode in ("full", "same", "valid")],
    "eig_banded": [(linalg.eig_banded, (BANDS,), True)],
    "eigh": [(linalg.eigh, (P,), True), (linalg.eigh, (P, P), True), (by_index, (P,), True)],
    "eigh_tridiagonal": [(tridiagonal, (V, W), False)],
    "eigvals_banded": [(linalg.eigvals_banded, (BANDS,), True)],
    "eigvalsh": [(linalg.eigvalsh, (P,), True), (by_index, (P,), True)],
    "eigvalsh_tridiagonal": [(linalg.eigvalsh_tridiagonal, (V, W), False)],
    "khatri_rao": [(linalg.khatri_rao, (TALL, B), True)],
    "leslie": [(linalg.leslie, (V, W), True)],
    "lstsq": [(linalg.lstsq, (A, b), False) for b in (B, V)],
    "lu_solve": [(lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), (A, b), True) for b in (B, V)],
    "matmul_toeplitz": [(linalg.matmul_toeplitz, (V, b), False) for b in (B, V)]
        + [(lambda c, r, x: linalg.matmul_toeplitz((c, r), x), (W, V, B), False)],
    "norm": [(linalg.norm, (x,), False) for x in (V, A)],
    "orthogonal_procrustes": [(linalg.orthogonal_procrustes, (TALL, TALL + 1.0), True)],
    "solve_banded": [(banded, (ALL_BANDS, b), True) for b in (B, V)],
    "solve_circulant": [(linalg.solve_circulant, (V, b), False) for b in (B, V)],
    "solve_sylvester": [(linalg.solve_sylvester, (A, I2, B), True)],
    "solve_toeplitz": [(linalg.solve_toeplitz, (V, b), False) for b in (B, V)]
        + [(lambda c, r, b: linalg.solve_toeplitz((c, r), b), (V, V, B), False)],
    "solveh_banded": [(linalg.solveh_banded, (BANDS, b), True) for b in (B, V)],
}
UNDIFFERENTIATED = {"funm", "hessenberg", "ldl", "null_space", "orth", "schur"}
assert {*CALLS, *UNDIFFERENTIATED} == set(linalg.__all__), {*CALLS, *UNDIFFERENTIATED} ^ set(linalg.__all__)

def nested(x):
    return [nested(part) for part in x] if np.ndim(x) else x

def total(tree):
    return sum(np.sum(np.abs(x)) for x in ft.tree.leaves(tree) if isinstance(x, ft.Array) and x.dtype.kind in "fc")

calls = 0
for name, rows in CALLS.items():
    for f, args, takes_stacks in rows:
        try:
            plain, jitted = ft.tree.leaves(f(*args)), ft.tree.leaves(ft.jit(f)(*args))
            ft.jit(lambda *args: f(*map(nested, args)))(*args)
            try:
                f(*map(nested, args))
            except AttributeError as error:  # (SciPy 1.18 itself refuses lists in some functions)
                assert str(error) == "'list' object has no attribute 'shape'", error
            if name not in ("eig", "qr", "svd"):  # whose vectors are not unique
                ft.grad(lambda x: total(f(x, *args[1:])))(args[0])
            stack = [np.stack([x, x]) for x in args]
            ft.vmap(f)(*stack)
            if takes_stacks and not any(np.ndim(x) == 1 for x in args[1:] if np.ndim(args[0]) == 2):
                ft.jit(f)(*stack)
                ft.jit(f)(stack[0], *args[1:])
                ft.jit(f)(args[0], *stack[1:])
        except Exception as error:
            raise AssertionError(name) from error
        calls += 1

three = np.ones((3, 3))
wrong = [
    (linalg.solve, (WIDE, V)), (linalg.solve, (A, W)), (linalg.solve, (A, WIDE)), (linalg.solve, (V, V)),
    (linalg.solve, (np.stack([A, A]), np.stack([B, B, B]))),
    (lambda a: linalg.solve("a", a), (V,)),
    (linalg.solve_triangular, (A, W)), (linalg.inv, (WIDE,)), (linalg.det, (V,)), (linalg.cholesky, (TALL,)),
    (lambda c, b: linalg.cho_solve((c, True), b), (A, W)), (linalg.eigh, (A, I2)), (linalg.expm, (WIDE,)),
    (linalg.svd, (V,)),
    (lambda a, p, b: linalg.lu_solve((a, p), b), (A, np.zeros(2, int), V)), (banded, (ALL_BANDS, W)), (banded, (V, V)),
    (linalg.solve_sylvester, (A, I2, three)), (linalg.solve_continuous_are, (A, B, I2, I2)),
    (linalg.khatri_rao, (TALL, three)), (linalg.matmul_toeplitz, (V, np.float64(1.0))), (linalg.lstsq, (TALL, V)),
    (linalg.orthogonal_procrustes, (TALL, B)), (tridiagonal, (A, W)), (linalg.toeplitz, (np.float64(1.0),)),
]
for k, (f, args) in enumerate(wrong):
    try:
        ft.jit(f)(*args)
    except TypeCheckError:
        continue
    raise AssertionError(f"case {k} passes the check")
linalg.solve(np.eye(2) > 0, W), ft.jit(linalg.solve)(np.eye(2) > 0, np.arange(2))
ft.jit(linalg.toeplitz)(V.astype(np.longdouble))
print(calls, len(wrong))
"""


def test_signatures_have_the_shapes_of_calls() -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    bools = "ignore:Calling linalg:DeprecationWarning"  # SciPy 1.18, of matrices of bools
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-W", bools, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "92 25\n", found.stdout + found.stderr
