"""One jitted function in several threads, with a cache too small for them that is cleared
meanwhile; and what is dropped.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.staging import program_cache as staged
from functrace.threads import BLOCK, ThreadPool

ROUNDS = 120


@pytest.fixture(autouse=True)
def threads_that_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[random.Random], None], count: int = 4) -> None:
    failures: list[BaseException] = []

    def run(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                work(rng)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def summed(x: Any, y: Any) -> Any:
    return np.sin(x) * y.sum() + x * 2.0


def with_a_choice(x: Any, y: Any) -> Any:
    return summed(x, y) if x[0] > 0.5 else summed(x, y) + 0.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {"maxsize": 3},
        {"maxsize": 2, "guards": True, "max_paths": 1},
        {"maxsize": 2, "donate_argnums": 0},
    ],
    ids=str,
)
def test_threads_that_fill_and_clear_a_small_cache(options: dict[str, Any]) -> None:
    f = ft.jit(with_a_choice if "guards" in options else summed, **options)

    def work(rng: random.Random) -> None:
        n = rng.randint(1, 8)
        x, y = np.full(n, rng.random()), np.arange(1.0, 1.0 + rng.randint(1, 2))
        expected = summed(x, y)
        np.testing.assert_array_equal(f(x, y), expected)
        if rng.random() < 0.05:
            f.cache_clear()

    in_threads(work)


def test_keywords_and_pytrees_while_the_cache_is_cleared() -> None:
    f = ft.jit(lambda x, *, k=1.0: np.sin(x["a"]) * k + x["b"].sum())

    def work(rng: random.Random) -> None:
        nest = {"a": np.arange(1.0, rng.randint(2, 4)), "b": np.ones(rng.randint(1, 3))}
        k = rng.choice([1.0, 2.5])
        np.testing.assert_allclose(
            f(nest, k=k), np.sin(nest["a"]) * k + nest["b"].sum(), rtol=1e-15
        )
        f.why_retraced()
        if rng.random() < 0.1:
            f.cache_clear()

    in_threads(work)


def test_the_number_of_threads_changes_while_others_compute() -> None:
    threads = ThreadPool(count=4)
    total = 4 * BLOCK

    def work(rng: random.Random) -> None:
        if rng.random() < 0.5:
            threads.resize(rng.choice([1, 2, 4]))
        seen = list[tuple[int, int]]()
        threads.spread(lambda start, stop: seen.append((start, stop)), total)
        assert sum(stop - start for start, stop in seen) == total

    in_threads(work, 3)


@pytest.mark.parametrize("donated", [(), (0,)], ids=["plain", "donated"])
@pytest.mark.parametrize("megabytes", [0.7, 3.0])
def test_a_program_with_large_constants_serves_all_memory_orders(
    donated: tuple[int, ...], megabytes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept, also where it takes more than all programs may; the same program runs in place
    and beside the argument.
    """
    monkeypatch.setattr(staged, "MOST_BYTES", 1 << 20)
    weights = np.ones(int(megabytes * (1 << 17)))
    weights.flags.writeable = False
    step = ft.jit(lambda p: [p[0] + np.max(weights * p[0][0, 0])], donate_argnums=donated)
    plain = np.arange(4.0).reshape(2, 2)
    for order in "CFCFFC":
        (given,) = p = [np.array(plain, order=order)]
        np.testing.assert_array_equal(step(p)[0], plain)
        assert (given.dtype.kind == "V") == bool(donated)
    assert step.cache_info().misses == 1


@pytest.mark.parametrize("donated", [(), (0,)], ids=["plain", "donated"])
def test_a_used_program_stays_while_others_are_evicted(
    donated: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "MOST_BYTES", 1 << 20)
    captured = {n: np.arange(float(n)) for n in range(10_000, 10_030)}  # 78 KiB each
    recorded: list[int] = []

    def f(p: Any) -> Any:
        recorded.append(p[0].size)
        return [p[0] + captured[p[0].size]]

    step = ft.jit(f, donate_argnums=donated)
    for n in range(10_001, 10_030):
        for size in (10_000, 10_000, n):
            step([np.ones(size)])
    assert recorded.count(10_000) == 1
    info = step.cache_info()
    assert isinstance(info, staged.CacheInfo) and info.currsize < 20


def test_arrays_are_donated_also_where_the_first_call_was_traced() -> None:
    double = ft.jit(lambda p: p * 2.0, donate_argnums=0)
    assert ft.grad(lambda x: np.sum(double(x)))(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    given = np.ones(3)
    np.testing.assert_array_equal(double(given), 2.0)
    assert given.dtype.kind == "V"
