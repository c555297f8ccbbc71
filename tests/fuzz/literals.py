"""The grid of Python numbers: operations, dtypes and transforms, each called with one number after
another.

What NumPy says is computed for every cell, its dtype and its bits: values must be those, or both
must raise. Where NumPy gives a result and functrace raises one of its own errors, that is counted
as *refused*. Gradients are compared with those that are computed with empty caches: they may not
depend on the numbers of calls before.

``python -m tests.fuzz.literals`` runs all of it, in about a minute; ``--every 50`` a fiftieth of
its columns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import functrace as ft
from functrace.errors import FunctraceError
from functrace.executor.cache import CACHE
from tests.oracles import is_same

NUMBERS: tuple[Any, ...] = (
    2, 3, True, False, 0, 1, -1, -2, 127, 255, 256, 300, -129, 2**31, 2**63, 2**64, -(2**63) - 1,
    2.0, 0.0, -0.0, 0.5, 0.3, -1.7, 1e300, float("inf"), float("nan"), complex(1, -0.0),
)  # fmt: skip

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x + c": lambda x, c: x + c,
    "c + x": lambda x, c: c + x,
    "x - c": lambda x, c: x - c,
    "c - x": lambda x, c: c - x,
    "x * c": lambda x, c: x * c,
    "x / c": lambda x, c: x / c,
    "c / x": lambda x, c: c / x,
    "x // c": lambda x, c: x // c,
    "c // x": lambda x, c: c // x,
    "x % c": lambda x, c: x % c,
    "c % x": lambda x, c: c % x,
    "x ** c": lambda x, c: x**c,
    "c ** x": lambda x, c: c**x,
    "np.power": lambda x, c: np.power(x, c),
    "np.float_power": lambda x, c: np.float_power(x, c),
    "x < c": lambda x, c: x < c,
    "c <= x": lambda x, c: c <= x,
    "x > c": lambda x, c: x > c,
    "c >= x": lambda x, c: c >= x,
    "x == c": lambda x, c: x == c,
    "c != x": lambda x, c: c != x,
    "x & c": lambda x, c: x & c,
    "c | x": lambda x, c: c | x,
    "x ^ c": lambda x, c: x ^ c,
    "x << c": lambda x, c: x << c,
    "c >> x": lambda x, c: c >> x,
    "np.maximum": lambda x, c: np.maximum(x, c),
    "np.fmin": lambda x, c: np.fmin(x, c),
    "np.where": lambda x, c: np.where(x > 1, x, c),
    "np.arctan2": lambda x, c: np.arctan2(x, c),
    "np.hypot": lambda x, c: np.hypot(x, c),
    "np.copysign": lambda x, c: np.copysign(x, c),
    "np.fmod": lambda x, c: np.fmod(x, c),
    "np.ldexp": lambda x, c: np.ldexp(x, c),
    "np.logaddexp": lambda x, c: np.logaddexp(x, c),
    "np.logical_and": lambda x, c: np.logical_and(x, c),
}

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex128",
)


class Column(NamedTuple):
    """One operation, dtype and transform: the numbers come one after another, there and back."""

    operation: str
    dtype: str
    transform: str


class Difference(NamedTuple):
    """A found result that differs from the expected one."""

    column: Column
    number: Any
    found: str
    expected: str


def outcome(f: Callable[[], Any]) -> tuple[str, Any]:
    """The outcome of a call: ``("value", array)``, ``("raises", why)``, or ``("refused", why)`` for
    an error of functrace's own.
    """
    try:
        return "value", np.asarray(f())
    except FunctraceError as error:
        return "refused", error
    except (ArithmeticError, ValueError, TypeError) as error:
        return "raises", error


def mapped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ft.vmap(f)(x[:, None])


def looped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NumPy's `vmap`: a loop over arrays (its scalars have arithmetic of their own, with other last
    bits).
    """
    return lambda x: np.stack([f(row) for row in x[:, None]])


def gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return ft.grad(lambda x: np.real(np.sum(f(x) * 1.0)))


def fresh_gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        CACHE.clear()
        try:
            return gradient(f)(x)
        finally:
            CACHE.clear()

    return call


Transform = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]
TRANSFORMS: dict[str, tuple[Transform, Transform]] = {
    "un-jitted": (lambda f: lambda x: ft.vjp(f, x)[0], lambda f: f),
    "vmap": (mapped, looped),
    "jit": (lambda f: ft.jit(f), lambda f: f),
    "grad": (gradient, fresh_gradient),
}
"""By name: what functrace does with a function of an array, and what says what is right.
`jit of a number` is apart.
"""
AS_ARGUMENT = "jit of a number"


def columns(every: int = 1) -> Iterator[Column]:
    """Yield the columns of the grid, or evenly spread ones."""
    found = [
        Column(o, d, t) for o in OPERATIONS for d in DTYPES for t in (*TRANSFORMS, AS_ARGUMENT)
    ]
    yield from found[every // 2 :: every] if every > 1 else found


def run(column: Column, counts: Counter[str]) -> list[Difference]:
    """Go through the numbers of a column, there and back; returns what differs."""
    operation = OPERATIONS[column.operation]
    if column.transform == "grad" and column.dtype[0] not in "fc":
        return []
    x = np.array([0, 1, 2, 5, 3]).astype(column.dtype)
    differences = []
    with np.errstate(all="ignore"):
        expected = {}
        for k, c in enumerate(NUMBERS):
            right = (
                TRANSFORMS[column.transform][1] if column.transform in TRANSFORMS else lambda f: f
            )
            expected[k] = outcome(lambda: right(lambda x: operation(x, c))(x))
        jitted = ft.jit(operation)
        CACHE.clear()
        for k in (*range(len(NUMBERS)), *reversed(range(len(NUMBERS)))):
            c = NUMBERS[k]
            if column.transform == AS_ARGUMENT:
                kind, found = outcome(lambda: jitted(x, c))
            else:
                kind, found = outcome(
                    lambda: TRANSFORMS[column.transform][0](lambda x: operation(x, c))(x)
                )
            right_kind, right = expected[k]
            counts["calls"] += 1
            if kind == right_kind == "value":
                counts["values"] += 1
                shortcut = (
                    column.transform == AS_ARGUMENT and column.operation == "x ** c"
                )  # by value: NumPy's square, sqrt …
                equal = (
                    np.allclose(found, right, 1e-12, 0, equal_nan=True)
                    if shortcut
                    else is_same(found, right)
                )
                if found.dtype != right.dtype or not equal:
                    differences.append(Difference(column, c, show(found), show(right)))
            elif kind != "value" and right_kind != "value":
                counts["both raise"] += 1
            elif kind == "refused":
                counts["refused"] += 1
                counts[f"refused, {column.transform}: {type(found).__name__}"] += 1
            else:
                differences.append(Difference(column, c, show(found), show(right)))
    return differences


def show(found: Any) -> str:
    """Return a result or an error as one line."""
    return (
        f"{type(found).__name__}: {found}"[:160]
        if isinstance(found, Exception)
        else f"{found.dtype} {found.tolist()}"
    )


def main() -> int:
    """Run the grid; the number of differences is the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.literals", description="the grid of Python numbers"
    )
    parser.add_argument("--every", type=int, default=1, help="run one column of so many")
    parser.add_argument("--show", type=int, default=50, help="how many differences to print")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    differences: list[Difference] = []
    begin = time.perf_counter()
    for column in columns(options.every):
        counts["columns"] += 1
        differences += run(column, counts)
    for difference in differences[: options.show]:
        print(
            *difference.column,
            repr(difference.number),
            f"\n    found    {difference.found}\n    expected {difference.expected}",
        )
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()), end=", ")
    print(f"{len(differences)} differences, {time.perf_counter() - begin:.0f} s")
    return min(len(differences), 100)


if __name__ == "__main__":
    sys.exit(main())
