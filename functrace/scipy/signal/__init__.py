"""``scipy.signal`` for traced values: convolution, filters, spectra, resampling.

Windows, filter orders and similar arguments are static; samples and filter coefficients are
differentiable. Other names are SciPy's own: filter design, windows, ``correlation_lags``.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import signal
    >>> x = np.array([1.0, 0.0, 0.0, 0.0])
    >>> ft.grad(lambda a: np.sum(signal.lfilter([1.0], [1.0, a], x)))(-0.5)
    np.float64(-2.75)

Layer: 9.
"""

# pyright: reportUnusedImport=false
# (what is imported here is exported; `__getattr__` adds SciPy's other names)
from __future__ import annotations

from typing import Any

import scipy.signal

from functrace.scipy.signal.convolving import (  # noqa: F401
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    oaconvolve,
)
from functrace.scipy.signal.filtering import (  # noqa: F401
    filtfilt,
    lfilter,
    lfilter_zi,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from functrace.scipy.signal.spectra import (  # noqa: F401
    coherence,
    csd,
    istft,
    periodogram,
    spectrogram,
    stft,
    welch,
)
from functrace.scipy.signal.trends import (  # noqa: F401
    decimate,
    detrend,
    hilbert,
    hilbert2,
    resample,
    resample_poly,
    savgol_filter,
    upfirdn,
)


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.signal, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.signal)})
