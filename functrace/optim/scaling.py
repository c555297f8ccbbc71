"""Parts of optimizers that scale updates: by numbers, schedules, moments of gradients.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from functrace.optim.leaves import (
    Leaf,
    Number,
    Schedule,
    each,
    first_count,
    like,
    next_count,
    root,
    squared,
    typed,
    zeros_like,
)
from functrace.optim.transformations import (
    EmptyState,
    GradientTransformation,
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


class TraceState(NamedTuple):
    """State of `trace`: the accumulated updates."""

    trace: PyTree


class ScaleByAdamState(NamedTuple):
    """State of `scale_by_adam`: the number of steps, and the means of gradients and squares."""

    count: Leaf
    mu: PyTree
    nu: PyTree


class ScaleByLionState(NamedTuple):
    """State of `scale_by_lion`: the number of steps, and the mean of gradients."""

    count: Leaf
    mu: PyTree


class ScaleByRmsState(NamedTuple):
    """State of `scale_by_rms`: the mean of squares."""

    nu: PyTree


class ScaleByRmsWithCountState(NamedTuple):
    """State of `scale_by_rms` with bias correction."""

    count: Leaf
    nu: PyTree


class ScaleByRStdDevState(NamedTuple):
    """State of `scale_by_stddev`: the means of gradients and squares."""

    mu: PyTree
    nu: PyTree


class ScaleByRStdDevWithCountState(NamedTuple):
    """State of `scale_by_stddev` with bias correction."""

    count: Leaf
    mu: PyTree
    nu: PyTree


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
        return scale(-rate)

    def negative(count: Leaf) -> Any:
        now: Any = rate(count)
        return -now

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

    def update(
        updates: PyTree, state: WeightDecaySchedule | EmptyState, params: PyTree = None
    ) -> tuple[PyTree, PyTree]:
        need_params(params, "add_decayed_weights")
        now = factor
        if isinstance(state, WeightDecaySchedule):
            now, state = factor(state.count), WeightDecaySchedule(next_count(state.count))
        decayed = each(
            lambda g, p: g + typed(like(now, g) * p, g.dtype), updates, (params, "the parameters")
        )
        return decayed, state

    made = GradientTransformation(init, update)
    return made if mask is None else masked(made, mask)


def trace(
    decay: Number, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Accumulate updates, each step multiplied by a factor: momentum.

    Args:
        decay: the factor of the accumulated updates.
        nesterov: True to look one step ahead.
        accumulator_dtype: dtype of the accumulated updates; by default that of the parameters.

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = trace(0.5)
        >>> state = tx.init(np.zeros(1))
        >>> for _ in range(3):
        ...     updates, state = tx.update(np.ones(1), state)
        >>> updates
        array([1.75])

    Source:
        Sutskever et al., "On the importance of initialization and momentum" (2013).
    """

    def init(params: PyTree) -> TraceState:
        return TraceState(zeros_like(params, accumulator_dtype))

    def update(
        updates: PyTree, state: TraceState, params: PyTree = None
    ) -> tuple[PyTree, TraceState]:
        def one(g: Leaf, t: Leaf) -> tuple[Leaf, Leaf]:
            kept = g + like(decay, t) * t
            ahead = g + like(decay, t) * kept if nesterov else np.copy(kept)
            return ahead, typed(kept, t.dtype)

        ahead, kept = each(one, updates, (state.trace, "the state of trace"), results=2)
        return ahead, TraceState(kept)

    return GradientTransformation(init, update)


def mean(decay: Number, x: Leaf, before: Leaf) -> Any:
    """Return an exponential moving average."""
    kept: Any = decay
    return like(1 - kept, x) * x + like(kept, before) * before


def unbiased(x: Leaf, decay: Number, count: Leaf) -> Any:
    """Divide a moving average that has started at 0 by the sum of its weights."""
    kept: Any = decay
    return x / like(1 - kept**count, x)


