"""Residuals: which values the reverse pass keeps, and which it recomputes.

`checkpoint`, `checkpoint_name`, `saved_residuals` are in checkpointing.py; budget.py chooses
checkpoints for a byte budget.

Layer: 8.
"""
