"""``autograd.numpy.numpy_boxes``: the class of traced arrays.

Layer: 10.
"""

from functrace.numpy.arrays.traced_array import TracedArray as ArrayBox

__all__ = ["ArrayBox"]
