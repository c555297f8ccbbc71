"""First-order primitives, each with all its rules in one place.

Floor: 2.
"""
