"""functrace.scipy.signal and fft against SciPy: grids of keywords, shapes and dtypes."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import functrace as ft
from functrace.errors import ConcretizationError
from functrace.scipy import fft, signal
from tests.scipy.against import assert_as_scipy

same = functools.partial(assert_as_scipy, signal, scipy.signal)
rng = np.random.default_rng(31)


def draw(*shape: int, kind: str = "d") -> Any:
    x = rng.normal(size=shape)
    if kind in "DF":
        x = x + 1j * rng.normal(size=shape)
    return (9 * x).astype(kind) if kind == "l" else x.astype(kind)


SHAPES = [
    ((5,), (3,)), ((3,), (5,)), ((6,), (4,)), ((3,), (6,)), ((5, 4), (2, 3)), ((2, 3), (5, 4)),
    ((4, 5, 3), (2, 2, 2)),
    ((2, 5), (3, 2)), ((), ()), ((4,), (2, 2)),
]  # fmt: skip
MODES = ("full", "same", "valid", "wrong")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolution(name: str, mode: str) -> None:
    for (first, second), method, kind in itertools.product(
        SHAPES, ("direct", "fft", "auto"), "dDf"
    ):
        same(name, draw(*first, kind=kind), draw(*second, kind=kind), mode=mode, method=method)


@pytest.mark.parametrize("mode", MODES)
def test_convolution_along_axes(mode: str) -> None:
    shapes = [
        ((50, 4), (5, 4)),
        ((5, 4), (50, 4)),
        ((50, 1), (5, 4)),
        ((50, 4), (7, 3)),
        ((1, 4), (3, 4)),
        ((90,), (3,)),
    ]
    for name, axes, (first, second) in itertools.product(
        ("fftconvolve", "oaconvolve"), (None, 0, -1), shapes
    ):
        same(name, draw(*first), draw(*second), mode=mode, axes=axes)
    same("oaconvolve", draw(50, 3, kind="D"), draw(5, 3), mode=mode, axes=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolution_with_edges(name: str, boundary: str, mode: str) -> None:
    for first, second in (
        ((5, 4), (2, 3)),
        ((2, 3), (5, 4)),
        ((5, 4), (3, 3)),
        ((5, 5), (2, 2)),
        ((5, 6), (4, 4)),
        ((3, 3), (4, 5)),
    ):
        for kind in "dD":
            same(
                name,
                draw(*first, kind=kind),
                draw(*second, kind=kind),
                mode=mode,
                boundary=boundary,
                fillvalue=0.3,
            )


B, A = scipy.signal.butter(4, 0.3)
SOS = scipy.signal.butter(4, 0.3, output="sos")


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("kind", ["d", "D", "f"])
def test_filters(kind: str, axis: int) -> None:
    x = draw(3, 40, kind=kind)
    for b, a in (
        (B, A),
        (B[:3], A),
        (B, A[:3]),
        (B, np.array([2.0])),
        (np.array([1.5]), A),
        (np.array([1.5]), np.array([2.0])),
    ):
        state = list(x.shape)
        state[axis] = max(len(b), len(a)) - 1
        same("lfilter", b, a, x, axis=axis)
        if len(a) > 1:
            same("lfilter", b, a, x, axis=axis, zi=draw(*state))
    state[axis] = 2
    same("sosfilt", SOS, x, axis=axis)
    same("sosfilt", SOS, x, axis=axis, zi=draw(2, *state))


def test_states_of_filters() -> None:
    same("lfilter_zi", B, 2 * A)
    same("lfilter_zi", B[:2], A)
    same("sosfilt_zi", SOS)
    same("lfilter", B, A, draw(2, 40), zi=draw(3, 4))
    same("lfilter", B, A, draw(2, 2), zi=draw(2, 4))


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None, "wrong"])
def test_filters_both_ways(padtype: str | None) -> None:
    for x, axis in itertools.product((draw(40, 3), draw(40, 3, kind="D")), (0,)):
        same("filtfilt", B, A, x, axis=axis, padtype=padtype)
        same("filtfilt", B, A, x, axis=axis, padtype=padtype, padlen=7)
        same("sosfiltfilt", SOS, x, axis=axis, padtype=padtype, padlen=9)
    same("filtfilt", B, A, draw(10))


def test_gustafssons_filter() -> None:
    for irlen in (None, 10):
        same("filtfilt", B, A, draw(2, 40), method="gust", irlen=irlen, rtol=1e-9)


def test_padlen_of_sosfiltfilt_depends_on_values() -> None:
    x = draw(40)
    np.testing.assert_allclose(
        ft.vjp(lambda sos: signal.sosfiltfilt(sos, x), SOS)[0], scipy.signal.sosfiltfilt(SOS, x)
    )
    with pytest.raises(ConcretizationError, match="fix: pass padlen="):
        ft.jit(lambda sos: signal.sosfiltfilt(sos, x))(SOS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["d", "D"])
def test_resampling(kind: str) -> None:
    x = draw(7, 40, kind=kind)
    for axis in (0, 1):
        windows: list[Any] = [
            None,
            "hann",
            np.abs(draw(x.shape[axis])),
            lambda f: 1 / (1 + np.abs(f)),
        ]
        for num, window in itertools.product((5, 6, 7, 8, 20, 39, 40, 41, 79, 80, 90), windows):
            same("resample", x, num, axis=axis, window=window, rtol=1e-11)
    same("resample", x, 20, axis=1, domain="freq")
    same("resample", x, 50, np.arange(40.0) * 0.3, axis=1)
    for up, down in ((2, 1), (1, 2), (3, 2), (2, 3), (5, 7), (3, 3)):
        same("resample_poly", x, up, down, axis=1)
        same("upfirdn", draw(5), x, up, down)
    long = draw(2, 300, kind=kind)
    for ftype, zero_phase in itertools.product(("iir", "fir", "wrong"), (True, False)):
        same("decimate", long, 3, ftype=ftype, zero_phase=zero_phase)
    same("decimate", long, 2, n=4)


def test_backgrounds_of_resampling() -> None:
    for padtype in ("mean", "median", "minimum", "maximum"):
        same("resample_poly", draw(2, 30), 3, 2, axis=1, padtype=padtype)


@pytest.mark.parametrize("kind", ["d", "D"])
def test_trends(kind: str) -> None:
    x = draw(6, 40, kind=kind)
    for options in (
        {},
        {"axis": 0},
        {"type": "constant"},
        {"bp": [7, 20]},
        {"bp": [1, 39]},
        {"bp": 50},
        {"type": "wrong"},
    ):
        same("detrend", x, rtol=1e-11, **options)  # type: ignore[arg-type]
    for options in ({}, {"N": 50, "axis": 0}, {"N": 39}, {"N": 0}):
        same("hilbert", x, **options)
    same("hilbert2", x)
    same("hilbert2", x, N=(4, 7))


@pytest.mark.parametrize("mode", ["interp", "mirror", "constant", "nearest", "wrap", "wrong"])
def test_smoothing(mode: str) -> None:
    for (size, order), deriv in itertools.product(
        ((5, 2), (7, 3), (4, 2), (6, 1), (5, 0), (1, 0)), (0, 1, 2)
    ):
        same(
            "savgol_filter",
            draw(3, 20),
            size,
            order,
            deriv=deriv,
            delta=0.3,
            mode=mode,
            cval=0.3,
            rtol=1e-9,
        )
    same("savgol_filter", draw(20, 3), 5, 2, axis=0, mode=mode, rtol=1e-9)


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("detrend", ["constant", "linear", False])
@pytest.mark.parametrize("kind", ["d", "D"])
def test_spectra(kind: str, detrend: Any) -> None:
    window = np.abs(draw(10))
    options = itertools.product(
        ((("hann", 16)), ("hann", 15), (window, None)), (None, 5), (None, 20, 21), (True, False)
    )
    for axis, ((shape, nperseg), noverlap, nfft, one_sided) in itertools.product((0, -1), options):
        x, y = (
            draw(*((40, 3) if axis == 0 else (3, 40)), kind=kind),
            draw(*((40, 3) if axis == 0 else (3, 40))),
        )
        given: dict[str, Any] = {
            "window": shape,
            "nperseg": nperseg,
            "noverlap": noverlap,
            "nfft": nfft,
            "axis": axis,
        }
        given |= {"detrend": detrend, "return_onesided": one_sided}
        same("welch", x, scaling="spectrum", **given)
        same("spectrogram", x, **given)
        if kind == "d" or not one_sided:
            same("csd", x, y, **given)
    for nfft in (None, 30, 50, 40):
        same("periodogram", draw(3, 40, kind=kind), nfft=nfft, detrend=detrend)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_averages_of_spectra() -> None:
    for average in ("mean", "median", "wrong"):
        same("welch", draw(3, 60), nperseg=8, average=average)
        same("csd", draw(3, 60), draw(3, 50), nperseg=8, average=average)
    same("coherence", draw(3, 60), draw(3, 60), nperseg=8)
    for mode in ("psd", "complex", "magnitude", "angle", "phase", "wrong"):
        same("spectrogram", draw(3, 60), nperseg=16, mode=mode, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_transforms_over_time() -> None:
    for kind, boundary, padded, axis in itertools.product(
        "dD", ("zeros", "even", "odd", "constant", None, "wrong"), (True, False), (0, -1)
    ):
        x = draw(*((40, 3) if axis == 0 else (3, 40)), kind=kind)
        same(
            "stft", x, nperseg=15, noverlap=9, nfft=20, boundary=boundary, padded=padded, axis=axis
        )
    for size, scaling in itertools.product((16, 15), ("spectrum", "psd", "wrong")):
        half = size // 2 + 1
        given: dict[str, Any] = {"nperseg": size, "noverlap": size - 4, "scaling": scaling}
        same("istft", draw(3, half, 9, kind="D"), **given)
        same("istft", draw(half, 3, 9, kind="D"), freq_axis=0, **given)
        same("istft", draw(9, 3, half, kind="D"), time_axis=0, freq_axis=-1, **given)
        same("istft", draw(3, half, 9, kind="D"), boundary=False, **given)
        same("istft", draw(3, size, 9, kind="D"), input_onesided=False, **given)


# -- scipy.fft -------------------------------------------------------------------------------------

transformed = functools.partial(assert_as_scipy, fft, scipy.fft)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_fourier_transforms(name: str) -> None:
    for kind, n, axis, norm in itertools.product(
        "dDfF", (None, 3, 6), (0, -1), (None, "ortho", "forward", "wrong")
    ):
        transformed(name, draw(4, 5, kind=kind), n=n, axis=axis, norm=norm)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", [f + n for f in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for n in "2n"]
)
def test_fourier_transforms_of_several_axes(name: str) -> None:
    places: list[dict[str, Any]] = [
        {},
        {"s": (3, 6)},
        {"s": (3, 6), "axes": (0, 1)},
        {"axes": (2, 0)},
        {"s": (-1, 4)},
    ]
    places += [{"s": (3,)}, {"s": (2, 2, 2, 2)}]
    for kind, options, norm in itertools.product("dD", places, (None, "forward")):
        transformed(name, draw(4, 5, 3, kind=kind), norm=norm, **options)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("type", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"])
def test_cosine_transforms(name: str, type: int) -> None:
    sizes: dict[str, Any] = {"s": (2, 6)} if name.endswith("n") else {"n": 6, "axis": 0}
    for kind, options, norm, orthogonalize in itertools.product(
        "dD", ({}, sizes), (None, "ortho", "forward"), (None, True, False)
    ):
        transformed(
            name,
            draw(3, 4, kind=kind),
            type=type,
            norm=norm,
            orthogonalize=orthogonalize,
            **options,
        )


def test_hankel_transforms() -> None:
    for name, n, bias in itertools.product(("fht", "ifht"), (7, 8), (0.0, 0.3)):
        transformed(name, draw(2, n), 0.1, 0.5, 0.2, bias)
    assert fft.next_fast_len(7) == scipy.fft.next_fast_len(7)
    transformed("fftshift", draw(3, 4), axes=1)
    transformed("ifftshift", draw(3, 5))
