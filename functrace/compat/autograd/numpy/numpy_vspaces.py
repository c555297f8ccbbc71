"""``autograd.numpy.numpy_vspaces``: vector spaces of arrays.

Layer: 10.
"""

from functrace.compat.autograd.vspaces import ArrayVSpace, ComplexArrayVSpace, VSpace

__all__ = ["ArrayVSpace", "ComplexArrayVSpace", "VSpace"]
