"""Tables of specializations, with guards of one's own: flags of a module, and NumPy's error mode."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest

from functrace.specialize import Guard, Miss, Specialization, Table

ROUNDS = False
CLIPS = False


class ErrorMode:
    """Guard: what NumPy does at floating-point errors."""

    def outcome(self, _call: object) -> Hashable:
        return tuple(np.geterr().items())

    def why(self, kept: Sequence[Any], now: Any) -> str:
        if not kept:
            return "no program was kept"
        before = dict(kept[-1])
        return ", ".join(
            [f"{kind} is {mode}, not {before[kind]}" for kind, mode in now if before[kind] != mode]
        )

    def merged(self, other: Guard[Any]) -> ErrorMode | None:
        return self if isinstance(other, ErrorMode) else None


class Flag:
    """Guard: the value of a global of this module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def outcome(self, _call: object) -> Hashable:
        return getattr(sys.modules[__name__], self.name)

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        return f"{self.name} is {now}, not {' or '.join(map(str, kept))}"

    def merged(self, other: Guard[Any]) -> Flag | None:
        return self if isinstance(other, Flag) and other.name == self.name else None


class Unset:
    """Guard: which of some globals is set; specializations are made where none is. Two merge to one
    that reads all.
    """

    def __init__(self, *names: str) -> None:
        self.names = names

    def outcome(self, _call: object) -> str | None:
        return next((name for name in self.names if getattr(sys.modules[__name__], name)), None)

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        return f"{now} is set"

    def merged(self, other: Guard[Any]) -> Unset | None:
        return Unset(*self.names, *other.names) if isinstance(other, Unset) else None


class Number(Specialization):
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value


def table_of(most: int = 8) -> Table[Number]:
    return Table("numbers", ErrorMode(), most_bytes=1 << 20, most=most)


def found_in(table: Table[Number]) -> int | None:
    found = table.find(None)
    return None if isinstance(found, Miss) else found.value


def insert(table: Table[Number], value: int, *guards: Guard[Any]) -> Number:
    made = Number(value)
    table.insert([(guard, guard.outcome(None)) for guard in (table.root.guard, *guards)], made)
    return made


def reason(table: Table[Number]) -> str:
    miss = table.find(None)
    assert isinstance(miss, Miss)
    return table.why(miss)


def test_a_specialization_is_found_if_all_guards_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of()
    assert reason(table) == "no program was kept"
    first = insert(table, 1, Flag("ROUNDS"))
    assert found_in(table) == 1
    monkeypatch.setattr(sys.modules[__name__], "ROUNDS", True)
    assert reason(table) == "ROUNDS is True, not False"
    insert(table, 2, Flag("ROUNDS"))
    with np.errstate(over="raise", under="raise"):
        assert reason(table) == "over is raise, not warn, under is raise, not ignore"
        insert(table, 3, Flag("ROUNDS"))
        assert found_in(table) == 3
    assert found_in(table) == 2
    monkeypatch.undo()
    assert found_in(table) == 1 and len(table) == 3
    table.drop(first)
    assert found_in(table) is None and len(table) == 2
    table.clear()
    assert not table.root.next and not len(table)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_specialization_with_equal_guards_replaces_the_first(depth: int) -> None:
    table = table_of()
    guards = [Flag("ROUNDS"), Flag("CLIPS")][:depth]
    insert(table, 1, *guards)
    insert(table, 2, *guards)
    assert found_in(table) == 2 and len(table) == 1
    insert(table, 3, *guards, ErrorMode())
    assert found_in(table) == 3 and len(table) == 1
    insert(table, 4, *guards)
    assert found_in(table) == 4 and len(table) == 1


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_guards_that_do_not_merge_replace_the_entry(depth: int) -> None:
    table = table_of()
    guards = [Flag("ROUNDS"), Flag("CLIPS")][:depth]
    insert(table, 1, *guards, Flag("CLIPS"))
    insert(table, 2, *guards, Unset("CLIPS"))
    assert found_in(table) == 2 and len(table) == 1


