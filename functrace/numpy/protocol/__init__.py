"""NumPy's protocols: ufunc and function dispatch (NEP 13, NEP 18), conversions, and lifting.

`functrace.numpy.protocol.tables` maps NumPy functions to implementations.

Layer: 3.
"""
