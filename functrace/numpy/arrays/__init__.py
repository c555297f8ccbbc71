"""Traced arrays: the operators, methods, attributes, indexing and views of an ndarray.

Start at `functrace.numpy.arrays.traced_array.TracedArray`.

Layer: 3.
"""
