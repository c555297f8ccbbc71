"""Lowerings of `functrace.ops.random`: NumPy's bits.

Words of Philox, uniform numbers, and keys are integer arithmetic. Other draws of NumPy reject some
words; see `functrace.xla.rows.HOST`.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), for Philox4x64-10;
numpy/random/bit_generator.pyx, for SeedSequence.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Row, Value, cast, register

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _product(a: int, b: Value) -> tuple[Any, Any]:
    """Return the high and the low words of a constant times words."""
    a0, a1 = np.uint64(a & 0xFFFFFFFF), np.uint64(a >> 32)
    b0, b1 = b & _LOW, b >> _HALF
    middle, other = a1 * b0, a0 * b1
    carry = ((a0 * b0) >> _HALF) + (middle & _LOW) + (other & _LOW)
    high = a1 * b1 + (middle >> _HALF) + (other >> _HALF) + (carry >> _HALF)
    return high, np.uint64(a) * b


def words(keys: Value, count: int, start: Value, top: int) -> Any:
    """Return the first words that NumPy's generators with some keys make.

    Args:
        keys: uint64, shape (..., 2).
        count: number of words.
        start: lowest word of the counter, of the shape of the keys' stack.
        top: highest word of the counter.

    Returns:
        uint64 of shape (..., count).
    """
    keys, start = jnp.asarray(keys), jnp.asarray(start, np.uint64)[..., None]
    stack, blocks = keys.shape[:-1], -(-count // 4)
    first = jnp.arange(1, blocks + 1, dtype=np.uint64) + start  # NumPy counts before it computes
    first = jnp.broadcast_to(first, (*stack, blocks))
    counter = (
        first,
        (first < start).astype(np.uint64),
        jnp.zeros_like(first),
        jnp.full_like(first, top),
    )

    def advance(_: Value, state: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b, c, d, key, other = state
        high, low = _product(_MULTIPLIERS[0], a)
        other_high, other_low = _product(_MULTIPLIERS[1], c)
        counter = other_high ^ b ^ key, other_low, high ^ d ^ other, low
        return *counter, key + np.uint64(_WEYL[0]), other + np.uint64(_WEYL[1])

    # (A loop: XLA would compute unrolled rounds anew for each of the four words.)
    state = (*counter, keys[..., :1], keys[..., 1:])
    counter = lax.fori_loop(0, _ROUNDS, advance, state)[:4]
    return jnp.stack(counter, -1).reshape(*stack, 4 * blocks)[..., :count]


def _as_dtype(drawn: Value, dtype: np.dtype[Any], count: int) -> Any:
    """Return words as the first unsigned integers of another size, lowest bits first."""
    narrow = lax.bitcast_convert_type(drawn, dtype)
    return narrow.reshape(*drawn.shape[:-1], -1)[..., :count] if drawn.size else narrow


def _bits(top: int) -> Row:
    def lowered(op: Operation, keys: Value, shape: Sequence[int], _dtype: object) -> Any:
        count = math.prod(shape)
        if not math.prod(op.shape):
            return jnp.zeros(op.shape, op.dtype)
        drawn = words(keys, -(-count * op.dtype.itemsize // 8), 0, top)
        return _as_dtype(drawn, op.dtype, count).reshape(op.shape)

    return lowered


register(PRIMITIVES["random_bits"])(_bits(0))
register(PRIMITIVES["split_key"])(_bits(1))


@register(PRIMITIVES["fold_key"])
def _fold_key(op: Operation, keys: Value, data: Value) -> Any:
    return words(keys, 2, cast(data, np.uint64), 2)


@register(PRIMITIVES["random_uniform"])
def _random_uniform(op: Operation, keys: Value, shape: Sequence[int], _dtype: object) -> Any:
    count = math.prod(shape)
    if not math.prod(op.shape):
        return jnp.zeros(op.shape, op.dtype)
    if op.dtype == np.float32:
        halves = _as_dtype(words(keys, -(-count // 2), 0, 0), np.dtype(np.uint32), count)
        found = (halves >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        return found.reshape(op.shape)
    found = (words(keys, count, 0, 0) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    if op.dtype == np.float16:
        found = jnp.floor(found * 2048.0) / 2048.0
    return found.reshape(op.shape)


# -- keys of seeds ---------------------------------------------------------------------------------

_POOL = 4
_HASH = 0x43B0D7E5, 0x931E8875
_MADE = 0x8B51F9DD, 0x58F38DED
_MIX = 0xCA01F9DD, 0x4973F715


def _hasher(first: int, factor: int) -> Callable[[Any], Any]:
    """Return a hash function of uint32 whose constants change from call to call."""
    constant = first

    def hashed(x: Value) -> Any:
        nonlocal constant
        x = x ^ np.uint32(constant)
        constant = constant * factor & 0xFFFFFFFF
        x = x * np.uint32(constant)
        return x ^ (x >> np.uint32(16))

    return hashed


def _mixed(x: Value, y: Value) -> Any:
    found = x * np.uint32(_MIX[0]) - y * np.uint32(_MIX[1])
    return found ^ (found >> np.uint32(16))


@register(PRIMITIVES["seed_key"])
def _seed_key(op: Operation, seeds: Value) -> Any:
    """Two words of ``numpy.random.SeedSequence(seed)``: at most four words of entropy are mixed."""
    seeds = jnp.asarray(seeds)
    if seeds.dtype.kind == "i":
        op.require(seeds >= 0, ValueError, "expected non-negative integer")
    seeds = cast(seeds, np.uint64)
    zero = jnp.zeros(seeds.shape, np.uint32)
    entropy = (seeds & _LOW).astype(np.uint32), (seeds >> _HALF).astype(np.uint32), zero, zero
    hashed = _hasher(*_HASH)
    pool = [hashed(x) for x in entropy]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mixed(pool[target], hashed(pool[source]))
    made = _hasher(*_MADE)
    low, high, other_low, other_high = [made(x).astype(np.uint64) for x in pool]
    return jnp.stack([low | high << _HALF, other_low | other_high << _HALF], -1)
