"""``autograd.scipy.stats.gamma``: the methods of ``scipy.stats.gamma``, for plain and traced
values.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of

__getattr__ = _names_of("functrace.scipy.stats.gamma", __name__)
