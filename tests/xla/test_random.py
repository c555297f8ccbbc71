"""Random words, uniform numbers and keys under XLA: bit for bit those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="jax is not installed")

import functrace as ft
from functrace import random
from functrace.errors import UnsupportedFunctionError
from functrace.ops.random import fold_key_p, seed_key_p
from functrace.tracing.binding import bind
from tests.xla.agreement import assert_agrees

LARGE = np.array([0xFEDCBA9876543210, 0x0123456789ABCDEF], np.uint64)
SHAPES = [(), (0,), (1,), (4,), (5,), (2, 3), (3, 0, 2), (1001,)]
words = st.integers(0, 2**64 - 1)


def assert_same_bits(f: Any, *args: Any) -> None:
    """Assert that a function gives the same bits under XLA as in NumPy."""
    run: Any = ft.jit(f, backend="xla")
    found, expected = run(*args), f(*args)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.sampled(4)
def test_bits_are_numpys(shape: tuple[int, ...], dtype: Any) -> None:
    assert_same_bits(lambda key: random.bits(key, shape, dtype), LARGE)


def test_bits_are_those_of_philox() -> None:
    drawn = ft.jit(lambda key: random.bits(key, (9,), np.uint64), backend="xla")(LARGE)
    np.testing.assert_array_equal(drawn, np.random.Philox(key=LARGE).random_raw(9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.sampled(4)
def test_uniform_numbers_are_numpys(shape: tuple[int, ...], dtype: Any) -> None:
    assert_same_bits(lambda key: random.uniform(key, shape, dtype=dtype), LARGE)


@given(st.tuples(words, words), words, words)
def test_keys_and_counters_are_numpys(key: Any, data: int, other: int) -> None:
    keys = np.array([key, key[::-1]], np.uint64)
    counters = np.array([data, other], np.uint64)
    np.testing.assert_array_equal(
        _folded(keys, counters), bind(fold_key_p, (keys, counters))
    )  # (one program for all examples)
    np.testing.assert_array_equal(_split(keys), ft.vmap(lambda k: random.split(k, 3))(keys))
    seeds = counters
    np.testing.assert_array_equal(_seeded(seeds), bind(seed_key_p, (seeds,)))


_folded = ft.jit(lambda keys, data: bind(fold_key_p, (keys, data)), backend="xla")
_split = ft.jit(ft.vmap(lambda key: random.split(key, 3)), backend="xla")
_seeded = ft.jit(lambda seeds: bind(seed_key_p, (seeds,)), backend="xla")


@pytest.mark.parametrize("data", [0, 1, 2**32, 2**64 - 2, 2**64 - 1])
def test_counters_carry(data: int) -> None:
    keys, data_ = LARGE, np.array(data, np.uint64)
    np.testing.assert_array_equal(_folded(keys, data_), bind(fold_key_p, (keys, data_)))


def test_seeds_are_those_of_philox() -> None:
    seeds = np.array([0, 1, 12345, 2**31, 2**40 + 7, 2**63 - 1])
    expected = [np.random.Philox(int(s)).state["state"]["key"] for s in seeds]
    np.testing.assert_array_equal(_seeded(seeds), expected)
    with pytest.raises(ValueError, match="non-negative"):
        _seeded(-seeds)


def test_draws_under_vmap_and_in_loops_are_numpys() -> None:
    keys = random.split(LARGE, 6).reshape(2, 3, 2)
    draw = lambda key: random.uniform(key, (5,))
    assert_same_bits(ft.vmap(ft.vmap(draw)), keys)

    def walk(key: Any) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, other = random.split(key)
            return key, random.uniform(other, (3,))

        return ft.scan(step, key, None, length=7)[1]

    assert_same_bits(walk, LARGE)
    assert_same_bits(ft.vmap(walk), keys[0])


def test_gradient_through_a_draw_agrees() -> None:
    def loss(x: Any, key: Any) -> Any:
        return np.sum((x * random.uniform(key, (4,))) ** 2)

    x = np.arange(4.0)
    assert_agrees(lambda x, key: ft.grad(loss)(x, key), [x, LARGE], 100)
    keys = random.split(LARGE, 3)
    assert_agrees(
        lambda x, keys: ft.vmap(ft.grad(loss), in_axes=(None, 0))(x, keys), [x, keys], 100
    )


@pytest.mark.parametrize("name", ["normal", "exponential"])
def test_draws_by_rejection_run_on_the_host_by_name(name: str) -> None:
    draw = lambda key: getattr(random, name)(key, (3, 4))
    with pytest.raises(UnsupportedFunctionError, match="rejection"):
        ft.jit(draw, backend="xla")(LARGE)
    on_host = ft.jit(draw, backend="xla", host_callbacks=[f"random_{name}"])
    assert on_host(LARGE).tobytes() == draw(LARGE).tobytes()
