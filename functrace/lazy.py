"""Lazy modules and tables: imported, or filled, at first use, for a fast import of the library.

Layer: b (base).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
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


def lazy_attributes(
    package: str, known: Collection[str], homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a module that imports names at first access.

    Set them where type checkers do not look (``if not TYPE_CHECKING:``): a checker that sees a
    ``__getattr__`` accepts misspelt names.

    Args:
        package: the name of the module.
        known: its public names.
        homes: by lazy name, the module that defines it, as `importlib.import_module` takes it
            (``".adam"`` is relative to ``package``); "" for a submodule of the same name.
    """
    places = homes or {}

    def __getattr__(name: str) -> object:
        if name not in places:
            from functrace.names import unknown_name

            raise unknown_name(package, name, {*known, *places})
        if not places[name]:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(places[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*known, *places})

    return __getattr__, __dir__


def homes_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return the ``homes`` of `lazy_attributes` for submodules and the names that each defines.

    Args:
        files: by submodule, relative to the package, the names in one string. A name of a
            submodule is that submodule's.
    """
    names = {name: f".{file}" for file, words in files.items() for name in words.split()}
    return {**{file: "" for file in files if "." not in file}, **names}
