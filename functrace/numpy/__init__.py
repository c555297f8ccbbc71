"""The NumPy layer: NumPy's functions on traced values, and a namespace for those who want one.

Floor: 6.
"""

from functrace.numpy.tables import FUNCTIONS

__all__ = ["FUNCTIONS"]
