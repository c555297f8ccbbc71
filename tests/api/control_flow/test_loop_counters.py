"""The number of a step of ``fori_loop``, for bounds of every pair of integer dtypes, against
Python's ``range``.
"""

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest

import functrace as ft

DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def numbers(dtype: type[np.integer[Any]]) -> list[np.integer[Any]]:
    """Both ends of a dtype, and what is near zero."""
    info = np.iinfo(dtype)
    return [
        dtype(x)
        for x in {
            int(info.min),
            max(int(info.min), -3),
            0,
            5,
            100,
            int(info.max) - 2,
            int(info.max),
        }
    ]


def bounds() -> Iterator[tuple[Any, Any]]:
    """Pairs with few steps or none."""
    every = [x for dtype in DTYPES for x in numbers(dtype)]
    every += [np.array(x) for x in every[::3]] + [-200, -3, 0, 5, 200, 2**31, 2**62]
    for lower, upper in itertools.product(every, every):
        if int(upper) - int(lower) <= 300 and (
            int(upper) >= int(lower) or int(lower) - int(upper) in (1, 3, 5, 100, 255)
        ):
            yield lower, upper


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise where a loop does not end, if the system has alarms (Windows has none)."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("the loop does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def steps(lower: Any, upper: Any) -> Any:
    """Count the steps, and mix their numbers in their order; the last one shows the dtype."""
    return ft.fori_loop(
        lower, upper, lambda i, s: (s[0] + 1, s[1] * 0.5 + 1.0 * i), (0, np.float64(0.0))
    )


def expected(lower: Any, upper: Any) -> tuple[int, float]:
    """The same by Python's ``range``."""
    total = 0.0
    for i in range(int(lower), int(upper)):
        total = total * 0.5 + 1.0 * i
    return max(int(upper) - int(lower), 0), total


jitted = ft.jit(steps)
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": steps,
    "jit": jitted,
    "jit, lower known": lambda lower, upper: ft.jit(lambda upper: steps(lower, upper))(upper),
    "jit, upper known": lambda lower, upper: ft.jit(lambda lower: steps(lower, upper))(lower),
    "vmap": lambda lower, upper: [
        y[0] for y in ft.vmap(steps)(np.asarray(lower)[None], np.asarray(upper)[None])
    ],
    "jvp": lambda lower, upper: ft.jvp(
        lambda x: (steps(lower, upper)[0], x * steps(lower, upper)[1]), (1.0,), (0.0,)
    )[0],
}


@pytest.mark.full
def test_number_of_a_step_is_that_of_range() -> None:
    wrong = []
    pairs = list(bounds())
    assert len(pairs) > 1000
    for n, (lower, upper) in enumerate(pairs):
        for name in ["plain", "jit", *([list(WAYS)[2 + n % 4]] if n % 5 == 0 else [])]:
            with limit(20):
                count, total = WAYS[name](lower, upper)
            if (int(count), float(total)) != expected(lower, upper):
                wrong.append((name, repr(lower), repr(upper), count, total, expected(lower, upper)))
    assert not wrong, wrong[:10]


def test_counter_dtype_fits_both_bounds_in_every_transform() -> None:
    for one, other in itertools.product([*DTYPES, int], [*DTYPES, int]):
        lower, upper = one(2), other(4)
        seen: list[Any] = []

        def body(i: Any, s: float, seen: list[Any] = seen) -> float:
            seen.append(i.dtype if hasattr(i, "dtype") and not isinstance(i, int) else type(i))
            return s

        ft.fori_loop(lower, upper, body, 0.0)
        ft.jit(lambda a, b, body=body: ft.fori_loop(a, b, body, 0.0))(lower, upper)
        if one is other is int:
            assert seen[:2] == [int, int]
            continue
        promoted = np.result_type(*[np.int64 if kind is int else kind for kind in (one, other)])
        wanted = (
            promoted
            if promoted.kind != "f"
            else np.dtype(np.uint64 if one is np.uint64 else np.int64)
        )
        assert set(seen) == {wanted}, (one, other, seen)
