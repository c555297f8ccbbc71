"""``autograd.scipy.stats.poisson``: the methods of ``scipy.stats.poisson``, for plain and traced
values.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of

__getattr__ = _names_of("functrace.scipy.stats.poisson", __name__)
