"""``why_retraced`` says what was new about a call."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.ones(3)


@dataclasses.dataclass(frozen=True)
class Config:
    n: int
    scale: float = 1.0


def f(x: Any, y: Any = 1.0, *, n: Any = 2, scale: Any = None) -> Any:
    total = sum([np.sum(leaf) for leaf in ft.tree.leaves(x)])
    return total * y + (0.0 if scale is None else np.sum(scale))


CALLS: list[
    tuple[tuple[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]], list[str]]
] = [
    (((X,), {}), ((X.astype(np.float32),), {}), ["args[0] is f32[3], instead of f64[3]"]),
    (((X,), {}), ((np.ones((3, 1)),), {}), ["args[0] is f64[3,1], instead of f64[3]"]),
    (((1.0,), {}), ((1,), {}), ["args[0] is a Python int, instead of a Python float"]),
    (
        ((X,), {}),
        ((X, 2.0), {}),
        ["2 positional arguments, instead of 1", "args[1] is there: a Python float"],
    ),
    (
        ((X,), {"scale": X}),
        ((X,), {}),
        ["scale is not passed by keyword", "kwargs['scale'] is missing: it was f64[3]"],
    ),
    (((X,), {}), ((X,), {"scale": X}), ["scale is passed by keyword"]),
    (((X,), {"n": 2}), ((X,), {"n": 3}), ["the static argument n is 3, instead of 2"]),
    (((X,), {"n": 2}), ((X,), {"n": 2.0}), ["the static argument n is 2.0, instead of 2"]),
    (
        ((X,), {"n": Config(1)}),
        ((X,), {"n": Config(1, 2.0)}),
        ["the static argument n is Config(n=1, scale=2.0)"],
    ),
    ((({"a": X},), {}), (({"a": X, "b": X},), {}), ["args[0]['b'] is there: f64[3]"]),
    ((([X, X],), {}), (((X, X),), {}), ["the structure is "]),
    (
        (({"a": [X, X]},), {}),
        (({"a": [X, X.astype(int)]},), {}),
        ["args[0]['a'][1] is i64[3], instead of f64[3]"],
    ),
]


@pytest.mark.parametrize("guards", [False, True], ids=["", "guards"])
@pytest.mark.parametrize(("first", "second", "told"), CALLS)
def test_why_retraced_names_the_difference(
    first: Any, second: Any, told: list[str], guards: bool
) -> None:
    jitted = ft.jit(f, static_argnames="n", guards=guards)
    jitted(*first[0], **first[1])
    jitted(*second[0], **second[1])  # here
    text = jitted.why_retraced()
    assert text.startswith("f has been recorded 2 times")
    last, before = text.split("recording 2, ")[1].split("recording 1, called")
    assert "called at test_retracing.py:" in last and "jitted(*second[0], **second[1])" in last
    assert "the nearest that was kept is recording 1, but" in last
    for words in told:
        assert words in last
    assert "it is the first" in before


def test_the_nearest_is_chosen() -> None:
    jitted = ft.jit(f)
    for args in ((X,), (X.astype(np.float32), 2.0), (np.ones(4), 2.0, ), ([X, X], 1)):  # fmt: skip
        jitted(*args)
    jitted(np.ones(5), 3.0)
    last = jitted.why_retraced().split("recording 4")[0]
    assert "recording 3, but" in last and "args[0] is f64[5], instead of f64[4]" in last


def test_nothing_recorded_and_forgotten() -> None:
    jitted = ft.jit(f)
    assert jitted.why_retraced() == "f has not been recorded"
    jitted(X)
    assert "recorded once" in jitted.why_retraced()
    jitted.cache_clear()
    assert jitted.why_retraced() == "f has not been recorded"


def test_a_program_that_was_dropped() -> None:
    jitted = ft.jit(f, maxsize=1)
    for x in (X, np.ones(4), X):
        jitted(x)
    assert "args[0] is f64[3], instead of f64[4]" in jitted.why_retraced()
    kept = ft.jit(f)
    kept(X)
    ft.clear_caches()
    kept(X)
    assert "no program was kept" in kept.why_retraced()


def test_arrays_that_have_changed() -> None:
    weights = np.ones(3)
    for guards in (False, True):
        jitted = ft.jit(lambda x: x * weights, guards=guards)
        jitted(X)
        weights[0] += 1.0
        jitted(X)
        assert (
            "weights, which it reads from its closure or globals, has been changed in place"
            in jitted.why_retraced()
        )


def test_captured_traced_values() -> None:
    jitted: Any = None

    def outer(a: Any) -> Any:
        nonlocal jitted
        jitted = ft.jit(lambda x: x * a)
        return jitted(2.0) + jitted(2.0)

    ft.grad(outer)(1.0)
    assert "no program was kept" in jitted.why_retraced()


def test_another_branch_condition() -> None:
    @ft.jit(guards=True)
    def h(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    h(1.0)
    h(-1.0)
    assert "the value read at test_retracing.py" in h.why_retraced()
    assert "if x > 0" in h.why_retraced()


def test_memory_is_bounded() -> None:
    jitted = ft.jit(f)
    for n in range(40):
        jitted(np.ones(n))
    text = jitted.why_retraced()
    assert text.startswith("f has been recorded 40 times") and text.count("\nrecording ") == 8
    many = ft.jit(lambda d: sum(d.values()))
    many({f"k{n}": 1.0 for n in range(20)})
    many({f"k{n}": 1 for n in range(20)})
    assert "and 12 differences more" in many.why_retraced()


def test_reason_is_found_for_every_pair_of_arguments() -> None:
    """A recording is never said to be needed for a program that is kept."""
    arguments: list[Any] = [
        np.ones(3), np.ones(3, ">f8"), np.ones(3, "f4"), np.ones(3, ">f4"), np.ones(3, "i2"),
        np.ones(3, ">i2"),
        np.ones(3, ">c16"), np.ones(4), np.ones((2, 2)), np.asfortranarray(np.ones((2, 2))),
        np.ones(3)[::-1], np.zeros(0),
        np.float64(1.0), np.array(1.0), np.array(1.0, ">f8"), np.bool_(1), np.int32(2), 1.0, 1,
        True, 1j, None, (1.0, 2.0),
        [1.0, 2.0], {"a": 1.0}, {"b": 1.0}, ((1.0,), 2.0),
    ]  # fmt: skip
    wrong = []
    for one in arguments:
        for other in arguments:
            f = ft.jit(lambda *x: 1.0)
            f(one)
            f(other)
            text = f.why_retraced()
            if "2 times" in text and "not kept any more" in text:
                wrong.append((one, other, text.splitlines()[2:4]))
    assert not wrong, wrong[:5]
    f = ft.jit(lambda x: x)
    f(np.ones(3))
    f(np.ones(3, ">f8"))
    assert "args[0] is f64[3] in swapped byte order, instead of f64[3]" in f.why_retraced()
