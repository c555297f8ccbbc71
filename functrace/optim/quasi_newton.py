"""L-BFGS: steps by an estimate of the inverse Hessian from the last changes of the gradient.

Layer: 8 (api).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functrace.api.capture.arguments import as_value
from functrace.api.control_flow.loops import scan
from functrace.errors import ArgumentError
from functrace.numpy import take
from functrace.optim.leaves import (
    Leaf,
    Number,
    Schedule,
    each,
    first_count,
    like,
    next_count,
    norm,
    real_dtype,
    typed,
    vdot,
    zeros_like,
)
from functrace.optim.linesearch import scale_by_zoom_linesearch
from functrace.optim.scaling import scale, scale_by_learning_rate
from functrace.optim.transformations import (
    GradientTransformation,
    chain,
    check_state,
    need_params,
)
from functrace.tree import leaves
from functrace.tree import map as tree_map
from functrace.typing import PyTree


class ScaleByLBFGSState(NamedTuple):
    """State of `scale_by_lbfgs`: the last point and gradient, and the last changes of both."""

    count: Leaf
    params: PyTree
    updates: PyTree
    diff_params_memory: PyTree
    diff_updates_memory: PyTree
    weights_memory: Leaf


def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """Multiply gradients by an estimate of the inverse Hessian.

    Args:
        memory_size: number of changes of parameters and gradients that are kept.
        scale_init_precond: True to start the estimate from a multiple of the identity that fits the
            last change; False for the identity.

    Returns:
        the transformation. Its ``update`` takes the gradients at ``params``, which must be passed.

    Raises:
        ArgumentError: if ``memory_size`` is no positive integer; from ``update``, if the parameters are
            missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: 5.0 * x[0] ** 2 + x[1] ** 2
        >>> tx = ft.optim.chain(scale_by_lbfgs(), ft.optim.scale(-0.5))
        >>> x = np.array([1.0, 1.0])
        >>> state = tx.init(x)
        >>> for _ in range(40):
        ...     updates, state = tx.update(ft.grad(f)(x), state, x)
        ...     x = x + updates
        >>> bool(f(x) < 1e-12)
        True

    Cost:
        memory: ``2 * memory_size`` copies of the parameters; time per update: 4 operations for each
        of their elements.

    Source:
        Nocedal and Wright, "Numerical optimization", algorithm 7.4; ``optax.scale_by_lbfgs``.
    """
    if not isinstance(memory_size, int | np.integer) or memory_size < 1:
        raise ArgumentError(f"lbfgs: a memory of {memory_size} steps", fix="pass at least 1")

    def init(params: PyTree) -> ScaleByLBFGSState:
        def rows() -> PyTree:
            return tree_map(
                lambda x: np.zeros((memory_size, *x.shape), x.dtype), zeros_like(params)
            )

        weights = np.zeros(memory_size, _dtype_of(params))
        return ScaleByLBFGSState(
            first_count(), zeros_like(params), zeros_like(params), rows(), rows(), weights
        )

    def update(
        updates: PyTree, state: ScaleByLBFGSState, params: PyTree = None
    ) -> tuple[PyTree, ScaleByLBFGSState]:
        need_params(params, "lbfgs")
        check_state("scale_by_lbfgs", state, ScaleByLBFGSState)
        last = (state.count - 1) % memory_size
        is_later = state.count > 0
        what = "the state of lbfgs"

        def change(new: Leaf, old: Leaf) -> Any:
            return np.where(is_later, new - old, np.zeros_like(old))

        moved = each(change, params, (state.params, what))
        turned = each(change, updates, (state.updates, what))
        weights = state.weights_memory
        curvature = typed(vdot(turned, moved), weights.dtype)
        least = np.finfo(weights.dtype).smallest_normal  # (the inverse of less overflows)
        is_usable = np.isfinite(curvature) & (np.abs(curvature) >= least)
        inverse = 1.0 / np.where(is_usable, curvature, np.ones_like(curvature))
        weights = _with_row(weights, last, np.where(is_usable, inverse, np.zeros_like(inverse)))
        moved, turned = tree_map(  # (a gradient that is NaN does not stay in the memory)
            lambda x: np.where(is_usable, x, np.zeros_like(x)), (moved, turned)
        )
        steps = tree_map(lambda x, row: _with_row(x, last, row), state.diff_params_memory, moved)
        turns = tree_map(lambda x, row: _with_row(x, last, row), state.diff_updates_memory, turned)
        start: Any = 1.0
        if scale_init_precond:
            size = typed(vdot(turned, turned), weights.dtype)
            fitted = curvature / np.where(size > 0, size, np.ones_like(size))
            fitted = np.where(size > 0, fitted, np.ones_like(size))
            length = typed(norm(updates).value(), weights.dtype)
            first = 1.0 / np.maximum(length, 1.0)
            start = np.where(is_later, fitted, first)
        order = (state.count + np.arange(memory_size)) % memory_size
        scaled = _inverse_hessian(updates, steps, turns, weights, start, order)
        state = ScaleByLBFGSState(
            next_count(state.count), _copied(params), _copied(updates), steps, turns, weights
        )
        return scaled, state

    return GradientTransformation(init, update)


def _inverse_hessian(
    vector: PyTree, steps: PyTree, turns: PyTree, weights: Leaf, start: Leaf, order: Leaf
) -> Any:
    """Multiply by the estimate of the inverse Hessian: the recursion with two loops."""

    def row(tree: PyTree, k: Leaf) -> Any:
        return tree_map(lambda x: take(x, k, axis=0), tree)  # (x may be plain where k is traced)

    def added(vector: PyTree, factor: Leaf, direction: PyTree) -> Any:
        return tree_map(lambda v, d: v + like(factor, v) * d, vector, direction)

    def backward(vector: PyTree, k: Leaf) -> tuple[PyTree, Leaf]:
        alpha = typed(weights[k] * vdot(row(steps, k), vector), weights.dtype)
        return added(vector, -alpha, row(turns, k)), alpha

    def forward(vector: PyTree, pair: tuple[Leaf, Leaf]) -> tuple[PyTree, None]:
        k, alpha = pair
        beta = typed(weights[k] * vdot(row(turns, k), vector), weights.dtype)
        return added(vector, alpha - beta, row(steps, k)), None

    values = each(lambda g: g, vector)
    vector, alphas = scan(backward, values, order, reverse=True)
    vector = tree_map(lambda v: like(start, v) * v, vector)
    return scan(forward, vector, (order, alphas))[0]


def _with_row(x: Leaf, k: Leaf, row: Leaf) -> Any:
    """Return a copy of an array with another row."""
    is_new = np.reshape(np.arange(x.shape[0]) == k, (-1, *[1] * (x.ndim - 1)))
    return np.where(is_new, row, x)


def _copied(tree: PyTree) -> Any:
    """Return copies, so that the state does not change when the caller writes into arrays."""
    return tree_map(lambda x: np.copy(x)[()], tree)


def _dtype_of(params: PyTree) -> np.dtype[Any]:
    dtypes = [as_value(p, "a parameter").dtype for p in leaves(params)]
    return real_dtype(np.result_type(*dtypes)) if dtypes else np.dtype(np.float64)


_SEARCH = scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")


def lbfgs(
    learning_rate: Number | Schedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: GradientTransformation | None = _SEARCH,
) -> GradientTransformation:
    """Make L-BFGS with a line search, for losses that are computed on all data.

    Args:
        learning_rate: a factor of the direction before the line search; ``None`` for 1.
        memory_size: number of changes of parameters and gradients that are kept.
        scale_init_precond: True to start the estimate of the inverse Hessian from a multiple of the
            identity that fits the last change; False for the identity.
        linesearch: the line search, by default `scale_by_zoom_linesearch` with at most 20
            evaluations, from step 1 on; ``None`` for steps of the learning rate.

    Returns:
        a transformation, for `apply_updates`. With a line search, its ``update`` takes the value at
        the parameters, its gradient and its function as keywords: ``tx.update(grads, state, params,
        value=value, grad=grads, value_fn=f)``. Of complex parameters, pass the conjugate of what
        ``value_and_grad`` returns.

    Raises:
        ArgumentError: if ``memory_size`` is no positive integer; from ``update``, if an argument is
            missing.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = lambda x: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2
        >>> tx, x = lbfgs(), np.array([-1.2, 1.0])
        >>> state, value_and_grad = tx.init(x), ft.optim.value_and_grad_from_state(f)
        >>> for _ in range(60):
        ...     value, grad = value_and_grad(x, state=state)
        ...     updates, state = tx.update(grad, state, x, value=value, grad=grad, value_fn=f)
        ...     x = ft.optim.apply_updates(x, updates)
        >>> np.round(x, 6)
        array([1., 1.])

    Source:
        Liu and Nocedal, "On the limited memory BFGS method for large scale optimization" (1989);
        ``optax.lbfgs``.
    """
    first = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    parts = [scale_by_lbfgs(memory_size, scale_init_precond), first]
    return chain(*parts, *([] if linesearch is None else [linesearch]))
