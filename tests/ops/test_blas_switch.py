"""``FUNCTRACE_NUMPY_BLAS=0``: nothing that NumPy does not document is looked up, and results are
the same.
"""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np

import functrace as ft
from functrace.ops import blas

assert (blas._library() is None) == (blas.one_thread() is None) == True
a = np.array([[4.0, 1.0], [1.0, 3.0]])
found = ft.jit(ft.grad(lambda a: np.sum(np.linalg.cholesky(a))))(a)
step = 1e-6
for i, j in ((0, 0), (1, 1)):
    d = np.zeros((2, 2))
    d[i, j] = step
    slope = (np.linalg.cholesky(a + d).sum() - np.linalg.cholesky(a - d).sum()) / (2 * step)
    np.testing.assert_allclose(found[i, j], slope, rtol=1e-6)
x = ft.jit(lambda v: np.sum(np.sin(v) * v))(np.linspace(0.0, 1.0, 1 << 19))
assert abs(x - np.sum(np.sin(np.linspace(0.0, 1.0, 1 << 19)) * np.linspace(0.0, 1.0, 1 << 19))) < 1e-6
print("as ever")
"""


def test_the_switch_leaves_private_names_alone() -> None:
    environment = {**os.environ, "FUNCTRACE_NUMPY_BLAS": "0"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "as ever\n", run.stderr
