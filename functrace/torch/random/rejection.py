"""Numbers drawn by rejection: Poisson, binomial and gamma distributions.

How many random words an element takes depends on the words themselves, so that each element begins
where the one before it ended: these functions run element by element (2 us each).

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import numpy as np

from functrace.torch.random.engine import Engine
from functrace.typing import Array

_BLOCK = 512


@final
class UniformStream:
    """Uniform and normal numbers of an engine, one at a time.

    Args:
        engine: the engine; `finish` moves it behind the numbers that were taken.
    """

    __slots__ = ("_begun", "_engine", "_numbers", "_taken")

    def __init__(self, engine: Engine) -> None:
        self._engine, self._begun = engine, engine.snapshot()
        self._numbers: list[float] = []
        self._taken = 0

    def __call__(self) -> float:
        """Return the next number in [0, 1)."""
        if not self._taken % _BLOCK:
            self._numbers = self._engine.doubles(_BLOCK).tolist()
        number = self._numbers[self._taken % _BLOCK]
        self._taken += 1
        return number

    def normal(self) -> float:
        """Return the next normal number: the second one of a pair, or the first of a new one."""
        waiting = self._engine.normal
        if waiting is not None:
            self._engine.normal = None
            return waiting
        angle = 2 * math.pi * self()
        radius = math.sqrt(-2 * math.log1p(-self()))
        self._engine.normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def finish(self) -> None:
        """Move the engine behind the numbers that were taken."""
        normal = self._engine.normal
        self._engine.restore(self._begun)
        self._engine.skip(2 * self._taken)
        self._engine.normal = normal


@contextmanager
def stream(engine: Engine) -> Iterator[UniformStream]:
    """Take numbers of an engine one at a time.

    Args:
        engine: the engine.
    """
    taking = UniformStream(engine)
    try:
        yield taking
    finally:
        taking.finish()


def poissons(engine: Engine, rates: Array) -> Array:
    """Return Poisson numbers, in float64.

    Args:
        engine: source of the numbers.
        rates: the rates, one-dimensional.

    Raises:
        RuntimeError: if a rate is negative.

    Source: rates of 10 and more, W. Hoermann, "The transformed rejection method for generating
    Poisson random variables", 1993; lower ones by products of uniform numbers.
    """
    made = np.empty(rates.size)
    with stream(engine) as uniform:
        for k, rate in enumerate(rates.tolist()):
            made[k] = _poisson(uniform, rate)
    return made


def _poisson(uniform: UniformStream, rate: float) -> float:
    if not rate >= 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    if rate == 0:
        return 0.0
    if rate < 10:
        bound, product, count = math.exp(-rate), 1.0, -1.0
        while True:
            product *= uniform()
            count += 1
            if not product > bound:
                return count
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accepted = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        count = math.floor((2 * a / us + b) * u + rate + 0.43) if us else -math.inf
        if us >= 0.07 and v <= accepted:
            return count
        if count < 0 or (us < 0.013 and v > us):
            continue
        height = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if height <= -rate + count * log_rate - math.lgamma(count + 1):
            return count


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


def binomials(engine: Engine, counts: Array, chances: Array) -> Array:
    """Return binomial numbers, in float64.

    Args:
        engine: source of the numbers.
        counts: numbers of trials, one-dimensional.
        chances: probabilities of success, one-dimensional.

    Source: W. Hoermann, "The generation of binomial random variates", 1993 (BTRS); means below 10
    by sums of geometric numbers.
    """
    made = np.empty(counts.size)
    with stream(engine) as uniform:
        for k, (count, p) in enumerate(zip(counts.tolist(), chances.tolist(), strict=True)):
            if count <= 0 or p <= 0:
                made[k] = 0
            elif p >= 1:
                made[k] = count
            elif p <= 0.5:
                made[k] = _binomial(uniform, count, p)
            elif p > 0.5:
                made[k] = count - _binomial(uniform, count, 1 - p)
            else:
                made[k] = math.nan
    return made


def _binomial(uniform: UniformStream, count: float, p: float) -> float:
    return (_binomial_of_many if count * p >= 10 else _binomial_of_few)(uniform, count, p)


def _binomial_of_few(uniform: UniformStream, count: float, p: float) -> float:
    trials, found, log_miss = 0.0, 0.0, math.log1p(-p)
    if math.isnan(count):
        return math.nan
    while True:
        logarithm = _log(uniform())
        trials += math.ceil(logarithm / log_miss) if math.isfinite(logarithm) else math.inf
        if trials > count:
            return found
        found += 1


def _binomial_of_many(uniform: UniformStream, count: float, p: float) -> float:
    deviation = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    accepted = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((count + 1) * p)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        found = math.floor((2 * a / us + b) * u + c) if us else -math.inf
        if us >= 0.07 and v <= accepted:
            return found
        if found < 0 or found > count:
            continue
        height = _log(v * alpha / (a / (us * us) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * math.log((count - mode + 1) / (count - found + 1))
            + (found + 0.5) * math.log(odds * (count - found + 1) / (found + 1))
            + _stirling_rest(mode)
            + _stirling_rest(count - mode)
            - _stirling_rest(found)
            - _stirling_rest(count - found)
        )
        if height <= bound:
            return found


def _stirling_rest(k: float) -> float:
    """Return log(k!) less Stirling's formula for it."""
    if k <= 9:
        return _STIRLING_RESTS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


_STIRLING_RESTS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.0092554621827127, 0.0083305634333628,
)  # fmt: skip


def gammas(engine: Engine, shapes: Array, least: float) -> Array:
    """Return gamma numbers of scale 1, in float64.

    Args:
        engine: source of the numbers.
        shapes: the shape parameters, one-dimensional; float32 ones are prepared in float32.
        least: the least result: the smallest normal number of the dtype.

    Source: G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", 2000.
    """
    scalar = shapes.dtype.type
    is_small = (shapes < 1) & (shapes != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.where(is_small, scalar(1) / shapes, scalar(0)).tolist()
    shifted = (np.where(is_small, shapes + scalar(1), shapes) - scalar(_THIRD)).tolist()
    made = []
    with stream(engine) as uniform:
        for shape, exponent, d in zip(shapes.tolist(), exponents, shifted, strict=True):
            scale = _power(1 - uniform(), exponent) if exponent else 1.0
            made.append(max(least, _gamma(uniform, d, scale) if shape else 0.0))
    return np.array(made, np.float64)


_THIRD, _SQUEEZE = float(np.float32(1 / 3)), float(np.float32(0.0331))
"""PyTorch's constants have the digits of float32."""


def _gamma(uniform: UniformStream, d: float, scale: float) -> float:
    c = 1 / math.sqrt(9 * d) if d > 0 else math.nan
    while True:
        x, y = 0.0, 0.0
        while True:
            x = uniform.normal()
            y = 1 + c * x
            if not y <= 0:
                break
        v = y * y * y
        u = 1 - uniform()
        square = x * x
        if u < 1 - _SQUEEZE * square * square:
            return scale * d * v
        if math.isnan(v) or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
