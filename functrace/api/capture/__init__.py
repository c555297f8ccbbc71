"""Capture: call a user's function on traced values, and read what it returns and captures.

`trace`, `evaluate`, `eval_shape`, `value`, `is_traced`, `stop_gradient` are in programs.py.

Layer: 8.
"""
