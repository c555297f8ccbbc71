"""Objects of a file, before they are checked.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Part"]

Part: TypeAlias = Any
"""An object that a file holds: of any class until it is checked."""
