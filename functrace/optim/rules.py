"""Optimizers: `sgd`, `adam`, `adamw`, `lion`, `rmsprop`.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import DTypeLike

from functrace.optim.leaves import Number, Schedule
from functrace.optim.moments import (
    scale_by_adam,
    scale_by_lion,
    scale_by_rms,
    scale_by_stddev,
    trace,
)
from functrace.optim.scaling import add_decayed_weights, scale_by_learning_rate
from functrace.optim.transformations import GradientTransformation, chain, identity
from functrace.typing import PyTree


def sgd(
    learning_rate: Number | Schedule,
    momentum: Number | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Make gradient descent, with or without momentum.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        momentum: the factor of the accumulated gradients; ``None`` for none.
        nesterov: True for Nesterov's momentum.
        accumulator_dtype: dtype of the accumulated gradients; by default that of the parameters.

    Returns:
        a transformation, for `apply_updates`.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = sgd(0.25)
        >>> params = np.array([1.0, -2.0])
        >>> updates, state = tx.update(ft.grad(lambda p: np.sum(p**2))(params), tx.init(params), params)
        >>> ft.optim.apply_updates(params, updates)
        array([ 0.5, -1. ])

    Source:
        Sutskever et al., "On the importance of initialization and momentum" (2013); ``optax.sgd``.
    """
    first = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(first, scale_by_learning_rate(learning_rate))


def adam(
    learning_rate: Number | Schedule,
    b1: Number = 0.9,
    b2: Number = 0.999,
    eps: Number = 1e-8,
    eps_root: Number = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Make Adam: steps of the mean of gradients by the root of the mean of their squares.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        b1: decay of the mean of gradients.
        b2: decay of the mean of squares.
        eps: added to the root.
        eps_root: added below the root.
        mu_dtype: dtype of the mean of gradients; by default that of the parameters.
        nesterov: True for Nesterov's momentum (NAdam).

    Returns:
        a transformation, for `apply_updates`.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = adam(0.1)
        >>> params = {"w": np.array([1.0, -2.0])}
        >>> state = tx.init(params)
        >>> for _ in range(100):
        ...     grads = ft.grad(lambda p: np.sum(p["w"] ** 2))(params)
        ...     updates, state = tx.update(grads, state, params)
        ...     params = ft.optim.apply_updates(params, updates)
        >>> bool(np.all(np.abs(params["w"]) < 0.1))
        True

    Source:
        Kingma and Ba, "Adam" (2015), algorithm 1; ``optax.adam``.
    """
    scaled = scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Number | Schedule,
    b1: Number = 0.9,
    b2: Number = 0.999,
    eps: Number = 1e-8,
    eps_root: Number = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: Number | Schedule = 1e-4,
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Make Adam with decoupled weight decay.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        b1: decay of the mean of gradients.
        b2: decay of the mean of squares.
        eps: added to the root.
        eps_root: added below the root.
        mu_dtype: dtype of the mean of gradients; by default that of the parameters.
        weight_decay: factor of the parameters, which is multiplied by the learning rate, too; or a
            function from the number of finished steps to it. PyTorch's default is 1e-2.
        mask: a pytree of bools, which may end above the leaves of the parameters, or a function
            from parameters to it: where it is False, parameters do not decay.
        nesterov: True for Nesterov's momentum.

    Returns:
        a transformation, for `apply_updates`; its ``update`` needs the parameters.

    Raises:
        ArgumentError: from ``update``, if the parameters are missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
        >>> params = {"w": np.ones(1), "b": np.ones(1)}
        >>> updates, _ = tx.update({"w": np.zeros(1), "b": np.zeros(1)}, tx.init(params), params)
        >>> ft.optim.apply_updates(params, updates)
        {'w': array([0.95]), 'b': array([1.])}

    Source:
        Loshchilov and Hutter, "Decoupled weight decay regularization" (2019); ``optax.adamw``.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: Number | Schedule,
    b1: Number = 0.9,
    b2: Number = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: Number | Schedule = 1e-3,
    mask: PyTree | Callable[[PyTree], PyTree] | None = None,
) -> GradientTransformation:
    """Make Lion: steps of one size in the direction of the sign of a mean of gradients.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        b1: weight of the mean in the step.
        b2: decay of the mean.
        mu_dtype: dtype of the mean; by default that of the parameters.
        weight_decay: factor of the parameters, which is multiplied by the learning rate, too; or a
            function from the number of finished steps to it.
        mask: a pytree of bools, which may end above the leaves of the parameters, or a function
            from parameters to it: where it is False, parameters do not decay.

    Returns:
        a transformation, for `apply_updates`; its ``update`` needs the parameters.

    Raises:
        ArgumentError: from ``update``, if the parameters are missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = lion(0.1, weight_decay=0.0)
        >>> params = np.array([1.0, -2.0])
        >>> updates, _ = tx.update(2.0 * params, tx.init(params), params)
        >>> ft.optim.apply_updates(params, updates)
        array([ 0.9, -1.9])

    Source:
        Chen et al., "Symbolic discovery of optimization algorithms" (2023); ``optax.lion``.
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: Number | Schedule,
    decay: Number = 0.9,
    eps: Number = 1e-8,
    initial_scale: Number = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Number | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Make RMSprop: steps of the gradient by the root of the mean of squares.

    Args:
        learning_rate: a number, or a function from the number of finished steps to it.
        decay: decay of the mean of squares.
        eps: added to the mean, or to the root.
        initial_scale: the mean of squares at the start.
        eps_in_sqrt: True to add ``eps`` below the root, False to add it to the root, as PyTorch does.
        centered: True to subtract the square of the mean of gradients.
        momentum: the factor of the accumulated steps; ``None`` for none.
        nesterov: True for Nesterov's momentum.
        bias_correction: True to divide the means by the sums of their weights.

    Returns:
        a transformation, for `apply_updates`.

    Example:
        >>> import numpy as np, functrace as ft
        >>> tx = rmsprop(0.1, decay=0.75)
        >>> params = np.array([1.0, -2.0])
        >>> updates, _ = tx.update(2.0 * params, tx.init(params), params)
        >>> np.round(ft.optim.apply_updates(params, updates), 6)
        array([ 0.8, -1.8])

    Source:
        Tieleman and Hinton, "RMSProp" (2012); Graves (2013) if centered; ``optax.rmsprop``.
    """
    made = scale_by_stddev if centered else scale_by_rms
    last = identity() if momentum is None else trace(momentum, nesterov)
    scaled = made(decay, eps, initial_scale, eps_in_sqrt, bias_correction)
    return chain(scaled, scale_by_learning_rate(learning_rate), last)
