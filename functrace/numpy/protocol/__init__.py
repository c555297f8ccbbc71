"""NumPy's protocols: dispatch of ufuncs and functions (NEP 13, NEP 18), conversions, and lifting of code that they miss.

`functrace.numpy.protocol.tables` has the table from NumPy function to implementation.

Layer: 3.
"""
