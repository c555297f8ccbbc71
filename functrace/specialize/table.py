"""Tables of specializations: a tree of guards, with specialized programs at its leaves.

A *guard* reads one property of a call (or of the process: a flag, a mode) as a hashable value. A
*table* is a tree. Each node has a guard, and one child per value. The leaves are *specializations*:
programs that are valid for calls with these values. Signatures, numbers that a program was
specialized to, captured arrays, sizes, and concrete values that the function has read (``if x >
0``) are looked up, bounded, explained and dropped by this one mechanism:

    guard                    values                                     used by
    ``SignatureGuard``       structure, shapes, dtypes, static values   `jit`
    ``CapturedArraysGuard``  the captured array that was changed        `jit`
    ``ValueGuard``           a value that the function reads            `jit(guards=True)`
    ``TapeGuard``            the recorded operations                    un-jitted transforms
    ``LiteralsGuard``        the Python numbers among them              un-jitted transforms
    ``PatternGuard``         dtypes, and which sizes are equal          `functrace.torch`
    ``SizesGuard``           comparisons of sizes that rules made       `functrace.torch`

They are in functrace/api/staging (retracing.py, guards.py), functrace/executor/cache.py and
functrace/torch/dispatch/sizes.py. To add one, see "a guard" in docs/architecture.md.

Layer: b (base).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, final

from functrace.caches import BoundedCache, CacheEntry

Call = TypeVar("Call", contravariant=True)


class Guard(Protocol[Call]):
    """Reads a property of a call, or of the process, that specializations depend on. A structural
    type."""

    def outcome(self, call: Call, /) -> Hashable:
        """Return the property's value for a call. Every look-up calls it."""
        ...

    def why(self, kept: Sequence[Hashable], now: Hashable, /) -> str:
        """Explain why a call has no specialization: how its value differs from the kept ones.

        Args:
            kept: the values with children of the node; none if the table is empty.
            now: the value of the call.
        """
        ...

    def merged(self, other: Guard[Any], /) -> Guard[Any] | None:
        """Merge this guard of a node with the guard of a path that is inserted through the node.

        A node has one guard. Return ``self`` if the other one reads the same property. Return a new
        guard if it can
        replace both: for the calls of existing specializations, it must return the values that both
        have returned. (`CapturedArraysGuard` returns ``None`` for all of them.) Return ``None`` if there is
        no such guard: the node's children are dropped, and the other guard takes its place.
        """
        ...


class Specialization(CacheEntry):
    """A program that is valid for certain values of guards. Subclass it to add fields.

    Args:
        nbytes: a lower bound of its bytes, until it is measured.
        assumed: an estimate of its bytes; see `CacheEntry`.
    """

    __slots__ = ("guards",)

    def __init__(self, nbytes: int = 0, assumed: int = 1 << 16) -> None:
        super().__init__(nbytes, assumed)
        self.guards: tuple[Guard[Any], ...] = ()
        """The guards on the path from the root; their bytes count towards it."""


S = TypeVar("S", bound=Specialization)


@final
class Node(Generic[S]):
    """A node of the tree: a guard, and a child per value."""

    __slots__ = ("guard", "next")

    def __init__(self, guard: Guard[Any]) -> None:
        self.guard = guard
        self.next: dict[Hashable, Node[S] | S] = {}


class Miss(NamedTuple):
    """A failed look-up.

    Args:
        node: the last node.
        ``outcome``: the value of its guard, which has no child.
    """

    node: Node[Any]
    outcome: Hashable


Path = Sequence[tuple[Guard[Any], Hashable]]
"""The guards from the root to a specialization, with their values. The first one is
``root.guard``."""


