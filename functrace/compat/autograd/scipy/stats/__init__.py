"""``autograd.scipy.stats``: distributions, each a module of functions, as in autograd.

Layer: 10.
"""

from functrace.compat.autograd.names import names_of as _names_of
from functrace.compat.autograd.scipy.stats import (
    beta,
    chi2,
    dirichlet,
    gamma,
    multivariate_normal,
    norm,
    poisson,
    t,
)

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]
__getattr__ = _names_of("functrace.scipy.stats", __name__)
