"""Diagnosis of numerical results: the origin of a NaN or an infinity, and digits lost by line.

Everything here works on a program and its arguments; `functrace.debug` has the functions for users.

Layer: 6.
"""
