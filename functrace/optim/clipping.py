"""Limits of updates: by value, by the norm of each array, by the norm of all.

Layer: 8 (api).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import DtypeError
from functrace.optim.leaves import Leaf, Norm, Number, check_limit, each, like, norm
from functrace.optim.transformations import GradientTransformation, stateless
from functrace.typing import PyTree


def global_norm(tree: PyTree) -> Any:
    """Compute the Euclidean norm of all elements of a pytree.

    Squares that would overflow do not: the elements are divided by the largest one first. It has the
    largest precision among the leaves, float32 at least.

    Args:
        tree: a pytree of arrays of floats.

    Returns:
        a number; its derivative at 0 is 0.

    Raises:
        DtypeError: if a leaf does not have floats.

    Example:
        >>> import numpy as np
        >>> global_norm({"w": np.array([3.0]), "b": np.array([4.0])})
        np.float64(5.0)
    """
    return norm(tree).value()


def clip(max_delta: Number) -> GradientTransformation:
    """Limit each element of the updates to ``[-max_delta, max_delta]``.

    Args:
        max_delta: the limit.

    Returns:
        the transformation.

    Raises:
        ArgumentError: if the limit is negative.
        DtypeError: from ``update``, if a leaf is complex.

    Example:
        >>> import numpy as np
        >>> tx = clip(1.0)
        >>> tx.update(np.array([-3.0, 0.5]), tx.init(np.zeros(2)))[0]
        array([-1. ,  0.5])
    """

    check_limit("clip", max_delta)

    def one(g: Leaf) -> Any:
        if g.dtype.kind == "c":
            raise DtypeError(
                "clip: complex numbers are not ordered",
                fix="use clip_by_norm or clip_by_global_norm",
            )
        limit = like(max_delta, g)
        return np.minimum(np.maximum(g, -limit), limit)

    return stateless(lambda updates, params: each(one, updates))


def clip_by_block_rms(threshold: Number) -> GradientTransformation:
    """Scale each array of the updates so that the root of its mean square is at most a limit.

    Args:
        threshold: the limit.

    Returns:
        the transformation.

    Raises:
        ArgumentError: if the limit is negative.

    Example:
        >>> import numpy as np
        >>> tx = clip_by_block_rms(1.0)
        >>> tx.update(np.array([3.0, -3.0]), tx.init(np.zeros(2)))[0]
        array([ 1., -1.])
    """

    check_limit("clip_by_block_rms", threshold)

    def one(g: Leaf) -> Any:
        size = norm(g)
        mean = size.ratio / max(np.size(g), 1) ** 0.5
        return Norm(size.unit, mean).limit(g, threshold)

    return stateless(lambda updates, params: each(one, updates))


def clip_by_norm(max_norm: Number) -> GradientTransformation:
    """Scale each array of the updates so that its Euclidean norm is at most a limit.

    Args:
        max_norm: the limit.

    Returns:
        the transformation.

    Raises:
        ArgumentError: if the limit is negative.

    Example:
        >>> import numpy as np
        >>> tx = clip_by_norm(1.0)
        >>> tx.update([np.array([3.0, 4.0]), np.array([0.5])], tx.init([np.zeros(2), np.zeros(1)]))[0]
        [array([0.6, 0.8]), array([0.5])]
    """
    check_limit("clip_by_norm", max_norm)
    return stateless(lambda updates, params: each(lambda g: norm(g).limit(g, max_norm), updates))


def clip_by_global_norm(max_norm: Number) -> GradientTransformation:
    """Scale all updates by one factor so that the Euclidean norm of all of them is at most a limit.

    Args:
        max_norm: the limit.

    Returns:
        the transformation. A NaN in one array makes all updates NaN.

    Raises:
        ArgumentError: if the limit is negative.

    Example:
        >>> import numpy as np
        >>> tx = clip_by_global_norm(1.0)
        >>> tx.update([np.array([3.0]), np.array([4.0])], tx.init([np.zeros(1), np.zeros(1)]))[0]
        [array([0.6]), array([0.8])]

    Source:
        Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013).
    """

    check_limit("clip_by_global_norm", max_norm)

    def limited(updates: PyTree, params: PyTree) -> PyTree:
        size = norm(updates)
        return each(lambda g: size.limit(g, max_norm), updates)

    return stateless(limited)
