"""Arrays of random numbers, as PyTorch's kernels on the CPU draw them.

Each function draws a number of elements, in the memory order of the tensor; `placed` gives them its
shape. They are the functions that other parts of the package call for random numbers.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch.random.engine import Engine
from functrace.torch.random.fused import exactly, multiply_add
from functrace.torch.random.normals import BLOCK, in_blocks, in_pairs
from functrace.torch.tensors.orders import memory_order
from functrace.typing import Array

_REAL = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


def placed(numbers: Array, like: Array) -> Array:
    """Return numbers in the shape of an array: the first ones where its first elements are in
    memory.

    Args:
        numbers: one-dimensional.
        like: the array; its values are not read.
    """
    if like.flags.c_contiguous:
        return numbers.reshape(like.shape)
    order = memory_order(like)
    return numbers.reshape([like.shape[k] for k in order]).transpose(np.argsort(order))


def narrowed(x: Array, kind: np.dtype[Any]) -> Array:
    """Return numbers in a dtype; those of 16 bits are rounded to float32 first, as in PyTorch."""
    if kind.itemsize == 2 and kind.kind not in "iu":
        x = x.astype(np.float32)
    return x.astype(kind, copy=False)


def uniforms(
    engine: Engine, count: int, kind: np.dtype[Any], low: float = 0.0, high: float = 1.0
) -> Array:
    """Return numbers uniform in ``[low, high)``.

    Args:
        engine: source of the numbers.
        count: how many.
        kind: a floating or complex dtype; those of 16 bits are rounded from float32.
        low: lower bound.
        high: upper bound; a number that would be rounded to it becomes the lower bound.
    """
    if kind in _REAL:
        return uniforms(engine, 2 * count, _REAL[kind], low, high).view(kind)
    drawn = engine.doubles(count) if kind == np.float64 else engine.floats(count)
    if low != 0 or high != 1:
        scalar = drawn.dtype.type
        drawn = multiply_add(drawn, float(scalar(high) - scalar(low)), low)
    made = drawn.astype(kind, copy=False)
    if kind not in (np.float32, np.float64) or low != 0 or high != 1:
        bounds = np.array([low, high]).astype(kind)
        made[made == bounds[1]] = bounds[0]
    return made


def normals(
    engine: Engine,
    count: int,
    kind: np.dtype[Any],
    mean: float = 0.0,
    std: float = 1.0,
    *,
    is_contiguous: bool = True,
) -> Array:
    """Return normal numbers.

    Args:
        engine: source of the numbers.
        count: how many.
        kind: a floating or complex dtype.
        mean: the mean, of both parts of a complex number.
        std: the standard deviation.
        is_contiguous: True if the tensor is contiguous: only then they come in blocks.
    """
    if kind in _REAL:
        part, scale = _REAL[kind], std / 2**0.5
        return normals(engine, 2 * count, part, mean, scale, is_contiguous=is_contiguous).view(kind)
    if is_contiguous and count >= BLOCK:
        return in_blocks(engine, count, kind, mean, std)
    return narrowed(multiply_add(in_pairs(engine, count), std, mean), kind)


def integers(engine: Engine, count: int, low: int, span: int, kind: np.dtype[Any]) -> Array:
    """Return integers from ``low`` on.

    Args:
        engine: source of the numbers.
        count: how many.
        low: the least integer.
        span: how many integers there are: 1 to 2**64, that is all 64-bit ones.
        kind: dtype of the result.
    """
    if span < 1 << 28:
        drawn = (engine.words(count) % np.uint32(span)).astype(np.int64)
    else:
        words = engine.long_words(count)
        if span == 1 << 64:
            return words.view(np.int64).astype(kind, copy=False)
        drawn = (words % np.uint64(span)).view(np.int64)
    with np.errstate(over="ignore"):
        drawn += np.int64(low)
    return narrowed(drawn, kind)


def all_integers(engine: Engine, count: int, kind: np.dtype[Any], digits: int) -> Array:
    """Return the integers of ``random_()`` without bounds.

    Args:
        engine: source of the numbers.
        count: how many.
        kind: dtype of the result.
        digits: its binary digits: they limit the integers.
    """
    span = np.uint64((1 << digits) + (kind.kind not in "iub"))
    if digits > 32:
        return (engine.long_words(count) % span).astype(kind)
    return (engine.words(count) % span).astype(kind)


def permutation(engine: Engine, count: int) -> Array:
    """Return the integers below ``count`` in random order (Fisher, Yates).

    The element at ``k`` is swapped with one at ``k`` or later, for every ``k`` in turn. All swaps
    are resolved at once: ``result[k]`` is the element that the last earlier swap with the same
    place put there; which one that was is a chain of earlier swaps, whose ends are found by
    doubling the steps.

    Args:
        engine: source of the numbers.
        count: how many; below 2**32 / 20.

    Raises:
        NotImplementedError: for more.
    """
    if count >= (2**32 - 1) // 20:
        raise NotImplementedError(
            f"randperm({count}): functrace draws permutations of fewer than 2**32 / 20 numbers"
        )
    if count < 2:
        return np.arange(count)
    drawn = engine.words(count - 1)
    left = np.arange(count, 1, -1, dtype=np.uint32)
    places = np.arange(count, dtype=np.int64)
    places[:-1] += drawn % left
    return _permuted(places)


def _permuted(places: Array) -> Array:
    count = len(places)
    steps = np.arange(count)
    if count < 64:  # 4 us instead of 40 us
        result = list(range(count))
        for k, place in enumerate(places.tolist()):
            result[k], result[place] = result[place], result[k]
        return np.array(result)
    # The element at k just before step k: that of the last earlier step that swapped with place k.
    moved = np.flatnonzero(places != steps)
    origin = steps.copy()
    origin[places.take(moved)] = moved  # of repeated places, the last one counts
    active = np.flatnonzero(origin != steps)
    while active.size:
        before = origin.take(active)
        further = origin.take(before)
        origin[active] = further
        active = active[further != before]
    # Steps sorted by place: the earlier step with the same place is the one before.
    keys = (places << 32) | steps
    keys.sort()
    sorted_places, sorted_steps = keys >> 32, keys & 0xFFFFFFFF
    repeats = sorted_places[1:] == sorted_places[:-1]
    result = places.copy()
    result[sorted_steps[1:][repeats]] = origin[sorted_steps[:-1][repeats]]
    return result


def trials(engine: Engine, count: int, p: float) -> Array:
    """Return True with a probability: what ``bernoulli_(p)`` draws, and the mask of dropout.

    Args:
        engine: source of the numbers.
        count: how many.
        p: the probability.

    Returns:
        Booleans; PyTorch's ``dropout(x, p)`` multiplies ``x`` by those of ``1 - p``, over
        ``1 - p``.
    """
    return engine.doubles(count) < p


def trials_each(engine: Engine, chances: Array) -> Array:
    """Return True with the probability that each element holds.

    Args:
        engine: source of the numbers.
        chances: the probabilities, one-dimensional.
    """
    draw = engine.doubles if chances.dtype == np.float64 else engine.floats
    return draw(chances.size) < chances.astype(draw(0).dtype, copy=False)


def exponentials(engine: Engine, count: int, kind: np.dtype[Any], rate: float = 1.0) -> Array:
    """Return exponentially distributed numbers.

    Args:
        engine: source of the numbers.
        count: how many.
        kind: a floating dtype.
        rate: the rate.
    """
    uniform = -engine.doubles(count)
    # The last digit of a float64 does not show in a shorter dtype.
    log = exactly("log1p", uniform) if kind == np.float64 else np.log1p(uniform)
    return narrowed((-1 / rate) * log, kind)


def geometrics(engine: Engine, count: int, p: float) -> Array:
    """Return numbers of trials up to the first success, in float64.

    Args:
        engine: source of the numbers.
        count: how many.
        p: probability of success.
    """
    with np.errstate(divide="ignore"):
        return np.ceil(np.log(engine.doubles(count)) / np.log1p(-p))


def cauchys(engine: Engine, count: int, median: float, sigma: float) -> Array:
    """Return numbers of Cauchy's distribution, in float64.

    Args:
        engine: source of the numbers.
        count: how many.
        median: the median.
        sigma: half the width at half the height.
    """
    return multiply_add(exactly("tan", np.pi * (engine.doubles(count) - 0.5)), sigma, median)


def log_normals(engine: Engine, count: int, mean: float, std: float) -> Array:
    """Return exponentials of normal numbers, in float64.

    Args:
        engine: source of the numbers.
        count: how many.
        mean: mean of the logarithms.
        std: their standard deviation.
    """
    return exactly("exp", multiply_add(in_pairs(engine, count), std, mean))
