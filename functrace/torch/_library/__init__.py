"""``torch._library``: names of the registry of custom operators.

Layer: 9.
"""
