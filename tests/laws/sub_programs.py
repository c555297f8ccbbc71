"""Steps of random programs that hold programs: scan, cond, checkpoint, jit, functions with their
own rules; nested too.

A step is drawn as a chain: a function of a value and of partners that broadcast into it, written as
one expression. Each link knows itself in plain NumPy, which is the oracle, and through functrace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import functrace as ft

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """A function ``(h, *partners) -> h`` that keeps the shape of ``h``.

    Args:
        written: its expression, with ``h``, ``p0``, ``p1`` … for the arguments.
        traced: through functrace.
        plain: in plain NumPy and Python.
    """

    written: str
    traced: Callable[..., Any]
    plain: Callable[..., Any]


@ft.custom_jvp
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), with a rule that does not overflow."""
    return np.log1p(np.exp(x))


softplus.defjvp(lambda x, x_dot: (np.log1p(np.exp(x[0])), x_dot[0] / (1.0 + np.exp(-x[0]))))


@ft.custom_vjp
def arcsinh(x: Any) -> Any:
    """The inverse hyperbolic sine, with a rule."""
    return np.log(x + np.sqrt(x * x + 1.0))


arcsinh.defvjp(
    lambda x: (np.log(x + np.sqrt(x * x + 1.0)), x),
    lambda x, y_bar: (y_bar / np.sqrt(x * x + 1.0),),
)

LINKS: dict[str, Callable[[Any], Any]] = {
    "np.sin({0})": np.sin,
    "np.tanh({0})": np.tanh,
    "np.log1p({0} ** 2)": lambda x: np.log1p(x**2),
    "0.5 * {0}": lambda x: 0.5 * x,
    "softplus({0})": softplus,
    "arcsinh({0})": arcsinh,
}

PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "{0} + {1}": lambda x, y: x + y,
    "{0} * np.tanh({1})": lambda x, y: x * np.tanh(y),
    "np.cos({0} - {1})": lambda x, y: np.cos(x - y),
    "{0} / (1.0 + {1} ** 2)": lambda x, y: x / (1.0 + y**2),
}

_THRESHOLD = 0.137
"""The threshold of branch conditions: far from values of exact arithmetic, so that finite
differences do not cross it.
"""


def fits(partner: Shape, shape: Shape) -> bool:
    """Return True if ``partner`` broadcasts into ``shape``."""
    try:
        return np.broadcast_shapes(partner, shape) == shape
    except ValueError:
        return False


@st.composite
def chains(draw: st.DrawFn, partners: int, *, most: int = 3, depth: int = 1) -> Chain:
    """Draw a chain; ``depth`` says how many levels of programs it may hold."""
    links = [draw(_links(partners, depth)) for _ in range(draw(st.integers(1, most)))]
    written = "h"
    for link in links:
        written = link.written.replace("{h}", f"({written})" if written != "h" else "h")

    def traced(h: Any, *others: Any) -> Any:
        for link in links:
            h = link.traced(h, *others)
        return h

    def plain(h: Any, *others: Any) -> Any:
        for link in links:
            h = link.plain(h, *others)
        return h

    return Chain(written, traced, plain)


@st.composite
def _links(draw: st.DrawFn, partners: int, depth: int) -> Chain:
    kinds = [
        "unary",
        *["pair"] * (2 if partners else 0),
        *(["cond", "checkpoint", "jit", "scan", "while", "switch"] if depth else []),
    ]
    kind = draw(st.sampled_from(kinds))
    if kind == "unary":
        written, one = draw(st.sampled_from(sorted(LINKS.items())))
        return Chain(written.format("{h}"), lambda h, *_: one(h), lambda h, *_: one(h))
    if kind == "pair":
        k = draw(st.integers(0, partners - 1))
        written, two = draw(st.sampled_from(sorted(PAIRS.items())))
        run = lambda h, *others: two(h, others[k])
        return Chain(written.format("{h}", f"p{k}"), run, run)
    if kind == "cond":
        return draw(choices(partners, depth=depth - 1))
    if kind == "scan":
        length, reverse = draw(st.integers(0, 3)), draw(st.booleans())
        body = draw(chains(partners, most=2, depth=depth - 1))

        def looped(h: Any, *others: Any) -> Any:
            return ft.scan(lambda h, _: (body.traced(h, *others), None), h, None, length, reverse)[
                0
            ]

        def repeated(h: Any, *others: Any) -> Any:
            for _ in range(length):
                h = body.plain(h, *others)
            return h

        return Chain(
            f"ft.scan(lambda h, _: ({body.written}, None), {{h}}, None, {length})[0]",
            looped,
            repeated,
        )
    if kind == "while":
        return draw(whiles(partners, depth=depth - 1))
    if kind == "switch":
        return draw(switches(partners, depth=depth - 1))
    held = draw(chains(partners, depth=depth - 1))
    names = ", ".join(["h", *[f"p{k}" for k in range(partners)]])
    given = names.replace("h", "{h}", 1)
    wrapped = ft.checkpoint(held.traced) if kind == "checkpoint" else ft.jit(held.traced)
    return Chain(f"ft.{kind}(lambda {names}: {held.written})({given})", wrapped, held.plain)


