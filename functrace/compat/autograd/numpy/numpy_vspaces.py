"""``autograd.numpy.numpy_vspaces``: vector spaces of arrays.

Floor: 9.
"""

from functrace.compat.autograd.vspaces import ArrayVSpace, ComplexArrayVSpace, VSpace

__all__ = ["ArrayVSpace", "ComplexArrayVSpace", "VSpace"]
