"""Elementwise programs on large arrays in blocks, over any number of threads: bit for bit what
NumPy computes whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace import threads
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.fusion import FEWEST_BLOCKS
from functrace.executor.plan.planner import planned
from functrace.executor.policy import NUMPY_POLICY
from functrace.threads import BLOCK, THREADS, ThreadPool
from tests.fuzz.literals import OPERATIONS, outcome

SIZE = FEWEST_BLOCKS * BLOCK + 12_346  # no whole number of blocks


def runs(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what a compiled program gives in blocks, and whole."""
    program = ft.trace(function)(*arguments)
    with np.errstate(all="ignore"), ft.config(block=BLOCK // 64):
        policies = (NUMPY_POLICY, NUMPY_POLICY.ungrouped)
        return [NUMPY.compile(planned(program, policy))(*arguments) for policy in policies]


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        assert a.tobytes() == b.tobytes()


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    lambda x, y: x * y + x,
    lambda x, y: (x / (y + 2.0), -x * x / (y * y)),
    lambda x, y: np.where(x > y, np.sin(x), np.exp(-y * y)),
    lambda x, y: (np.sqrt(np.abs(x)), np.sign(y), x > 0, np.tanh(x * y) + np.log1p(np.abs(y))),
    lambda x, y: np.maximum(x, 0) ** 1.5 * np.hypot(x, y),
    lambda x, y: ((x + 1) * (x + 2) * (x + 3) - (y + 1) * (y + 2)) / ((x + y) ** 2 + 1),
)


CASES = [(k, dtype) for k in range(len(FUNCTIONS)) for dtype in ("float32", "float64")] + [
    (0, "complex64"),
    (1, "complex64"),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("place", "dtype"), CASES)
def test_blocks_are_the_whole(count: int, place: int, dtype: str) -> None:
    generator = np.random.default_rng(place)
    x, y = (generator.normal(size=SIZE).astype(dtype) for _ in range(2))
    x[:5] = 0
    same(*runs(FUNCTIONS[place], x, y))
    before = x.copy(), y.copy()
    runs(FUNCTIONS[place], x, y)
    assert all(np.array_equal(a, b) for a, b in zip(before, (x, y), strict=True))


@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x.reshape(-1, 5),
        lambda x: x.reshape(-1, 5).copy("F"),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: np.broadcast_to(x[3], x.shape),
        lambda x: x[::-1],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1),
    ],
    ids=["rows", "columns", "strided", "expanded", "reversed", "unaligned"],
)
def test_arguments_with_other_strides(arrange: Callable[[Any], Any]) -> None:
    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    same(*runs(FUNCTIONS[1], arrange(x), arrange(x).copy()))
    same(*runs(FUNCTIONS[1], arrange(x), arrange(x)))


def test_scalars_with_arrays(count: int) -> None:
    x = np.linspace(-2, 2, SIZE)
    same(*runs(lambda x, a: (x * a + np.sin(a), x - a), x, np.array(0.3)))


def test_work_is_done_once_and_in_whole_blocks(count: int) -> None:
    for size in (0, 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1, 7 * BLOCK + 5):
        seen: list[tuple[int, int]] = []
        THREADS.spread(lambda start, stop: seen.append((start, stop)), size)
        covered = sorted(span for span in seen if span[0] < span[1])
        assert [b for _, b in covered] == [a for a, _ in covered[1:]] + ([size] if size else [])
        assert not covered or covered[0][0] == 0
        assert all(a % BLOCK == 0 for a, _ in covered)
        assert len(covered) <= count


@pytest.mark.parametrize("place", ["here", "there"])
def test_exceptions_of_workers_propagate(place: str) -> None:
    pool = ThreadPool(3)
    ended: list[int] = []

    def work(start: int, stop: int) -> None:
        if (start == 0) == (place == "here"):
            raise ZeroDivisionError(start)
        ended.append(start)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            pool.spread(work, 6 * BLOCK)
    ended.clear()
    pool.spread(lambda start, stop: ended.append(start), 6 * BLOCK)
    assert sorted(ended) == [0, 2 * BLOCK, 4 * BLOCK]


