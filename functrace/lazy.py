"""Lazy modules and tables: imported, or filled, at first use, for a fast import of the library.

Layer: b (base).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LazyTable(dict[K, V], Generic[K, V]):
    """A dict that a function fills before a lookup fails, and before an iteration.

    ``table[key]`` of a present key costs as much as in a dict.

    Args:
        fill: adds the remaining entries. It runs once, or in several threads at a time, and must be
            idempotent.
    """

    def __init__(self, fill: Callable[[], object]) -> None:
        super().__init__()
        self._fill: Callable[[], object] | None = fill

    def fill(self) -> bool:
        """Add the remaining entries, if that has not been done; return True if this call did."""
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
        """Return the value of a key, or a default."""
        return self[key] if key in self else default  # noqa: SIM401  # this is get

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (self.fill() and super().__contains__(key))

    def __iter__(self) -> Iterator[K]:
        self.fill()
        return super().__iter__()

    def __len__(self) -> int:
        self.fill()
        return super().__len__()

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """Fill the table, and return its keys."""
        self.fill()
        return super().keys()

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        """Fill the table, and return its values."""
        self.fill()
        return super().values()

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        """Fill the table, and return its items."""
        self.fill()
        return super().items()


class LazyModule:
    """A proxy that imports a module at the first attribute access, and then replaces itself by it.

    Args:
        name: of the module.
        place: the globals that have this proxy under that name.
    """

    def __init__(self, name: str, place: dict[str, Any]) -> None:
        self._name, self._place = name, place

    def __getattr__(self, word: str) -> Any:
        module = self._place[self._name] = importlib.import_module(self._name)
        return getattr(module, word)
