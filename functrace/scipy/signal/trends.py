"""Trends, analytic signals, smoothing and resampling; see `functrace.scipy.signal`.

Layer: 9.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, SupportsIndex

import numpy as np
import scipy.signal

from functrace.errors import DtypeError, ShapeError
from functrace.numpy.protocol.operands import axis_tuple, one_axis
from functrace.ops.grids import convolve_grids
from functrace.scipy.dispatch import on_traced
from functrace.scipy.kinds import Given
from functrace.scipy.operands import Axis, Nested, Numeric, Operand, X
from functrace.scipy.signal.convolving import along, numbers, real_kind
from functrace.scipy.signal.filtering import filtfilt, lfilter, sosfilt, sosfiltfilt
from functrace.typing import Array

_design: Any = scipy.signal


@on_traced(scipy.signal.detrend)
def detrend(
    data: Numeric[X, "*rest n"] | Nested,
    axis: SupportsIndex = -1,
    type: str = "linear",
    bp: Operand = 0,
    overwrite_data: bool = False,
) -> Numeric[Array, "*rest n"]:
    """``scipy.signal.detrend``: subtract the least-squares line, or the mean, of each part.

    Args:
        data: samples, shape (..., n) for the last axis.
        axis: the axis of the samples.
        type: "linear" or "constant".
        bp: positions at which the parts begin, each with a line of its own; not for "constant".
        overwrite_data: accepted for SciPy's signature; it has no effect on traced values.

    Returns:
        what remains, of the shape of ``data``; integers become float64.

    Raises:
        ShapeError: if ``type`` is unknown, or a breakpoint is greater than n.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(signal.detrend)(np.array([0.0, 1.0, 5.0])), 4)
        array([ 0.5, -1. ,  0.5])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ShapeError(
            "scipy.signal.detrend: trend type must be 'linear' or 'constant'",
            fix="leave it out for 'linear'",
        )
    x = numbers(data)
    place = one_axis(axis, x.ndim)
    if type in ("constant", "c"):
        return x - np.mean(x, axis=place, keepdims=True)
    n = x.shape[place]
    breaks = np.unique(np.concatenate([[0], np.atleast_1d(np.asarray(bp)).ravel(), [n]])).astype(
        int
    )
    if np.any(breaks > n):
        raise ShapeError(
            "scipy.signal.detrend: breakpoints must be less than length of data along given axis, "
            f"which is {n}",
            fix="pass positions of samples",
        )
    x = np.moveaxis(x, place, -1)
    parts: list[Any] = []
    for start, stop in itertools.pairwise(breaks):
        count = int(stop - start)
        # The projection onto an orthonormal basis of the lines, subtracted.
        basis = np.linalg.qr(
            np.stack([np.ones(count), np.arange(count) - (count - 1) / 2], axis=1)
        )[0][:, : min(2, count)]
        if count == 1:
            basis = np.ones((1, 1))
        basis = basis.astype(real_kind(x.dtype))
        part = x[..., start:stop]
        parts.append(part - (part @ basis) @ basis.T)
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, place)