def test_workers_use_the_error_state_of_the_caller() -> None:
    x = np.zeros(SIZE)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        THREADS.spread(lambda a, b: np.divide(1.0, x[a:b]), SIZE)
    with np.errstate(all="ignore"):
        ThreadPool(4).spread(lambda a, b: np.divide(1.0, x[a:b]), SIZE)


def test_many_callers_at_a_time() -> None:
    pool = ThreadPool(2)
    x = np.arange(SIZE, dtype=float)
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(20):
            out = np.empty_like(x)
            pool.spread(lambda a, b: np.multiply(x[a:b], k, out[a:b]), SIZE)
            if not np.array_equal(out, x * k):
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_starts_its_own_threads() -> None:
    before = THREADS.count
    THREADS.resize(2)
    try:
        THREADS.spread(lambda a, b: None, SIZE)
        child = os.fork()
        if not child:
            seen: list[int] = []
            threads.THREADS.spread(lambda a, b: seen.append(b), SIZE)
            os._exit(0 if SIZE in seen else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        THREADS.resize(before)


def test_default_block_size_grows_with_several_threads() -> None:
    pool = ThreadPool(2)
    assert [pool.block_of(size) for size in (1000, BLOCK * 8 - 1, BLOCK * 8)] == [
        BLOCK,
        BLOCK,
        2 * BLOCK,
    ]
    assert ThreadPool(1).block_of(BLOCK * 100) == BLOCK
    assert ThreadPool(2, 1000).block_of(BLOCK * 100) == 1000


def test_threads_are_counted() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ThreadPool().resize(0)
    assert ThreadPool(3).count == 3
    assert ThreadPool().count >= 1


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "float32", "float64", "complex128"])
def test_python_numbers_of_every_kind_in_blocks(kind: str) -> None:
    """Chain two operations with a Python number of any kind, on 1,024 elements in blocks of 4."""
    x = (np.arange(1024) % 5).astype(kind)
    wrong: list[str] = []
    checked = 0
    with ft.config(block=4, threads=2), np.errstate(all="ignore"):
        for name, operation in OPERATIONS.items():
            for number in (True, 3, 0.5, 1 - 2j):

                def twice(v: Any, operation: Any = operation, number: Any = number) -> Any:
                    found = operation(v, number)
                    return np.where((found == 3) & True, v, found) * found

                plain, jitted = (
                    outcome(lambda twice=twice: twice(x)),
                    outcome(lambda twice=twice: ft.jit(twice)(x)),
                )
                if plain[0] == "value":
                    checked += 1
                    fits = jitted[0] == "value" and are_equal(plain[1], jitted[1])
                else:
                    fits = jitted[0] != "value"
                if not fits:
                    wrong.append(f"{name} with {number!r}: {jitted}, not {plain}")
    assert not wrong, "\n".join(wrong)
    assert checked > 40


def are_equal(a: Any, b: Any) -> bool:
    """Return True if dtypes are equal and elements agree up to rounding: compiled code computes
    integer powers as products.
    """
    return a.dtype == b.dtype and np.allclose(
        a, b, rtol=4 * np.finfo(np.float32).eps, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("size", [262_143, 300_000])
def test_python_numbers_of_every_kind_with_large_arrays(size: int) -> None:
    x = np.linspace(-2.0, 2.0, size)
    functions: list[Callable[[Any], Any]] = [
        lambda v: np.where((v > 0) & True, v, 0.0) + 1,
        lambda v: np.logical_or(v > 1, False) * 2.5 + True,
        lambda v: np.maximum(v, True) - 3,
        lambda v: (v * (1 - 2j) + True) * 0.5,
        lambda v: np.copysign(v, True) / 7,
    ]
    for f in functions:
        np.testing.assert_array_equal(ft.jit(f)(x), f(x), strict=True)
