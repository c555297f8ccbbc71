"""Normal numbers by the method of Box and Muller, in PyTorch's two ways.

Sixteen numbers or more, in a contiguous tensor, come in blocks of sixteen: eight uniform numbers
give the radii, eight others the angles. If the last block is incomplete, the last sixteen numbers
are drawn anew. Fewer numbers come in pairs, computed in float64; the second of a pair waits in the
generator for the next call.

Logarithm, sine and cosine of float32 numbers are the polynomials of S. Moshier's Cephes library,
which PyTorch's vectorized kernels use, with the same roundings.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch.random.engine import Engine
from functrace.torch.random.fused import exactly, multiply_add
from functrace.typing import Array

BLOCK = 16
_ROWS = 512
"""Blocks computed at a time: 8 kB per intermediate result stay in the cache."""


def in_blocks(engine: Engine, count: int, kind: np.dtype[Any], mean: float, std: float) -> Array:
    """Return normal numbers made in blocks.

    Args:
        engine: source of the numbers.
        count: how many; 16 at least.
        kind: dtype of the result; those of 16 bits are rounded from float32.
        mean: the mean.
        std: the standard deviation.
    """
    is_double = kind == np.float64
    draw = engine.doubles if is_double else engine.floats
    compute = _double_blocks if is_double else _single_blocks
    full = count - count % BLOCK
    single = kind in (np.float32, np.float64)
    uniform = draw(count if single else full)
    made = np.empty(count, np.float64 if is_double else np.float32)
    compute(uniform[:full].reshape(-1, BLOCK), made[:full].reshape(-1, BLOCK), mean, std)
    if full != count:
        compute(draw(BLOCK).reshape(1, BLOCK), made[-BLOCK:].reshape(1, BLOCK), mean, std)
    return made.astype(kind, copy=False)


def _double_blocks(uniform: Array, made: Array, mean: float, std: float) -> None:
    radius = np.sqrt(-2 * exactly("log", 1 - uniform[:, :8]))
    angle = 2 * math.pi * uniform[:, 8:]
    made[:, :8] = multiply_add(radius * exactly("cos", angle), std, mean)
    made[:, 8:] = multiply_add(radius * exactly("sin", angle), std, mean)


def _single_blocks(uniform: Array, made: Array, mean: float, std: float) -> None:
    for start in range(0, len(uniform), _ROWS):
        rows, into = uniform[start : start + _ROWS], made[start : start + _ROWS]
        radius = np.sqrt(np.float32(-2) * _log(1 - rows[:, :8]))
        sine, cosine = _sine_cosine(np.float32(2 * math.pi) * rows[:, 8:])
        cosine *= radius
        sine *= radius
        if std == 1 and mean == 0:
            into[:, :8], into[:, 8:] = cosine, sine
        else:
            into[:, :8] = multiply_add(cosine, std, mean)
            into[:, 8:] = multiply_add(sine, std, mean)


def in_pairs(engine: Engine, count: int) -> Array:
    """Return standard normal numbers made in pairs, in float64.

    Args:
        engine: source of the numbers, which holds the second one of an incomplete pair.
        count: how many.
    """
    if not count:
        return np.empty(0)
    first = [] if engine.normal is None else [engine.normal]
    pairs = (count - len(first) + 1) // 2
    uniform = engine.doubles(2 * pairs).reshape(pairs, 2)
    radius = np.sqrt(-2 * exactly("log1p", -uniform[:, 1]))
    angle = 2 * math.pi * uniform[:, 0]
    made = np.empty(2 * pairs + len(first))
    made[: len(first)] = first
    made[len(first) :: 2] = radius * exactly("cos", angle)
    made[len(first) + 1 :: 2] = radius * exactly("sin", angle)
    engine.normal = float(made[count]) if len(made) > count else None
    return made[:count]


# -- functions of float32 numbers ------------------------------------------------------------------

_LOG = np.array([
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
], np.float32).astype(np.float64)  # fmt: skip
_LOG_2 = np.array([0.693359375, -2.12194440e-4], np.float32).astype(np.float64)
_QUARTER_PI = np.array([0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8], np.float32)
_SINE = np.array([-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1], np.float32)
_COSINE = np.array([
    2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2
], np.float32)  # fmt: skip


def _rounded(x: Array) -> Array:
    return x.astype(np.float32)


def _polynomial(x: Array, coefficients: Array) -> Array:
    """Return a polynomial by Horner's rule, with each step rounded once to float32."""
    wide = x.astype(np.float64)
    result = _rounded(wide * coefficients[0] + coefficients[1])
    for c in coefficients[2:]:
        step = wide * result
        step += c
        result = _rounded(step)
    return result


def _log(x: Array) -> Array:
    """Return the logarithm of float32 numbers in (0, 1]."""
    bits = x.view(np.int32) if x.flags.c_contiguous else np.ascontiguousarray(x).view(np.int32)
    exponent = (bits >> 23) - 126
    fraction = ((bits & 0x7FFFFF) | 0x3F000000).view(np.float32)
    is_low = fraction < np.float32(math.sqrt(0.5))
    exponent -= is_low
    fraction = np.where(is_low, (fraction - np.float32(1)) + fraction, fraction - np.float32(1))
    square = fraction * fraction
    result = _polynomial(fraction, _LOG)
    result *= fraction
    wide = exponent.astype(np.float64)
    low = _rounded(wide * _LOG_2[1])
    result = _rounded(np.multiply(result, square, dtype=np.float64) + low)
    result = _rounded(square * np.float64(-0.5) + result)
    result += fraction
    return _rounded(wide * _LOG_2[0] + result)


def _sine_cosine(x: Array) -> tuple[Array, Array]:
    """Return sine and cosine of float32 numbers in [0, 2 pi]."""
    octant = (x * np.float32(4 / math.pi)).astype(np.int32)
    octant += 1
    octant &= ~1
    wide = octant.astype(np.float64)
    for part in _QUARTER_PI:
        x = _rounded(x - wide * np.float64(part))
    square = x * x
    cosine = _polynomial(square, _COSINE.astype(np.float64))
    cosine *= square
    cosine = _rounded(np.multiply(cosine, square, dtype=np.float64) - (square * np.float32(0.5)))
    cosine += np.float32(1)
    sine = _polynomial(square, _SINE.astype(np.float64))
    sine *= square
    sine = _rounded(np.multiply(sine, x, dtype=np.float64) + x)
    is_swapped = (octant & 2) != 0
    made_sine = np.where(is_swapped, cosine, sine)
    made_cosine = np.where(is_swapped, sine, cosine)
    np.negative(made_sine, out=made_sine, where=(octant & 4) != 0)
    np.negative(made_cosine, out=made_cosine, where=((octant + 2) & 4) != 0)
    return made_sine, made_cosine