def scale_by_adam(
    b1: Number = 0.9,
    b2: Number = 0.999,
    eps: Number = 1e-8,
    eps_root: Number = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Divide the mean of gradients by the root of the mean of their squares.

    Args:
        b1: decay of the mean of gradients.
        b2: decay of the mean of squares.
        eps: added to the root.
        eps_root: added below the root.
        mu_dtype: dtype of the mean of gradients; by default that of the parameters.
        nesterov: True for Nesterov's momentum (NAdam).

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_adam()
        >>> np.round(tx.update(np.array([0.5, -2.0]), tx.init(np.zeros(2)))[0], 6)
        array([ 1., -1.])

    Source:
        Kingma and Ba, "Adam" (2015), algorithm 1; Dozat, "Incorporating Nesterov momentum into
        Adam" (2016).
    """

    def init(params: PyTree) -> ScaleByAdamState:
        return ScaleByAdamState(first_count(), zeros_like(params, mu_dtype), zeros_like(params))

    def update(
        updates: PyTree, state: ScaleByAdamState, params: PyTree = None
    ) -> tuple[PyTree, ScaleByAdamState]:
        count = next_count(state.count)

        def one(g: Leaf, m: Leaf, v: Leaf) -> tuple[Leaf, Leaf, Leaf]:
            first, second = mean(b1, g, m), mean(b2, squared(g), v)
            if nesterov:
                ahead = unbiased(first, b1, next_count(count))
                top = mean(b1, unbiased(g, b1, count), ahead)
            else:
                top = unbiased(first, b1, count)
            size = root(unbiased(second, b2, count) + like(eps_root, second))
            scaled = typed(top / (size + like(eps, size)), g.dtype)
            return scaled, typed(first, m.dtype), typed(second, v.dtype)

        what = "the state of adam"
        scaled, mu, nu = each(one, updates, (state.mu, what), (state.nu, what), results=3)
        return scaled, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


def scale_by_lion(
    b1: Number = 0.9, b2: Number = 0.99, mu_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Replace updates by the sign of a mean of gradients.

    Args:
        b1: weight of the mean in the update.
        b2: decay of the mean.
        mu_dtype: dtype of the mean; by default that of the parameters.

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_lion()
        >>> tx.update(np.array([0.5, -2.0]), tx.init(np.zeros(2)))[0]
        array([ 1., -1.])

    Source:
        Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2.
    """

    def init(params: PyTree) -> ScaleByLionState:
        return ScaleByLionState(first_count(), zeros_like(params, mu_dtype))

    def update(
        updates: PyTree, state: ScaleByLionState, params: PyTree = None
    ) -> tuple[PyTree, ScaleByLionState]:
        def one(g: Leaf, m: Leaf) -> tuple[Leaf, Leaf]:
            signs = np.sign(mean(b1, g, m))
            return typed(signs, g.dtype), typed(mean(b2, g, m), m.dtype)

        signs, mu = each(one, updates, (state.mu, "the state of lion"), results=2)
        return signs, ScaleByLionState(next_count(state.count), mu)

    return GradientTransformation(init, update)


def scale_by_rms(
    decay: Number = 0.9,
    eps: Number = 1e-8,
    initial_scale: Number = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Divide updates by the root of the mean of their squares.

    Args:
        decay: decay of the mean.
        eps: added to the mean, or to the root.
        initial_scale: the mean at the start.
        eps_in_sqrt: True to add ``eps`` below the root, False to add it to the root, as PyTorch does.
        bias_correction: True to divide the mean by the sum of its weights.

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_rms(decay=0.75)
        >>> np.round(tx.update(np.array([0.5, -2.0]), tx.init(np.zeros(2)))[0], 6)
        array([ 2., -2.])

    Source:
        Tieleman and Hinton, "RMSProp", lecture 6.5 of "Neural networks for machine learning" (2012).
    """

    def init(params: PyTree) -> ScaleByRmsState | ScaleByRmsWithCountState:
        nu = zeros_like(params, fill=initial_scale)
        return (
            ScaleByRmsWithCountState(first_count(), nu) if bias_correction else ScaleByRmsState(nu)
        )

    def update(
        updates: PyTree, state: ScaleByRmsState | ScaleByRmsWithCountState, params: PyTree = None
    ) -> tuple[PyTree, ScaleByRmsState | ScaleByRmsWithCountState]:
        count = next_count(state.count) if isinstance(state, ScaleByRmsWithCountState) else None

        def one(g: Leaf, v: Leaf) -> tuple[Leaf, Leaf]:
            second = mean(decay, squared(g), v)
            size = second if count is None else unbiased(second, decay, count)
            scaled = g / root_of(size, eps, eps_in_sqrt)
            return typed(scaled, g.dtype), typed(second, v.dtype)

        scaled, nu = each(one, updates, (state.nu, "the state of rmsprop"), results=2)
        if count is None:
            return scaled, ScaleByRmsState(nu)
        return scaled, ScaleByRmsWithCountState(count, nu)

    return GradientTransformation(init, update)


def root_of(size: Leaf, eps: Number, is_inside: bool) -> Any:
    """Return a root, with ``eps`` added below it or to it."""
    small = like(eps, size)
    return root(size + small) if is_inside else root(size) + small


def scale_by_stddev(
    decay: Number = 0.9,
    eps: Number = 1e-8,
    initial_scale: Number = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Divide updates by their standard deviation: the root of a centered mean of squares.

    A difference of means that rounding makes negative is 0 (in optax, its root is NaN).

    Args:
        decay: decay of the means.
        eps: added to the variance, or to the root.
        initial_scale: the mean of squares at the start.
        eps_in_sqrt: True to add ``eps`` below the root, False to add it to the root.
        bias_correction: True to divide the means by the sums of their weights.

    Returns:
        the transformation.

    Example:
        >>> import numpy as np
        >>> tx = scale_by_stddev(decay=0.5)
        >>> np.round(tx.update(np.array([0.5, -2.0]), tx.init(np.zeros(2)))[0], 4)
        array([ 2., -2.])

    Source:
        Graves, "Generating sequences with recurrent neural networks" (2013), section 4.2.
    """

    def init(params: PyTree) -> ScaleByRStdDevState | ScaleByRStdDevWithCountState:
        mu, nu = zeros_like(params), zeros_like(params, fill=initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(first_count(), mu, nu)
        return ScaleByRStdDevState(mu, nu)

    def update(
        updates: PyTree,
        state: ScaleByRStdDevState | ScaleByRStdDevWithCountState,
        params: PyTree = None,
    ) -> tuple[PyTree, ScaleByRStdDevState | ScaleByRStdDevWithCountState]:
        count = next_count(state.count) if isinstance(state, ScaleByRStdDevWithCountState) else None

        def one(g: Leaf, m: Leaf, v: Leaf) -> tuple[Leaf, Leaf, Leaf]:
            first, second = mean(decay, g, m), mean(decay, squared(g), v)
            middle, size = first, second
            if count is not None:
                middle, size = unbiased(first, decay, count), unbiased(second, decay, count)
            variance = np.maximum(size - squared(middle), like(0.0, size))
            scaled = g / root_of(variance, eps, eps_in_sqrt)
            return typed(scaled, g.dtype), typed(first, m.dtype), typed(second, v.dtype)

        what = "the state of rmsprop"
        scaled, mu, nu = each(one, updates, (state.mu, what), (state.nu, what), results=3)
        if count is None:
            return scaled, ScaleByRStdDevState(mu, nu)
        return scaled, ScaleByRStdDevWithCountState(count, mu, nu)

    return GradientTransformation(init, update)
