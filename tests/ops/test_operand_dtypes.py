"""Derivatives of functions of two arguments whose dtypes differ: a ufunc casts its operands to the
dtypes of a loop first.

So ``f(x, y)`` and its derivative are those of ``f(x.astype(a), y.astype(b))``, where ``a`` and
``b`` are the dtypes of the loop; in double precision, that is the float64 form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import LostGradientError, NotDifferentiableError
from functrace.ops.elementwise import UFUNCS
from functrace.ops.special.rows import TABLE
from tests.test_cases import CASES

Array = np.ndarray[Any, Any]

ACTIVE: dict[str, list[float]] = {
    "float16": [0.3, 1.5, 300.0],
    "float32": [0.3, 1.5, 3e20],
    "float64": [0.3, 1.5, 1e200],
}
OTHERS: dict[str, list[float]] = {
    "bool": [True, False, True], "int8": [3, 100, -128], "int16": [3, 300, -32768], "int32": [2,
    100_000, -100_000],
    "int64": [2, 4_000_000_000, -3], "uint8": [0, 2, 200], "uint64": [2, 5, 4_000_000_000],
    "float16": [0.7, 3.3, 300.0], "float32": [0.7, 3e20, 1e-25], "float64": [0.7, 3.3, 1e200],
}  # fmt: skip
OF_SCIPY = ("bool", "int8", "int32", "float16", "float64")
"""The dtypes that SciPy's functions are given, which have loops of single and of double precision
only.
"""
NUMBERS = [True, 3, 100_000, 4_000_000_000, 0.7, 3e20]
BINARY = sorted(
    [ufunc for ufunc in UFUNCS if ufunc.nin == 2 and ufunc.nout == 1 and ufunc.signature is None],
    key=lambda u: u.__name__,
)
SCIPYS = {row.eval for row in TABLE.values()}
COUNTS_STEPS = "eval_ yn kn bdtr smirnov"
"""SciPy's functions that take as many steps as an integer argument is large."""


def loop_of(ufunc: np.ufunc, x: Any, y: Any) -> tuple[Any, ...] | None:
    """Return the dtypes of the loop that a ufunc runs on two arrays; ``None`` where there is none,
    or not of floats.
    """
    try:
        loop = ufunc.resolve_dtypes((x.dtype, y.dtype, None))
    except TypeError:
        return None
    return loop if loop[2].kind == "f" and (loop[0].kind == "f" or loop[1].kind == "f") else None


def cases_of(ufunc: np.ufunc, place: int) -> list[tuple[Any, ...]]:
    """Return pairs of operands, that at a place of every float dtype and the other of every dtype;
    and their loops.
    """
    found: list[tuple[Any, ...]] = []
    dtypes = OF_SCIPY if ufunc in SCIPYS else tuple(OTHERS)
    for dtype, other in itertools.product([dtype for dtype in ACTIVE if dtype in dtypes], dtypes):
        if dtype != other:
            actives, values = ACTIVE[dtype], OTHERS[other]
            if any(ufunc.__name__.startswith(name) for name in COUNTS_STEPS.split()):
                values = [value if abs(value) < 1000 else 1 for value in values]
            x, y = np.repeat(np.array(actives, dtype), 3), np.tile(np.array(values, other), 3)
            x, y = (x, y) if place == 0 else (y, x)
            loop = loop_of(ufunc, x, y)
            if loop is not None:
                found.append((x, y, loop))
    return found


def derivatives(
    f: Callable[[Any], list[Any]], xs: Array | list[Array]
) -> tuple[list[Array], list[Array]] | None:
    """Return tangents, and gradients, of many functions of an array each; ``None`` where they have
    none.
    """
    try:
        _, tangents = ft.jvp(f, (xs,), (ft.tree.map(np.ones_like, xs),))
    except NotDifferentiableError:
        return None
    (gradients,) = ft.vjp(f, xs)[1]([np.ones_like(y) for y in tangents])
    return tangents, ft.tree.leaves(gradients)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", [0, 1])
def test_partial_derivatives_are_computed_in_the_dtypes_of_the_loop(place: int) -> None:
    wrong: list[str] = []
    checked = 0
    for ufunc in BINARY:
        cases = cases_of(ufunc, place)
        xs = [case[place] for case in cases]

        def mixed(xs: list[Array], ufunc: np.ufunc = ufunc, cases: Any = cases) -> list[Any]:
            return [
                ufunc(x, case[1]) if place == 0 else ufunc(case[0], x)
                for x, case in zip(xs, cases, strict=True)
            ]

        def cast(xs: list[Array], ufunc: np.ufunc = ufunc, cases: Any = cases) -> list[Any]:
            return [
                ufunc(*[(x if k == place else operands[k]).astype(loop[k]) for k in (0, 1)])
                for x, (*operands, loop) in zip(xs, cases, strict=True)
            ]

        if not cases:
            continue
        with np.errstate(all="ignore"):
            expected, found, jitted = (derivatives(f, xs) for f in (cast, mixed, ft.jit(mixed)))
        if expected is None:
            assert found is None and jitted is None, ufunc
            continue
        assert found is not None and jitted is not None
        for k, (x, y, loop) in enumerate(cases):
            for way, result in (("", found), (", jit", jitted)):
                for a, b in zip(
                    [part[k] for part in result], [part[k] for part in expected], strict=True
                ):
                    checked += 1
                    assert a.dtype == b.dtype
                    near = np.isclose(
                        a, b, rtol=32 * np.finfo(a.dtype).eps if way else 0, atol=0, equal_nan=True
                    )
                    if not near.all():
                        at = int(np.argmin(near))
                        wrong.append(
                            f"{ufunc.__name__}({x[at]!r}, {y[at]!r}){way}: {a[at]!r}, not {b[at]!r}"
                        )
    assert not wrong, "\n".join([f"{len(wrong)} of {checked}", *wrong[:40]])
    assert checked > 3000


