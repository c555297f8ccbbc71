"""``torch.jit.annotations``: names for annotations.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final"]

BroadcastingList1: Any = list | tuple
BroadcastingList2: Any = list | tuple
BroadcastingList3: Any = list | tuple
