"""Generated signature checks agree with the generic comparison, for equal signatures and for
slightly different ones.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import weakref
from collections import OrderedDict, namedtuple
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.api.staging.signature_checks import MOST_CHECKS, OFTEN, written_check
from functrace.tree import flatten, unflatten
from tests.sampling import examples

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Layer:
    a: Any
    b: Any = None
    name: Any = dataclasses.field(default="dense", metadata={"static": True})


class Twin(Layer):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    b: Any


LEAVES: list[Any] = [
    np.ones(2), np.ones(3), np.ones(3, np.float32), np.ones((1, 3)), np.arange(3), np.ones(()),
    np.ones(0), np.ones(3, bool),
    np.ma.masked_array([1.0, 2.0]), np.array(["a"]), np.float64(2.0), np.float32(2.0), np.int64(2),
    np.bool_(True),
    2.0, -0.0, float("nan"), 2, 1 << 70, True, 2j, "word", None, object(),
]  # fmt: skip

leaves = st.sampled_from(LEAVES)
known = st.sampled_from(
    [
        x
        for x in LEAVES
        if type(x) in (np.ndarray, float, np.float64, np.int64, int) and np.ndim(x) < 3
    ]
)
keys = st.sampled_from(["a", "b", "c"])


def nests(of: Any) -> Any:
    return st.recursive(
        of,
        lambda part: st.one_of(
            st.lists(part, max_size=3),
            st.lists(part, max_size=3).map(tuple),
            st.dictionaries(keys, part, max_size=3),
            st.none(),
            st.builds(Slotted, part),
            st.builds(Layer, part, part, st.sampled_from(["dense", 1, True, (1, 2.0)])),
        ),
        max_leaves=6,
    )


def changed(nest: Any) -> list[Any]:
    """Pytrees that differ slightly from a given one."""
    found: list[Any] = []
    values, tree = flatten(nest)
    found += [
        unflatten(tree, [*values[:k], other, *values[k + 1 :]])
        for k in range(len(values))
        for other in LEAVES
    ]
    found += [[nest], (nest,), {"a": nest}, None]
    if isinstance(nest, dict):
        found += [
            {**nest, "d": 1.0},
            OrderedDict(nest),
            dict(reversed(nest.items())),
            {k: nest[k] for k in list(nest)[1:]},
        ]
        found += [{(k + "x" if n == 0 else k): v for n, (k, v) in enumerate(nest.items())}]
    if isinstance(nest, list | tuple):
        found += [list(nest), tuple(nest), [*nest, 1.0], nest[1:]]
        found += [Pair(*nest)] if len(nest) == 2 else []
    if isinstance(nest, Layer):
        others = [
            "sparse",
            "den" + "".join("se"),
            1.0,
            1,
            True,
            (1, 2),
            (1, 2.0),
            [1],
            -0.0,
            0.0,
            None,
            Layer,
        ]
        found += [dataclasses.replace(nest, name=other) for other in others]
        more, without, twin = copy.copy(nest), copy.copy(nest), Twin(nest.a, nest.b, nest.name)
        more.more = 1.0
        del without.name
        found += [more, without, twin, dataclasses.asdict(nest), Slotted(nest)]
    return found


def outcome(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call, bit for bit, or the exception it raises."""
    try:
        values, tree = flatten(f(*args, **kwargs))
    except Exception as error:
        return type(error), str(error)
    return tree, [(type(x), x.dtype, x.shape, x.tobytes()) for x in values]


def everything(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs, [x + 1 for x in flatten((args, kwargs))[0]]]


@given(nests(known), nests(known))
def test_hot_calls_return_the_result_of_the_first_call(one: Any, two: Any) -> None:
    f = ft.jit(everything)
    first = outcome(f, (one,), {"key": two})
    for _ in range(OFTEN + 2):
        assert outcome(f, (one,), {"key": two}) == first
    if isinstance(first[1], list):
        of_guards = ft.jit(everything, guards=True)
        assert all(outcome(of_guards, (one,), {"key": two}) == first for _ in range(3))
        assert f.cache_info()[:2] == (OFTEN + 2, 1)


@examples(12)
@given(nests(known))
def test_slightly_different_calls_are_distinguished(nest: Any) -> None:
    f, long_way = ft.jit(everything), ft.jit(everything)
    for _ in range(OFTEN + 1):
        outcome(f, (nest,), {})
    for other in changed(nest):
        for args, kwargs in (((other,), {}), ((other, other), {}), ((), {"x": other})):
            assert outcome(f, args, kwargs) == outcome(long_way, args, kwargs)


def often(f: Any, *args: Any) -> None:
    for _ in range(OFTEN + 2):
        f(*args)


def test_evicted_programs_are_freed() -> None:
    big = np.ones(1000)
    f = ft.jit(lambda nest: nest["x"] + big)
    often(f, {"x": np.ones(1000)})
    staged = weakref.ref(next(iter(f.cache_info.__self__.entries.values())))
    f.cache_clear()
    gc.collect()
    assert staged() is None
    f({"x": np.ones(1000)})
    assert f.cache_info()[:2] == (0, 1)


def test_many_signatures_in_turn() -> None:
    f = ft.jit(lambda nest: nest["x"] * 2.0)
    for n in range(2 * MOST_CHECKS):
        often(f, {"x": np.ones(n)})
    for n in range(2 * MOST_CHECKS):
        assert f({"x": np.ones(n)}).shape == (n,)
    assert f.cache_info().misses == 2 * MOST_CHECKS


@given(st.lists(known, max_size=3))
def test_every_positional_call_returns_the_result_of_the_first(args: list[Any]) -> None:
    f = ft.jit(everything)
    first = outcome(f, tuple(args), {})
    assert all(outcome(f, tuple(args), {}) == first for _ in range(3))


def test_static_arguments_and_methods_take_the_long_way() -> None:
    f = ft.jit(lambda x, n: x[0] * n, static_argnums=1)
    often(f, [np.ones(2)], 3)
    assert f([np.ones(2)], 4)[0] == 4.0


@pytest.mark.parametrize(
    "nest",
    [Pair(1.0, 2.0), OrderedDict(a=1.0), {1: 1.0}, {"a": {2: 1.0}}, np.ma.masked_array([1.0])],
)
def test_no_check_is_generated_for_other_nodes_and_leaves(nest: Any) -> None:
    values, tree = flatten(((nest,), {}))
    assert written_check(tree, values) is None


def test_a_later_registered_class_is_flattened_by_its_function() -> None:
    @dataclasses.dataclass
    class Pair:
        a: Any
        b: Any

    f, pair = ft.jit(lambda pair: pair.a - pair.b), Pair(np.ones(2), np.zeros(2))
    often(f, pair)
    ft.tree.register(Pair, lambda p: ((p.a * 3.0, p.b), None), lambda _, parts: Pair(*parts))
    np.testing.assert_array_equal(f(pair), [3.0, 3.0])
