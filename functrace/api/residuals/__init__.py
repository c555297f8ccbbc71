"""Residuals: which values the reverse pass keeps, and which it recomputes.

`checkpoint` and `checkpoint_name` are in checkpointing.py, `saved_residuals` in listing.py;
budget.py chooses checkpoints for a byte budget, and plans.py reports them; memory.py predicts the
memory of a call.

Layer: 8.
"""
