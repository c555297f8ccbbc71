"""Schedules: functions from the number of finished steps to a learning rate.

The number may be traced, so a jitted step reads it from the optimizer's state.

Layer: 8 (api).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functrace.errors import ArgumentError
from functrace.optim.leaves import Leaf, Number, Schedule
from functrace.tracing.tracer import Tracer

Count = Any
"""A number of steps: an integer, which may be traced."""


def constant_schedule(value: Number) -> Schedule:
    """Make a schedule with one value.

    Args:
        value: the value.

    Returns:
        the schedule.

    Example:
        >>> constant_schedule(0.1)(1000)
        0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Number,
    end_value: Number,
    power: Number,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Make a schedule from one value to another: ``(init - end) (1 - t)^power + end``.

    Args:
        init_value: the value at the start.
        end_value: the value at the end, and after it.
        power: the exponent.
        transition_steps: number of steps from the start of the transition to its end.
        transition_begin: number of steps before the transition.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``transition_steps`` is not positive, or ``transition_begin`` negative.

    Example:
        >>> schedule = polynomial_schedule(1.0, 0.0, 2, transition_steps=10)
        >>> float(schedule(0)), float(schedule(5)), float(schedule(20))
        (1.0, 0.25, 0.0)
    """
    _check_steps("polynomial_schedule", transition_steps, transition_begin)
    exponent: Any = power

    def schedule(count: Count) -> Any:
        steps = np.minimum(_since(count, transition_begin), transition_steps)
        return _between(init_value, end_value, (1 - steps / transition_steps) ** exponent)

    return schedule


def linear_schedule(
    init_value: Number, end_value: Number, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Make a schedule that goes from one value to another in equal steps.

    Args:
        init_value: the value at the start.
        end_value: the value at the end, and after it.
        transition_steps: number of steps from the start of the transition to its end.
        transition_begin: number of steps before the transition.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``transition_steps`` is not positive, or ``transition_begin`` negative.

    Example:
        >>> schedule = linear_schedule(1.0, 0.0, 10)
        >>> float(schedule(0)), float(schedule(5)), float(schedule(20))
        (1.0, 0.5, 0.0)
    """
    _check_steps("linear_schedule", transition_steps, transition_begin)
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(
    init_value: Number, boundaries_and_scales: Mapping[int, Number] | None = None
) -> Schedule:
    """Make a schedule that multiplies its value by a factor at each of some steps.

    Args:
        init_value: the value at the start.
        boundaries_and_scales: by number of finished steps, the factor from there on.

    Returns:
        the schedule.

    Example:
        >>> schedule = piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.5})
        >>> float(schedule(9)), float(schedule(10)), float(schedule(25))
        (1.0, 0.5, 0.25)
    """
    rows = sorted((boundaries_and_scales or {}).items())

    def schedule(count: Count) -> Any:
        value: Any = init_value
        for boundary, factor in rows:
            value = np.where(count < boundary, value, value * factor)
        return value

    return schedule


def exponential_decay(
    init_value: Number,
    transition_steps: int,
    decay_rate: Number,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Number | None = None,
) -> Schedule:
    """Make a schedule with ``init_value * decay_rate ** (steps / transition_steps)``.

    Args:
        init_value: the value at the start.
        transition_steps: number of steps after which the value is multiplied by the rate once.
        decay_rate: the positive factor.
        transition_begin: number of steps before the decay.
        staircase: True to change the value each ``transition_steps`` steps only.
        end_value: the value at which the decay, or the growth, ends.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``transition_steps`` or ``decay_rate`` is not positive, or
            ``transition_begin`` negative.

    Example:
        >>> schedule = exponential_decay(1.0, 10, 0.5, end_value=0.1)
        >>> float(schedule(0)), float(schedule(20)), float(schedule(1000))
        (1.0, 0.25, 0.1)
    """
    _check_steps("exponential_decay", transition_steps, transition_begin)
    first: Any = init_value
    rate: Any = decay_rate
    if not isinstance(decay_rate, Tracer) and not np.all(np.greater(decay_rate, 0)):
        raise ArgumentError(
            f"exponential_decay: the rate is {rate}", fix="pass a positive decay_rate"
        )

    def schedule(count: Count) -> Any:
        power = _since(count, transition_begin) / transition_steps
        value = first * rate ** (np.floor(power) if staircase else power)
        if end_value is None:
            return value
        limited: Any = end_value
        return np.where(rate < 1.0, np.maximum(value, limited), np.minimum(value, limited))

    return schedule


