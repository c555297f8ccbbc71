"""Spectra of signals, from transforms of segments; see `functrace.scipy.signal`.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import scipy.fft
import scipy.signal

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import one_axis
from functrace.scipy.dispatch import on_traced
from functrace.scipy.operands import Nested, Numeric, Operand, X
from functrace.scipy.signal.convolving import numbers, real_kind
from functrace.scipy.signal.filtering import extended
from functrace.scipy.signal.trends import detrend as without_trend
from functrace.typing import Array

Window: TypeAlias = str | tuple[Any, ...] | Operand
Trend: TypeAlias = str | bool | Callable[[Any], Any]
Spectrum = tuple[Any, Any]
"""Frequencies (or times), and a density (or a signal)."""


def _window(
    name: str, window: Window, nperseg: int | None, length: int, *, usual: int = 256
) -> tuple[Any, int]:
    """Return a window, and its number of samples."""
    if nperseg is not None and int(nperseg) < 1:
        raise ShapeError(
            f"scipy.signal.{name}: nperseg must be a positive integer, not {nperseg}",
            fix="leave it out",
        )
    if isinstance(window, str | tuple):
        size = usual if nperseg is None else int(nperseg)
        if size > length:
            warnings.warn(
                f"nperseg = {size} is greater than signal length = {length}, using nperseg = "
                f"{length}",
                stacklevel=4,
            )
            size = length
        return scipy.signal.get_window(window, size), size  # type: ignore[arg-type]
    found: Any = numbers(window)
    if found.ndim != 1 or found.shape[0] > length:
        raise ShapeError(
            f"scipy.signal.{name}: a window of shape {found.shape} does not fit {length} samples",
            fix="pass a shorter vector",
        )
    if nperseg is not None and int(nperseg) != found.shape[0]:
        raise ShapeError(
            f"scipy.signal.{name}: value specified for nperseg is different from length of window",
            fix="leave nperseg= out",
        )
    return found, found.shape[0]


def _sizes(
    name: str, size: int, noverlap: int | None, nfft: int | None, usual: int
) -> tuple[int, int]:
    """Return the samples between the starts of segments, and the points of transforms."""
    points = size if nfft is None else int(nfft)
    if points < size:
        raise ShapeError(
            f"scipy.signal.{name}: nfft must be greater than or equal to nperseg",
            fix=f"pass nfft >= {size}",
        )
    shared = usual if noverlap is None else int(noverlap)
    if shared >= size:
        raise ShapeError(
            f"scipy.signal.{name}: noverlap must be less than nperseg",
            fix=f"pass noverlap < {size}",
        )
    return size - shared, points


def _segments(
    x: Array, window: Array, step: int, points: int, trend: Trend, one_sided: bool
) -> Any:
    """Transform detrended segments along the last axis: shape (..., segments, frequencies)."""
    size: int = window.shape[0]
    last: int = x.shape[-1] - size
    starts = np.arange(0, last + 1, step)
    parts = x[..., starts[:, None] + np.arange(size)]
    if callable(trend):
        parts = trend(parts)
    elif trend:
        parts = without_trend(parts, type="constant" if trend is True else trend)
    parts = window * parts
    return np.fft.rfft(np.real(parts), points) if one_sided else np.fft.fft(parts, points)


def _scale(name: str, scaling: str, window: Array, fs: float, density: str = "density") -> Any:
    if scaling == density:
        return 1.0 / (fs * np.sum(window * window))
    if scaling == "spectrum":
        return 1.0 / np.sum(window) ** 2
    raise ShapeError(
        f"scipy.signal.{name}: unknown scaling: {scaling!r}", fix=f"pass 'spectrum' or {density!r}"
    )


def _single(window: Array, dtype: np.dtype[Any]) -> Any:
    """Return a window in the precision of the result."""
    return window.astype(np.float32) if dtype == np.complex64 else window


def _doubled(spectrum: Array, points: int) -> Any:
    """Double, along the last axis, the frequencies of half a spectrum that represent two."""
    weights = np.full(spectrum.shape[-1], 2.0, real_kind(spectrum.dtype))
    weights[0] = 1.0
    if points % 2 == 0:
        weights[-1] = 1.0
    return spectrum * weights


# -- averages --------------------------------------------------------------------------------------


@on_traced(scipy.signal.csd)
def csd(
    x: Numeric[X, "*rest n"] | Nested,
    y: Numeric[X, "*others m"] | Nested,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Spectrum:
    """``scipy.signal.csd``: the cross power spectral density of two signals, by Welch's method.

    Args:
        x: samples, shape (..., n) for the last axis.
        y: samples of the other signal; the shorter one is padded with zeros, and other axes
            broadcast.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or its samples, a vector,
            which may be traced.
        nperseg: number of samples per segment; the length of ``window`` if that is a vector,
            otherwise 256.
        noverlap: number of samples that neighbouring segments share; half of a segment by default.
        nfft: number of points of each Fourier transform, at least those of a segment, which is
            padded with zeros; as many by default.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        return_onesided: True for the frequencies from 0 on only; complex signals have all.
        scaling: "density" for power per unit of frequency, or "spectrum" for power.
        axis: the axis of the samples.
        average: "mean" or "median" over the segments.

    Returns:
        a pair: frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; and the complex density, like ``x`` with f elements along the axis.

    Raises:
        ShapeError: if the window, ``nperseg``, ``noverlap`` or ``nfft`` do not fit each other, or a
            name is unknown.
        DtypeError: if ``x`` is real, ``y`` complex, and ``return_onesided`` true.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.csd(x, x**2, nperseg=16)[1])(np.sin(np.arange(64.0)))
        >>> values.shape
        (9,)
    """
    return _averaged(
        "csd",
        x,
        y,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


@on_traced(scipy.signal.welch)
def welch(
    x: Numeric[X, "*rest n"] | Nested,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Spectrum:
    """``scipy.signal.welch``: the power spectral density, averaged over segments.

    Args:
        x: samples, shape (..., n) for the last axis.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or its samples, a vector,
            which may be traced.
        nperseg: number of samples per segment; the length of ``window`` if that is a vector,
            otherwise 256.
        noverlap: number of samples that neighbouring segments share; half of a segment by default.
        nfft: number of points of each Fourier transform, at least those of a segment, which is
            padded with zeros; as many by default.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        return_onesided: True for the frequencies from 0 on only; complex signals have all.
        scaling: "density" for power per unit of frequency, or "spectrum" for power.
        axis: the axis of the samples.
        average: "mean" or "median" over the segments.

    Returns:
        a pair: frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; and the real density, like ``x`` with f elements along the axis.

    Raises:
        ShapeError: if the window, ``nperseg``, ``noverlap`` or ``nfft`` do not fit each other, or a
            name is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.welch(x, nperseg=16)[1])(np.sin(np.arange(64.0)))
        >>> values.shape
        (9,)
    """
    return _averaged(
        "welch",
        x,
        x,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


@on_traced(scipy.signal.periodogram)
def periodogram(
    x: Numeric[X, "*rest n"] | Nested,
    fs: float = 1.0,
    window: Window | None = "boxcar",
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> Spectrum:
    """``scipy.signal.periodogram``: the power spectral density of the whole signal.

    Args:
        x: samples, shape (..., n) for the last axis.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or n samples of it; ``None``
            for all ones.
        nfft: number of points of the Fourier transform; fewer than n cut the signal, more pad it
            with zeros.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        return_onesided: True for the frequencies from 0 on only; complex signals have all.
        scaling: "density" for power per unit of frequency, or "spectrum" for power.
        axis: the axis of the samples.

    Returns:
        a pair: frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; and the real density, like ``x`` with f elements along the axis.

    Raises:
        ShapeError: if the window does not fit the signal, or a name is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.periodogram(x)[1])(np.sin(np.arange(64.0)))
        >>> values.shape
        (33,)
    """
    made = numbers(x)
    place = one_axis(axis, made.ndim)
    n = made.shape[place]
    if nfft is not None and nfft < n:
        made, n, nfft = made[(*(slice(None),) * place, slice(nfft))], nfft, None
    chosen = "boxcar" if window is None else window
    return _averaged(
        "periodogram",
        made,
        made,
        fs,
        chosen,
        n,
        0,
        nfft,
        detrend,
        return_onesided,
        scaling,
        place,
        "mean",
    )


def _is_one_sided(name: str, one_sided: bool, x: Array, y: Array) -> bool:
    """Return True if only the frequencies from 0 on are returned: complex signals have all."""
    if one_sided and x.dtype.kind != "c" and y.dtype.kind == "c":
        raise DtypeError(
            f"scipy.signal.{name}: a complex y beside a real x has no half",
            fix="pass return_onesided=False",
        )
    return one_sided and x.dtype.kind != "c"


def _averaged(
    name: str,
    x: Operand,
    y: Operand,
    fs: float,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    trend: Trend,
    one_sided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> Spectrum:
    first, same = numbers(x), y is x
    second = first if same else numbers(y)
    dtype = np.result_type(first.dtype, second.dtype, np.complex64)
    place = one_axis(axis, first.ndim)
    first = np.moveaxis(first, place, -1)
    second = first if same else np.moveaxis(second, one_axis(axis, second.ndim), -1)
    n = max(first.shape[-1], second.shape[-1])
    if not n:
        return np.empty(first.shape), np.empty(first.shape)
    first, second = (
        v if v.shape[-1] == n else np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])])
        for v in (first, second)
    )
    chosen, size = _window(name, window, nperseg, n)
    step, points = _sizes(name, size, noverlap, nfft, size // 2)
    one_sided = _is_one_sided(name, one_sided, first, second)
    scale = _scale(name, scaling, chosen, fs)
    spectra = _segments(first, chosen, step, points, trend, one_sided)
    if same:
        power = np.real(spectra) ** 2 + np.imag(spectra) ** 2
    else:
        power = np.conj(spectra) * _segments(second, chosen, step, points, trend, one_sided)
    power = power * scale
    if one_sided:
        power = _doubled(power, points)
    count = power.shape[-2]
    if count == 1:
        power = power[..., 0, :]
    elif average == "mean":
        power = np.mean(power, axis=-2)
    elif average == "median":
        odd = 2 * np.arange(1.0, (count - 1) // 2 + 1)
        bias = 1 + np.sum(1.0 / (odd + 1) - 1.0 / odd)
        parts = [
            np.median(part, axis=-2)
            for part in ([power] if same else [np.real(power), np.imag(power)])
        ]
        power = (parts[0] if same else parts[0] + 1j * parts[1]) / bias
    else:
        raise ShapeError(
            f"scipy.signal.{name}: average={average!r} must be 'median' or 'mean'",
            fix="leave it out",
        )
    power = np.moveaxis(power, -1, place if axis >= 0 else axis)
    frequencies = (scipy.fft.rfftfreq if one_sided else scipy.fft.fftfreq)(points, 1 / fs)
    return frequencies, power.astype(real_kind(dtype) if same else dtype)


@on_traced(scipy.signal.coherence)
def coherence(
    x: Numeric[X, "*rest n"] | Nested,
    y: Numeric[X, "*others m"] | Nested,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    axis: int = -1,
) -> Spectrum:
    """``scipy.signal.coherence``: the squared magnitude of the cross spectrum, over both power
    spectra.

    Args:
        x: samples, shape (..., n) for the last axis.
        y: samples of the other signal; the other axes broadcast.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or its samples, a vector,
            which may be traced.
        nperseg: number of samples per segment; the length of ``window`` if that is a vector,
            otherwise 256.
        noverlap: number of samples that neighbouring segments share; half of a segment by default.
        nfft: number of points of each Fourier transform, at least those of a segment, which is
            padded with zeros; as many by default.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        axis: the axis of the samples.

    Returns:
        a pair: frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; and the coherence, real numbers from 0 to 1, like ``x`` with f elements
        along the axis.

    Raises:
        ShapeError: if the window, ``nperseg``, ``noverlap`` or ``nfft`` do not fit each other, or a
            name is unknown.
        DtypeError: if ``x`` is real and ``y`` complex.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.coherence(x, x**2, nperseg=16)[1])(np.sin(np.arange(64.0)))
        >>> values.shape
        (9,)
    """
    given = (fs, window, nperseg, noverlap, nfft, detrend, True, "density", axis, "mean")
    (frequencies, first), (_, second) = (
        _averaged("coherence", x, x, *given),
        _averaged("coherence", y, y, *given),
    )
    _, crossed = _averaged("coherence", x, y, *given)
    return frequencies, (np.real(crossed) ** 2 + np.imag(crossed) ** 2) / first / second


# -- over time -------------------------------------------------------------------------------------


def _over_time(
    name: str,
    x: Operand,
    fs: float,
    window: Window,
    nperseg: int | None,
    noverlap: tuple[int | None, int],
    nfft: int | None,
    trend: Trend,
    one_sided: bool,
    scaling: str,
    axis: int,
    power: bool,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Any, Any, Any]:
    samples = numbers(x)
    place = one_axis(axis, samples.ndim)
    if 0 in samples.shape:
        return np.empty(samples.shape), np.empty(samples.shape), np.empty(samples.shape)
    dtype = np.result_type(samples.dtype, np.complex64)
    if boundary not in ("even", "odd", "constant", "zeros", None):
        raise ShapeError(
            f"scipy.signal.{name}: unknown boundary option {boundary!r}",
            fix="pass 'even', 'odd', 'constant', 'zeros' or None",
        )
    samples = np.moveaxis(samples, place, -1)
    chosen, size = _window(name, window, nperseg, samples.shape[-1])
    step, points = _sizes(name, size, noverlap[0], nfft, size // noverlap[1])
    if boundary is not None:
        samples = extended(samples, size // 2, boundary)
    if padded:
        more = (-(samples.shape[-1] - size) % step) % size
        samples = np.pad(samples, [(0, 0)] * (samples.ndim - 1) + [(0, more)])
    if one_sided and samples.dtype.kind == "c":
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=4)
        one_sided = False
    chosen = _single(chosen, dtype)
    scale = _scale(name, scaling, chosen, fs)
    made = _segments(samples, chosen, step, points, trend, one_sided)
    if power:
        made = (np.real(made) ** 2 + np.imag(made) ** 2) * scale
        made = _doubled(made, points) if one_sided else made
        made = made.astype(real_kind(dtype))
    else:
        made = (made * np.sqrt(scale)).astype(dtype)
    times = np.arange(size / 2, samples.shape[-1] - size / 2 + 1, step) / float(fs)
    if boundary is not None:
        times = times - (size / 2) / fs
    frequencies = (scipy.fft.rfftfreq if one_sided else scipy.fft.fftfreq)(points, 1 / fs)
    # Frequencies replace the samples' axis, and times come last.
    made = np.swapaxes(made, -1, -2)
    return frequencies, times, np.moveaxis(made, -2, place if axis >= 0 else axis - 1)


@on_traced(scipy.signal.stft)
def stft(
    x: Numeric[X, "*rest n"] | Nested,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:
    """``scipy.signal.stft``: Fourier transforms of segments, over time.

    Args:
        x: samples, shape (..., n) for the last axis.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or its samples, a vector,
            which may be traced.
        nperseg: number of samples per segment; the length of ``window`` if that is a vector.
        noverlap: number of samples that neighbouring segments share; half of a segment by default.
        nfft: number of points of each Fourier transform, at least those of a segment, which is
            padded with zeros; as many by default.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        return_onesided: True for the frequencies from 0 on only; complex signals have all.
        boundary: how the signal is continued by half a segment at both ends: "zeros", "even",
            "odd", "constant", or ``None``.
        padded: True to append zeros until segments cover all samples.
        axis: the axis of the samples.
        scaling: "spectrum" for amplitudes, or "psd" for roots of densities.

    Returns:
        frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; times of the centers of segments, shape (t,), in units of 1 / ``fs``; and
        the complex transforms, like ``x`` with f elements along the axis and a last axis of t.

    Raises:
        ShapeError: if the window, ``nperseg``, ``noverlap`` or ``nfft`` do not fit each other, or a
            name is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.stft(x, nperseg=16)[2])(np.sin(np.arange(64.0)))
        >>> values.shape
        (9, 9)
    """
    if scaling not in ("spectrum", "psd"):
        raise ShapeError(
            f"scipy.signal.stft: scaling={scaling!r} not in ['spectrum', 'psd']", fix="leave it out"
        )
    scaling = "density" if scaling == "psd" else scaling
    given = (nfft, detrend, return_onesided, scaling, axis, False, boundary, padded)
    size = None if not isinstance(window, str | tuple) and nperseg == 256 else nperseg
    return _over_time("stft", x, fs, window, size, (noverlap, 2), *given)


@on_traced(scipy.signal.spectrogram)
def spectrogram(
    x: Numeric[X, "*rest n"] | Nested,
    fs: float = 1.0,
    window: Window = ("tukey_periodic", 0.25),
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> tuple[Any, Any, Any]:
    """``scipy.signal.spectrogram``: spectra of segments, over time.

    Args:
        x: samples, shape (..., n) for the last axis.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: name of a window, a tuple of its name and parameters, or its samples, a vector,
            which may be traced.
        nperseg: number of samples per segment; the length of ``window`` if that is a vector,
            otherwise 256.
        noverlap: number of samples that neighbouring segments share; an eighth of a segment by
            default.
        nfft: number of points of each Fourier transform, at least those of a segment, which is
            padded with zeros; as many by default.
        detrend: what is subtracted from each segment: "constant" (its mean), "linear" (its line),
            ``False`` (nothing); or a function of segments along the last axis.
        return_onesided: True for the frequencies from 0 on only; complex signals have all.
        scaling: "density" for power per unit of frequency, or "spectrum" for power.
        axis: the axis of the samples.
        mode: "psd" (real power), "complex" (transforms), "magnitude", "angle" or "phase" (an
            unwrapped angle), in radians.

    Returns:
        frequencies, shape (f,), in the unit of ``fs``, with f = nfft // 2 + 1 for one side,
        otherwise nfft; times of the centers of segments, shape (t,), in units of 1 / ``fs``; and
        the spectra, like ``x`` with f elements along the axis and a last axis of t.

    Raises:
        ShapeError: if the window, ``nperseg``, ``noverlap`` or ``nfft`` do not fit each other, or a
            name is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.spectrogram(x, nperseg=16)[2])(np.sin(np.arange(64.0)))
        >>> values.shape
        (9, 4)
    """
    if mode not in ("psd", "complex", "magnitude", "angle", "phase"):
        raise ShapeError(
            f"scipy.signal.spectrogram: unknown value for mode {mode!r}",
            fix="pass 'psd', 'complex', 'magnitude', 'angle' or 'phase'",
        )
    given = (nfft, detrend, return_onesided, scaling, axis, mode == "psd")
    frequencies, times, made = _over_time(
        "spectrogram", x, fs, window, nperseg, (noverlap, 8), *given
    )
    if mode == "magnitude":
        made = np.abs(made)
    elif mode in ("angle", "phase"):
        made = np.angle(made)
        if mode == "phase":
            made = np.unwrap(made, axis=axis - 1 if axis < 0 else axis)
    return frequencies, times, made


@on_traced(scipy.signal.istft)
def istft(
    Zxx: Numeric[X, "*rest f t"] | Nested,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: SupportsIndex = -1,
    freq_axis: SupportsIndex = -2,
    scaling: str = "spectrum",
) -> Spectrum:
    """``scipy.signal.istft``: the signal from the transforms of its segments.

    Args:
        Zxx: transforms of segments, of at least two axes: f frequencies and t times.
        fs: number of samples per unit of time; in Hz if times are in seconds.
        window: the window of the transform: a name, a tuple of name and parameters, or its samples.
        nperseg: number of samples per segment; by default from f.
        noverlap: number of samples that neighbouring segments share; half of a segment by default.
        nfft: number of points of each Fourier transform; by default from f and ``nperseg``.
        input_onesided: True if the transforms have the frequencies from 0 on only.
        boundary: True to remove half a segment at both ends, by which `stft` extends the signal.
        time_axis, freq_axis: the axes of times and of frequencies.
        scaling: the scaling of the transform, "spectrum" or "psd".

    Returns:
        a pair: times, shape (n,), in units of 1 / ``fs``; and the signal, of the shape of ``Zxx``
        with n samples along the time axis and without the frequency axis; real for
        ``input_onesided``.

    Raises:
        ShapeError: if there are fewer than two axes, both are the same, sizes of the window,
            segments and transforms do not fit each other, or ``scaling`` is unknown.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1])(np.sin(np.arange(64.0)))
        >>> values.shape
        (64,)
    """
    made = numbers(Zxx) + 0j
    if made.ndim < 2:
        raise ShapeError(
            "scipy.signal.istft: input stft must be at least 2d", fix="pass frequencies and times"
        )
    when, what = one_axis(time_axis, made.ndim), one_axis(freq_axis, made.ndim)
    if when == what:
        raise ShapeError(
            "scipy.signal.istft: must specify differing time and frequency axes",
            fix="pass two axes",
        )
    others = [k for k in range(made.ndim) if k not in (when, what)]
    made = np.transpose(made, (*others, when, what))
    segments, n = made.shape[-2:]
    usual = 2 * (n - 1) if input_onesided else n
    size = usual if nperseg is None else int(nperseg)
    points = nfft
    if points is None:
        points = size if input_onesided and size == usual + 1 else usual
    step, points = _sizes("istft", size, noverlap, max(points, 0), size // 2)
    if isinstance(window, str | tuple):
        chosen: Any = scipy.signal.get_window(window, size)  # type: ignore[arg-type]
    else:
        chosen = numbers(window)
        if chosen.shape != (size,):
            raise ShapeError(
                f"scipy.signal.istft: window must have length of {size}", fix="pass nperseg= too"
            )
    parts = (np.fft.irfft if input_onesided else np.fft.ifft)(made, points)[..., :size]
    chosen = _single(chosen, np.result_type(parts.dtype, np.complex64))
    if scaling == "spectrum":
        parts = parts * np.sum(chosen)
    elif scaling == "psd":
        parts = parts * np.sqrt(fs * np.sum(chosen**2))
    else:
        raise ShapeError(
            f"scipy.signal.istft: scaling={scaling!r} not in ['spectrum', 'psd']",
            fix="leave it out",
        )
    x = _overlapped(parts * chosen, step)
    norm = _overlapped(np.broadcast_to(chosen**2, (segments, size)), step)
    if boundary:
        x, norm = (v[..., size // 2 : -(size // 2)] for v in (x, norm))
    enough = norm > 1e-10
    x = x / np.where(enough, norm, 1.0)
    if input_onesided:
        x = np.real(x)
    if x.ndim > 1 and when != made.ndim - 1:
        x = np.moveaxis(x, -1, when - 1 if what < when else when)
    count: int = x.shape[0]
    return np.arange(count) / float(fs), x


def _overlapped(parts: Array, step: int) -> Any:
    """Add up overlapping segments, shape (..., segments, size), ``step`` samples apart."""
    segments, size = parts.shape[-2:]
    # Cut into pieces of one step, which form diagonals: piece j of segment i goes to position i +
    # j.
    pieces = -(-size // step)
    room = [(0, 0)] * (parts.ndim - 1) + [(0, pieces * step - size)]
    cut = np.pad(parts, room).reshape(*parts.shape[:-1], pieces, step)
    total: Any = None
    for j in range(pieces):
        room = [(0, 0)] * (parts.ndim - 2) + [(j, pieces - 1 - j), (0, 0)]
        part = np.pad(cut[..., j, :], room)
        total = part if total is None else total + part
    return total.reshape(*parts.shape[:-2], -1)[..., : (segments - 1) * step + size]
