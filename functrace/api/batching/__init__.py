"""Batching: `vmap` is in mapping.py; `custom_vmap` in functrace/api/custom_rules/batching.py.

Layer: 8.
"""
