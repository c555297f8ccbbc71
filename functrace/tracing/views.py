"""`Views`: live views of traced values, and memory layouts of a recording's variables.

numpy/arrays/views.py documents views and the effects of writing into one; numpy/arrays/layout.py
infers memory layouts.

Layer: 1.
"""

from __future__ import annotations

import weakref
from typing import Any, final

from functrace.tracing.tracer import Tracer


@final
class Views:
    """Live views and memory layouts of a recording; created on first use (`Recording.views`)."""

    __slots__ = ("copies", "layouts", "references")

    def __init__(self) -> None:
        self.references: list[weakref.ref[Tracer]] = []
        """Views of this recording's variables, which are re-read after a write; some references may
        be dead.
        """
        self.layouts: dict[int, Any] = {}
        """Strides or memory orders by variable, if they differ from the tape or have been inferred.
        """
        self.copies: dict[int, list[Any]] = {}
        """Further layouts of variables that have several handles."""

    def watch(self, view: Tracer) -> None:
        """Add a weak reference to a view; drop dead ones when the list reaches a power of two."""
        count = len(self.references)
        if count > 63 and not count & (count - 1):
            self.references[:] = [
                reference for reference in self.references if reference() is not None
            ]
        self.references.append(weakref.ref(view))

    def living(self) -> list[Tracer]:
        """Return the views that are alive."""
        return [view for reference in self.references if (view := reference()) is not None]

    def add_copy(self, variable: int, order: Any) -> None:
        """Note that another handle names a variable, as an array with this memory order."""
        self.copies.setdefault(variable, []).append(order)
