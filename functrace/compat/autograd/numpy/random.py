"""``autograd.numpy.random``: NumPy's own; samples have no derivative.

Layer: 10.
"""

import numpy as _np

from functrace.compat.autograd.names import names_of as _names_of

__all__ = [*_np.random.__all__]  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = _names_of("numpy.random", __name__)
