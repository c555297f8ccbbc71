"""NumPy's functions on traced values, a file per subject, as NumPy's reference groups them.

Layer: 3.
"""
