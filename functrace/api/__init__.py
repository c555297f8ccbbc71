"""The public functions.

Floor: 7.
"""
