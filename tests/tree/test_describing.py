"""Structures of pytrees in words, and where two of them differ."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import functrace as ft
from functrace.tree.describing import described, difference, steps

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Model:
    w: Any
    b: Any


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (1.0, "one value"),
        (None, "None"),
        ((1.0, 2.0), "a tuple of 2 values"),
        ([1.0], "a list of 1 value"),
        ((), "an empty tuple"),
        ({}, "an empty dict"),
        ({"a": 1, "b": (1, 2)}, "a dict with the keys 'a', 'b'"),
        ({k: k for k in range(9)}, "a dict with the keys 0, 1, 2, 3, 4, 5, … (9 in all)"),
        ((1.0, None, [2.0]), "a tuple of 3 (a value, None, a list)"),
        (Point(1, 2), "a Point of 2 values"),
        (Model(1, {"c": 2}), "a Model of 2 (a value, a dict)"),
    ],
)
def test_structures_in_words(tree: Any, words: str) -> None:
    assert described(ft.tree.structure(tree)) == words


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ((1.0, 2.0), 1.0, ""),
        ({"a": (1, 2)}, {"a": (1, [2])}, "['a'][1]"),
        (Point(1, 2), Point(1, (2, 3)), "[1]"),
        (Model(1, {"c": 2}), Model(1, {"c": None}), ".b['c']"),
        ({"a": 1}, {"b": 1}, ""),
        ((1, 2), (1, 2, 3), ""),
        ([(1,), (1,)], [(1,), [1]], "[1]"),
    ],
)
def test_the_first_difference_is_found(first: Any, second: Any, path: str) -> None:
    a, b = ft.tree.structure(first), ft.tree.structure(second)
    place, one, another = difference(a, b)
    assert place == path and one != another
    assert difference(b, a) == (path, another, one)


def test_steps_are_those_of_paths() -> None:
    for tree in ((1, 2), [1], {"a": 1, 2: 3}, Point(1, 2), Model(1, 2)):
        assert steps(ft.tree.structure(tree)) == ft.tree.paths(tree)
