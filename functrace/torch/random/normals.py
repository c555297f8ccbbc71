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
from typing import Any, final

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
    work = _Workspace(min(len(uniform), _ROWS) * 8)
    for start in range(0, len(uniform), _ROWS):
        rows, into = uniform[start : start + _ROWS], made[start : start + _ROWS]
        if 8 * len(rows) != work.size:
            work = _Workspace(8 * len(rows))
        radius = np.empty((len(rows), 8), np.float32)
        np.subtract(np.float32(1), rows[:, :8], out=radius)
        work.log(radius.reshape(-1))
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        sine = np.multiply(rows[:, 8:], np.float32(2 * math.pi))
        cosine = np.empty_like(sine)
        work.sine_cosine(sine.reshape(-1), cosine.reshape(-1))
        np.multiply(cosine, radius, out=into[:, :8])
        np.multiply(sine, radius, out=into[:, 8:])
        if std != 1 or mean != 0:
            into[:] = multiply_add(into, std, mean)
        else:
            into += np.float32(0)  # no -0, as after multiplying and adding


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


def _single(*numbers: float) -> list[float]:
    return np.array(numbers, np.float32).tolist()


_LOG = _single(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_SINE = _single(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = _single(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_LOG_2 = np.array([0.693359375, -2.12194440e-4], np.float32)
_QUARTER_PI = np.array([0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8], np.float32)
"""Constants as sums, of which the first terms have few digits: their products are exact."""
_ROOT_HALF = int(np.float32(math.sqrt(0.5)).view(np.int32))


@final
class _Workspace:
    """Memory for the functions of a number of float32 numbers.

    Where PyTorch's kernels multiply and add in one step, the product is computed in float64, which
    holds it exactly; one rounding to float32 follows.

    Args:
        size: how many numbers.
    """

    __slots__ = ("integer", "other", "size", "square", "wide", "wide_square", "wide_x")

    def __init__(self, size: int) -> None:
        self.size = size
        self.integer = np.empty(size, np.int32)
        self.square, self.other = np.empty((2, size), np.float32)
        self.wide, self.wide_x, self.wide_square = np.empty((3, size), np.float64)

    def _polynomial(self, wide_x: Array, coefficients: list[float], out: Array) -> None:
        """Write a polynomial by Horner's rule into ``out`` and ``self.wide``."""
        wide = self.wide
        np.multiply(wide_x, coefficients[0], out=wide)
        for k, c in enumerate(coefficients[1:]):
            if k:
                wide *= wide_x
            wide += c
            _narrow(out, wide)
            np.copyto(wide, out)

    def log(self, x: Array) -> None:
        """Replace numbers in (0, 1] by their logarithms."""
        exponent, result, square, wide = self.integer, self.other, self.square, self.wide
        bits = x.view(np.int32)
        np.subtract(bits, _ROOT_HALF, out=exponent)
        exponent >>= 23
        bits -= exponent << 23  # the fraction, from sqrt(0.5) to sqrt(2)
        x -= np.float32(1)
        np.copyto(self.wide_x, x)
        np.multiply(x, x, out=square)
        np.copyto(self.wide_square, square)
        self._polynomial(self.wide_x, _LOG, result)
        result *= x
        np.multiply(result, self.wide_square, out=wide, dtype=np.float64)
        power = exponent.astype(np.float32)
        wide += power * _LOG_2[1]
        _narrow(result, wide)
        square *= np.float32(0.5)
        result -= square
        x += result
        power *= _LOG_2[0]
        x += power

    def sine_cosine(self, x: Array, cosine: Array) -> None:
        """Replace numbers in [0, 2 pi] by their sines, and write their cosines."""
        octant, other, square, wide = self.integer, self.other, self.square, self.wide
        np.multiply(x, np.float32(4 / math.pi), out=other)
        np.copyto(octant, other, casting="unsafe")
        octant += 1
        octant &= ~1
        np.copyto(other, octant, casting="same_kind")
        x -= other * _QUARTER_PI[0]
        x -= other * _QUARTER_PI[1]
        np.multiply(other, -float(_QUARTER_PI[2]), out=wide, dtype=np.float64)
        wide += x
        _narrow(x, wide)
        np.copyto(self.wide_x, x)
        np.multiply(x, x, out=square)
        np.copyto(self.wide_square, square)
        self._polynomial(self.wide_square, _COSINE, cosine)
        cosine *= square
        np.copyto(wide, cosine)
        wide *= self.wide_square
        np.multiply(square, np.float32(0.5), out=other)
        wide -= other
        _narrow(cosine, wide)
        cosine += np.float32(1)
        self._polynomial(self.wide_square, _SINE, other)
        other *= square
        np.copyto(wide, other)
        wide *= self.wide_x
        wide += self.wide_x
        _narrow(x, wide)
        # Exchange them in odd quarters, and set the signs, in the bits.
        sine_bits, cosine_bits, work = x.view(np.int32), cosine.view(np.int32), other.view(np.int32)
        mask = octant & 2
        mask <<= 30
        mask >>= 31
        np.bitwise_xor(sine_bits, cosine_bits, out=work)
        work &= mask
        sine_bits ^= work
        cosine_bits ^= work
        np.bitwise_and(octant, 4, out=work)
        work <<= 29
        sine_bits ^= work
        octant += 2
        octant &= 4
        octant <<= 29
        cosine_bits ^= octant


def _narrow(out: Array, wide: Array) -> None:
    np.copyto(out, wide, casting="same_kind")
