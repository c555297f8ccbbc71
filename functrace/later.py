"""Tables whose rarer rows come in when something is asked for that is not among the others, so that importing is quick.

Floor: b (base).
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LaterTable(dict[K, V], Generic[K, V]):
    """A dict that a function fills up before a key is missing, and before anybody looks at the whole.

    ``table[key]`` of a key that is there costs what it costs in a dict.

    Args:
        fill: adds the rest. It is called once, or by several threads at a time, and may do again what it has done.
    """

    def __init__(self, fill: Callable[[], object]) -> None:
        super().__init__()
        self._fill: Callable[[], object] | None = fill

    def fill(self) -> bool:
        """Add the rest, if that has not been done; returns whether this call did."""
        fill = self._fill
        if fill is None:
            return False
        fill()
        self._fill = None
        return True

    def __missing__(self, key: K) -> V:
        if self.fill():
            return self[key]
        raise KeyError(key)

    def get(self, key: K, default: object = None) -> Any:
        """As a dict's."""
        return self[key] if key in self else default  # noqa: SIM401  # get is what this is

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (self.fill() and super().__contains__(key))

    def __iter__(self) -> Iterator[K]:
        self.fill()
        return super().__iter__()

    def __len__(self) -> int:
        self.fill()
        return super().__len__()

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """As a dict's."""
        self.fill()
        return super().keys()

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        """As a dict's."""
        self.fill()
        return super().values()

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        """As a dict's."""
        self.fill()
        return super().items()
