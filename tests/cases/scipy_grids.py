"""Cases of functrace.scipy's packages for data on grids: signal, fft, ndimage, interpolate, sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from functrace.scipy import fft, interpolate, ndimage, signal, sparse
from tests.cases.case import Case

_rng = np.random.default_rng(33)


def draw(*shape: int) -> Any:
    return _rng.normal(size=shape)


def wave(*shape: int) -> Any:
    return draw(*shape) + 1j * draw(*shape)


X, LINE, LONG = draw(4, 5), draw(2, 12), draw(40)
B, A = draw(3), np.array([1.5, -0.6, 0.2])
SOS = np.array([[1.0, 0.2, 0.1, 1.0, -0.3, 0.1], [0.5, 0.2, 0.3, 1.0, 0.2, 0.05]])
AT = _rng.uniform(0.2, 3.8, (2, 6))
PAIRS = [((5,), (3,)), ((3,), (4,)), ((4, 3), (2, 2)), ((4, 3), (1, 2)), ((3, 1), (2, 1))]

SIGNAL = [
    *[Case(f"signal.convolve/{mode}, {method}, {a}, {b}", lambda x, y, mode=mode,
    method=method: signal.convolve(x, y, mode, method), (draw(*a), draw(*b)), diff=(0, 1))
      for mode in ("full", "same", "valid") for method in ("direct", "fft") for a,
      b in PAIRS if mode != "valid" or a != (3,)],
    *[Case(f"signal.correlate/{mode}, {a}, {b}", lambda x, y, mode=mode: signal.correlate(x, y,
    mode, "direct"), (wave(*a), wave(*b)), diff=(0, 1), order=1)
      for mode in ("full", "same", "valid") for a, b in PAIRS],
    *[Case(f"signal.{name}/{mode}, {boundary}", lambda x, y, v, f=getattr(signal, name), mode=mode,
    boundary=boundary: f(x, y, mode, boundary, v), (draw(4, 3), draw(2, 2), draw()), diff=(0, 1, 2))
      for name in ("convolve2d", "correlate2d") for mode in ("full", "same",
      "valid") for boundary in ("fill", "wrap", "symm")],
    *[Case(f"signal.oaconvolve/{mode}", lambda x, y, mode=mode: signal.oaconvolve(x, y, mode, 0),
    (draw(40, 2), draw(3, 2)), diff=(0, 1)) for mode in ("full", "same", "valid")],
    Case("signal.lfilter", lambda b, a, x: signal.lfilter(b, a, x), (B, A, LINE), diff=(0, 1, 2)),
    Case("signal.lfilter/axis", lambda b, a, x: signal.lfilter(b, a, x, axis=0), (B, A, LINE),
    diff=(0, 1, 2)),
    Case("signal.lfilter/complex", lambda b, a, x: signal.lfilter(b, a, x), (B + 0.2j, A + 0.1j,
    LINE), diff=(0, 1, 2)),
    Case("signal.lfilter/state", lambda b, a, x, z: signal.lfilter(b, a, x, zi=z), (B, A, LINE,
    draw(2, 2)), diff=(0, 1, 2, 3)),
    Case("signal.lfilter/short", lambda b, a, x, z: signal.lfilter(b, a, x, zi=z), (draw(4), A,
    LINE[:, :2], draw(2, 3)), diff=(0, 1, 2, 3)),
    Case("signal.lfilter/average", lambda b, a, x: signal.lfilter(b, a, x), (B, np.array([2.0]),
    LINE), diff=(0, 1, 2)),
    Case("signal.fftconvolve", lambda x, y: signal.fftconvolve(x, y, "same", 0), (draw(9, 2),
    draw(4, 2)), diff=(0, 1)), Case("signal.sosfilt_zi", lambda sos: signal.sosfilt_zi(sos),
    (SOS,)),
    Case("signal.lfilter_zi", lambda b, a: signal.lfilter_zi(b, a), (B, A), diff=(0, 1)),
    Case("signal.filtfilt", lambda b, a, x: signal.filtfilt(b, a, x, padlen=5), (B, A, LINE),
    diff=(0, 1, 2)),
    Case("signal.filtfilt/gust", lambda b, a, x: signal.filtfilt(b, a, x, method="gust"), (B, A,
    LINE), diff=(0, 1, 2), tol=1e-4),
    Case("signal.sosfilt", lambda x: signal.sosfilt(SOS, x), (LINE,)), Case("signal.sosfiltfilt",
    lambda x: signal.sosfiltfilt(SOS, x, padlen=4), (LINE,)),
    Case("signal.sosfilt/state", lambda x, z: signal.sosfilt(SOS, x, zi=z), (LINE, draw(2, 2, 2)),
    diff=(0, 1)),
    Case("signal.detrend", lambda x: signal.detrend(x, bp=[5]), (LINE,)),
    Case("signal.detrend/constant", lambda x: signal.detrend(x, 0, "constant"), (LINE,)),
    Case("signal.hilbert", lambda x: signal.hilbert(x), (LINE,)), Case("signal.hilbert2",
    lambda x: signal.hilbert2(x), (X,)),
    *[Case(f"signal.savgol_filter/{mode}", lambda x, mode=mode: signal.savgol_filter(x, 5, 2,
    mode=mode), (LINE,)) for mode in ("interp", "mirror", "wrap")],
    *[Case(f"signal.resample/{num}", lambda x, num=num: signal.resample(x, num, axis=1),
    (LINE,)) for num in (7, 8, 20)],
    Case("signal.resample_poly", lambda x: signal.resample_poly(x, 3, 2, axis=1), (LINE,)),
    Case("signal.decimate", lambda x: signal.decimate(x, 2, n=2), (LONG,)),
    Case("signal.upfirdn", lambda h, x: signal.upfirdn(h, x, 2, 3), (B, LINE), diff=(0, 1)),
    Case("signal.welch", lambda x: signal.welch(x, nperseg=8)[1], (LINE,)),
    Case("signal.periodogram", lambda x: signal.periodogram(x)[1], (LINE,)),
    Case("signal.welch/window", lambda x, w: signal.welch(x, window=w)[1], (LINE, np.abs(draw(6))),
    diff=(0, 1)),
    Case("signal.csd", lambda x, y: signal.csd(x, y, nperseg=8, return_onesided=False)[1], (LINE,
    draw(2, 12)), diff=(0, 1)),
    Case("signal.coherence", lambda x, y: signal.coherence(np.real(x), np.real(y), nperseg=4)[1],
    (LINE, draw(2, 12)), diff=(0, 1)),
    Case("signal.stft", lambda x: signal.stft(x, nperseg=4, return_onesided=False)[2], (LINE,)),
    Case("signal.istft", lambda x: signal.istft(x, nperseg=4)[1], (wave(3, 5),)),
    Case("signal.spectrogram", lambda x: signal.spectrogram(x, nperseg=4,
    return_onesided=False)[2], (LINE,)),
]  # fmt: skip

FFT = [
    *[Case(f"scipy.fft.{name}/{n}", lambda x, f=getattr(fft, name), n=n: f(x, n, 0, norm="ortho"),
    (X,)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for n in (5, 4)],
    *[Case(f"scipy.fft.{name}", lambda x, f=getattr(fft, name): f(x, (5, 4), (0, 1)),
    (X,)) for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn",
    "rfftn", "irfftn", "hfftn", "ihfftn")],
    *[Case(f"scipy.fft.{name}", lambda x, f=getattr(fft, name): f(x, (0,)),
    (X,)) for name in ("fftshift", "ifftshift")],
    *[Case(f"scipy.fft.{name}/type {k}", lambda x, f=getattr(fft, name), k=k: f(x, k,
    norm="ortho"), (X,)) for name in ("dct", "idct", "dst", "idst") for k in (1, 2, 3, 4)],
    *[Case(f"scipy.fft.{name}/type {k}, complex", lambda x, f=getattr(fft, name), k=k: f(x, k,
    axis=0), (wave(4, 2),), order=1) for name in ("dct", "dst") for k in (1, 2, 3, 4)],
    *[Case(f"scipy.fft.{name}", lambda x, f=getattr(fft, name): f(x, 2, (4, 3)),
    (X,)) for name in ("dctn", "idctn", "dstn", "idstn")],
    *[Case(f"scipy.fft.{name}/{n}", lambda x, f=getattr(fft, name), n=n: f(x[:, :n], 0.1, 0.5, 0.2,
    0.3), (X,)) for name in ("fht", "ifht") for n in (4, 5)],
]  # fmt: skip

_MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
IMAGES = [
    *[Case(f"ndimage.correlate1d/{m}", lambda x, w, c, m=m: ndimage.correlate1d(x, w, 0, mode=m,
    cval=c), (X, draw(3), draw()), diff=(0, 1, 2)) for m in _MODES],
    *[Case(f"ndimage.convolve/{m}", lambda x, w, m=m: ndimage.convolve(x, w, mode=m), (X, draw(3,
    2)), diff=(0, 1)) for m in _MODES],
    Case("ndimage.convolve/complex", lambda x, w: ndimage.correlate(x, w), (wave(3, 4), wave(2,
    3)), diff=(0, 1), order=1),
    Case("ndimage.gaussian_filter", lambda x: ndimage.gaussian_filter(x, 0.7), (X,),
    edge=((X.astype(np.float32),), (np.arange(9.0).reshape(3, 3)[::-1],))),
    Case("ndimage.gaussian_filter/width", lambda x, s: ndimage.gaussian_filter(x, s, order=(1, 0),
    radius=3), (X, np.array([0.8, 1.1])), diff=(0,)),
    Case("ndimage.gaussian_gradient_magnitude", lambda x: ndimage.gaussian_gradient_magnitude(x,
    0.7), (X,)), Case("ndimage.gaussian_laplace", lambda x: ndimage.gaussian_laplace(x, 0.7), (X,)),
    Case("ndimage.sobel", lambda x: ndimage.sobel(x), (X,)), Case("ndimage.prewitt",
    lambda x: ndimage.prewitt(x, 0), (X,)), Case("ndimage.laplace", lambda x: ndimage.laplace(x),
    (X,)),
    Case("ndimage.uniform_filter", lambda x: ndimage.uniform_filter(x, 3), (X,)),
    *[Case(f"ndimage.map_coordinates/{m}, order {k}", lambda x, at, c, m=m,
    k=k: ndimage.map_coordinates(x, at, order=k, mode=m, cval=c[()]), (X, 2 * AT - 2.1, draw()),
    diff=(0, 1, 2) if k > 1 else (0, 2), tol=1e-4)
      for m in (*_MODES, "grid-constant", "grid-wrap") for k in (0, 1, 2, 3, 5) if k in (1,
      3) or m in ("constant", "reflect", "mirror")],
    Case("ndimage.map_coordinates/linear, by places", lambda x, at: ndimage.map_coordinates(x, at,
    order=1), (X, AT), diff=(0, 1)),
    Case("ndimage.map_coordinates/complex", lambda x: ndimage.map_coordinates(x, AT), (wave(4,
    5),), order=1),
    *[Case(f"ndimage.shift/{m}, order {k}", lambda x, by, m=m, k=k: ndimage.shift(x, by, order=k,
    mode=m), (X, np.array([0.6, -1.3])), diff=(0, 1), tol=1e-4) for m in ("constant",
    "grid-constant", "mirror") for k in (2, 3)],
    *[Case(f"ndimage.spline_filter/{m}, order {k}, {n}", lambda x, m=m,
    k=k: ndimage.spline_filter(x, k, x.dtype, m), (draw(n, 3),)) for m in ("mirror", "reflect",
    "grid-wrap") for k in (2, 3, 4, 5) for n in (1, 4)],
    Case("ndimage.spline_filter1d/long", lambda x: ndimage.spline_filter1d(x, output=x.dtype,
    mode="reflect"), (draw(2, 30),)),
    *[Case(f"ndimage.{f}", lambda x, c, f=f, more=more: getattr(ndimage, f)(x, *more,
    mode="constant", cval=c), (X, draw()), diff=(0, 1))
      for f, more in {"maximum_filter": (3,), "minimum_filter": (2,), "median_filter": (3,),
      "rank_filter": (2, 3), "percentile_filter": (40, 3), "maximum_filter1d": (3, 0),
      "minimum_filter1d": (2,)}.items()],
    Case("ndimage.correlate", lambda x, w: ndimage.correlate(x, w), (X, draw(2, 3)), diff=(0, 1)),
    Case("ndimage.convolve1d", lambda x, w: ndimage.convolve1d(x, w), (X, draw(3)), diff=(0, 1)),
    Case("ndimage.gaussian_filter1d", lambda x: ndimage.gaussian_filter1d(x, 0.7, 0), (X,)),
    Case("ndimage.uniform_filter1d", lambda x: ndimage.uniform_filter1d(x, 4), (X,)),
    Case("ndimage.geometric_transform", lambda x: ndimage.geometric_transform(x,
    lambda at: (at[0] + 0.3, at[1] - 0.6), mode="mirror"), (X,)),
    Case("ndimage.zoom", lambda x: ndimage.zoom(x, 1.7), (X,)), Case("ndimage.rotate",
    lambda x: ndimage.rotate(x, 20.0), (X,)),
    Case("ndimage.rotate/angle", lambda x, a: ndimage.rotate(x, a[()], reshape=False), (X,
    np.array(20.0)), diff=(0, 1)),
    Case("ndimage.affine_transform", lambda x, a, b: ndimage.affine_transform(x, a, b,
    mode="mirror"), (X, draw(2, 2), draw(2)), diff=(0, 1, 2), tol=1e-4),
]  # fmt: skip


def _positions(n: int) -> Any:
    return np.cumsum(_rng.uniform(0.3, 1.2, n))


K, G = _positions(6), (_positions(6), _positions(7))
Q = _rng.uniform(K[0], K[-1], 4)
PLACES = np.stack([_rng.uniform(p[0], p[-1], 3) for p in G], -1)


def _closed(y: Any) -> Any:
    return np.concatenate([y, y[:1]])


INTERPOLATION = [
    *[Case(f"interpolate.CubicSpline/{bc}", lambda x, y, q, bc=bc: interpolate.CubicSpline(x, y,
    bc_type=bc)(q), (K, draw(6, 2), Q), diff=(0, 1, 2), tol=1e-4) for bc in ("not-a-knot",
    "natural", "clamped")],
    Case("interpolate.CubicSpline/periodic", lambda x, y, q: interpolate.CubicSpline(x, _closed(y),
    bc_type="periodic")(q), (K, draw(5, 2), Q), diff=(0, 1, 2), tol=1e-4),
    Case("interpolate.CubicSpline/three points", lambda x, y, q: interpolate.CubicSpline(x, y)(q),
    (K[:3], draw(3, 2), Q), diff=(0, 1, 2), tol=1e-4),
    Case("interpolate.CubicSpline/derivative", lambda y, q: interpolate.CubicSpline(K, y)(q, 1),
    (draw(6), Q), diff=(0, 1), tol=1e-4),
    Case("interpolate.CubicSpline/integral", lambda x, y, q: interpolate.CubicSpline(x,
    y).integrate(q[0], q[1]), (K, draw(6), Q), diff=(0, 1, 2), tol=1e-4),
    *[Case(f"interpolate.{f}", lambda x, y, q, f=f: getattr(interpolate, f)(x, y)(q), (K, draw(6,
    2), Q), diff=(0, 1, 2), tol=1e-4) for f in ("PchipInterpolator", "Akima1DInterpolator",
    "make_interp_spline")],
    Case("interpolate.make_interp_spline/periodic", lambda x, y,
    q: interpolate.make_interp_spline(x, _closed(y), bc_type="periodic")(q), (K, draw(5, 2), Q),
    diff=(0, 1, 2), tol=1e-4),
    Case("interpolate.CubicHermiteSpline", lambda x, y, d, q: interpolate.CubicHermiteSpline(x, y,
    d)(q), (K, draw(6), draw(6), Q), diff=(0, 1, 2, 3), tol=1e-4),
    Case("interpolate.PPoly", lambda c, x, q: interpolate.PPoly(c, x)(q), (draw(3, 5), K, Q),
    diff=(0, 1, 2), tol=1e-4),
    Case("interpolate.interpn", lambda p, v, x: interpolate.interpn((p, G[1]), v, x), (G[0],
    draw(6, 7), PLACES), diff=(0, 1, 2), tol=1e-4),
    Case("interpolate.BSpline", lambda t, c, q: interpolate.BSpline(t, c, 3)(q),
    (np.concatenate([K[0] - np.array([3.0, 2, 1]), K, K[-1] + np.array([1.0, 2, 3])]), draw(8, 2),
    Q), diff=(0, 1, 2), tol=1e-4),
    *[Case(f"interpolate.interp1d/{kind}", lambda x, y, q, kind=kind: interpolate.interp1d(x, y,
    kind, axis=0)(q), (K, draw(6, 2), Q), diff=(0, 1, 2) if kind != "previous" else (1,),
    tol=1e-4) for kind in ("linear", "cubic", "previous")],
    *[Case(f"interpolate.RegularGridInterpolator/{m}", lambda p, v, x,
    m=m: interpolate.RegularGridInterpolator((p, G[1]), v, m)(x), (G[0], draw(6, 7), PLACES),
    diff=(0, 1, 2) if m != "nearest" else (1,), tol=1e-4)
      for m in ("linear", "nearest", "pchip", "cubic_legacy")],
]  # fmt: skip

_M = scipy.sparse.random_array((5, 4), density=0.5, rng=_rng).tocsr()
_C, _O = _M.tocsc(), _M.tocoo()
_Q = (
    scipy.sparse.random_array((5, 5), density=0.4, rng=_rng) + 4 * scipy.sparse.eye_array(5)
).tocsr()


def _of(data: Any) -> Any:
    return sparse.csr_array((data, _M.indices, _M.indptr), shape=(5, 4))


def _square(data: Any) -> Any:
    return sparse.csc_array((data, _Q.indices, _Q.indptr), shape=(5, 5))


SPARSE = [
    Case("sparse.csr_array/matrix @ vector", lambda x: sparse.csr_array(_M) @ x, (draw(4),)),
    Case("sparse.csc_array/matrix @ columns", lambda x: sparse.csc_array(_M) @ x, (draw(4, 3),)),
    Case("sparse.csr_array/elements @ columns", lambda d, x: _of(d) @ x, (_M.data, draw(4, 3)),
    diff=(0, 1)), Case("sparse.csr_array/rows @ elements", lambda d, y: y @ _of(d), (_M.data,
    draw(3, 5)), diff=(0, 1)),
    Case("sparse.csr_array/elements.T @ vector", lambda d, y: _of(d).T @ y, (_M.data, draw(5)),
    diff=(0, 1)),
    Case("sparse.csc_array/elements", lambda d, x: sparse.csc_array((d, _C.indices, _C.indptr),
    shape=(5, 4)) @ x, (_M.data, draw(4)), diff=(0, 1)),
    Case("sparse.coo_array/elements", lambda d, x: sparse.coo_array((d, (_O.row[::-1],
    _O.col[::-1])), shape=(5, 4)) @ x, (_M.data, draw(4)), diff=(0, 1)),
    Case("sparse.csr_array/complex", lambda d, x: _of(d) @ x, (_M.data + 0.3j, wave(4)), diff=(0,
    1), order=1),
    Case("sparse.csr_array/toarray", lambda d: _of(d).toarray(), (_M.data,)),
    Case("sparse.csr_array/multiply", lambda d, w: _of(d).multiply(w).toarray(), (_M.data, draw(5,
    4)), diff=(0, 1)),
    Case("sparse.csr_array/sums", lambda d: (_of(d).sum(0), _of(d).sum(1), _of(d).sum(),
    _of(d).diagonal()), (_M.data,)), Case("sparse.csr_array/add", lambda d,
    w: (_of(d) + _of(d)).toarray() - w, (_M.data, draw(5, 4)), diff=(0, 1)),
    Case("sparse.linalg.spsolve", lambda d, b: sparse.linalg.spsolve(_square(d), b), (_Q.data,
    draw(5)), diff=(0, 1)),
    Case("sparse.linalg.spsolve/columns", lambda d, b: sparse.linalg.spsolve(_square(d), b),
    (_Q.data, draw(5, 2)), diff=(0, 1)),
]  # fmt: skip

CASES: list[Case] = SIGNAL + FFT + IMAGES + INTERPOLATION + SPARSE
