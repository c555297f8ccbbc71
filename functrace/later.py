"""Modules, and rarer rows of tables, that come in when something of them is asked for, so that importing is quick.

Layer: b (base).
"""

from __future__ import annotations

import importlib
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


class LaterModule:
    """Stands for a module until something of it is asked for; then it is imported, and stands for itself.

    Args:
        name: of the module.
        place: the globals in which this goes by that name.
    """

    def __init__(self, name: str, place: dict[str, Any]) -> None:
        self._name, self._place = name, place

    def __getattr__(self, word: str) -> Any:
        module = self._place[self._name] = importlib.import_module(self._name)
        return getattr(module, word)
