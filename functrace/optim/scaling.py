"""Parts of optimizers that scale updates by numbers and schedules, and weight decay.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from functrace.optim.leaves import (
    Leaf,
    Number,
    Schedule,
    each,
    first_count,
    like,
    next_count,
    real,
    typed,
)
from functrace.optim.transformations import (
    EmptyState,
    GradientTransformation,
    check_state,
    masked,
    need_params,
    stateless,
)
from functrace.typing import PyTree


class ScaleByScheduleState(NamedTuple):
    """State of `scale_by_schedule`: the number of steps."""

    count: Leaf


class WeightDecaySchedule(NamedTuple):
    """State of `add_decayed_weights` with a schedule: the number of steps."""

    count: Leaf


def scale(step_size: Number) -> GradientTransformation:
    """Multiply updates by a number.

    Args:
        step_size: the factor.

    Returns:
        the transformation.

    Raises:
        DtypeError: from ``update``, if a leaf does not have floats.

    Example:
        >>> import numpy as np
        >>> tx = scale(-0.5)
        >>> tx.update(np.ones(2, np.float32), tx.init(np.zeros(2)))[0]
        array([-0.5, -0.5], dtype=float32)
    """
    return stateless(lambda updates, params: each(lambda g: like(step_size, g) * g, updates))


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Multiply updates by a number that depends on the number of the step.

    Args:
        step_size_fn: from the number of finished steps, which may be traced, to the factor.

    Returns:
        the transformation; its state counts the steps.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_schedule(lambda count: 1.0 / (count + 1))
        >>> state = tx.init(np.zeros(1))
        >>> for _ in range(2):
        ...     updates, state = tx.update(np.ones(1), state)
        >>> updates
        array([0.5])
    """

    def init(params: PyTree) -> ScaleByScheduleState:
        return ScaleByScheduleState(first_count())

    def update(
        updates: PyTree, state: ScaleByScheduleState, params: PyTree = None
    ) -> tuple[PyTree, ScaleByScheduleState]:
        check_state("scale_by_schedule", state, ScaleByScheduleState)
        size = step_size_fn(state.count)
        scaled = each(lambda g: like(size, g) * g, updates)
        return scaled, ScaleByScheduleState(next_count(state.count))

    return GradientTransformation(init, update)


def scale_by_learning_rate(
    learning_rate: Number | Schedule, *, flip_sign: bool = True
) -> GradientTransformation:
    """Multiply updates by the negative learning rate, the last part of an optimizer.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        flip_sign: False for the positive rate, which ascends.

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_learning_rate(0.1)
        >>> tx.update(np.ones(1), tx.init(np.zeros(1)))[0]
        array([-0.1])
    """
    rate: Any = learning_rate
    if not flip_sign:
        return scale_by_schedule(rate) if callable(rate) else scale(rate)
    if not callable(rate):
        return scale(-real(rate))

    def negative(count: Leaf) -> Any:
        now: Any = rate(count)
        return -real(now)

    return scale_by_schedule(negative)


def add_decayed_weights(
    weight_decay: Number | Schedule = 0.0,
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
) -> GradientTransformation:
    """Add a multiple of the parameters to the updates.

    Args:
        weight_decay: the factor, or a function from the number of finished steps to it.
        mask: a pytree of bools, which may end above the leaves of the parameters, or a function
            from parameters to it: where it is False, nothing is added, as usual for biases.

    Returns:
        the transformation.

    Raises:
        ArgumentError: from ``update``, if the parameters are missing.

    Example:
        >>> import numpy as np
        >>> tx = add_decayed_weights(0.1, mask={"w": True, "b": False})
        >>> params = {"w": np.ones(1), "b": np.ones(1)}
        >>> tx.update({"w": np.zeros(1), "b": np.zeros(1)}, tx.init(params), params)[0]
        {'w': array([0.1]), 'b': array([0.])}
    """
    factor: Any = weight_decay

    def init(params: PyTree) -> WeightDecaySchedule | EmptyState:
        return WeightDecaySchedule(first_count()) if callable(factor) else EmptyState()

    def update(updates: PyTree, state: Leaf, params: PyTree = None) -> tuple[PyTree, PyTree]:
        need_params(params, "add_decayed_weights")
        now: Any = factor
        if callable(factor):
            check_state("add_decayed_weights", state, WeightDecaySchedule)
            now, state = factor(state.count), WeightDecaySchedule(next_count(state.count))
        decayed = each(
            lambda g, p: g + typed(like(now, g) * p, g.dtype), updates, (params, "the parameters")
        )
        return decayed, state

    made = GradientTransformation(init, update)
    return made if mask is None else masked(made, mask)
