"""``autograd.scipy.linalg``: the names of ``scipy.linalg``, for plain and traced values.

Layer: 10.
"""

import scipy.linalg as _scipys

from functrace.compat.autograd.names import names_of as _names_of

__all__ = [*_scipys.__all__]  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = _names_of("functrace.scipy.linalg", __name__)