@pytest.mark.filterwarnings("ignore")
def test_functions_of_half_precision_are_computed_in_the_dtype_of_the_loop() -> None:
    for row in TABLE.values():
        ufunc: Any = row.eval
        if ufunc.nin != 1 or not any(np.can_cast(np.float16, loop[0]) for loop in ufunc.types):
            continue
        dtype = ufunc.resolve_dtypes((np.dtype(np.float16),) + (None,) * ufunc.nout)[0]
        x = np.array([0.3, 0.9, 1.5, 300.0], np.float16)

        def sums(x: Array, ufunc: Any = ufunc) -> list[Any]:
            found = ufunc(x)
            return list(found) if isinstance(found, tuple) else [found]

        with np.errstate(all="ignore"):
            found = derivatives(sums, x)
            expected = derivatives(lambda x, dtype=dtype, sums=sums: sums(x.astype(dtype)), x)
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b, strict=True, err_msg=row.name)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_python_numbers_have_the_dtype_of_the_array() -> None:
    wrong: list[str] = []
    for ufunc in BINARY:
        if ufunc in SCIPYS and ufunc.types[0].startswith(("l", "p", "i", "q")):
            continue  # an order, of which a Python int and a float choose different loops
        for dtype, place in itertools.product(["float32"] if ufunc in SCIPYS else ACTIVE, (0, 1)):
            x = np.array(ACTIVE[dtype], dtype)
            numbers = [
                n
                for n in NUMBERS
                if loop_of(ufunc, x, x) is not None and (n < 1000 or ufunc not in SCIPYS)
            ]
            kinds = [
                np.dtype(bool) if n is True else type(n) for n in numbers
            ]  # Python bools are not weak
            pairs = [(x.dtype, kind) if place == 0 else (kind, x.dtype) for kind in kinds]
            loops = [ufunc.resolve_dtypes((*pair, None)) for pair in pairs]
            typed = [loop[1 - place].type(n) for n, loop in zip(numbers, loops, strict=True)]

            def each(
                xs: list[Array], others: Any, ufunc: np.ufunc = ufunc, place: int = place
            ) -> list[Any]:
                return [
                    ufunc(x, n) if place == 0 else ufunc(n, x)
                    for x, n in zip(xs, others, strict=True)
                ]

            with np.errstate(all="ignore"):
                found = derivatives(
                    lambda xs, each=each, numbers=numbers: each(xs, numbers), [x] * len(numbers)
                )
                expected = derivatives(
                    lambda xs, each=each, typed=typed: each(xs, typed), [x] * len(numbers)
                )
            if expected is None:
                continue
            assert found is not None
            for n, a, b in zip(
                [*numbers, *numbers],
                [*found[0], *found[1]],
                [*expected[0], *expected[1]],
                strict=True,
            ):
                assert a.dtype == b.dtype
                near = np.isclose(a, b, rtol=64 * np.finfo(dtype).eps, atol=0, equal_nan=True)
                if not near.all():
                    at = int(np.argmin(near))
                    wrong.append(
                        f"{ufunc.__name__}, {n!r} at {1 - place}, {x[at]!r}: {a[at]!r}, not {b[at]!r}"
                    )
    assert not wrong, "\n".join([f"{len(wrong)} of them", *wrong[:40]])


def narrowed(value: Any, kind: str) -> Any:
    """Return floats as half precision or small integers."""
    x = np.asarray(value)
    if x.dtype.kind != "f":
        return value
    return (
        x.astype(np.float16)
        if kind == "float16"
        else (x * (30 if kind == "int8" else 100_000)).astype(kind)
    )


def are_close(a: Any, b: Any) -> bool:
    for x, y in zip(ft.tree.leaves(a), ft.tree.leaves(b), strict=True):
        if np.shape(x) != np.shape(y) or not np.allclose(
            x, y, rtol=1e-9, atol=1e-300, equal_nan=True
        ):
            return False
    return True


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_derivatives_do_not_depend_on_narrow_dtypes_of_other_arguments() -> None:
    wrong: list[str] = []
    checked = 0
    for number, case in enumerate([case for case in CASES if len(case.args) > 1]):
        place = next((k for k in case.diff if np.asarray(case.args[k]).dtype == np.float64), None)
        for kind in ("float16", ("int8", "int32")[number % 2])[: 1 + (number % 4 > 1)]:
            if place is None:
                continue
            low = [x if k == place else narrowed(x, kind) for k, x in enumerate(case.args)]
            wide = [
                x if x is y else np.asarray(x).astype(float)
                for x, y in zip(low, case.args, strict=True)
            ]
            direction = np.cos(np.arange(np.size(low[place]))).reshape(np.shape(low[place]))[()]

            def along(
                args: list[Any], case: Any = case, place: int = place, direction: Any = direction
            ) -> Any:
                f = lambda v: case.call(*[v if k == place else x for k, x in enumerate(args)])
                return ft.jvp(f, (args[place],), (direction,))

            with np.errstate(all="ignore"):
                try:
                    same = are_close(case.call(*low), case.call(*wide))
                except (ValueError, TypeError, RuntimeError, ArithmeticError):
                    continue  # numbers that the function does not take
                if not same:
                    continue  # NumPy itself computes in the narrow dtype
                try:
                    found = along(low)
                except LostGradientError:
                    continue  # what NumPy would write into an array of integers
                checked += 1
                if not are_close(found, along(wide)):
                    wrong.append(f"{case.name} beside {kind}")
    assert not wrong, "\n".join([f"{len(wrong)} of {checked}", *wrong[:40]])
    assert checked > 500
