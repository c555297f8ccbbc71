"""Kinds of arguments of distributions and transforms.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Instance", "Parameter", "Set", "Sizes", "Values"]

Parameter: TypeAlias = Any
"""A parameter of a distribution: a tensor or a number; None, if another one is passed instead."""
Values: TypeAlias = Any
"""Values of a distribution: a tensor."""
Sizes: TypeAlias = Any
"""A shape: a ``torch.Size``, tuple or list."""
Instance: TypeAlias = Any
"""A distribution or transform of any class; for ``expand``, None or an instance to fill."""
Set: TypeAlias = Any
"""A constraint of any class, or a property of one."""
