"""NumPy's functions on traced values, one file per group of NumPy's reference.

Layer: 3.
"""
