"""``autograd.scipy.stats.dirichlet``: the methods of ``scipy.stats.dirichlet``, for plain and
traced values.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of

__getattr__ = _names_of("functrace.scipy.stats.dirichlet", __name__)