@st.composite
def choices(draw: st.DrawFn, partners: int, *, depth: int = 0) -> Chain:
    """Draw a choice by the sum of the value, between two chains."""
    taken, other = draw(chains(partners, depth=depth)), draw(chains(partners, depth=depth))

    def traced(h: Any, *others: Any) -> Any:
        return ft.cond(
            np.sum(h) > _THRESHOLD,
            lambda h: taken.traced(h, *others),
            lambda h: other.traced(h, *others),
            h,
        )

    def plain(h: Any, *others: Any) -> Any:
        return taken.plain(h, *others) if np.sum(h) > _THRESHOLD else other.plain(h, *others)

    branches = f"lambda h: {taken.written}, lambda h: {other.written}"
    return Chain(f"ft.cond(np.sum({{h}}) > {_THRESHOLD}, {branches}, {{h}})", traced, plain)


@st.composite
def whiles(draw: st.DrawFn, partners: int, *, depth: int = 0) -> Chain:
    """Draw a while loop, which ends by its value or by the number of steps, or a loop by number."""
    body, most = draw(chains(partners, most=2, depth=depth)), draw(st.integers(0, 3))
    form = draw(st.sampled_from(["while", "fori", "fori traced"]))

    def goes_on(h: Any, n: Any) -> Any:
        return (n < most) & (np.sum(h) < 3.0 + _THRESHOLD)

    def traced(h: Any, *others: Any) -> Any:
        if form == "while":
            step = lambda state: (state[0] + 1, body.traced(state[1], *others))
            return ft.while_loop(lambda state: goes_on(state[1], state[0]), step, (np.int64(0), h))[
                1
            ]
        bound = most if form == "fori" else most + (np.sum(h) > 1e300)
        return ft.fori_loop(0, bound, lambda _, h: body.traced(h, *others), h)

    def plain(h: Any, *others: Any) -> Any:
        n = 0
        while n < most and (form != "while" or goes_on(h, n)):
            n, h = n + 1, body.plain(h, *others)
        return h

    if form == "while":
        going = f"(s[0] < {most}) & (np.sum(s[1]) < {3.0 + _THRESHOLD})"
        inner = re.sub(r"\bh\b", "s[1]", body.written)
        written = f"ft.while_loop(lambda s: {going}, lambda s: (s[0] + 1, {inner}), (np.int64(0), {{h}}))[1]"
    else:
        bound = most if form == "fori" else f"{most} + (np.sum({{h}}) > 1e300)"
        written = f"ft.fori_loop(0, {bound}, lambda _, h: {body.written}, {{h}})"
    return Chain(written, traced, plain)


@st.composite
def switches(draw: st.DrawFn, partners: int, *, depth: int = 0) -> Chain:
    """Draw a choice between three chains, by how many thresholds the value exceeds; the last is
    beyond the list.
    """
    branches = [draw(chains(partners, most=2, depth=depth)) for _ in range(draw(st.integers(1, 3)))]

    def number(h: Any) -> Any:
        return (np.sum(h) > _THRESHOLD) * 2 + (np.sum(h) > 1.0 + _THRESHOLD) - 1

    def traced(h: Any, *others: Any) -> Any:
        return ft.switch(number(h), [lambda h, b=b: b.traced(h, *others) for b in branches], h)

    def plain(h: Any, *others: Any) -> Any:
        return branches[int(np.clip(number(h), 0, len(branches) - 1))].plain(h, *others)

    index = f"(np.sum({{h}}) > {_THRESHOLD}) * 2 + (np.sum({{h}}) > {1.0 + _THRESHOLD}) - 1"
    return Chain(
        f"ft.switch({index}, [{', '.join(f'lambda h: {b.written}' for b in branches)}], {{h}})",
        traced,
        plain,
    )


@dataclass(frozen=True)
class Loop:
    """A scan over the first axis of an array: ``(h, xs, *partners) -> final carry or stacked
    results``.
    """

    written: str
    traced: Callable[..., Any]
    plain: Callable[..., Any]
    stacks: bool


@st.composite
def loops(draw: st.DrawFn, partners: int) -> Loop:
    """Draw a scan: chains for the carry and for the results, of the carry, the slice and what is
    closed over.
    """
    carry, result = draw(chains(1 + partners)), draw(chains(1 + partners, most=2, depth=0))
    reverse, stacks = draw(st.booleans()), draw(st.booleans())

    def traced(h: Any, xs: Any, *others: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            h = carry.traced(h, x, *others)
            return h, result.traced(h, x, *others)

        return ft.scan(body, h, xs, reverse=reverse)[stacks]

    def plain(h: Any, xs: Any, *others: Any) -> Any:
        found: list[Any] = [None] * len(xs)
        for t in reversed(range(len(xs))) if reverse else range(len(xs)):
            h = carry.plain(h, xs[t], *others)
            found[t] = result.plain(h, xs[t], *others)
        return np.stack(found) if stacks else h

    # p0 is the slice; what is closed over are the partners of the whole
    names = ["x", *[f"p{k}" for k in range(partners)]]
    texts = [_renamed(chain.written, names) for chain in (carry, result)]
    written = f"ft.scan(lambda h, x: ((h := {texts[0]}), {texts[1]}), {{0}}, {{1}}, reverse={reverse})[{int(stacks)}]"
    return Loop(written, traced, plain, stacks)


def _renamed(written: str, names: list[str]) -> str:
    return re.sub(r"\bp(\d)\b", lambda found: names[int(found[1])], written)
