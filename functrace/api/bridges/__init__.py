"""Bridges to other libraries: functions of JAX, functions of PyTorch.

Layer: 8.
"""
