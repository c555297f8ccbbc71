"""Caches: all state kept between calls. Every store of programs, compiled functions or arrays is a
`BoundedCache`.

A `BoundedCache` is bounded in bytes: the least recently used entry is evicted first, at a small cost
independent of the size. Small values of pure functions (the avals of an operation's results) are
kept in `MemoTable`, dicts that are cleared when full, or by ``lru_cache``. `caches` lists all but the
latter, and `clear_caches` empties these.

Note [Eviction at a constant cost]
    A hit writes one number, the tick of a clock, into the entry: no lock, no reordering, no second
    hash of the key. Entries form a queue in the order in which they were last examined. When there
    are too many, the first `LOOKS` entries are examined: the least recently used one is evicted,
    and those that were used since they were last examined move to the end. Measured with 4,096
    entries: 2 us, where a search for the oldest one took 0.5 ms (and 18 ms with long keys).

Note [Bytes are measured]
    `measured` adds up the objects that an entry refers to. The recorded operations do not determine
    the size of a program (the gradient of 8 operations may have 103), and compilation increases
    it. A measurement takes 0.2 to 0.5 of the time of the transform, so it is deferred for the
    newest entries, as many as together are unlikely to exceed an eighth of the bound
    (`CacheEntry.assumed`). Then the entry that has waited longest is measured, and again when it was used
    since and reaches the head of the queue. So the first calls of a few functions skip the
    measurement. The sum is within a quarter of what ``tracemalloc`` reports as freed with the
    cache.

Layer: b (base).
"""

from __future__ import annotations

import gc
import itertools
import linecache
import sys
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from types import CellType, FunctionType, MappingProxyType, MethodType
from typing import Any, Generic, TypeVar, cast, final

import numpy as np

from functrace.locks import Lock

LOOKS = 8
"""Number of entries that an eviction examines."""

WAITING = 8
"""Entries not yet measured are assumed to take at most this fraction (1 / WAITING) of the bound."""

SAMPLED = 8
"""One entry of `MemoTable` in so many is measured."""

_listed: weakref.WeakValueDictionary[int, BoundedCache[Any] | MemoTable] = (
    weakref.WeakValueDictionary()
)
_listing = Lock()
_numbers = itertools.count()


def caches() -> list[BoundedCache[Any] | MemoTable]:
    """Return all caches, in the order of their creation, including those of jitted functions."""
    with _listing.now:
        return [cache for _, cache in sorted(_listed.items())]


def clear_caches() -> None:
    """Drop everything that functrace caches between calls: transformed and compiled programs, and
    properties of operations.

    Results do not change: programs are rebuilt when needed. Concurrent calls are not disturbed.

    Example:
        >>> import functrace as ft
        >>> double = ft.jit(lambda x: x * 2.0)
        >>> _ = double(1.0)
        >>> ft.clear_caches()
        >>> double.cache_info().currsize
        0
    """
    for cache in caches():
        cache.clear()


def _list(cache: BoundedCache[Any] | MemoTable) -> None:
    with _listing.now:
        _listed[next(_numbers)] = cache


class CacheEntry:
    """An entry of a cache: its size in bytes when last measured, and its last use (a tick of a
    clock).

    Args:
        nbytes: a lower bound until it is measured: large arrays count at once.
        assumed: an estimate that it rarely exceeds: while entries are few, they are not measured.
    """

    __slots__ = ("assumed", "key", "nbytes", "place", "seen", "used")

    def __init__(self, nbytes: int = 0, assumed: int = 1 << 16) -> None:
        self.key: Hashable = None
        self.nbytes = nbytes
        self.assumed = assumed
        self.place = self.seen = self.used = 0

    def measure(self) -> int:
        """Return its current size in bytes."""
        return measured(self)


Class = TypeVar("Class", bound=type)
_shared: set[type] = {CacheEntry}


def shared(kind: Class) -> Class:
    """Mark a class as shared: `measured` does not count its instances towards their owners. A
    decorator."""
    _shared.add(kind)
    return kind


