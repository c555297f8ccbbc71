"""``autograd.scipy.stats.beta``: the methods of ``scipy.stats.beta``, for plain and traced values.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of

__getattr__ = _names_of("functrace.scipy.stats.beta", __name__)
