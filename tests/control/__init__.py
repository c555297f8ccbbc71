"""Primitives that hold programs: their rules, their forms, and what checks and counts them."""