def cosine_decay_schedule(
    init_value: Number, decay_steps: int, alpha: Number = 0.0, exponent: Number = 1.0
) -> Schedule:
    """Make a schedule that falls along half a period of a cosine.

    Args:
        init_value: the value at the start.
        decay_steps: number of steps to the end of the decay.
        alpha: the last value, as a fraction of the first.
        exponent: the power of the cosine's fraction.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``decay_steps`` is not positive.

    Example:
        >>> schedule = cosine_decay_schedule(1.0, 10, alpha=0.5)
        >>> float(schedule(0)), round(float(schedule(5)), 6), float(schedule(20))
        (1.0, 0.75, 0.5)

    Source:
        Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts" (2017).
    """
    _check_steps("cosine_decay_schedule", decay_steps)
    first: Any = init_value
    return _cosine(first, first * alpha, decay_steps, exponent)


def warmup_cosine_decay_schedule(
    init_value: Number,
    peak_value: Number,
    warmup_steps: int,
    decay_steps: int,
    end_value: Number = 0.0,
    exponent: Number = 1.0,
) -> Schedule:
    """Make a schedule that rises in equal steps, then falls along half a period of a cosine.

    Args:
        init_value: the value at the start.
        peak_value: the value after the rise.
        warmup_steps: number of steps of the rise; 0 for none.
        decay_steps: number of steps of rise and fall together.
        end_value: the value at the end, and after it.
        exponent: the power of the cosine's fraction.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if ``decay_steps`` is not larger than ``warmup_steps``, or that is negative.

    Example:
        >>> schedule = warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=10, decay_steps=110)
        >>> float(schedule(5)), float(schedule(10)), float(schedule(60)), float(schedule(200))
        (0.5, 1.0, 0.5, 0.0)
    """
    if warmup_steps < 0 or decay_steps <= warmup_steps:
        raise ArgumentError(
            f"warmup_cosine_decay_schedule: {warmup_steps} steps of the rise in {decay_steps} steps",
            fix="decay_steps counts the rise, too: pass 0 <= warmup_steps < decay_steps",
        )
    fall = _cosine(peak_value, end_value, decay_steps - warmup_steps, exponent)
    if not warmup_steps:
        return fall
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([rise, fall], [warmup_steps])


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Make a schedule of several, one after the other.

    Args:
        schedules: the schedules; each counts its own steps from 0.
        boundaries: at which step each but the first begins.

    Returns:
        the schedule.

    Raises:
        ArgumentError: if there is not one boundary less than schedules, or they do not increase.

    Example:
        >>> schedule = join_schedules([constant_schedule(1.0), linear_schedule(1.0, 0.0, 10)], [5])
        >>> float(schedule(4)), float(schedule(5)), float(schedule(10))
        (1.0, 1.0, 0.5)
    """
    pairs = itertools.pairwise(boundaries)
    if len(schedules) != len(boundaries) + 1 or any(a > b for a, b in pairs):
        raise ArgumentError(
            f"join_schedules: {len(schedules)} schedules with the boundaries {list(boundaries)}",
            fix="pass one boundary less than schedules, in increasing order",
        )

    def schedule(count: Count) -> Any:
        value = schedules[0](count)
        for boundary, one in zip(boundaries, schedules[1:], strict=True):
            value = np.where(count < boundary, value, one(_since(count, boundary)))
        return value

    return schedule


def _cosine(first: Number, last: Number, steps: int, exponent: Number) -> Schedule:
    """Return a schedule from one value to another along half a period of a cosine."""
    power: Any = exponent

    def schedule(count: Count) -> Any:
        part = np.minimum(count, steps) / steps
        return _between(first, last, (0.5 * (1 + np.cos(np.pi * part))) ** power)

    return schedule


def _since(count: Count, begin: int) -> Any:
    """Return the number of steps after a step; 0 before it, for unsigned integers too."""
    return np.maximum(count, begin) - begin


def _between(first: Leaf, last: Leaf, weight: Leaf) -> Any:
    """Return a weighted mean of two values, which is exact at both ends."""
    return first * weight + last * (1 - weight)


def _check_steps(name: str, steps: int, begin: int = 0) -> None:
    if not steps > 0 or begin < 0:
        raise ArgumentError(
            f"{name}: {steps} steps from step {begin} on",
            fix="pass a positive number of steps, and a start from 0 on",
        )
