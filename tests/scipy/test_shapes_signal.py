"""The shapes in signatures of `functrace.scipy.signal` and `ndimage` are checked by beartype on
traced values.

Plain values are SciPy's to check. The import hook acts when a package is imported, so the checks
run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from jaxtyping import TypeCheckError, install_import_hook

PACKAGES = ["functrace.scipy.signal", "functrace.scipy.ndimage"]
with install_import_hook(PACKAGES, "beartype.beartype"):
    from functrace.scipy import ndimage, signal
import numpy as np

import functrace as ft

rng = np.random.default_rng(0)
X, LONG, ROWS, GRID, IMAGE = (rng.normal(size=n) for n in (16, 64, (3, 64), (5, 6), (4, 5, 6)))
B, A, ONE = np.array([0.5, 0.25]), np.array([1.0, -0.5, 0.1]), np.float64(1.0)
SOS = np.array([[0.5, 0.5, 0.0, 1.0, 0.25, 0.0], [1.0, 0.5, 0.25, 1.0, -0.5, 0.1]])
W, W2 = np.ones(3), np.ones((3, 2))
AT = np.array([[0.5, 1.5, 2.0], [1.0, 0.25, 3.0]])
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])
LAST = {"axis": -1}

def call(f, *args, **options):
    return lambda *given: f(*given, **options), args

SIGNAL = [
    *[call(f, x, y, mode=mode) for f in (signal.convolve, signal.correlate, signal.fftconvolve, signal.oaconvolve)
        for x, y in ((X, B), (GRID, W2), (IMAGE, IMAGE[:2, :2, :2])) for mode in ("full", "same", "valid")],
    *[call(f, GRID, W2, mode=mode, boundary=boundary) for f in (signal.convolve2d, signal.correlate2d)
        for mode in ("full", "same", "valid") for boundary in ("fill", "wrap", "symm")],
    *[call(signal.lfilter, b, a, x) for b in (B, ONE) for a in (A, ONE) for x in (X, GRID, IMAGE)],
    call(signal.lfilter, B, A, GRID, axis=0),
    call(lambda b, x, zi: signal.lfilter(b, A, x, zi=zi), B, GRID, np.ones((5, 2))),
    call(lambda b, x, zi: signal.lfilter(b, A, x, zi=zi), B, GRID, np.ones((1, 2))),
    call(signal.lfilter_zi, B, A), call(signal.sosfilt_zi, SOS),
    *[call(signal.sosfilt, sos, x) for sos in (SOS, SOS[0]) for x in (X, GRID)],
    call(lambda x, zi: signal.sosfilt(SOS, x, zi=zi), GRID, np.ones((2, 5, 2))),
    *[call(signal.filtfilt, B, a, x, method=method) for a in (A, ONE) for x in (LONG, ROWS) for method in ("pad", "gust")],
    call(signal.filtfilt, B, A, ROWS.T, axis=0), call(signal.filtfilt, B, A, ROWS, padtype=None),
    *[call(signal.sosfiltfilt, SOS, x, padlen=4) for x in (LONG, ROWS)],
    *[call(f, x, nperseg=16) for f in (signal.welch, signal.stft, signal.spectrogram) for x in (LONG, ROWS)],
    *[call(signal.periodogram, x) for x in (LONG, ROWS)], call(signal.welch, ROWS.T, nperseg=16, axis=0),
    *[call(f, x, y, nperseg=16) for f in (signal.csd, signal.coherence) for x, y in ((LONG, LONG + 1.0), (ROWS, LONG))],
    call(lambda x, window: signal.welch(x, window=window), LONG, np.hanning(16)),
    call(lambda x: signal.welch(x, nperseg=16, detrend=lambda parts: parts * 2.0), LONG),
    call(lambda x: signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16), LONG),
    *[call(signal.detrend, x, type=kind) for x in (X, GRID) for kind in ("linear", "constant")],
    call(signal.detrend, LONG, bp=(16, 32)), call(signal.hilbert, GRID), call(signal.hilbert, GRID, N=8, axis=0),
    call(signal.hilbert2, GRID), call(signal.hilbert2, IMAGE, N=(4, 8)),
    *[call(signal.savgol_filter, x, window_length=5, polyorder=2, mode=mode) for x in (X, ROWS)
        for mode in ("interp", "nearest", "constant")],
    *[call(signal.upfirdn, B, x, up=2, down=3) for x in (X, GRID)],
    *[call(signal.resample, x, num=num) for x in (X, GRID) for num in (4, 32)],
    call(lambda x, t: signal.resample(x, 4, t), X, X),
    *[call(signal.resample_poly, x, up=3, down=2) for x in (X, GRID)],
    *[call(signal.decimate, x, q=2, ftype=kind, zero_phase=both) for x in (LONG, ROWS) for kind in ("iir", "fir")
        for both in (True, False)],
]
IMAGES = (X, GRID, IMAGE)
NDIMAGE = [
    *[call(f, x, w, mode=mode, **axis) for f in (ndimage.correlate1d, ndimage.convolve1d) for x in IMAGES for w in (W, B)
        for mode in ("reflect", "constant") for axis in ({}, {"axis": 0})],
    *[call(f, x, w) for f in (ndimage.correlate, ndimage.convolve)
        for x, w in ((X, W), (GRID, W2), (IMAGE, IMAGE[:2, :2, :2]))],
    call(ndimage.correlate, IMAGE, W2, axes=(0, 1)), call(ndimage.correlate, GRID, W2, origin=(1, 0)),
    *[call(f, x, sigma=1.0) for f in (ndimage.gaussian_filter, ndimage.gaussian_filter1d, ndimage.gaussian_laplace,
        ndimage.gaussian_gradient_magnitude) for x in IMAGES],
    call(ndimage.gaussian_filter, GRID, sigma=(1.0, 2.0), order=(0, 1)),
    call(ndimage.gaussian_filter, GRID, B, radius=(2, 2)),
    *[call(f, x) for f in (ndimage.uniform_filter, ndimage.laplace, ndimage.prewitt, ndimage.sobel, ndimage.spline_filter,
        ndimage.spline_filter1d) for x in IMAGES],
    *[call(ndimage.uniform_filter1d, x, size=3) for x in IMAGES], call(ndimage.uniform_filter, GRID, size=(3, 2)),
    *[call(f, x, size=3) for f in (ndimage.maximum_filter, ndimage.minimum_filter, ndimage.maximum_filter1d,
        ndimage.minimum_filter1d, ndimage.median_filter) for x in IMAGES],
    call(ndimage.median_filter, GRID, footprint=np.ones((2, 2), bool)), call(ndimage.maximum_filter, GRID, size=(3, 2)),
    *[call(ndimage.rank_filter, x, rank=1, size=3) for x in IMAGES],
    *[call(ndimage.percentile_filter, x, percentile=30.0, size=3) for x in IMAGES],
    *[call(ndimage.map_coordinates, GRID, at, order=order, mode=mode) for at in (AT, AT[:, :, None])
        for order in (0, 1, 3) for mode in ("constant", "nearest", "mirror", "grid-wrap")],
    *[call(ndimage.shift, GRID, by) for by in (ONE, B)], *[call(ndimage.zoom, x, zoom=2.0) for x in IMAGES],
    *[call(ndimage.affine_transform, GRID, m, at) for m in (TURN, B, np.c_[TURN, B], np.eye(3)) for at in (ONE, B)],
    call(ndimage.rotate, GRID, angle=30.0), call(ndimage.rotate, GRID, ONE, reshape=False),
    call(lambda x: ndimage.geometric_transform(x, lambda at: (at[0] - 0.5, at[1]), order=1), GRID),
    call(lambda x: ndimage.gaussian_filter(x, 1.0, output=np.float32), GRID),
]
WRONG_SIGNAL = [
    (signal.convolve2d, (X, X)), (signal.correlate2d, (IMAGE, IMAGE)), (signal.lfilter, (W2, A, X)),
    (signal.lfilter, (B, W2, X)),
    (signal.lfilter, (B, A, ONE)), (signal.lfilter_zi, (W2, A)), (signal.sosfilt_zi, (GRID[:, :5],)),
    (signal.sosfilt, (X, X)), (signal.sosfilt, (SOS, ONE)), (signal.filtfilt, (W2, A, LONG)),
    (signal.sosfiltfilt, (GRID.T, LONG)),
    (signal.detrend, (ONE,)), (signal.hilbert, (ONE,)), (signal.hilbert2, (X,)), (signal.upfirdn, (W2, X)),
    (lambda x: signal.savgol_filter(x, 3, 1), (ONE,)), (signal.welch, (ONE,)), (signal.csd, (X, ONE)), (signal.istft, (X,)),
    (lambda x: signal.lfilter("b", 1.0, x), (X,)),
]
WRONG_NDIMAGE = [
    (ndimage.correlate1d, (GRID, W2)), (ndimage.convolve1d, (GRID, ONE)), (ndimage.map_coordinates, (GRID, ONE)),
    (ndimage.shift, (GRID, W2)), (ndimage.affine_transform, (GRID, IMAGE)), (ndimage.affine_transform, (GRID, TURN, TURN)),
    (lambda x: ndimage.rotate(x, 30.0), (X,)), (lambda x: ndimage.laplace(x, mode=1), (X,)),
    (lambda x: ndimage.maximum_filter(x, "3"), (X,)),
]

def nested(x):
    return [nested(part) for part in x] if np.ndim(x) else x

def total(tree):
    return sum(np.sum(np.abs(x)) for x in ft.tree.leaves(tree) if isinstance(x, ft.Array) and x.dtype.kind in "fc")

calls = 0
for f, args in SIGNAL if sys.argv[1] == "signal" else NDIMAGE:
    expected, found = ft.tree.leaves(f(*args)), ft.tree.leaves(ft.jit(f)(*args))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-9)
    if len(args[0].shape) == 1:
        ft.jit(lambda first, *others: f(nested(first), *others))(*args)
    ft.grad(lambda x: total(f(x, *args[1:])))(args[0])
    ft.vmap(f)(*[np.stack([x, x]) for x in args]) if all(isinstance(x, np.ndarray) for x in args) else None
    calls += 1
wrong = WRONG_SIGNAL if sys.argv[1] == "signal" else WRONG_NDIMAGE
for k, (f, args) in enumerate(wrong):
    try:
        ft.jit(f)(*args)
    except TypeCheckError:
        continue
    raise AssertionError(f"case {k} passes the check")
print(calls, len(wrong))
"""


@pytest.mark.full
@pytest.mark.parametrize(("package", "counts"), [("signal", "136 20\n"), ("ndimage", "156 9\n")])
def test_signatures_have_the_shapes_of_calls(package: str, counts: str) -> None:
    ignored = "ignore:random draws while"  # beartype checks a random item of a sequence
    command = [sys.executable, "-B", "-W", "error", "-W", ignored, "-c", SCRIPT, package]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == counts, found.stdout + found.stderr


PACKAGES = ["integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "stats"]


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_nothing_for_annotations(package: str) -> None:
    code = f"import functrace.scipy.{package}, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "jaxtyping" not in found.split()
    # (densities of vectors solve triangular systems)
    assert package in ("linalg", "stats") or "functrace.scipy.linalg" not in found.split()
