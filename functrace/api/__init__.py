"""The public functions.

Layer: 8.
"""
