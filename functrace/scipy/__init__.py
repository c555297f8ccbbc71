"""SciPy on traced values: the functions that do not take them by themselves, under SciPy's names and signatures.

SciPy's ufuncs (`scipy.special`) need nothing of this: they are called as they are. On plain values, every function here is
SciPy's own. What is here is on docs/scipy.md; SciPy is an extra, and imported when this module is.

Floor: 8.
"""

try:
    import scipy as _scipy  # noqa: F401
except ImportError as error:
    raise ImportError("functrace.scipy needs SciPy, which is not installed: pip install 'scipy>=1.17'") from error

from functrace.scipy import integrate, linalg, optimize, special, stats

__all__ = ["integrate", "linalg", "optimize", "special", "stats"]
