"""``autograd.numpy.linalg``: the names of ``numpy.linalg``, for plain and traced values.

Layer: 10.
"""

import numpy as _np

from functrace.compat.autograd.names import names_of as _names_of

__all__ = [*_np.linalg.__all__]  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = _names_of("functrace.numpy.linalg", __name__)
