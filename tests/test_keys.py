"""Static arguments and pytrees that compare equal but differ get programs of their own."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.keys import exact_key


@dataclasses.dataclass(frozen=True)
class Config:
    value: Any


class Own:
    """An object with an equality of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Slotted(Own):
    __slots__ = ()


class Choice(enum.Enum):
    A = 1
    B = True + 1


Pair = collections.namedtuple("Pair", "value other")

NUMBERS = [
    1, 1.0, True, np.float64(1), np.float32(1), np.int64(1), np.int8(1), np.True_, 1 + 0j,
    complex(1, -0.0),
    0, 0.0, -0.0, False, np.float32(0.0), np.float32(-0.0), complex(0.0, -0.0), complex(-0.0, 0.0),
    0j,
]  # fmt: skip
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda v: v,
    "tuple": lambda v: (v, 2),
    "nested": lambda v: (0, ((v,), "x")),
    "namedtuple": lambda v: Pair(v, 1),
    "frozenset": lambda v: frozenset({v, 7}),
    "dataclass": Config,
    "dataclass of tuple": lambda v: Config((v, None)),
    "object": Own,
    "slots": Slotted,
    "all": lambda v: Config(Own(Pair(frozenset({v}), Config(v)))),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_equal_numbers_that_differ_have_different_keys(holder: str) -> None:
    hold = HOLDERS[holder]
    keys = [exact_key(hold(v)) for v in NUMBERS]
    assert len(set(keys)) == len(NUMBERS)
    assert [exact_key(hold(v)) for v in NUMBERS] == keys


@pytest.mark.parametrize("holder", HOLDERS)
def test_static_arguments_that_differ_have_programs_of_their_own(holder: str) -> None:
    hold = HOLDERS[holder]

    def number(held: Any) -> Any:
        while not isinstance(held, int | float | complex | np.generic):
            if isinstance(held, tuple):
                held = (
                    next(p for p in held if p != 0 or type(p) is not int)
                    if held[0] == 0 and len(held) == 2
                    else held[0]
                )
            elif isinstance(held, frozenset):
                held = min(held, key=abs)
            else:
                held = held.value
        return held

    x = np.array([1, -1], np.int8)
    f = ft.jit(lambda x, held: x * number(held), static_argnums=1)
    plain = lambda x, held: x * number(held)
    for v in (1, 1.0, True, np.float32(1), 0.0, -0.0, np.float32(-0.0), np.float32(0.0)):
        if holder == "nested" and v == 0:
            continue
        found, expected = f(x, hold(v)), plain(x, hold(v))
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_indistinguishable_values_have_one_key() -> None:
    for a, b in (
        (float("nan"), float("nan")), (np.float32("nan"), np.float32("nan")), ("a" * 2, "aa"),
        (Choice.A, Choice.A),
        (Config((1, "x")), Config((1, "x"))), (Own(2.5), Own(2.5)), (range(3), range(3)), (np.sin,
        np.sin),
        (frozenset({1, 2}), frozenset({2, 1})), (np.dtype("f4"), np.dtype(np.float32)),
    ):  # fmt: skip
        assert exact_key(a) == exact_key(b)
        assert hash(exact_key(a)) == hash(exact_key(b))


def test_equal_ranges_and_enums_that_differ() -> None:
    assert exact_key(range(0, 3, 2)) != exact_key(range(0, 4, 2))
    assert exact_key(Choice.A) != exact_key(Choice.B)
    assert exact_key(print) != exact_key(len)


def test_cycles_end() -> None:
    loop = Own(1)
    loop.value = (loop,)
    Own.__hash__, before = (lambda self: 1), Own.__hash__  # type: ignore[assignment, method-assign]
    try:
        assert exact_key(loop)
    finally:
        Own.__hash__ = before  # type: ignore[method-assign]


def test_unhashable_values_raise() -> None:
    for value in ([1], {}, (1, [2]), Config([1]), np.ones(2)):
        with pytest.raises(TypeError):
            exact_key(value)


def test_keys_of_dicts_that_differ_have_programs_of_their_own() -> None:
    x = np.array([2, 3], np.int8)
    plain = lambda d: sum(v * k for k, v in d.items())
    nested = lambda d: plain(d["inner"][0])
    f, g = ft.jit(plain), ft.jit(nested)
    for key in (1, True, 1.0, np.float32(1), np.int16(1)):
        expected = plain({key: x})
        for found in (f({key: x}), g({"inner": ({key: x},)})):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    h = ft.jit(lambda d, x: x * len(d) * next(iter(d)))
    for key in (1, True, 1.0):
        assert h({key: {}}, x).dtype == np.multiply(x * 1, key).dtype


class Value:
    """Compares and hashes by its content, as many classes of users do."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.inner)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nested_values_are_distinguished(depth: int) -> None:
    def wrapped(k: Any) -> Any:
        for _ in range(depth):
            k = Value(k)
        return k

    def f(x: Any, v: Any) -> Any:
        for _ in range(depth):
            v = v.inner
        return x * v

    jitted = ft.jit(f, static_argnums=1)
    x = np.array([True, False])
    for k in (1, True, 1.0, 1, True, 0.0, -0.0, 0):
        np.testing.assert_array_equal(jitted(x, wrapped(k)), x * k, strict=True)
        assert np.array_equal(
            np.signbit(jitted(x, wrapped(k)).astype(float)), np.signbit((x * k).astype(float))
        )
