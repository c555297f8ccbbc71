"""Random functions as lines of NumPy, and their line-by-line runs: the oracle of `explain_nan`."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

UNARY = ("sqrt", "log", "exp", "sin", "arcsin", "square", "reciprocal", "log1p", "tanh", "arccosh")
BINARY = ("+", "-", "*", "/")
SPECIAL = (0.0, 1.0, -1.0, 0.5, 2.0, 1000.0, -0.25)


@st.composite
def straight_lines(draw: st.DrawFn, most: int = 6) -> list[str]:
    """Assignments to ``v1``, ``v2`` …, each a function of two variables before; ``v0`` is given."""
    lines: list[str] = []
    for n in range(1, draw(st.integers(2, most)) + 1):
        a, b = (f"v{draw(st.integers(max(0, n - 3), n - 1))}" for _ in range(2))
        if draw(st.booleans()):
            lines.append(f"v{n} = np.{draw(st.sampled_from(UNARY))}({a})")
        else:
            lines.append(f"v{n} = {a} {draw(st.sampled_from(BINARY))} {b}")
    return lines


def vectors(size: int = 3) -> st.SearchStrategy[Any]:
    """Vectors of numbers at which functions are singular."""
    elements = st.lists(st.sampled_from(SPECIAL), min_size=size, max_size=size)
    return elements.map(np.array)


def compiled(lines: list[str], name: str = "<straight lines>") -> Callable[[Any], Any]:
    """Return the function of ``v0`` that runs the lines, and sums all elements of all variables.

    The lines are those of the source, counted from 2.
    """
    total = " + ".join(f"np.sum(v{n})" for n in range(len(lines) + 1))
    source = "\n    ".join(["def f(v0):", *lines, f"return {total}"]) + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(source, name, "exec"), space)
    return space["f"]


def first_bad(
    statements: list[str], values: dict[str, Any], is_bad: Callable[[Any], Any]
) -> int | None:
    """Run assignments one by one with NumPy; return the number of the first bad result."""
    space = {"np": np, **values}
    with np.errstate(all="ignore"):
        for number, line in enumerate(statements):
            exec(line, space)
            if np.any(is_bad(space[line.split(" = ")[0]])):
                return number
    return None
