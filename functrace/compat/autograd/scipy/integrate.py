"""``autograd.scipy.integrate``: the names of ``scipy.integrate``, for plain and traced values.

Layer: 10.
"""

import scipy.integrate as _scipys

from functrace.compat.autograd.names import names_of as _names_of

__all__ = [*_scipys.__all__]  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = _names_of("functrace.scipy.integrate", __name__)
