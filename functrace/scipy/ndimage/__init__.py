"""``scipy.ndimage`` for traced values: filters and interpolation of images.

Images have any number of axes, and are real, or complex if SciPy accepts complex ones. Other names
are SciPy's own: functions of plain masks and labels, and those that call a Python function per
element.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import ndimage
    >>> x = np.array([0.0, 1.0, 4.0, 9.0])
    >>> ft.grad(lambda at: ndimage.map_coordinates(x, at, order=1)[0])(np.array([[1.5]]))
    array([[3.]])

Layer: 9.
"""

# pyright: reportUnusedImport=false
# (what is imported here is exported; `__getattr__` adds SciPy's other names)
from __future__ import annotations

from typing import Any

import scipy.ndimage

from functrace.scipy.ndimage.filters import (  # noqa: F401
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
    uniform_filter1d,
)
from functrace.scipy.ndimage.interpolation import (  # noqa: F401
    affine_transform,
    geometric_transform,
    map_coordinates,
    rotate,
    shift,
    spline_filter,
    spline_filter1d,
    zoom,
)
from functrace.scipy.ndimage.ranks import (  # noqa: F401
    maximum_filter,
    maximum_filter1d,
    median_filter,
    minimum_filter,
    minimum_filter1d,
    percentile_filter,
    rank_filter,
)


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.ndimage, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.ndimage)})
