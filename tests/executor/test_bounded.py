"""Bounded caches: what was used longest ago goes, at a cost that does not grow with what is kept."""

from __future__ import annotations

import threading

import pytest

from functrace.executor.bounded import LOOKS, Bounded, Kept


def filled(count: int, most: int) -> Bounded[Kept]:
    cache: Bounded[Kept] = Bounded(10**9, most)
    for k in range(count):
        cache.add(k, Kept(10))
    return cache


def test_the_least_recently_used_goes() -> None:
    cache = filled(LOOKS - 1, LOOKS - 1)
    for k in (0, 2, 3):
        cache.entries[k].used = cache.tick()
    for k in range(100, 100 + LOOKS - 4):
        cache.add(k, Kept(10))
    assert sorted(cache.entries) == [0, 2, 3, *range(100, 100 + LOOKS - 4)]


def test_what_is_used_stays_among_many() -> None:
    cache = filled(1000, 1000)
    for k in range(5000):
        cache.entries[7].used = cache.tick()
        cache.add(1000 + k, Kept(10))
        assert len(cache) == 1000
    assert 7 in cache.entries
    assert 5999 in cache.entries


def test_bytes_are_bounded_and_counted() -> None:
    cache: Bounded[Kept] = Bounded(100, 1000)
    for k in range(50):
        cache.add(k, Kept(10))
        assert cache.nbytes == sum(entry.nbytes for entry in cache.entries.values()) <= 100
    cache.resize(cache.entries[49], 95)
    assert list(cache.entries) == [49]
    cache.add(49, Kept(200))  # replaced; one is kept in any case
    assert cache.nbytes == 200
    cache.resize(Kept(5), 50)  # not kept
    assert cache.nbytes == 200
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


class Counted:
    """A key that counts how often it is hashed."""

    hashed = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Counted.hashed += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.number == self.number


@pytest.mark.parametrize("count", [50, 5000])
def test_the_cost_of_a_miss_does_not_grow(count: int) -> None:
    cache: Bounded[Kept] = Bounded(10**9, count)
    for k in range(count):
        cache.add(Counted(k), Kept(10))
    for entry in cache.entries.values():
        entry.used = cache.tick()  # all of them used since they were looked at: the worst case
    Counted.hashed = 0
    for k in range(count, count + 40):
        cache.add(Counted(k), Kept(10))
    assert Counted.hashed <= 40 * 3


def test_threads() -> None:
    cache: Bounded[Kept] = Bounded(10**9, 20)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for k in range(3000):
                key = (k * seed) % 50
                entry = cache.entries.get(key)
                if entry is None:
                    cache.add(key, Kept(1))
                else:
                    entry.used = cache.tick()
                    cache.resize(entry, 1 + k % 3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cache) <= 20
    assert cache.nbytes == sum(entry.nbytes for entry in cache.entries.values())
