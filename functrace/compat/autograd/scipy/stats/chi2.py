"""``autograd.scipy.stats.chi2``: the methods of ``scipy.stats.chi2``, for plain and traced values.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of

__getattr__ = _names_of("functrace.scipy.stats.chi2", __name__)