_FOLLOWED = frozenset({
    tuple, list, dict, set, frozenset, OrderedDict, MappingProxyType, CellType, MethodType, partial,
})  # fmt: skip
_LEAVES = frozenset({int, float, complex, bool, str, bytes, type(None), range, slice})


def measured(*roots: object) -> int:
    """Return the bytes of objects and of everything reachable from them.

    It follows containers and the library's own objects, but not modules, classes, users' functions,
    or instances of classes that are `shared`. See Note [Bytes are measured].

    Cost:
        0.25 us per object.
    """
    total = 0
    seen: set[int] = set()
    level: list[object] = list(roots)
    passed: tuple[type, ...] = (type,)
    while level:
        new = {id(x): x for x in level if id(x) not in seen}
        seen.update(new)
        holders: list[object] = []
        level = []
        for x in new.values():
            kind = type(x)
            if kind in _FOLLOWED:
                holders.append(x)
            elif kind in _LEAVES:
                pass
            elif issubclass(kind, passed):
                continue
            elif kind is FunctionType:
                level += _referents_of_function(cast("FunctionType", x))
            elif issubclass(kind, np.ndarray):
                array = cast("np.ndarray[Any, Any]", x)
                level.append(array.base)
                total += np.ndarray.__sizeof__(array)
                continue
            else:
                if issubclass(kind, tuple) or str(kind.__module__).startswith("functrace"):
                    holders.append(x)
                total += object.__sizeof__(x)  # calls no method of users' classes
                continue
            total += sys.getsizeof(x)
        level += gc.get_referents(*holders)
        passed = (type, *_shared)  # except among the roots
    return total


def _referents_of_function(function: FunctionType) -> list[object]:
    """Return the objects that the library's, or a generated, function refers to; none for users'
    functions."""
    where = function.__globals__.get("__name__")
    module = sys.modules.get(where) if isinstance(where, str) else None
    if module is None or vars(module) is not function.__globals__:
        code = function.__code__
        bound = [
            value for name, value in list(function.__globals__.items()) if name != "__builtins__"
        ]
        return [
            *bound,
            function.__closure__,
            code,
            *code.co_consts,
            linecache.cache.get(code.co_filename),
        ]
    if not str(where).startswith("functrace"):
        return []
    return [function.__closure__, function.__defaults__]


Entry = TypeVar("Entry", bound=CacheEntry)


