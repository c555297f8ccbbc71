"""Predicted peaks count the work memory of linear algebra, which only the resident memory of the
process shows, and other temporary arrays of NumPy.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.executor.memory.resident import in_own_process, is_possible, peak_of

N = 400
SLACK = 300_000
"""Bytes that are no arrays, or pages of the heap."""
L = np.linalg
RNG = np.random.default_rng(0)
A = RNG.normal(size=(N, N)) + N * np.eye(N)
TALL = RNG.normal(size=(2 * N, N))
WIDE = TALL.T.copy()
COMPLEX = A + 1j * RNG.normal(size=(N, N))
STACK = np.stack([A[: N // 4, : N // 4]] * 16)
CUBE = RNG.normal(size=(64, 64, 64))
SYMMETRIC = A @ A.T

Case = tuple[Callable[[Any], Any], Any]
CASES: dict[str, Case] = {
    "solve": (lambda a: L.solve(a, a.T), A),
    "solve, one right-hand side": (lambda a: L.solve(a, a[0]), A),
    "inv": (L.inv, A),
    "inv, float32": (L.inv, A.astype(np.float32)),
    "inv, complex": (L.inv, COMPLEX),
    "inv of a stack": (L.inv, STACK),
    "det": (L.det, A / N),
    "slogdet": (lambda a: L.slogdet(a)[1], A),
    "cholesky": (L.cholesky, SYMMETRIC),
    "eigh": (lambda a: L.eigh(a)[1], SYMMETRIC),
    "eigh, complex": (lambda a: L.eigh(a @ a.conj().T)[1], COMPLEX),
    "eigvalsh": (L.eigvalsh, SYMMETRIC),
    "svd": (lambda a: L.svd(a, full_matrices=False)[0], A),
    "svd, float32": (lambda a: L.svd(a, full_matrices=False)[0], A.astype(np.float32)),
    "svd, complex": (lambda a: L.svd(a, full_matrices=False)[0], COMPLEX),
    "svd, tall": (lambda a: L.svd(a, full_matrices=False)[0], TALL),
    "svd, wide": (lambda a: L.svd(a, full_matrices=False)[0], WIDE),
    "svd, full": (lambda a: L.svd(a)[0], TALL),
    "svd of a stack": (lambda a: L.svd(a)[0], STACK),
    "svdvals": (lambda a: L.svd(a, compute_uv=False), A),
    "qr": (lambda a: L.qr(a)[0], A),
    "qr, tall": (lambda a: L.qr(a)[0], TALL),
    "qr, wide": (lambda a: L.qr(a)[0], WIDE),
    "qr, complete": (lambda a: L.qr(a, "complete")[0], TALL),
    "lstsq": (lambda a: L.lstsq(a, a[:, :4], rcond=None)[0], TALL),
    "pinv": (L.pinv, A),
    "pinv, tall": (L.pinv, TALL),
    "fft, real": (np.fft.fft, A),
    "fft, complex": (np.fft.fft, COMPLEX),
    "fft2": (np.fft.fft2, COMPLEX),
    "rfft": (np.fft.rfft, A),
    "einsum, permuted": (lambda a: np.einsum("ijk,kjl->il", a, a), CUBE),
    "einsum, batched": (lambda a: np.einsum("ijk,ijk->ik", a, a), CUBE),
    "tensordot": (lambda a: np.tensordot(a, a, ([1], [1])), CUBE[:, :, :16]),
    "sort": (lambda a: np.sort(a, axis=0), A),
    "rows": (lambda a: a[np.arange(0, N, 2)], A),
    "take_along_axis": (
        lambda a: np.take_along_axis(a, np.argsort(a, axis=1), axis=1), A),
    "median": (lambda a: np.median(a, axis=0), A),
}  # fmt: skip
NEWER = ("einsum", "tensordot")
"""Cases whose temporary arrays depend on NumPy's version: predicted for 2.4 and later."""
WITHOUT_GRADIENT = ("svd, full", "inv of a stack", "svd of a stack")
"""The first has none. Those of stacks are fused products in tiles, whose buffers (1 MB each, kept by
the threads) are not counted.
"""


def gradient_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return ft.grad(lambda a: np.sum(np.abs(f(a)) ** 2))


def measured_and_predicted(name: str) -> list[tuple[str, int, int]]:
    """Return, of the value and the gradient of a case, the measured and the predicted peak. Runs in
    a process of its own.
    """
    f, x = CASES[name]
    runs = {"value": ft.jit(f)}
    if not (np.iscomplexobj(x) or name in WITHOUT_GRADIENT):
        runs["gradient"] = ft.jit(gradient_of(f))
    found: list[tuple[str, int, int]] = []
    for what, run in runs.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resident = peak_of(lambda run=run: run(x))
            tracemalloc.start()
            run(x)
            allocated = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        # (pages of zeros that nothing has written to are allocated, but not resident)
        found.append((what, max(resident, allocated), ft.memory_plan(run)(x).peak_bytes))
    return found


def all_measured(*names: str) -> dict[str, list[tuple[str, int, int]]]:
    """Return the results of several cases."""
    return {name: measured_and_predicted(name) for name in names}


@pytest.mark.full
@pytest.mark.skipif(not is_possible(), reason="the peak of resident memory cannot be reset here")
def test_predicted_peaks_count_work_memory() -> None:
    is_new = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    names = [name for name in CASES if is_new or not name.startswith(NEWER)]
    found = in_own_process(__name__, "all_measured", *names)
    wrong = {
        f"{what} of {name}": (measured, predicted)
        for name, rows in found.items()
        for what, measured, predicted in rows
        if abs(measured - predicted) > 0.1 * measured + SLACK
    }
    assert not wrong
    assert sum(map(len, found.values())) > len(names)
