"""`Views`: the views of traced values that are alive, and how a recording's variables are laid out in memory.

What views are, and what a write into one of them reaches, is said in numpy/views.py; how a layout is worked out, in
numpy/layout.py.

Layer: 1.
"""

from __future__ import annotations

import weakref
from typing import Any, final

from functrace.tracing.tracer import Tracer


@final
class Views:
    """What a recording knows of views and layouts; made when it is first needed (`Recording.views`)."""

    __slots__ = ("copies", "layouts", "references")

    def __init__(self) -> None:
        self.references: list[weakref.ref[Tracer]] = []
        """Views of this recording's variables, which are read again after a write; some may be dead."""
        self.layouts: dict[int, Any] = {}
        """Strides or orders by variable: where they are not what the tape says, or have been worked out."""
        self.copies: dict[int, list[Any]] = {}
        """Further layouts of variables that several handles name."""

    def watch(self, view: Tracer) -> None:
        """Remember a view by a weak reference; dead ones go whenever the list has grown to a power of two."""
        count = len(self.references)
        if count > 63 and not count & (count - 1):
            self.references[:] = [reference for reference in self.references if reference() is not None]
        self.references.append(weakref.ref(view))

    def living(self) -> list[Tracer]:
        """Return the views that are alive."""
        return [view for reference in self.references if (view := reference()) is not None]

    def add_copy(self, variable: int, order: Any) -> None:
        """Note that another handle names a variable, as an array in an order."""
        self.copies.setdefault(variable, []).append(order)
