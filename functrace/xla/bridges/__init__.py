"""Bridges to JAX: programs as JAX functions, JAX functions as operations, modules of StableHLO.

Layer: 7.
"""
