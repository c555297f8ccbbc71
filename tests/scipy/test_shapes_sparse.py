"""The shapes of right-hand sides and solutions in `functrace.scipy.sparse.linalg` are checked by
beartype, on plain and on traced values.

The import hook acts when a module is imported, so the checks run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

MODULES = ["functrace.scipy.sparse.linalg", "functrace.scipy.sparse.factors"]
with install_import_hook(MODULES, "beartype.beartype"):
    from functrace.scipy import sparse
import numpy as np

import functrace as ft

DENSE = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, 1.0], [0.0, 1.0, 6.0]])
A, ROWS = sparse.csc_array(DENSE), np.nonzero(DENSE)
DATA = DENSE[ROWS]
B, V = np.arange(1.0, 7.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
ITERATIVE = ["bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "qmr", "tfqmr"]
made = lambda data: sparse.csr_array((data, ROWS), shape=(3, 3))

def passes(solve, b, shape, rtol=1e-9):
    expected = np.linalg.solve(DENSE, np.reshape(b, shape))
    for found in (
        solve(A, b), solve(sparse.csc_matrix(DENSE), b), ft.jit(lambda b: solve(A, b))(b),
        ft.jit(lambda data, b: solve(made(data), b))(DATA, b), ft.jit(lambda data: solve(made(data), b))(DATA),
        ft.vmap(lambda b: solve(A, b))(np.stack([b, b]))[0],
    ):
        np.testing.assert_allclose(found, expected, rtol=rtol)
    ft.grad(lambda data: np.sum(solve(made(data), b)))(DATA)
    return 1

calls = 0
for b in (V, B, V.astype(np.float32), V.astype(int), V > 1.0):
    calls += passes(sparse.linalg.spsolve, b, b.shape, 1e-6)
    calls += passes(lambda a, b: sparse.linalg.splu(a).solve(1.0 * b), b, b.shape, 1e-6)
    calls += passes(lambda a, b: sparse.linalg.factorized(a)(1.0 * b), b, b.shape, 1e-6)
for name in ITERATIVE:
    solver = getattr(sparse.linalg, name)
    calls += passes(lambda a, b: solver(a, b, rtol=1e-12)[0], V, (3,))
    calls += passes(lambda a, b: solver(a, b, V, rtol=1e-12)[0], V, (3,))
    assert solver(A, V[:, None])[0].shape == (3,)
assert sparse.linalg.cg(A, [1.0, 2.0, 3.0])[0].shape == (3,)
assert sparse.linalg.spsolve(A, [1.0, 2.0, 3.0]).shape == sparse.linalg.spsolve(A, V[:, None]).shape == (3,)
assert sparse.linalg.spsolve(A, sparse.csc_array(B)).shape == (3, 2)
assert ft.jit(lambda data: sparse.linalg.eigsh(made(data), 1)[1])(DATA).shape == (3, 1)

scalar, stack = np.array(1.0), np.ones((2, 3, 1))
wrong = [(f, b) for b in (scalar, stack) for f in (
    sparse.linalg.spsolve, sparse.linalg.cg, lambda a, b: sparse.linalg.splu(a).solve(b))]
wrong += [(sparse.linalg.cg, B), (lambda a, b: sparse.linalg.cg(a, b, V[:2]), V)]
for k, (f, b) in enumerate(wrong):
    for call in (lambda b: f(A, b), lambda b: ft.jit(lambda b: f(A, b))(b)):
        try:
            call(b)
        except TypeCheckError:
            continue
        raise AssertionError(f"case {k} passes the check")
print(calls, len(wrong))
"""


def test_signatures_have_the_shapes_of_calls() -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "35 8\n", found.stdout + found.stderr


def test_shapes_cost_no_import() -> None:
    code = "import functrace.scipy.sparse.linalg, sys; print('jaxtyping' in sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "False\n", found.stdout + found.stderr