class Table(BoundedCache[S]):
    """The specializations of one function, or of all recordings; bounded, and thread-safe.

    A hot path may look up ``root.next`` directly; it must then set ``found.used = tick()``.

    Args:
        name: of the table, for statistics.
        root: the first guard.
        most_bytes, most: see `BoundedCache`.

    Example:
        >>> import numpy as np
        >>> class OverflowMode:
        ...     def outcome(self, call): return np.geterr()["over"]
        ...     def why(self, kept, now): return f"overflow is {now}, not {' or '.join(kept)}"
        ...     def merged(self, other): return self if isinstance(other, OverflowMode) else None
        >>> table = Table("programs", OverflowMode(), most_bytes=1 << 20, most=8)
        >>> made = Specialization()
        >>> table.insert([(table.root.guard, "warn")], made)
        >>> table.find("any call") is made
        True
        >>> with np.errstate(over="raise"):
        ...     print(table.why(table.find("any call")))
        overflow is raise, not warn
    """

    def __init__(self, name: str, root: Guard[Any], most_bytes: int, most: int) -> None:
        self.root: Node[S] = Node(root)
        self._paths: dict[int, list[tuple[Node[S], Hashable]]] = {}
        super().__init__(name, most_bytes, most)

    def find(self, call: object) -> S | Miss:
        """Return the specialization of a call, or the `Miss`. Evaluates guards from the root on."""
        return self.follow(self.root, call)

    def follow(self, node: Node[S] | S, call: object) -> S | Miss:
        """Evaluate guards from a node on; see `find`."""
        while type(node) is Node:
            outcome = node.guard.outcome(call)
            found = node.next.get(outcome)
            if found is None:
                return Miss(node, outcome)
            node = found
        node.used = self.tick()
        return node

    def why(self, miss: Miss) -> str:
        """Explain why a call found no specialization."""
        return miss.node.guard.why([*miss.node.next], miss.outcome)

    def insert(self, path: Path, made: S) -> None:
        """Insert a specialization at the end of a path of guards.

        Drops a specialization with the same values, and the children of a node whose guard does not
        merge with the path's (`Guard.merged`).

        Args:
            path: see `Path`. The values are those of the call that the specialization was made for.
            made: the specialization.

        Raises:
            ValueError: if the path does not begin with the root's guard, or the specialization is
                in the table already.
        """
        if not path or path[0][0] is not self.root.guard:
            raise ValueError(
                f"a path in {self!r} begins with root.guard, which is {self.root.guard!r}"
            )
        with self._lock.now:
            if id(made) in self._paths:
                raise ValueError(f"{made!r} is in {self!r} already")
            node, nodes, guards = self.root, list[tuple[Node[S], Hashable]](), list[Guard[Any]]()
            at = 0
            while at + 1 < len(path):
                found = node.next.get(path[at][1])
                merged = found.guard.merged(path[at + 1][0]) if isinstance(found, Node) else None
                if not isinstance(found, Node) or merged is None:
                    break
                found.guard = merged
                guards.append(merged)
                nodes.append((node, path[at][1]))
                node, at = found, at + 1
            child: Node[S] | S = made
            below: list[tuple[Node[S], Hashable]] = []
            for guard, outcome in reversed(path[at + 1 :]):
                new = Node[S](guard)
                new.next[outcome] = child
                below.append((new, outcome))
                child = new
            outcome = path[at][1]
            made.guards = (*guards, *[guard for guard, _ in path[at + 1 :]])
            self._paths[id(made)] = [*nodes, (node, outcome), *reversed(below)]
            before = node.next.get(outcome)
            node.next[outcome] = (
                child  # assigned last: an interrupted call leaves no node without a specialization
            )
            self._drop(before)
            self.add(id(made), made)

    def trim(self, found: Node[S] | S | None, most: int) -> None:
        """Drop the least recently used specializations below a node, down to a number."""
        with self._lock.now:
            leaves = sorted(self.leaves(found), key=lambda leaf: leaf.used)
            for leaf in leaves[: max(0, len(leaves) - most)]:
                self._drop(leaf)

    def drop(self, found: Node[S] | S | None) -> None:
        """Drop a specialization, or all below a node."""
        with self._lock.now:
            self._drop(found)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock.now:
            self.root.next.clear()
            self._paths.clear()
            super().clear()

    def leaves(self, found: Node[S] | S | None) -> Iterator[S]:
        """Yield the specializations below a node."""
        stack: list[Any] = [found]
        while stack:
            top = stack.pop()
            if top.__class__ is Node:
                stack.extend([*top.next.values()])
            elif top is not None:
                yield top

    def _drop(self, found: Node[S] | S | None) -> None:
        for leaf in [*self.leaves(found)]:
            self._remove(leaf)

    def _remove(self, entry: S) -> None:
        super()._remove(entry)
        child: Node[S] | S = entry
        for node, outcome in reversed(self._paths.pop(id(entry), [])):
            if node.next.get(outcome) is child:
                del node.next[outcome]
            if node.next:
                break
            child = node
