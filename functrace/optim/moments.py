"""Parts of optimizers that keep moments: momentum, means of gradients and of their squares.

Layer: 8 (api).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from functrace.optim.leaves import (
    Leaf,
    Number,
    each,
    first_count,
    like,
    next_count,
    root,
    squared,
    typed,
    widened,
    zeros_like,
)
from functrace.optim.transformations import GradientTransformation, check_state
from functrace.typing import PyTree


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
        check_state("trace", state, TraceState)

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
        check_state("scale_by_adam", state, ScaleByAdamState)
        count = next_count(state.count)

        def one(g: Leaf, m: Leaf, v: Leaf) -> tuple[Leaf, Leaf, Leaf]:
            x = widened(g, np.dtype(np.float32))  # (float16 has neither eps nor small squares)
            first, second = mean(b1, x, m), mean(b2, squared(x), v)
            if nesterov:
                ahead = unbiased(first, b1, next_count(count))
                top = mean(b1, unbiased(x, b1, count), ahead)
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
        check_state("scale_by_lion", state, ScaleByLionState)

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

    return _scale_by_squares(
        decay, eps, initial_scale, eps_in_sqrt, bias_correction, is_centered=False
    )


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

    return _scale_by_squares(
        decay, eps, initial_scale, eps_in_sqrt, bias_correction, is_centered=True
    )


def _scale_by_squares(
    decay: Number,
    eps: Number,
    initial_scale: Number,
    eps_in_sqrt: bool,
    bias_correction: bool,
    is_centered: bool,
) -> GradientTransformation:
    """Divide updates by the root of the mean of their squares, minus their squared mean if centered."""
    kind: Any = _STATES[is_centered, bias_correction]
    what = "the state of rmsprop"

    def init(params: PyTree) -> PyTree:
        parts: dict[str, PyTree] = {"nu": zeros_like(params, fill=initial_scale)}
        if is_centered:
            parts["mu"] = zeros_like(params)
        if bias_correction:
            parts["count"] = first_count()
        return kind(**parts)

    def update(updates: PyTree, state: Leaf, params: PyTree = None) -> tuple[PyTree, PyTree]:
        check_state("rmsprop", state, kind)
        count = next_count(state.count) if bias_correction else None

        def corrected(x: Leaf) -> Any:
            return x if count is None else unbiased(x, decay, count)

        def one(g: Leaf, v: Leaf, *means: Leaf) -> tuple[Leaf, ...]:
            x = widened(g, np.dtype(np.float32))  # (float16 has neither eps nor small squares)
            second, firsts = mean(decay, squared(x), v), [mean(decay, x, m) for m in means]
            size = corrected(second)
            for first in firsts:
                size = np.maximum(size - squared(corrected(first)), like(0.0, size))
            small = like(eps, size)
            scaled = x / (root(size + small) if eps_in_sqrt else root(size) + small)
            kept = [typed(first, m.dtype) for first, m in zip(firsts, means, strict=True)]
            return typed(scaled, g.dtype), typed(second, v.dtype), *kept

        names = ["nu", "mu"] if is_centered else ["nu"]
        rows = [(getattr(state, name), what) for name in names]
        scaled, *found = each(one, updates, *rows, results=1 + len(rows))
        parts = dict(zip(names, found, strict=True))
        return scaled, kind(**parts, **({} if count is None else {"count": count}))

    return GradientTransformation(init, update)


_STATES = {
    (False, False): ScaleByRmsState,
    (False, True): ScaleByRmsWithCountState,
    (True, False): ScaleByRStdDevState,
    (True, True): ScaleByRStdDevWithCountState,
}
"""Classes of states, by whether they are centered, and corrected."""