def test_guards_that_merge_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of()
    insert(table, 1, Unset("ROUNDS"), Flag("ROUNDS"))
    monkeypatch.setattr(sys.modules[__name__], "ROUNDS", True)
    assert reason(table) == "ROUNDS is set"
    monkeypatch.undo()
    insert(table, 2, Unset("CLIPS"), Flag("CLIPS"))
    assert found_in(table) == 2
    for name in ("ROUNDS", "CLIPS"):
        monkeypatch.setattr(sys.modules[__name__], name, True)
        assert reason(table) == f"{name} is set"
        monkeypatch.undo()


def test_the_least_recently_used_entry_is_dropped() -> None:
    table = table_of(most=2)
    for value, mode in enumerate(("warn", "raise", "ignore")):
        with np.errstate(over=mode):  # type: ignore[call-overload]
            insert(table, value)
    assert len(table) == 2 and len(table.root.next) == 2 and found_in(table) is None


def test_a_path_that_nothing_could_find_is_refused() -> None:
    table = table_of()
    with pytest.raises(ValueError, match=r"begins with root\.guard"):
        table.insert([], Number(1))
    with pytest.raises(ValueError, match=r"begins with root\.guard"):
        table.insert([(ErrorMode(), "warn")], Number(1))
    made = insert(table, 1)
    with np.errstate(over="raise"), pytest.raises(ValueError, match="already"):
        table.insert([(table.root.guard, table.root.guard.outcome(None))], made)
    assert found_in(table) == 1
    table.drop(made)
    assert not table.root.next


def test_a_guard_that_takes_the_place_of_another_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The specialization that goes is the only one on the path: the nodes that led to it stay where
    the new one stands.
    """
    table = table_of()
    root = table.root.guard
    outcome = root.outcome(None)
    table.insert([(root, outcome), (Flag("ROUNDS"), False), (Flag("CLIPS"), False)], Number(1))
    assert found_in(table) == 1
    table.insert([(root, outcome), (Flag("ROUNDS"), False), (Unset("CLIPS"), None)], Number(2))
    assert found_in(table) == 2 and len(table) == 1
    table.insert([(root, outcome), (Unset("CLIPS"), None)], Number(3))
    assert found_in(table) == 3 and len(table) == 1


def test_an_interrupted_insert_leaves_no_node_without_a_specialization(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_of()
    root = table.root.guard
    path = [(root, root.outcome(None)), (Flag("ROUNDS"), False), (Flag("CLIPS"), False)]

    class Interrupting(Flag):
        def merged(self, other: Guard[Any]) -> Flag | None:
            raise KeyboardInterrupt

    table.insert([path[0], (Interrupting("ROUNDS"), False)], Number(1))
    with pytest.raises(KeyboardInterrupt):
        table.insert(path, Number(2))
    monkeypatch.setattr(table, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.insert([(root, "another mode"), *path[1:]], Number(3))
    for outcome, node in table.root.next.items():
        assert [*table.leaves(node)], outcome
    assert found_in(table) == 1


def interrupted(*_given: object) -> None:
    raise KeyboardInterrupt


def test_trim_keeps_the_most_recently_used_entry() -> None:
    table = table_of()
    root = table.root.guard
    outcome = root.outcome(None)
    for name in ("ROUNDS", "CLIPS"):
        for value in (False, True):
            table.insert([(root, outcome), (Flag("ROUNDS"), (name, value))], Number(len(table)))
    (first,) = [leaf for leaf in table.leaves(table.root) if leaf.value == 0]
    first.used = table.tick()
    table.trim(table.root.next[outcome], 2)
    assert sorted(leaf.value for leaf in table.leaves(table.root)) == [0, 3]
    table.trim(None, 0)
    assert len(table) == 2
