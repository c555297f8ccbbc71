"""Inlined loops: random loops equal Python's own, bit for bit, and the caller's arrays never change
afterwards.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import plan
from functrace.tracing.evaluate import evaluate_program

Leaves = tuple[Any, ...]


class Python:
    """Control flow as Python has it."""

    @staticmethod
    def scan(
        f: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
    ) -> Any:
        n = len(xs[0]) if xs else length
        assert n is not None
        rows: list[Any] = [None] * n
        for t in reversed(range(n)) if reverse else range(n):
            init, rows[t] = f(init, tuple(x[t] for x in xs) if xs else ())
        return init, tuple(np.stack(column) for column in zip(*rows, strict=True))

    @staticmethod
    def while_loop(cond: Any, body: Any, val: Any) -> Any:
        while cond(val):
            val = body(val)
        return val

    @staticmethod
    def cond(which: Any, a: Any, b: Any, *operands: Any) -> Any:
        return a(*operands) if which else b(*operands)


KINDS = ("vector", "matrix", "square", "single", "float", "int", "bool")


def example(kind: str, rng: np.random.Generator) -> Any:
    shape: tuple[int, ...] = {
        "vector": (5,),
        "matrix": (4, 5),
        "square": (3, 3),
        "single": (5,),
    }.get(kind, ())
    if kind == "int":
        return np.int64(rng.integers(-3, 4))
    if kind == "bool":
        return np.bool_(rng.integers(2))
    x = rng.uniform(-1, 1, shape).astype(np.float32 if kind == "single" else np.float64)
    if kind == "matrix" and rng.integers(2):
        x = np.asfortranarray(x)
    return x[()]


def step_of(kind: str, kinds: tuple[str, ...], draw: random.Random) -> Callable[[Leaves], Any]:
    """A function from values of given kinds to one of a kind."""
    mine = [k for k, other in enumerate(kinds) if other == kind]
    a = draw.choice(mine)
    b = draw.choice(mine)
    vectors = [k for k, other in enumerate(kinds) if other == "vector"]
    floats = [k for k, other in enumerate(kinds) if other == "float"]
    ints = [k for k, other in enumerate(kinds) if other == "int"]
    bools = [k for k, other in enumerate(kinds) if other == "bool"]
    v, f, i, q = [
        draw.choice(places) if places else None for places in (vectors, floats, ints, bools)
    ]
    if kind == "int":
        options = [
            lambda s: s[a] + 1,
            lambda s: s[a] - s[b],
            lambda s: -s[a],
            lambda s: s[a] + 2**62,
            lambda s: s[b],
            lambda s: s[a] * 3,
        ]
        if q is not None:
            options.append(lambda s: np.where(s[q], s[a], s[b]))
    elif kind == "bool":
        options = [
            lambda s: np.logical_not(s[a]),
            lambda s: np.logical_and(s[a], s[b]),
            lambda s: s[b],
        ]
        if i is not None:
            options += [lambda s: s[i] < 2, lambda s: np.logical_or(s[i] == 1, s[a])]
        if f is not None:
            options.append(lambda s: s[f] > 0.25)
    elif kind == "float":
        options = [
            lambda s: s[a] * 0.5 + s[b],
            lambda s: np.sin(s[a]),
            lambda s: -s[a] / 3.0,
            lambda s: s[b],
        ]
        if v is not None:
            options += [lambda s: np.sum(s[v]), lambda s: s[v][1], lambda s: s[v] @ s[v]]
        if i is not None:
            options += [lambda s: s[a] + s[i] * 0.125, lambda s: np.tanh(s[i] * 1.0)]
    else:
        options = [
            lambda s: np.tanh(s[a] + s[b]),
            lambda s: s[a] * 0.5 + np.sin(s[b]) * 0.25,
            lambda s: np.maximum(s[a], s[b] * 0.5),
            lambda s: s[b],
            lambda s: np.cos(s[a]) - s[b] * s[a],  # reads after it has begun to write
            lambda s: np.sin(s[a]) + np.cos(s[b]) * 0.5,
            lambda s: s[a][::-1],
            lambda s: -s[a],
        ]
        if kind == "vector":
            options += [
                lambda s: np.concatenate([s[a][1:], s[b][:1]]),
                lambda s: np.where(s[a] > 0, s[a], s[b]),
            ]
            if "matrix" in kinds:
                m = kinds.index("matrix")
                options += [lambda s: np.tanh((s[m] @ s[a]) @ s[m]) * 0.1, lambda s: s[m][2]]
        if kind == "square":
            options += [
                lambda s: s[a].T,
                lambda s: (s[a] @ s[b]) * 0.25,
                lambda s: np.tanh(s[a] @ s[b]),
                lambda s: (s[a] @ s[b].T).T * 0.2,
            ]
        if f is not None and kind != "single":
            options.append(lambda s: s[a] * s[f])
        if i is not None and kind != "single":
            options.append(lambda s: np.sin(s[a] + s[i]))
    return draw.choice(options)


def loop_of(
    kinds: tuple[str, ...], draw: random.Random, depth: int
) -> Callable[[Any, Leaves], Leaves]:
    """A function from control flow and values of given kinds to such values: a loop, perhaps of
    loops and choices.
    """
    inside = [body_of(kinds, draw, depth) for _ in range(2)]
    reverse, length, most = (
        draw.random() < 0.5,
        draw.choice([0, 1, 2, 5, 7]),
        draw.choice([0, 1, 4, 6]),
    )
    shown = draw.sample(range(len(kinds)), draw.randint(0, min(2, len(kinds))))
    can_walk = not {"matrix", "vector", "int"}.isdisjoint(kinds)
    kind = draw.choice(["scan", "scan", "while", "cond", *["walk"] * can_walk])

    def scan(flow: Any, s: Leaves) -> Leaves:
        def step(carry: Leaves, _: Any) -> Any:
            after = inside[0](flow, carry)
            return after, tuple((after if n % 2 else carry)[k] for n, k in enumerate(shown))

        after, rows = flow.scan(step, s, None, length=length or 1, reverse=reverse)
        return tuple(
            x
            if kinds[k] not in ("vector", "float") or k not in shown
            else x + np.sum(rows[shown.index(k)], axis=0)
            for k, x in enumerate(after)
        )

    def walk(flow: Any, s: Leaves) -> Leaves:
        places = [k for k, other in enumerate(kinds) if other in ("matrix", "vector", "int")]
        xs = [np.arange(4) * 2 if kinds[k] == "int" else s[k][:4] for k in places]

        def step(carry: Leaves, slices: Leaves) -> Any:
            given = list(carry)
            for k, x in zip(places, slices, strict=True):
                into = {"matrix": "vector", "vector": "float", "int": "int"}[kinds[k]]
                if into in kinds:
                    given[kinds.index(into)] = x
            after = inside[0](flow, tuple(given))
            return after, tuple(after[k] for k in shown)

        after, rows = flow.scan(step, s, tuple(xs), reverse=reverse)
        return tuple(
            x
            if kinds[k] != "matrix" or "vector" not in kinds or kinds.index("vector") not in shown
            else x + rows[shown.index(kinds.index("vector"))]
            for k, x in enumerate(after)
        )

    def loop(flow: Any, s: Leaves) -> Leaves:
        def goes_on(state: Any) -> Any:
            return state[0] < most

        def step(state: Any) -> Any:
            return state[0] + 1, inside[0](flow, state[1])

        return flow.while_loop(goes_on, step, (np.int64(0), s))[1]

    def choice(flow: Any, s: Leaves) -> Leaves:
        bools = [k for k, other in enumerate(kinds) if other == "bool"]
        which = s[bools[0]] if bools else np.sum(s[0]) > 0
        return flow.cond(which, lambda *x: inside[0](flow, x), lambda *x: inside[1](flow, x), *s)

    return {"scan": scan, "while": loop, "cond": choice, "walk": walk}[kind]


def body_of(
    kinds: tuple[str, ...], draw: random.Random, depth: int
) -> Callable[[Any, Leaves], Leaves]:
    """A function from control flow and values of given kinds to such values."""
    steps = [step_of(kind, kinds, draw) for kind in kinds]
    order = list(range(len(kinds)))
    for kind in set(kinds):  # carries change places
        places = [k for k, other in enumerate(kinds) if other == kind]
        for k, moved in zip(places, draw.sample(places, len(places)), strict=True):
            order[k] = moved
    inner = loop_of(kinds, draw, depth - 1) if depth and draw.random() < 0.7 else None
    first = draw.random() < 0.5

    def body(flow: Any, s: Leaves) -> Leaves:
        if inner is not None and first:
            s = inner(flow, s)
        after = tuple(step(s) for step in steps)
        after = tuple(after[k] for k in order)
        if inner is not None and not first:
            after = inner(flow, after)
        return after

    return body


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes(), (a, b)


def drawn(
    seed: int,
) -> tuple[Callable[[Any, Leaves], Leaves], tuple[str, ...], np.random.Generator]:
    draw = random.Random(seed)
    among = KINDS if draw.random() < 0.5 else draw.sample(KINDS, 2)
    kinds = tuple(draw.choices(among, k=draw.randint(1, 5)))
    return loop_of(kinds, draw, draw.choice([0, 1, 1, 2])), kinds, np.random.default_rng(seed)


def check(seed: int) -> None:
    loop, kinds, rng = drawn(seed)
    values = tuple(example(kind, rng) for kind in kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # integers wrap around; floats overflow
        expected = loop(Python, values)
        program = ft.trace(lambda *s: loop(ft, s))(*values)
        run = NUMPY.compile(plan(program))
        kept = [np.array(x, copy=True) for x in values]
        found = run(*values)
        same(values, kept)
        same(found, evaluate_program(program, values))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                a, b, rtol=1e-12 if np.asarray(a).dtype != np.float32 else 1e-5
            )
        held = [np.array(x, copy=True) for x in found]
        others = tuple(example(kind, rng) for kind in kinds)
        again = run(*others)
        same(found, held)  # nothing is used again that the caller has got
        same(again, evaluate_program(program, others))
        for x in found:
            if isinstance(x, np.ndarray):
                assert x.flags.writeable
                x[...] = 0
        same(values, kept)
        same(run(*values), held)
        for k, x in enumerate(found):
            for other in (*values, *found[:k]):
                assert not np.shares_memory(x, other)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(150))
def test_random_loops_equal_pythons(seed: int) -> None:
    check(seed)


def check_derivative(seed: int) -> None:
    loop, kinds, rng = drawn(seed)
    floats = [k for k, kind in enumerate(kinds) if kind not in ("int", "bool")]
    values = tuple(example(kind, rng) for kind in kinds)

    def value(flow: Any, *given: Any) -> Any:
        full = list(values)
        for k, x in zip(floats, given, strict=True):
            full[k] = x
        results = loop(flow, tuple(full))
        return sum(np.sum(np.sin(results[k]) * 1.0) for k in floats)

    if not floats:
        return
    points = [values[k] for k in floats]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        program = ft.trace(
            ft.value_and_grad(lambda *x: value(ft, *x), argnums=tuple(range(len(floats))))
        )(*points)
        expected = evaluate_program(program, points)
        runner = Runner(program)
        same(runner.interpret(points), expected)
        found = runner.compile()(*points)
        same(found, expected)
        slopes = ft.grad(lambda *x: value(Python, *x), argnums=tuple(range(len(floats))))(*points)
    single = any(kinds[k] == "single" for k in floats)
    for a, b in zip(found[1:], slopes, strict=True):
        np.testing.assert_allclose(
            a, b, rtol=2e-4 if single else 1e-9, atol=1e-5 if single else 1e-12
        )


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(100))
def test_derivatives_of_random_loops_equal_those_of_pythons(seed: int) -> None:
    check_derivative(seed)