def _half(n: int, last: float = 1.0) -> Array:
    """Return factors of frequencies: 2 if positive, 0 if negative, ``last`` for Nyquist."""
    factors = np.zeros(n)
    factors[0] = 1
    factors[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        factors[n // 2] = last
    return factors


@on_traced(scipy.signal.hilbert)
def hilbert(
    x: Numeric[X, "*rest n"] | Nested, N: int | None = None, axis: SupportsIndex = -1
) -> Numeric[Array, "..."]:
    """``scipy.signal.hilbert``: the analytic signal, without negative frequencies.

    Args:
        x: real samples, shape (..., n) for the last axis.
        N: number of points of the Fourier transform, n by default; fewer cut the signal, more pad
            it with zeros.
        axis: the axis of the samples.

    Returns:
        the complex signal, of the shape of ``x`` with N elements along the axis; its real part is
        ``x``.

    Raises:
        DtypeError: if ``x`` is complex.
        ShapeError: if ``N`` is not positive.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(signal.hilbert)(np.array([1.0, 0.0, -1.0, 0.0])), 4)
        array([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
    """
    made = numbers(x)
    if made.dtype.kind == "c":
        raise DtypeError("scipy.signal.hilbert: x must be real", fix="take its real part")
    place = one_axis(axis, made.ndim)
    n = made.shape[place] if N is None else int(N)
    if n <= 0:
        raise ShapeError(f"scipy.signal.hilbert: N must be positive, not {n}", fix="leave it out")
    spectrum = np.fft.fft(made, n, place)
    factors = _half(n).astype(made.dtype).reshape(-1, *(1,) * (made.ndim - place - 1))
    return np.fft.ifft(spectrum * factors, axis=place)


@on_traced(scipy.signal.hilbert2)
def hilbert2(
    x: Numeric[X, "*rest n m"] | Nested,
    N: int | tuple[int, int] | None = None,
    axes: Axis = (-2, -1),
) -> Numeric[Array, "..."]:
    """``scipy.signal.hilbert2``: the analytic signal of two axes.

    Args:
        x: real samples, shape (..., n, m) for the last axes.
        N: number of points along both axes, or along each; as many as samples by default.
        axes: the two axes of the signal.

    Returns:
        the complex signal, of the shape of ``x`` with N elements along the axes.

    Raises:
        DtypeError: if ``x`` is complex.
        ShapeError: if ``axes`` are not two.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(signal.hilbert2)(np.eye(4)).shape
        (4, 4)
    """
    made = numbers(x)
    if made.dtype.kind == "c":
        raise DtypeError("scipy.signal.hilbert2: x must be real", fix="take its real part")
    places = axis_tuple(axes, made.ndim)
    if len(places) != 2:
        raise ShapeError("scipy.signal.hilbert2 needs two axes", fix="pass two")
    sizes = (
        tuple([made.shape[k] for k in places])
        if N is None
        else (N, N)
        if isinstance(N, int)
        else tuple(N)
    )
    spectrum = np.fft.fft2(made, sizes, places)
    for n, k in zip(sizes, places, strict=True):
        spectrum = spectrum * _half(n, 0.0).astype(made.dtype).reshape(
            -1, *(1,) * (made.ndim - k - 1)
        )
    return np.fft.ifft2(spectrum, axes=places)


# -- smoothing -------------------------------------------------------------------------------------


_EDGES: dict[str, Any] = {
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "constant": "constant",
}


@on_traced(scipy.signal.savgol_filter)
def savgol_filter(
    x: Numeric[X, "*rest n"] | Nested,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: SupportsIndex = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Numeric[Array, "*rest n"]:
    """``scipy.signal.savgol_filter``: least-squares polynomials through windows, and their
    derivatives.

    Args:
        x: real samples, shape (..., n) for the last axis.
        window_length: number of samples to which a polynomial is fitted.
        polyorder: degree of the polynomial.
        deriv: order of the derivative to return; 0 for the values.
        delta: distance of samples, for derivatives.
        axis: the axis of the samples.
        mode: "interp" to evaluate the first and the last polynomial near the ends; or an extension
            of the samples: "mirror", "nearest", "wrap" or "constant".
        cval: value beyond the ends for "constant".

    Returns:
        a real array of the shape of ``x``: float32 for float32, otherwise float64.

    Raises:
        DtypeError: if ``x`` is complex.
        ShapeError: if ``mode`` is unknown; if the window is longer than the signal, for "interp".

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(lambda x: signal.savgol_filter(x, 3, 1))(np.array([0.0, 3.0, 0.0])), 4)
        array([1., 1., 1.])
    """
    if mode not in ("interp", *_EDGES):
        raise ShapeError(
            f"scipy.signal.savgol_filter: mode={mode!r} must be 'mirror', 'constant', 'nearest', "
            "'wrap' or 'interp'",
            fix="leave it out for 'interp'",
        )
    made = numbers(x)
    if made.dtype.kind == "c":
        raise DtypeError(
            "scipy.signal.savgol_filter: x must be real", fix="filter real and imaginary parts"
        )
    made = made if made.dtype in (np.float32, np.float64) else made.astype(np.float64)
    place = one_axis(axis, made.ndim)
    n = made.shape[place]
    weights = scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    made = np.moveaxis(made, place, -1)
    # For a window of even length SciPy's convolution is centered on the element after the middle.
    before, behind = (window_length - 1) // 2, window_length // 2
    weights = weights.astype(made.dtype)
    shape = (*(1,) * (made.ndim - 1), -1)
    if mode != "interp":
        room = [(0, 0)] * (made.ndim - 1) + [(before, behind)]
        given = {"constant_values": cval} if mode == "constant" else {}
        wide = np.pad(made, room, mode=_EDGES[mode], **given)
        return np.moveaxis(convolve_grids(wide, weights.reshape(shape), 0, "valid"), -1, place)
    if window_length > n:
        raise ShapeError(
            "scipy.signal.savgol_filter: if mode is 'interp', window_length must be less than or "
            "equal to the size of x, "
            f"{n}",
            fix="pass a shorter window, or another mode",
        )
    middle = convolve_grids(made, weights.reshape(shape), 0, "valid")
    half = window_length // 2
    first, last = made[..., :window_length], made[..., n - window_length :]
    start = (
        first
        @ _fitted(window_length, polyorder, deriv, delta, np.arange(half)).astype(made.dtype).T
    )
    stop = (
        last
        @ _fitted(
            window_length, polyorder, deriv, delta, np.arange(window_length - half, window_length)
        )
        .astype(made.dtype)
        .T
    )
    middle = middle[..., half - before : half - before + n - 2 * half]
    return np.moveaxis(np.concatenate([start, middle, stop], axis=-1), -1, place)


def _fitted(size: int, order: int, deriv: int, delta: float, at: Array) -> Array:
    """Return the matrix from samples to a derivative of their polynomial at positions."""
    middle, half = (size - 1) / 2, max((size - 1) / 2, 1.0)
    basis = np.polynomial.legendre.legvander((np.arange(size) - middle) / half, order)
    wanted = np.zeros((len(at), order + 1))
    for k in range(order + 1):
        unit = np.zeros(order + 1)
        unit[k] = 1
        lowered = np.polynomial.legendre.legder(unit, deriv) if deriv else unit
        wanted[:, k] = np.polynomial.legendre.legval((at - middle) / half, lowered)
    return wanted @ np.linalg.pinv(basis) / (half * delta) ** deriv


# -- other rates -----------------------------------------------------------------------------------


@on_traced(scipy.signal.resample)
def resample(
    x: Operand,
    num: int,
    t: Operand | None = None,
    axis: SupportsIndex = 0,
    window: Operand | str | None = None,
    domain: str = "time",
) -> Any:
    """``scipy.signal.resample``: ``num`` samples of the band-limited periodic signal.

    Args:
        x: samples, shape (n, ...) for the first axis; or, for ``domain="freq"``, their Fourier
            transform.
        num: number of new samples.
        t: equidistant times of the samples, shape (n,); then the new times are returned, too.
        axis: the axis to resample.
        window: factors of the n frequencies: a vector, the name of a window, or a function of
            frequencies in cycles per sample.
        domain: "time" or "freq".

    Returns:
        the new samples, of the shape of ``x`` with ``num`` elements along the axis, real for real
        samples; with ``t``, a pair of these and the new times, shape (num,).

    Raises:
        ShapeError: if ``num`` is not positive, ``domain`` is unknown, or ``window`` does not have n
            elements.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> np.round(ft.jit(lambda x: signal.resample(x, 2))(np.array([1.0, 2.0, 3.0, 2.0])), 4)
        array([1., 3.])
    """
    if domain not in ("time", "freq"):
        raise ShapeError(
            f"scipy.signal.resample: domain={domain!r} must be 'time' or 'freq'", fix="leave it out"
        )
    num = int(num)
    if num < 1:
        raise ShapeError(
            f"scipy.signal.resample: num={num} must be positive",
            fix="pass how many samples are wanted",
        )
    made = numbers(x)
    place = one_axis(axis, made.ndim)
    n = made.shape[place]
    made = np.moveaxis(made, place, -1)
    factors: Any = None
    if window is not None:
        if callable(window):
            frequency_factors: Any = window
            factors = frequency_factors(np.fft.fftfreq(n))
        elif isinstance(window, str | tuple):
            factors = np.fft.fftshift(scipy.signal.get_window(window, n))
        else:
            factors = numbers(window)
        if factors.shape != (n,):
            raise ShapeError(
                f"scipy.signal.resample: window must have {n} elements, got {factors.shape}",
                fix="make it so",
            )
    real = domain == "time" and made.dtype.kind != "c"
    spectrum: Any = made if domain == "freq" else np.fft.fft(made)
    if factors is not None:
        if real:
            factors = (factors + np.concatenate([factors[:1], factors[:0:-1]])) / 2
        spectrum = spectrum * factors
    least = min(n, num)
    positive = spectrum[..., : (least + 1) // 2]
    negative = spectrum[..., n - (least - 1) // 2 :]
    parts = [positive]
    if least % 2 == 0:
        half = least // 2
        middle = spectrum[..., half : half + 1]
        if num < n:
            middle = middle + spectrum[..., n - half : n - half + 1]
            parts += [middle]
        elif num > n:
            parts += [middle * 0.5]
        else:
            parts += [middle]
    zeros = num - sum(p.shape[-1] for p in parts) - negative.shape[-1]
    if least % 2 == 0 and num > n:
        zeros -= 1
        parts += [np.zeros((*made.shape[:-1], zeros), spectrum.dtype), parts[-1]]
    else:
        parts += [np.zeros((*made.shape[:-1], zeros), spectrum.dtype)]
    found = np.fft.ifft(np.concatenate([*parts, negative], axis=-1)) * (num / n)
    found = np.moveaxis(np.real(found) if real else found, -1, place)
    if t is None:
        return found
    times = numbers(t)
    return found, np.arange(num) * (times[1] - times[0]) * n / float(num) + times[0]


@on_traced(scipy.signal.upfirdn)
def upfirdn(
    h: Numeric[X, "k"] | Nested,
    x: Numeric[X, "*rest n"] | Nested,
    up: int = 1,
    down: int = 1,
    axis: SupportsIndex = -1,
    mode: str = "constant",
    cval: float = 0,
) -> Numeric[Array, "..."]:
    """``scipy.signal.upfirdn``: insert zeros, filter, and decimate.

    Only ``mode="constant"`` with ``cval=0``: other modes need an extension of the samples.

    Args:
        h: coefficients of the filter, shape (k,).
        x: samples, shape (..., n) for the last axis.
        up: the rate of insertion: ``up - 1`` zeros between samples.
        down: the rate of decimation: one of ``down`` filtered samples is returned.
        axis: the axis to filter.
        mode, cval: extension of the samples; only "constant" with 0.

    Returns:
        an array of the shape of ``x`` with ceil(((n - 1) * up + k) / down) elements along the axis,
        in the common dtype, float32 at least.

    Raises:
        ShapeError: for another ``mode`` or ``cval``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> ft.jit(lambda x: signal.upfirdn(np.ones(2), x, up=2))(np.array([1.0, 2.0]))
        array([1., 1., 2., 2.])
    """
    if mode != "constant" or cval:
        raise ShapeError(
            f"scipy.signal.upfirdn: mode={mode!r}, cval={cval} of traced values",
            fix="pad with np.pad before",
        )
    taps, made = np.atleast_1d(numbers(h)), numbers(x)
    place = one_axis(axis, made.ndim)
    dtype = np.result_type(taps.dtype, made.dtype, np.float32)
    made = np.moveaxis(made.astype(dtype), place, -1)
    n = made.shape[-1]
    wide = np.pad(made[..., None], [(0, 0)] * made.ndim + [(0, up - 1)]).reshape(
        *made.shape[:-1], n * up
    )
    wide = wide[..., : (n - 1) * up + 1]
    found = convolve_grids(
        wide, taps.astype(dtype).reshape(*(1,) * (made.ndim - 1), -1), made.ndim - 1
    )
    return np.moveaxis(found[..., ::down], -1, place)


@on_traced(scipy.signal.resample_poly)
def resample_poly(
    x: Operand,
    up: int,
    down: int,
    axis: SupportsIndex = 0,
    window: Operand | str | tuple[Any, ...] = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: float | None = None,
) -> Any:
    """``scipy.signal.resample_poly``: resample with a polyphase filter.

    Args:
        x: samples, shape (n, ...) for the first axis.
        up, down: the new rate over the old one, positive integers.
        axis: the axis to resample.
        window: window of the filter's design (a name, or a tuple of its name and parameters), or
            the filter itself, a vector.
        padtype: baseline to subtract before and add after: "constant" (none), "mean", "median",
            "minimum", "maximum".
        cval: value beyond the ends; 0 only.

    Returns:
        an array of the shape of ``x`` with ceil(n * up / down) elements along the axis.

    Raises:
        ShapeError: if ``up`` or ``down`` is not positive, or for another ``padtype`` or ``cval``.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.resample_poly(x, 1, 2))(np.sin(np.arange(64.0)))
        >>> values.shape
        (32,)
    """
    made = numbers(x)
    place = one_axis(axis, made.ndim)
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise ShapeError(
            "scipy.signal.resample_poly: up and down must be >= 1", fix="pass positive integers"
        )
    up, down = up // math.gcd(up, down), down // math.gcd(up, down)
    if up == down == 1:
        return made.copy()
    reduce: dict[str, Any] = {
        "mean": np.mean,
        "median": np.median,
        "minimum": np.min,
        "maximum": np.max,
    }
    if padtype not in ("constant", *reduce) or cval:
        raise ShapeError(
            f"scipy.signal.resample_poly: padtype={padtype!r}, cval={cval} of traced values",
            fix=f"pass one of 'constant', {', '.join(map(repr, reduce))}, or pad with np.pad "
            "before",
        )
    n = made.shape[place]
    wanted = n * up // down + bool(n * up % down)
    if isinstance(window, str | tuple):
        rate = max(up, down)
        half = 10 * rate
        taps: Any = _design.firwin(2 * half + 1, 1.0 / rate, window=window).astype(
            real_kind(made.dtype)
        )
    else:
        taps = numbers(window)
        half = (taps.shape[0] - 1) // 2
    taps = taps * up
    ahead = down - half % down
    skipped = (half + ahead) // down
    behind = 0
    while -(-((n - 1) * up + taps.shape[0] + ahead + behind) // down) < wanted + skipped:
        behind += 1
    background = None
    if padtype in reduce:
        background = reduce[padtype](made, axis=place, keepdims=True)
        made = made - background
    found = upfirdn(np.pad(taps, (ahead, behind)), np.moveaxis(made, place, -1), up, down)
    found = np.moveaxis(found[..., skipped : skipped + wanted], -1, place)
    return found if background is None else found + background


@on_traced(scipy.signal.decimate)
def decimate(
    x: Operand,
    q: SupportsIndex,
    n: SupportsIndex | None = None,
    ftype: Given = "iir",
    axis: SupportsIndex = -1,
    zero_phase: bool = True,
) -> Any:
    """``scipy.signal.decimate``: filter, and keep one of every ``q`` samples.

    Args:
        x: samples, shape (..., n) for the last axis.
        q: the decimation factor.
        n: the order of the filter; 8 for "iir" and 20 q for "fir" by default.
        ftype: "iir" (Chebyshev), "fir" (a Hamming window), or a ``scipy.signal.dlti``.
        axis: the axis to filter.
        zero_phase: True to filter both ways, without delay.

    Returns:
        an array of the shape of ``x`` with ceil(m / q) elements along the axis, for m samples.

    Raises:
        ShapeError: if ``ftype`` is unknown, or there are too few samples for the filter.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import signal
        >>> values = ft.jit(lambda x: signal.decimate(x, 4))(np.sin(np.arange(64.0)))
        >>> values.shape
        (16,)
    """
    made = numbers(x)
    place = one_axis(axis, made.ndim)
    factor = q.__index__()
    kind = np.dtype(np.float64) if made.dtype == np.float16 else made.dtype
    if isinstance(ftype, str) and ftype not in ("iir", "fir"):
        raise ShapeError(
            f"scipy.signal.decimate: invalid ftype {ftype!r}", fix="pass 'iir' or 'fir'"
        )
    every = along(place, slice(None, None, factor))
    if not isinstance(ftype, str) and isinstance(ftype, scipy.signal.dlti):
        system, zeros = ftype._as_tf(), ftype._as_zpk()
        b, a = np.asarray(system.num, kind), np.asarray(system.den, kind)
        if np.size(zeros.poles):
            return (filtfilt if zero_phase else lfilter)(b, a, made, axis=place)[every]
        b = b / a
    elif ftype == "iir":
        sos = _design.cheby1(
            8 if n is None else n.__index__(), 0.05, 0.8 / factor, output="sos"
        ).astype(kind)
        return (sosfiltfilt if zero_phase else sosfilt)(sos, made, axis=place)[every]
    else:
        b = _design.firwin(
            (20 * factor if n is None else n.__index__()) + 1, 1.0 / factor, window="hamming"
        ).astype(kind)
    if zero_phase:
        return resample_poly(made, 1, factor, axis=place, window=b)
    wanted = made.shape[place] // factor + bool(made.shape[place] % factor)
    return upfirdn(b, made, 1, factor, axis=place)[along(place, slice(wanted))]