class BoundedCache(Generic[Entry]):
    """A cache that is bounded in bytes and in number; thread-safe.

    Look an entry up with ``entries.get(key)``, and then set ``entry.used = tick()``.

    Args:
        name: of the contents.
        most_bytes: maximum measured bytes of all entries; the newest one is kept in any case.
        most: maximum number of entries.
    """

    def __init__(self, name: str, most_bytes: int, most: int) -> None:
        self.name = name
        self.most_bytes = most_bytes
        self.most = most
        self.entries: dict[Any, Entry] = {}
        self.tick = itertools.count(1).__next__
        self.nbytes = 0
        self._queue: OrderedDict[int, Entry] = OrderedDict()
        self._unmeasured: dict[int, Entry] = {}
        self._waiting = 0  # their assumed bytes
        self._places = itertools.count()
        self._lock = Lock(self.clear)
        _list(self)

    def __repr__(self) -> str:
        return f"<cache of {self.name}: {len(self.entries)} entries, {self.nbytes:,} bytes>"

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: Hashable) -> Entry | None:
        """Return an entry, marked as used; hot paths inline this, where 0.1 us matter."""
        entry = self.entries.get(key)
        if entry is not None:
            entry.used = self.tick()
        return entry

    def add(self, key: Any, entry: Entry) -> None:
        """Add an entry, replacing one with the same key; evict the least recently used ones.

        Raises:
            ValueError: if it has another key already: eviction would remove only one of them.
        """
        with self._lock.now:
            if self._queue.get(entry.place) is entry and entry.key != key:
                raise ValueError(f"an entry of {self!r} is added under a second key")
            before = self.entries.get(key)
            if before is not None:
                self._remove(before)
            self._measure(self.most_bytes // WAITING)
            entry.key, entry.place = key, next(self._places)
            entry.seen = entry.used = self.tick()
            self.entries[key] = self._queue[entry.place] = entry
            self._enqueue(entry)
            self.nbytes += entry.nbytes
            self._shrink()

    def changed(self, entry: Entry) -> None:
        """Measure an entry again, at once or when others are added."""
        with self._lock.now:
            if self._queue.get(entry.place) is entry:
                self._enqueue(entry)
                self._measure(self.most_bytes // WAITING)
                self._shrink()

    def measure(self) -> int:
        """Measure all entries now, evict the excess, and return the bytes of the rest."""
        with self._lock.now:
            for entry in self._queue.values():
                self._enqueue(entry)
            self._measure(0)
            self._shrink()
            return self.nbytes

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock.now:
            self.entries.clear()
            self._queue.clear()
            self._unmeasured.clear()
            self.nbytes = self._waiting = 0

    def _measure(self, most: int) -> None:
        """Measure the longest-waiting entries, until the others are unlikely to exceed ``most``
        bytes.

        The first in the queue is one of them, if it was used since it was last examined.
        """
        for entry in itertools.islice(self._queue.values(), 1):
            self._requeue(entry)
        while self._waiting > most:
            entry = next(iter(self._unmeasured.values()))
            self._dequeue(entry)
            before, entry.nbytes = entry.nbytes, entry.measure()
            self.nbytes += entry.nbytes - before

    def _requeue(self, entry: Entry) -> None:
        """Move an entry that was used since it was last examined to the end of the queue: it may
        have been compiled."""
        if entry.used > entry.seen and entry.place in self._queue:
            entry.seen = entry.used
            self._queue.move_to_end(entry.place)
            self._enqueue(entry)

    def _enqueue(self, entry: Entry) -> None:
        if entry.place not in self._unmeasured:
            self._unmeasured[entry.place] = entry
            self._waiting += entry.assumed

    def _dequeue(self, entry: Entry) -> None:
        if self._unmeasured.pop(entry.place, None) is not None:
            self._waiting -= entry.assumed

    def _shrink(self) -> None:
        # Freed objects may have destructors that add to this cache.
        while len(self._queue) > 1 and (
            len(self._queue) > self.most or self.nbytes > self.most_bytes
        ):
            first = list(itertools.islice(self._queue.values(), LOOKS))
            oldest = min(first, key=lambda entry: entry.used)
            for entry in first:
                if entry is not oldest:
                    self._requeue(entry)
            self._remove(oldest)

    def _remove(self, entry: Entry) -> None:
        if self._queue.pop(entry.place, None) is not None:
            self._dequeue(entry)
            del self.entries[entry.key]
            self.nbytes -= entry.nbytes


@final
class MemoTable(dict[Any, Any]):
    """Memo table of a pure function with small values: a dict, with a dict's cost, cleared when
    full.

    Args:
        name: of the contents.
        most: maximum number of entries.
        most_bytes: maximum bytes, estimated from one entry in `SAMPLED`.
    """

    __slots__ = ("__weakref__", "most", "most_bytes", "name", "nbytes")

    def __init__(self, name: str, most: int, most_bytes: int = 16 << 20) -> None:
        super().__init__()
        self.name = name
        self.most, self.most_bytes = most, most_bytes
        self.nbytes = 0
        _list(self)

    def __repr__(self) -> str:
        return f"<memo table: {self.name}, {len(self)} entries>"

    def keep(self, key: Hashable, value: Any) -> Any:
        """Store a value, and return it."""
        if len(self) >= self.most or self.nbytes > self.most_bytes:
            self.clear()
        if not len(self) % SAMPLED:
            self.nbytes += SAMPLED * measured((key, value))
        self[key] = value
        return value

    def clear(self) -> None:
        """Drop all entries."""
        super().clear()
        self.nbytes = 0
