"""One jitted function in several threads, with a cache too small for them that is cleared meanwhile; and what is dropped."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api import staged
from functrace.executor.threads import BLOCK, Threads

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


@pytest.mark.parametrize(
    "options",
    [{"maxsize": 3}, {"maxsize": 2, "guards": True, "max_paths": 1}, {"maxsize": 2, "donate_argnums": 0}],
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


def test_keywords_and_nests_while_the_cache_is_cleared() -> None:
    f = ft.jit(lambda x, *, k=1.0: np.sin(x["a"]) * k + x["b"].sum())

    def work(rng: random.Random) -> None:
        nest = {"a": np.arange(1.0, rng.randint(2, 4)), "b": np.ones(rng.randint(1, 3))}
        k = rng.choice([1.0, 2.5])
        np.testing.assert_allclose(f(nest, k=k), np.sin(nest["a"]) * k + nest["b"].sum(), rtol=1e-15)
        f.why_retraced()
        if rng.random() < 0.1:
            f.cache_clear()

    in_threads(work)


def test_the_number_of_threads_changes_while_others_compute() -> None:
    threads = Threads(count=4)
    total = 4 * BLOCK

    def work(rng: random.Random) -> None:
        if rng.random() < 0.5:
            threads.resize(rng.choice([1, 2, 4]))
        seen = list[tuple[int, int]]()
        threads.spread(lambda start, stop: seen.append((start, stop)), total)
        assert sum(stop - start for start, stop in seen) == total

    in_threads(work, 3)


def test_a_program_and_the_one_that_writes_into_donated_memory_are_dropped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both charged for the constants, each would drop the other: every second call would be recorded."""
    monkeypatch.setattr(staged, "MOST_BYTES", 1 << 20)
    weights = np.ones(90_000)  # 0.7 MiB
    weights.flags.writeable = False
    step = ft.jit(lambda p: [p[0] + np.max(weights * p[0][0, 0])], donate_argnums=0)
    plain = np.arange(4.0).reshape(2, 2)
    for order in "CFCFFC":
        np.testing.assert_array_equal(step([np.array(plain, order=order)])[0], plain)
    assert step.cache_info().misses == 1


def test_a_donated_argument_is_claimed_once_where_its_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard that looks at donated memory has been asked when the look-up ends."""
    keep = staged.ProgramCache._keep

    def keep_those_that_write(self: Any, key: Any, path: Any, one: staged.Staged) -> None:
        if one.donated:
            keep(self, key, path, one)

    monkeypatch.setattr(staged.ProgramCache, "_keep", keep_those_that_write)
    double = ft.jit(lambda p: [p[0] * 2.0], donate_argnums=0)
    for order in "CF":
        (given,) = p = [np.ones((2, 3), order=order)]
        np.testing.assert_array_equal(double(p)[0], 2.0)
        assert given.dtype.kind == "V"
    assert double.cache_info().misses == 2
